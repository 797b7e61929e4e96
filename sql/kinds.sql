--
-- Kinds of index: what CREATE INDEX offers, compared with btree.
--
SET client_min_messages = warning;
CREATE SCHEMA bt;
CREATE SCHEMA bun;

--
-- INCLUDE: columns that are carried along, for index-only scans
--
CALL twice($$
CREATE TABLE carry (id int, a int, b text, c text)
	WITH (autovacuum_enabled = off);
INSERT INTO carry
	SELECT i, i % 100, 'b' || i, CASE WHEN i % 5 <> 0 THEN repeat('c', i % 40) END
	FROM generate_series(1, 1000) i;
CREATE INDEX carry_a ON carry USING @am (a) INCLUDE (b, c);
CREATE UNIQUE INDEX carry_id ON carry USING @am (id) INCLUDE (c);
$$);
VACUUM (ANALYZE) bt.carry, bun.carry;
SELECT * FROM compare('indexonly',
	'SELECT a, b, c FROM carry WHERE a = 42 ORDER BY b',
	'SELECT a, c FROM carry WHERE a > 90 AND c IS NULL ORDER BY a',
	'SELECT id, c FROM carry WHERE id BETWEEN 500 AND 520 ORDER BY id');
-- Only the key is unique, whatever is carried.
INSERT INTO bun.carry VALUES (500, 0, NULL, 'not yet seen');

--
-- UNIQUE
--
CALL twice($$
CREATE TABLE uniq (a int, b text);
CREATE UNIQUE INDEX uniq_ab ON uniq USING @am (a, b);
INSERT INTO uniq SELECT i, 'b' FROM generate_series(1, 500) i;
$$);
INSERT INTO bt.uniq VALUES (7, 'b');
INSERT INTO bun.uniq VALUES (7, 'b');
UPDATE bt.uniq SET a = 8 WHERE a = 7;
UPDATE bun.uniq SET a = 8 WHERE a = 7;
-- The second of two equal rows of one statement, too.
INSERT INTO bun.uniq VALUES (1001, 'x'), (1001, 'x');
-- Deleted, updated away and inserted again: no conflict.
CALL twice($$
DELETE FROM uniq WHERE a = 7;
INSERT INTO uniq VALUES (7, 'b');
UPDATE uniq SET b = 'c' WHERE a = 7;
INSERT INTO uniq VALUES (7, 'b');
$$);
-- A row's identity for logical replication.
CREATE TABLE bun.ident (k int NOT NULL);
CREATE UNIQUE INDEX ident_k ON bun.ident USING bunbtree (k);
ALTER TABLE bun.ident REPLICA IDENTITY USING INDEX ident_k;
SELECT indisreplident FROM pg_index WHERE indexrelid = 'bun.ident_k'::regclass;
-- NULLs are distinct ...
CALL twice($$ INSERT INTO uniq VALUES (NULL, 'b'), (NULL, 'b'), (7, NULL), (7, NULL) $$);
SELECT * FROM compare('index', 'SELECT * FROM uniq ORDER BY a, b');
-- ... except when they are not.
CALL twice($$
CREATE TABLE uniq_nulls (a int, b text);
CREATE UNIQUE INDEX uniq_nulls_ab ON uniq_nulls USING @am (a, b) NULLS NOT DISTINCT;
INSERT INTO uniq_nulls VALUES (1, NULL), (NULL, 'b'), (NULL, NULL);
$$);
INSERT INTO bt.uniq_nulls VALUES (1, NULL);
INSERT INTO bun.uniq_nulls VALUES (1, NULL);
INSERT INTO bt.uniq_nulls VALUES (NULL, NULL);
INSERT INTO bun.uniq_nulls VALUES (NULL, NULL);
SELECT * FROM compare('index', 'SELECT * FROM uniq_nulls ORDER BY a, b');
-- Duplicates that are there already.
INSERT INTO bun.uniq VALUES (7, 'd');
CREATE UNIQUE INDEX uniq_a ON bun.uniq USING bunbtree (a);
-- Constraints want a btree; the way out is EXCLUDE, below.
ALTER TABLE bun.uniq ADD CONSTRAINT uniq_ab UNIQUE USING INDEX uniq_ab;

