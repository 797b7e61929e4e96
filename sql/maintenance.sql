--
-- Commands that build, rebuild, move, clean and empty indexes.
--
SET client_min_messages = warning;
CREATE SCHEMA bt;
CREATE SCHEMA bun;

CALL twice($$
CREATE TABLE main (id int, a int, b text)
	WITH (autovacuum_enabled = off);
INSERT INTO main
	SELECT i, i % 50, CASE WHEN i % 7 <> 0 THEN md5(i::text) END
	FROM generate_series(1, 3000) i;
$$);

-- All rows, by way of each index: still the same as with btree?
CREATE FUNCTION same_main() RETURNS boolean
LANGUAGE sql
AS $$
	SELECT same('index',
		'SELECT id FROM main ORDER BY id',
		'SELECT a, b FROM main WHERE a = 33 ORDER BY a, b',
		'SELECT b FROM main WHERE b > ''b'' ORDER BY b');
$$;

-- Whether indexes have as many pages as their twins on btree.
CREATE FUNCTION compare_pages(VARIADIC indexes name[],
							  OUT index name, OUT same_pages boolean)
RETURNS SETOF record
LANGUAGE sql
AS $$
	SELECT i, pages(('bun.' || i)::regclass) = pages(('bt.' || i)::regclass)
	FROM unnest(indexes) WITH ORDINALITY u(i, n)
	ORDER BY n;
$$;

--
-- CREATE INDEX, serial, parallel (where the server can) and concurrently
--
CREATE UNIQUE INDEX main_id ON bt.main USING btree (id);
CREATE UNIQUE INDEX main_id ON bun.main USING bunbtree (id);
ALTER TABLE bt.main SET (parallel_workers = 2);
ALTER TABLE bun.main SET (parallel_workers = 2);
CREATE INDEX main_ab ON bt.main USING btree (a, b);
CREATE INDEX main_ab ON bun.main USING bunbtree (a, b);
ALTER TABLE bt.main RESET (parallel_workers);
ALTER TABLE bun.main RESET (parallel_workers);
CREATE INDEX CONCURRENTLY main_b ON bt.main USING btree (b);
CREATE INDEX CONCURRENTLY main_b ON bun.main USING bunbtree (b);
VACUUM (ANALYZE) bt.main, bun.main;
SELECT * FROM compare('index',
	'SELECT id FROM main ORDER BY id',
	'SELECT a, b FROM main WHERE a = 33 ORDER BY a, b',
	'SELECT b FROM main WHERE b > ''b'' ORDER BY b');
SELECT * FROM compare_pages('main_id', 'main_ab', 'main_b');

-- A build that is rolled back.
BEGIN;
CREATE INDEX main_gone ON bun.main USING bunbtree (a DESC);
ROLLBACK;
SELECT to_regclass('bun.main_gone');
INSERT INTO bun.main VALUES (4000, 33, 'inserted later');
DELETE FROM bun.main WHERE id = 4000;

-- A concurrent build that fails leaves an invalid index, which gets repaired.
CREATE UNIQUE INDEX CONCURRENTLY main_a ON bun.main USING bunbtree (a);
SELECT indisvalid FROM pg_index WHERE indexrelid = 'bun.main_a'::regclass;
BEGIN;
DELETE FROM bun.main WHERE id > 50;
REINDEX INDEX bun.main_a;
SELECT indisvalid FROM pg_index WHERE indexrelid = 'bun.main_a'::regclass;
ROLLBACK;
DROP INDEX CONCURRENTLY bun.main_a;

--
-- REINDEX, each way
--
CALL twice($$
DELETE FROM main WHERE id % 3 = 0;
UPDATE main SET b = b || 'x' WHERE id % 5 = 0;
INSERT INTO main SELECT i, i % 50, md5(i::text) FROM generate_series(3001, 3500) i;
$$);
REINDEX INDEX bt.main_id;
REINDEX INDEX bun.main_id;
REINDEX INDEX CONCURRENTLY bt.main_ab;
REINDEX INDEX CONCURRENTLY bun.main_ab;
SELECT same_main();
SELECT * FROM compare_pages('main_id', 'main_ab');
REINDEX TABLE bt.main;
REINDEX TABLE bun.main;
SELECT * FROM compare_pages('main_id', 'main_ab', 'main_b');
REINDEX TABLE CONCURRENTLY bt.main;
REINDEX TABLE CONCURRENTLY bun.main;
SELECT same_main();
SELECT * FROM compare_pages('main_id', 'main_ab', 'main_b');
SELECT relname FROM pg_class
WHERE relnamespace = 'bun'::regnamespace AND relname LIKE 'main%' AND relkind = 'i'
ORDER BY relname;
SELECT check_indexes('bun');

