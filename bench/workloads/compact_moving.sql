-- A key that moves on: 8 rounds, each of which sets the time of the last change of 20 % of
-- the rows, at random; compaction after each.
--
-- From: the index on updated_at that half of all applications have. All insertions go to the
-- right end, and the pages behind it get ever sparser. Compared, each after every round's
-- VACUUM: doing nothing, reading the index over and over, bunbtree_compact(), REINDEX INDEX
-- CONCURRENTLY; with two clients that look up a row and update another table.

CREATE EXTENSION pgstattuple;
CREATE TABLE sparse (id bigint PRIMARY KEY, k bigint NOT NULL);
INSERT INTO sparse SELECT i, i FROM generate_series(1, :rows) i;
CREATE INDEX sparse_k ON sparse USING :am (k) :with;
CREATE TABLE other (id int PRIMARY KEY, n int NOT NULL);
INSERT INTO other SELECT i, 0 FROM generate_series(1, 1000) i;

CREATE PROCEDURE make_sparse(round int, rows bigint)
LANGUAGE sql AS
	'UPDATE sparse SET k = round * rows + id WHERE pick(round * rows + id, 100) <= 20';
