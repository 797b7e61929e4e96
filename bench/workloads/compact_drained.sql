-- A drained backlog: a queue had a backlog, all but 2 % of it, here and there, is done and
-- deleted; compaction gives the space back.
--
-- From: github.com/riverqueue/river/pull/963 ("B-trees expand but never shrink"). Compared:
-- doing nothing, reading the index over and over, bunbtree_compact(), REINDEX INDEX
-- CONCURRENTLY; each with two clients that look for a job and update another table.

CREATE EXTENSION pgstattuple;
CREATE TABLE sparse (queue text NOT NULL, priority int NOT NULL, k bigint NOT NULL);
INSERT INTO sparse SELECT 'queue ' || pick(i, 10), pick(2 * i, 4), i FROM generate_series(1, :rows) i;
CREATE INDEX sparse_k ON sparse USING :am (queue, priority, k) :with;
CREATE TABLE other (id int PRIMARY KEY, n int NOT NULL);
INSERT INTO other SELECT i, 0 FROM generate_series(1, 1000) i;

CREATE PROCEDURE make_sparse(round int, rows bigint)
LANGUAGE sql AS
	'DELETE FROM sparse WHERE pick(k, 100) <= 98';