--
-- VACUUM: entries go, empty pages are deleted and used again
--
CALL twice('DELETE FROM main WHERE id BETWEEN 500 AND 2500');
VACUUM bt.main;
VACUUM bun.main;
-- Deleted pages are free once every transaction of that time has ended.
SELECT pg_current_xact_id() IS NOT NULL AS next_transaction;
CALL wait_for_horizon();
VACUUM bt.main;
VACUUM bun.main;
CREATE TEMPORARY TABLE size_before AS SELECT pages('bun.main_id') AS pages;
CALL twice($$
INSERT INTO main SELECT i, i % 50, md5(i::text) FROM generate_series(500, 900) i;
$$);
SELECT pages('bun.main_id') <= pages AS pages_used_again FROM size_before;
SELECT same_main();

-- With workers, several indexes at once.
SET min_parallel_index_scan_size = 0;
CALL twice('DELETE FROM main WHERE id % 4 = 0');
VACUUM (PARALLEL 2) bt.main;
VACUUM (PARALLEL 2) bun.main;
RESET min_parallel_index_scan_size;

-- Entries left where they are, then cleaned.
CALL twice('DELETE FROM main WHERE id % 4 = 1');
VACUUM (INDEX_CLEANUP off) bt.main, bun.main;
SELECT same_main();
VACUUM (INDEX_CLEANUP on) bt.main, bun.main;
SELECT check_indexes('bun');

-- VACUUM FULL rewrites heap and indexes.
VACUUM (FULL, ANALYZE) bt.main;
VACUUM (FULL, ANALYZE) bun.main;
SELECT * FROM compare_pages('main_id', 'main_ab', 'main_b');

--
-- CLUSTER: the heap takes the index's order
--
CLUSTER bt.main USING main_ab;
CLUSTER bun.main USING main_ab;
SELECT every(b_before <= b OR a_before < a) AS clustered
FROM (SELECT a, b, lag(a) OVER w AS a_before, lag(b) OVER w AS b_before
	  FROM bun.main WHERE b IS NOT NULL WINDOW w AS (ORDER BY ctid)) s;
INSERT INTO bun.main VALUES (-1, -1, 'first');
INSERT INTO bt.main VALUES (-1, -1, 'first');
CLUSTER bt.main;
CLUSTER bun.main;
SELECT * FROM bun.main ORDER BY ctid LIMIT 1;
SELECT same_main();

--
-- TRUNCATE, kept and rolled back
--
BEGIN;
TRUNCATE bun.main;
INSERT INTO bun.main VALUES (1, 33, 'only one');
SELECT count(*) FROM bun.main WHERE a = 33;
ROLLBACK;
SELECT same_main();
CALL twice($$
TRUNCATE main;
INSERT INTO main SELECT i, i % 50, md5(i::text) FROM generate_series(1, 1000) i;
ANALYZE main;
$$);
SELECT same_main();

--
-- ALTER TABLE: rewrites, columns that come and go, moves
--
CALL twice($$
ALTER TABLE main ALTER a TYPE bigint;
ALTER TABLE main ALTER b TYPE varchar(40);
ALTER TABLE main ADD c timestamptz DEFAULT clock_timestamp();
$$);
SELECT same_main();
SELECT pg_get_indexdef('bun.main_ab'::regclass);
CALL twice($$
CREATE INDEX main_c ON main USING @am (c) WITH (fillfactor = 55);
ALTER TABLE main ALTER c TYPE text USING 'c' || id;
$$);
SELECT pg_get_indexdef('bun.main_c'::regclass);
SELECT * FROM compare('index', 'SELECT c FROM main WHERE c > ''c5'' ORDER BY c');
CALL twice('ALTER TABLE main DROP c');
SELECT to_regclass('bun.main_c');

