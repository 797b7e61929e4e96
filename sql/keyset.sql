--
-- Row comparisons, "(a, b) > (x, y)", as index conditions: keyset pagination.
--
SET client_min_messages = warning;
\set SHOW_CONTEXT never
CREATE SCHEMA bt;
CREATE SCHEMA bun;
CALL twice($$
CREATE TABLE pages (a int, b bigint, c text COLLATE "C", d int)
	WITH (autovacuum_enabled = off);
INSERT INTO pages
	SELECT CASE WHEN i % 97 <> 0 THEN i % 50 END, CASE WHEN i % 89 <> 0 THEN i % 20 END,
		   CASE WHEN i % 83 <> 0 THEN 'text ' || i % 7 END, i
	FROM generate_series(1, 5000) i;
CREATE INDEX pages_abc ON pages USING @am (a, b, c) INCLUDE (d);
CREATE INDEX pages_desc ON pages USING @am (c DESC, a DESC NULLS LAST, d DESC);
CREATE UNIQUE INDEX pages_d ON pages USING @am (d, a);

CREATE TABLE parted (a int, b int, d int) PARTITION BY RANGE (a);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (20);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (20) TO (40);
CREATE TABLE parted_3 PARTITION OF parted FOR VALUES FROM (40) TO (60);
INSERT INTO parted SELECT i % 60, i % 7, i FROM generate_series(1, 2000) i;
CREATE INDEX parted_ab ON parted USING @am (a, b, d);
ANALYZE pages, parted;
$$);

-- Does the plan of a query on bunbtree have a row comparison in the index?
CREATE FUNCTION has_comparison(query text) RETURNS boolean
LANGUAGE plpgsql
SET search_path = bun, public
AS $$
DECLARE
	plan text;
BEGIN
	EXECUTE 'EXPLAIN (FORMAT JSON) ' || query INTO plan;
	RETURN plan ~ 'Index Cond": "[^"]*ROW';
END
$$;

-- Everything that a comparison can be: operators, directions, types, NULLs,
-- columns that do not follow each other, more than the index has.
SELECT scan, condition, same(scan, VARIADIC ARRAY[
	'SELECT a, b, c, d FROM pages WHERE ' || condition || ' ORDER BY a, b, c, d LIMIT 50',
	'SELECT a, b, c, d FROM pages WHERE ' || condition || ' ORDER BY a DESC, b DESC, c DESC, d LIMIT 50',
	'SELECT c, a, d FROM pages WHERE ' || condition || ' ORDER BY c DESC, a DESC NULLS LAST, d DESC LIMIT 50',
	'SELECT count(*), sum(d), min(b), max(c) FROM pages WHERE ' || condition])
FROM unnest('{index,indexonly,bitmap}'::text[]) scan,
	unnest(ARRAY[
		'(a, b) > (40, 10)', '(a, b) >= (40, 10)', '(a, b) < (5, 10)', '(a, b) <= (5, 10)',
		'(a, b, c) > (40, 10, ''text 3'')', '(a, b, c, d) < (5, 10, ''text 3'', 100)',
		'(a, b) > (bigint ''40'', smallint ''10'')', '(40, 10) < (a, b)', '(a, b) > (40, NULL)',
		'(a, b) < (NULL, 10)', '(a, c) > (40, ''text 3'')', '(a, d) > (40, 4000)',
		'(c, a) < (''text 1'', 25)', '(c, a, d) > (''text 5'', 25, 100)', '(c, a, d) <= (''text 1'', 25, 100)',
		'(d, a) >= (4000, 0) AND (a, b) > (45, 10)', '(a, b) > (40, 10) AND (a, b) < (42, 3) AND d > 100',
		'((a, b) < (1, 10) OR (a, b) > (48, 10))']) WITH ORDINALITY conditions(condition, n)
ORDER BY n, scan;

