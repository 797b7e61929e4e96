-- COPY, with keys in no order.
--
-- From: the gate against regressions. Nothing is ever dead, so nothing can be gained.

CREATE TABLE gate (n bigint NOT NULL,
	k bigint NOT NULL GENERATED ALWAYS AS (n * 2654435761 % 4294967296) STORED);
CREATE INDEX gate_k ON gate USING :am (k) :with;
