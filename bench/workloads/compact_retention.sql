-- Retention: 80 % of the rows are deleted, at random among the keys; compaction gives the
-- space back.
--
-- From: thesev1database.com/cookbook/bloated-index-after-heavy-deleteupdate-pattern (90 days
-- kept, 40 GB of index). Leaf pages stay about 18 % full, because VACUUM recycles only empty
-- ones. Compared: doing nothing, reading the index over and over, bunbtree_compact(), REINDEX
-- INDEX CONCURRENTLY; each with two clients that look up a row and update another table.

CREATE EXTENSION pgstattuple;
CREATE TABLE sparse (k bigint NOT NULL, filler text);
INSERT INTO sparse SELECT i, 'x' FROM generate_series(1, :rows) i;
CREATE INDEX sparse_k ON sparse USING :am (k) :with;
CREATE TABLE other (id int PRIMARY KEY, n int NOT NULL);
INSERT INTO other SELECT i, 0 FROM generate_series(1, 1000) i;

CREATE PROCEDURE make_sparse(round int, rows bigint)
LANGUAGE sql AS
	'DELETE FROM sparse WHERE pick(k, 100) <= 80';
