-- Insertions of 100 distinct values, in one statement.
--
-- From: the gate against regressions. Nothing is ever dead, so nothing can be gained.

CREATE TABLE gate (k int NOT NULL);
CREATE INDEX gate_k ON gate USING :am (k) :with;