--
-- Partial indexes, and rows that enter and leave them
--
CALL twice($$
CREATE TABLE jobs (id int, done boolean, queue text)
	WITH (autovacuum_enabled = off);
CREATE INDEX jobs_todo ON jobs USING @am (queue, id) WHERE NOT done;
CREATE UNIQUE INDEX jobs_one ON jobs USING @am (queue) WHERE NOT done AND id > 990;
INSERT INTO jobs SELECT i, false, 'q' || i FROM generate_series(1, 1000) i;
UPDATE jobs SET done = true WHERE id % 10 <> 0;
UPDATE jobs SET done = false WHERE id % 100 = 1;
$$);
VACUUM (ANALYZE) bt.jobs, bun.jobs;
SELECT * FROM compare('index',
	'SELECT id, queue FROM jobs WHERE NOT done AND queue > ''q5'' ORDER BY queue, id',
	'SELECT id, queue FROM jobs WHERE NOT done AND queue = ''q101'' ORDER BY id');
UPDATE bun.jobs SET queue = 'q1000' WHERE id = 999;
UPDATE bun.jobs SET queue = 'q1000', done = false WHERE id = 998;

--
-- Expressions
--
CALL twice($$
CREATE TABLE exprs (a int, b text)
	WITH (autovacuum_enabled = off);
INSERT INTO exprs SELECT i, 'Name ' || i FROM generate_series(1, 500) i;
CREATE INDEX exprs_lower ON exprs USING @am (lower(b), (a % 10) DESC);
CREATE UNIQUE INDEX exprs_neg ON exprs USING @am ((-a));
$$);
VACUUM (ANALYZE) bt.exprs, bun.exprs;
SELECT * FROM compare('index',
	'SELECT a FROM exprs WHERE lower(b) = ''name 123''',
	'SELECT lower(b), a % 10 FROM exprs WHERE lower(b) > ''name 4'' ORDER BY lower(b), a % 10 DESC',
	'SELECT a FROM exprs WHERE -a BETWEEN -20 AND -10 ORDER BY -a');
INSERT INTO bun.exprs VALUES (17, 'seventeen');

--
-- Exclusion constraints on equality: what replaces unique constraints, and
-- can be deferred
--
CALL twice($$
CREATE TABLE excl (a int, b text,
	EXCLUDE USING @am (a WITH =, b WITH =) WHERE (b <> 'free') DEFERRABLE);
INSERT INTO excl SELECT i, 'b' FROM generate_series(1, 300) i;
INSERT INTO excl VALUES (1, 'free'), (1, 'free');
$$);
INSERT INTO bt.excl VALUES (42, 'b');
INSERT INTO bun.excl VALUES (42, 'b');
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
UPDATE bt.excl SET a = a + 1 WHERE b = 'b';
UPDATE bun.excl SET a = a + 1 WHERE b = 'b';
COMMIT;
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO bun.excl VALUES (42, 'b');
COMMIT;
SELECT * FROM compare('index', 'SELECT * FROM excl WHERE b <> ''free'' ORDER BY a, b');
-- Operators outside of the operator family are refused.
ALTER TABLE bt.excl ADD EXCLUDE USING btree (a WITH <>);
ALTER TABLE bun.excl ADD EXCLUDE USING bunbtree (a WITH <>);

--
-- Partitioned tables
--
CALL twice($$
CREATE TABLE part (k int, v text) PARTITION BY RANGE (k);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (500);
CREATE INDEX part_kv ON part USING @am (k, v) WITH (fillfactor = 70);
CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM (500) TO (1000)
	PARTITION BY LIST (k);
CREATE TABLE part_2_d PARTITION OF part_2 DEFAULT;
CREATE TABLE part_3 (k int, v text);
INSERT INTO part_3 SELECT i, 'early' FROM generate_series(1000, 1400) i;
CREATE INDEX part_3_mine ON part_3 USING @am (k, v) WITH (fillfactor = 70);
ALTER TABLE part ATTACH PARTITION part_3 FOR VALUES FROM (1000) TO (1500);
INSERT INTO part SELECT i * 7 % 1500, 'v' || i FROM generate_series(1, 1500) i;
$$);
ANALYZE bt.part;
ANALYZE bun.part;
-- The parent's index has one in each partition; what was there is taken over.
SELECT relid::regclass, parentrelid::regclass, isleaf, level
FROM pg_partition_tree('bun.part_kv') ORDER BY relid::regclass::text;
SELECT replace(replace(pg_get_indexdef(t.relid), 'bunbtree', 'btree'), 'bun.', 'bt.')
	   = pg_get_indexdef(b.relid) AS same_definition