-- Anywhere in a plan, for statements of all kinds.
CREATE TABLE queries (n int, query text);
INSERT INTO queries SELECT n, query FROM unnest(ARRAY[
	'SELECT * FROM parted WHERE (a, b) > (18, 5) ORDER BY a, b, d LIMIT 100',
	'SELECT count(*) FROM parted WHERE (a, b) > (18, 5)',
	'SELECT a, (SELECT q.b FROM pages q WHERE (q.a, q.b) > (p.a, p.b) ORDER BY a, b LIMIT 1) FROM pages p WHERE p.d < 50',
	'SELECT p.d, q.* FROM pages p, LATERAL (SELECT * FROM pages q WHERE (q.d, q.a) > (p.d, p.a) ORDER BY d, a LIMIT 2) q WHERE p.d < 50',
	'SELECT d FROM pages p WHERE d < 500 AND NOT EXISTS (SELECT FROM pages q WHERE (q.a, q.b) > (p.a + 48, p.b))',
	'(SELECT d FROM pages WHERE (d, a) < (10, 5) UNION ALL SELECT d FROM parted WHERE (a, b) > (58, 5)) ORDER BY d',
	'WITH w AS MATERIALIZED (SELECT * FROM pages WHERE (d, a) < (10, 5)) SELECT * FROM w JOIN w v USING (d)',
	'WITH RECURSIVE w AS (SELECT 1 AS d UNION ALL SELECT q.d + 500 FROM w, LATERAL (SELECT d FROM pages p WHERE (p.d, p.a) > (w.d, 0) ORDER BY d, a LIMIT 1) q WHERE w.d < 4000) SELECT * FROM w',
	'SELECT * FROM pages WHERE (d, a) > (4990, 0) ORDER BY d, a FOR UPDATE',
	'UPDATE pages SET b = b + 1 WHERE (d, a) > (4990, 0) RETURNING *',
	'UPDATE parted SET b = b + 1 WHERE (a, b) > (58, 5) RETURNING *',
	'DELETE FROM pages WHERE (d, a) > (4995, 0) RETURNING *',
	'WITH u AS (UPDATE pages SET b = b + 1 WHERE (d, a) > (4985, 0) RETURNING *) SELECT * FROM u',
	'WITH u AS (UPDATE pages SET b = b + 1 WHERE (d, a) > (4985, 0)) SELECT 1',
	'INSERT INTO pages SELECT a, b, c, d + 10000 FROM pages WHERE (d, a) > (4985, 0) ON CONFLICT DO NOTHING RETURNING *'])
	WITH ORDINALITY queries(query, n);
CREATE FUNCTION run(schema text, query text) RETURNS text
LANGUAGE plpgsql
AS $$
DECLARE
	returned record;
	result text := '';
BEGIN
	PERFORM set_config('search_path', schema || ', public', true);
	FOR returned IN EXECUTE query
	LOOP
		result := result || returned::text || E'\n';
	END LOOP;
	PERFORM set_config('search_path', 'public', true);
	RETURN result;
END
$$;
SET enable_seqscan = off;
SELECT n, has_comparison(query), run('bt', query) = run('bun', query) AS same
FROM queries ORDER BY n;
RESET enable_seqscan;
SELECT same('any', 'SELECT a, b, c, d FROM pages ORDER BY d, a', 'SELECT * FROM parted ORDER BY a, b, d');

-- By parallel workers, whose plans come from elsewhere.
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SET min_parallel_index_scan_size = 0;
SET max_parallel_workers_per_gather = 2;
SELECT query, scans ~ 'Parallel' AS parallel, same FROM compare('any',
	'SELECT count(*), sum(d) FROM pages WHERE (a, b) > (25, 10)',
	'SELECT sum(p.d), max((SELECT min(q.a) FROM pages q WHERE (q.d, q.a) > (p.d, p.a))) FROM pages p WHERE (p.d, p.a) < (300, 0)',
	'SELECT count(*), sum(d) FROM parted WHERE (a, b) > (18, 5)');
