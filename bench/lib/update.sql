-- Workload for bench/demo: one transaction updates every row of a table.
--
-- psql variables: rows, am, options
--
-- Nothing is deletable while it runs, because the dead versions are its own;
-- looking for some is wasted.  After Amit Kapila's message to pgsql-hackers of
-- 2021-01-20: two indexes whose columns the UPDATE leaves alone, one on the
-- column it changes.  The last is a btree in every arm.

CREATE TABLE t1 (c1 int, c2 int, c3 int, c4 char(10));
INSERT INTO t1 SELECT i, 1, i % 100, 'aaaaaaaaaa' FROM generate_series(1, :rows) i;
CREATE INDEX t1_c1 ON t1 USING :am (c1) :options;
CREATE INDEX t1_c2 ON t1 USING btree (c2);
CREATE INDEX t1_c3 ON t1 USING :am (c3) :options;
ANALYZE t1;

\set statement 'UPDATE t1 SET c2 = 2;'
\set indexes '{t1_c1,t1_c3}'
\ir measure.sql

DROP TABLE t1;
