-- One statement updates every row of a table. Nothing is deletable while it runs:
-- the dead versions are its own, so looking for some is wasted.
--
-- From: Amit Kapila, pgsql-hackers, 2021-01-20, who saw it become 12-13 % slower
-- with the first patch for bottom-up deletion. Settings as there: no autovacuum,
-- checkpoints far apart, much WAL and shared_buffers.

CREATE TABLE t1 (c1 int, c2 int, c3 int, c4 char(10));
CREATE INDEX t1_c1 ON t1 USING :am (c1) :with;
CREATE INDEX t1_c2 ON t1 USING :am (c2) :with;
CREATE INDEX t1_c3 ON t1 USING :am (c3) :with;
INSERT INTO t1 SELECT i, 1, 10, 'aaaaaa' FROM generate_series(1, :rows) i;
ANALYZE t1;