FROM pg_partition_tree('bun.part_kv') t
	 JOIN pg_partition_tree('bt.part_kv') b
	 ON replace(t.relid::regclass::text, 'bun.', 'bt.') = b.relid::regclass::text
ORDER BY t.relid::regclass::text;
SELECT * FROM compare('index',
	'SELECT k, v FROM part WHERE k IN (3, 777) ORDER BY k, v',
	'SELECT k, v FROM part ORDER BY k DESC, v DESC');
-- Made on the parent alone, then attached one by one; of another access
-- method does not fit.
CREATE INDEX part_v ON ONLY bun.part USING bunbtree (v);
CREATE INDEX part_1_v ON bun.part_1 USING bunbtree (v);
CREATE INDEX part_1_v_btree ON bun.part_1 USING btree (v);
ALTER INDEX bun.part_v ATTACH PARTITION bun.part_1_v_btree;
ALTER INDEX bun.part_v ATTACH PARTITION bun.part_1_v;
DROP INDEX bun.part_1_v_btree;
SELECT relid::regclass FROM pg_partition_tree('bun.part_v') ORDER BY relid::regclass::text;
-- Each partition may have a unique index of its own.
CREATE UNIQUE INDEX part_3_u ON bun.part_3 USING bunbtree (k) WHERE v = 'early';
INSERT INTO bun.part VALUES (1234, 'late'), (1234, 'early');
-- Detached and dropped.
CALL twice($$
ALTER TABLE part DETACH PARTITION part_1;
INSERT INTO part_1 VALUES (10000, 'out of range');
DROP TABLE part_2;
$$);
SELECT * FROM compare('index',
	'SELECT k, v FROM part ORDER BY k, v',
	'SELECT k, v FROM part_1 ORDER BY k, v');

--
-- Copies of a table's indexes
--
CREATE TABLE bun.jobs_copy (LIKE bun.jobs INCLUDING INDEXES);
SELECT pg_get_indexdef(indexrelid) FROM pg_index
WHERE indrelid = 'bun.jobs_copy'::regclass ORDER BY 1;

--
-- Unlogged tables: an empty index waits in the init fork for a crash
--
CALL twice($$
CREATE UNLOGGED TABLE unlog (a int);
CREATE INDEX unlog_a ON unlog USING @am (a);
INSERT INTO unlog SELECT i FROM generate_series(1, 1000) i;
$$);
SELECT pg_relation_size('bt.unlog_a', 'init') = pg_relation_size('bun.unlog_a', 'init')
	   AS same_init_fork;
ALTER TABLE bun.unlog SET LOGGED;
ALTER TABLE bt.unlog SET LOGGED;
SELECT * FROM compare('index', 'SELECT a FROM unlog ORDER BY a');
ALTER TABLE bun.unlog SET UNLOGGED;
ALTER TABLE bt.unlog SET UNLOGGED;
SELECT * FROM compare('index', 'SELECT a FROM unlog ORDER BY a');

--
-- Temporary tables
--
CREATE TEMPORARY TABLE temp_bun (a int, b text) ON COMMIT DELETE ROWS;
CREATE UNIQUE INDEX temp_bun_a ON temp_bun USING bunbtree (a);
BEGIN;
INSERT INTO temp_bun SELECT i, 'b' || i FROM generate_series(1, 500) i;
SET LOCAL enable_seqscan = off;
SELECT count(*), min(b), max(b) FROM temp_bun WHERE a > 450;
COMMIT;
BEGIN;
INSERT INTO temp_bun SELECT i, 'b' || i FROM generate_series(401, 600) i;
SET LOCAL enable_seqscan = off;
SELECT count(*), min(b), max(b) FROM temp_bun WHERE a > 450;
SAVEPOINT before;
INSERT INTO temp_bun VALUES (500, 'again');
ROLLBACK TO before;
SELECT count(*) FROM temp_bun WHERE a = 500;
SELECT bunbtree_check('temp_bun_a', true);
COMMIT;
DROP TABLE temp_bun;

