-- Look up rows by their key, one at a time.
--
-- From: the gate against regressions.

CREATE TABLE gate (k int NOT NULL, v int NOT NULL);
INSERT INTO gate SELECT i, i FROM generate_series(1, :rows) i;
CREATE INDEX gate_k ON gate USING :am (k) :with;
VACUUM ANALYZE gate;