SET parallel_leader_participation = off;
SELECT query, scans ~ 'Parallel' AS parallel, same FROM compare('any',
	'SELECT count(*), sum(d) FROM pages WHERE (a, b) > (25, 10)');
RESET parallel_leader_participation;
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
RESET min_parallel_index_scan_size;
RESET max_parallel_workers_per_gather;

-- Prepared, with partitions that are pruned when it starts
CALL twice($$
SET plan_cache_mode = force_generic_plan;
PREPARE @am_page (int, int) AS
	SELECT d FROM parted WHERE (a, b) > ($1, $2) AND a < $1 + 10 ORDER BY a, b, d LIMIT 20;
$$);
CREATE FUNCTION prepared(a int, b int) RETURNS boolean
LANGUAGE plpgsql
AS $$
DECLARE
	command text := format('%s_page(%s, %s)', '%s', a, b);
BEGIN
	RETURN run('bt', format('EXECUTE ' || command, 'btree')) = run('bun', format('EXECUTE ' || command, 'bunbtree'));
END
$$;
SELECT a, b, prepared(a, b) FROM generate_series(0, 60, 15) a, generate_series(0, 6, 3) b;
DEALLOCATE ALL;
RESET plan_cache_mode;

-- Fetched bit by bit, and locked
BEGIN;
SET LOCAL enable_seqscan = off;
SET LOCAL enable_sort = off;
DECLARE forth SCROLL CURSOR FOR SELECT d, a FROM bun.pages WHERE (d, a) > (100, 0) ORDER BY d, a;
DECLARE lock CURSOR FOR SELECT d, a FROM bun.pages WHERE (d, a) > (100, 0) ORDER BY d, a FOR UPDATE;
FETCH 2 FROM forth;
FETCH 2 FROM lock;
UPDATE bun.pages SET c = 'current' WHERE CURRENT OF lock;
FETCH 2 FROM forth;
FETCH BACKWARD 3 FROM forth;
FETCH 2 FROM lock;
SELECT disguises();
COMMIT;

-- Errors: what was disguised is so no more.
SET enable_seqscan = off;
SELECT 1 / (d - 4993) FROM bun.pages WHERE (d, a) > (4990, 0);
SELECT disguises();
UPDATE bun.pages SET b = 1 / (d - 4993) WHERE (d, a) > (4990, 0);
SELECT disguises();
BEGIN;
SAVEPOINT s;
UPDATE bun.pages SET b = 1 / (d - 4993) WHERE (d, a) > (4990, 0);
ROLLBACK TO s;
SELECT disguises();
UPDATE bun.pages SET b = 1 / (d - 5003) WHERE (d, a) > (4990, 0);
SELECT disguises();
COMMIT;
-- While the executor starts: to see which partitions it needs, it calls a
-- function.
CREATE FUNCTION start_with(k int) RETURNS int
LANGUAGE plpgsql STABLE
AS $$
BEGIN
	IF current_setting('keyset.fail')::boolean THEN
		RAISE 'failed';
	END IF;
	PERFORM FROM bun.parted WHERE (a, b) > (58, 5) ORDER BY a, b LIMIT 1;
	RETURN k;
END
$$;
SET keyset.fail = off;
SET plan_cache_mode = force_generic_plan;
PREPARE start AS SELECT count(*) FROM bun.parted WHERE (a, b) > (18, 5) AND a < start_with(30);
EXECUTE start;
SET keyset.fail = on;
EXECUTE start;
SELECT disguises();
SET keyset.fail = off;
EXECUTE start;
DEALLOCATE start;
RESET plan_cache_mode;
RESET enable_seqscan;
-- Nothing keeps the tables from being changed.
REINDEX TABLE bun.pages;
ALTER TABLE bun.pages ALTER b TYPE int;
DROP INDEX bun.pages_abc;

SELECT check_indexes('bun');
DROP SCHEMA bt, bun CASCADE;
DROP TABLE queries;
DROP FUNCTION has_comparison, run, prepared, start_with;