--
-- What a row may not be: too large
--
CALL twice($$
CREATE TABLE large (a text);
ALTER TABLE large ALTER a SET STORAGE EXTERNAL;
CREATE INDEX large_a ON large USING @am (a);
INSERT INTO large VALUES (repeat('x', 2600));
$$);
INSERT INTO bt.large VALUES (repeat('y', 3000));
INSERT INTO bun.large VALUES (repeat('y', 3000));
SELECT * FROM compare('index', 'SELECT length(a) FROM large WHERE a < ''z''');

--
-- What an access method can do, column by column, is what btree can
--
SELECT m.property, pg_indexam_has_property(b.oid, m.property) AS btree,
	   pg_indexam_has_property(a.oid, m.property) AS bunbtree
FROM pg_am a, pg_am b,
	 unnest('{can_order,can_unique,can_multi_col,can_exclude,can_include,nonsense}'::text[]) m(property)
WHERE a.amname = 'bunbtree' AND b.amname = 'btree'
ORDER BY m.property;
SELECT property, pg_index_has_property('bt.carry_a', property) AS btree,
	   pg_index_has_property('bun.carry_a', property) AS bunbtree
FROM unnest('{clusterable,index_scan,bitmap_scan,backward_scan,nonsense}'::text[]) property
ORDER BY property;
-- Columns in either direction, and a carried one.
CALL twice($$
CREATE TABLE ways (a int, b text, c text);
CREATE INDEX ways_ab ON ways USING @am
	(a DESC, b COLLATE "C" NULLS FIRST, c text_pattern_ops DESC NULLS LAST);
$$);
SELECT index, att, property,
	   pg_index_column_has_property(('bun.' || index)::regclass, att, property) AS bunbtree
FROM (VALUES ('ways_ab', 1), ('ways_ab', 2), ('carry_a', 2)) t(index, att),
	 unnest('{asc,desc,nulls_first,nulls_last,orderable,distance_orderable,returnable,search_array,search_nulls}'::text[]) property
ORDER BY index DESC, att, property;
SELECT count(*) AS compared,
	   count(*) FILTER (WHERE pg_index_column_has_property(('bun.' || index)::regclass, att, property)
						IS DISTINCT FROM pg_index_column_has_property(('bt.' || index)::regclass, att, property))
	   AS different
FROM (VALUES ('ways_ab', 1), ('ways_ab', 2), ('ways_ab', 3), ('ways_ab', 4),
			 ('carry_a', 1), ('carry_a', 2), ('carry_a', 3), ('exprs_lower', 1)) t(index, att),
	 unnest('{asc,desc,nulls_first,nulls_last,orderable,distance_orderable,returnable,search_array,search_nulls,nonsense}'::text[]) property;

--
-- Definitions read back, and comments
--
SELECT pg_get_indexdef(c.oid) FROM pg_class c
WHERE relnamespace = 'bun'::regnamespace AND relkind IN ('i', 'I')
	  AND relname ~ '^(ways|carry|uniq_nulls|jobs_todo|exprs|excl|part_kv)'
ORDER BY relname;
SELECT pg_get_indexdef('bun.ways_ab'::regclass, 2, false);
COMMENT ON INDEX bun.carry_a IS 'a bunbtree index';
SELECT obj_description('bun.carry_a'::regclass, 'pg_class');
SELECT obj_description(oid, 'pg_am') FROM pg_am WHERE amname = 'bunbtree';
ALTER INDEX bun.carry_a RENAME TO carry_renamed;
SELECT pg_get_indexdef('bun.carry_renamed'::regclass);
-- No access method without a default operator class for the type.
CREATE TABLE bun.points (p point);
CREATE INDEX points_p ON bun.points USING bunbtree (p);

SELECT check_indexes('bun');
DROP SCHEMA bt, bun CASCADE;