SET allow_in_place_tablespaces = on;
CREATE TABLESPACE regress_bunbtree LOCATION '';
CALL twice($$
ALTER INDEX main_ab SET TABLESPACE regress_bunbtree;
CREATE INDEX main_elsewhere ON main USING @am (id, a) TABLESPACE regress_bunbtree;
$$);
SELECT same_main();
REINDEX (TABLESPACE pg_default) INDEX CONCURRENTLY bun.main_ab;
SELECT pg_get_indexdef('bun.main_ab'::regclass), spcname
FROM pg_class c LEFT JOIN pg_tablespace t ON t.oid = c.reltablespace
WHERE c.oid = 'bun.main_ab'::regclass;
CALL twice($$
ALTER INDEX main_ab SET TABLESPACE pg_default;
DROP INDEX main_elsewhere;
$$);
DROP TABLESPACE regress_bunbtree;

--
-- Statistics of an indexed expression
--
CALL twice('CREATE INDEX main_expr ON main USING @am ((a % 4))');
ANALYZE bt.main;
ANALYZE bun.main;
SELECT n_distinct, most_common_vals FROM pg_stats
WHERE tablename = 'main_expr' ORDER BY schemaname;

--
-- Size: deduplication and fill factor as with btree
--
CALL twice($$
CREATE TABLE size (few int, many int)
	WITH (autovacuum_enabled = off);
INSERT INTO size SELECT i % 5, i FROM generate_series(1, 5000) i;
CREATE INDEX size_dedup ON size USING @am (few);
CREATE INDEX size_nodedup ON size USING @am (few) WITH (deduplicate_items = off);
CREATE INDEX size_90 ON size USING @am (many);
CREATE INDEX size_100 ON size USING @am (many) WITH (fillfactor = 100);
CREATE INDEX size_30 ON size USING @am (many) WITH (fillfactor = 30);
CREATE INDEX size_include ON size USING @am (few) INCLUDE (many);
$$);
SELECT * FROM compare_pages('size_dedup', 'size_nodedup', 'size_90', 'size_100',
							'size_30', 'size_include');
SELECT pages('bun.size_dedup') * 2 < pages('bun.size_nodedup') AS deduplicated,
	   pages('bun.size_100') < pages('bun.size_90') AS packed,
	   pages('bun.size_30') > pages('bun.size_90') * 2 AS spaced;

-- The options hold for insertions as well.
CALL twice($$
CREATE TABLE size_later (few int, many int)
	WITH (autovacuum_enabled = off);
CREATE INDEX size_later_dedup ON size_later USING @am (few);
CREATE INDEX size_later_nodedup ON size_later USING @am (few) WITH (deduplicate_items = off);
CREATE INDEX size_later_100 ON size_later USING @am (many) WITH (fillfactor = 100);
CREATE INDEX size_later_30 ON size_later USING @am (many) WITH (fillfactor = 30);
INSERT INTO size_later SELECT i % 5, i FROM generate_series(1, 5000) i;
$$);
SELECT i AS index,
	   abs(pages(('bun.' || i)::regclass) - pages(('bt.' || i)::regclass)) <= 1 AS same_pages
FROM unnest('{size_later_dedup,size_later_nodedup,size_later_100,size_later_30}'::name[]) i
ORDER BY i;
SELECT pages('bun.size_later_dedup') * 2 < pages('bun.size_later_nodedup') AS deduplicated,
	   pages('bun.size_later_30') > pages('bun.size_later_100') * 2 AS spaced;

-- Changed options: for what comes later, and for all after REINDEX.
ALTER INDEX bun.size_30 SET (fillfactor = 90);
ALTER INDEX bun.size_nodedup SET (deduplicate_items = on);
REINDEX TABLE bun.size;
SELECT pages('bun.size_30') = pages('bt.size_90') AS packed,
	   pages('bun.size_nodedup') = pages('bt.size_dedup') AS deduplicated;

SELECT check_indexes('bun');
DROP SCHEMA bt, bun CASCADE;
DROP FUNCTION same_main, compare_pages;
