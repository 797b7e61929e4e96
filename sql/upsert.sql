--
-- INSERT ... ON CONFLICT: a unique bunbtree index serves as one of btree does.
--
SET client_min_messages = warning;
\set SHOW_CONTEXT never
CREATE SCHEMA bt;
CREATE SCHEMA bun;

-- Runs statements, one after the other, in both schemas, and says how many rows
-- they returned, or what the error was.  Returned rows, errors, and rows in the
-- table must be the same.
CREATE FUNCTION upsert(target text, VARIADIC statements text[]) RETURNS text
LANGUAGE plpgsql
SET search_path = public
AS $$
DECLARE
	path text;
	statement text;
	returned record;
	verdict text[];
	verdicts text[] := '{}';
	log text[];
	line text;
BEGIN
	FOREACH path IN ARRAY '{bt,bun}'::text[]
	LOOP
		PERFORM set_config('search_path', path || ', public', true);
		log := '{}';
		verdict := '{}';
		FOREACH statement IN ARRAY statements
		LOOP
			BEGIN
				FOR returned IN EXECUTE statement
				LOOP
					log := log || returned::text;
				END LOOP;
				verdict := verdict || cardinality(log)::text;
			EXCEPTION WHEN OTHERS THEN
				verdict := verdict || sqlerrm;
			END;
		END LOOP;
		EXECUTE format('SELECT string_agg(t::text, chr(10) ORDER BY t::text) FROM %I t',
					   target) INTO line;
		verdicts := verdicts || concat(log, line, verdict);
	END LOOP;
	RETURN array_to_string(verdict, ', ')
		   || CASE WHEN verdicts[1] IS DISTINCT FROM verdicts[2]
			  THEN E' BUT\nbtree: ' || verdicts[1] || E'\nbunbtree: ' || verdicts[2]
			  ELSE '' END;
END
$$;

CALL twice($$
CREATE TABLE stock (id int, name text COLLATE "C", shelf int, place int, qty int, note text)
	WITH (autovacuum_enabled = off);
CREATE UNIQUE INDEX stock_id ON stock USING @am (id DESC) INCLUDE (qty);
CREATE UNIQUE INDEX stock_name ON stock USING @am (lower(name));
CREATE UNIQUE INDEX stock_place ON stock USING @am (shelf, place) WHERE qty > 0;
CREATE INDEX stock_note ON stock USING @am (note);
INSERT INTO stock SELECT i, 'item ' || i, i / 10, i % 10, i, NULL
	FROM generate_series(1, 100) i;

CREATE TABLE nulls (a int, b int, n int);
CREATE UNIQUE INDEX nulls_ab ON nulls USING @am (a, b) NULLS NOT DISTINCT;

CREATE TABLE plain (a int);
$$);

--
-- Which index decides
--
SELECT upsert('stock',
	-- columns
	'INSERT INTO stock VALUES (1, ''one'') ON CONFLICT (id) DO NOTHING RETURNING *',
	'INSERT INTO stock VALUES (1, ''one''), (101, ''a''), (102, ''b'') ON CONFLICT (id) DO UPDATE SET note = excluded.name RETURNING *',
	'INSERT INTO stock VALUES (2, ''two'') ON CONFLICT (id) DO UPDATE SET note = stock.name || excluded.name WHERE stock.qty > 5 RETURNING *',
	'INSERT INTO stock VALUES (9, ''nine'') ON CONFLICT (id) DO UPDATE SET note = stock.name || excluded.name WHERE stock.qty > 5 RETURNING *',
	-- an expression, a predicate
	'INSERT INTO stock VALUES (103, ''ITEM 7'') ON CONFLICT (lower(name)) DO UPDATE SET note = ''again'' RETURNING *',
	'INSERT INTO stock VALUES (104, ''c'', 1, 2, 5) ON CONFLICT (shelf, place) WHERE qty > 0 DO UPDATE SET qty = stock.qty + excluded.qty RETURNING *',
	'INSERT INTO stock VALUES (105, ''d'', 1, 2, 0) ON CONFLICT (shelf, place) WHERE qty > 0 DO NOTHING RETURNING *',
	-- any
	'INSERT INTO stock VALUES (106, ''e'', 1, 2, 5) ON CONFLICT DO NOTHING RETURNING *',
	'INSERT INTO stock VALUES (106, ''Item 9'', 1, 2, 0) ON CONFLICT DO NOTHING RETURNING *',
	'INSERT INTO stock VALUES (106, ''e'', 1, 2, 0) ON CONFLICT DO NOTHING RETURNING *',
	'INSERT INTO stock SELECT i, ''set '' || i FROM generate_series(95, 115) i ON CONFLICT DO NOTHING RETURNING *',
	-- no rows at all
	'INSERT INTO stock SELECT FROM stock WHERE false ON CONFLICT DO NOTHING RETURNING *');
SELECT upsert('nulls',
	'INSERT INTO nulls VALUES (NULL, 1, 0), (2, 2, 0) ON CONFLICT (a, b) DO UPDATE SET n = nulls.n + 1 RETURNING *',
	'INSERT INTO nulls VALUES (NULL, 1, 0), (2, 2, 0) ON CONFLICT (b, a) DO UPDATE SET n = nulls.n + 1 RETURNING *');
SELECT upsert('plain',
	'INSERT INTO plain VALUES (1), (1) ON CONFLICT DO NOTHING RETURNING *');
-- Not that one, or none.
SELECT upsert('stock',
	'INSERT INTO stock VALUES (201, ''item 1'') ON CONFLICT (id) DO UPDATE SET qty = 1 RETURNING *',
	'INSERT INTO stock VALUES (1) ON CONFLICT (id) DO UPDATE SET id = 2 RETURNING *',
	'INSERT INTO stock VALUES (202), (202) ON CONFLICT (id) DO UPDATE SET qty = 1 RETURNING *',
	'INSERT INTO stock VALUES (1) ON CONFLICT (qty) DO NOTHING RETURNING *',
	'INSERT INTO stock VALUES (1) ON CONFLICT (shelf, place) DO NOTHING RETURNING *',
	'INSERT INTO stock VALUES (3) ON CONFLICT (id) DO UPDATE SET qty = 1 / (stock.qty - 3) RETURNING *');
SELECT disguises();

--
-- Ways to run it
--
INSERT INTO bt.stock VALUES (1), (301) ON CONFLICT DO NOTHING;
INSERT INTO bun.stock VALUES (1), (301) ON CONFLICT DO NOTHING;
INSERT INTO bt.stock VALUES (1), (301), (302) ON CONFLICT (id) DO UPDATE SET note = 'seen';
INSERT INTO bun.stock VALUES (1), (301), (302) ON CONFLICT (id) DO UPDATE SET note = 'seen';
SELECT upsert('stock',
	'EXPLAIN (COSTS OFF) INSERT INTO stock VALUES (1), (303) ON CONFLICT DO NOTHING',
	'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) INSERT INTO stock VALUES (2), (303) ON CONFLICT (id) DO UPDATE SET note = ''seen''',
	'EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) INSERT INTO stock VALUES (2), (303) ON CONFLICT DO NOTHING');
-- In common table expressions, read or not
SELECT upsert('stock',
	'WITH u AS (INSERT INTO stock VALUES (1), (401) ON CONFLICT (id) DO UPDATE SET note = ''cte'' RETURNING *) SELECT * FROM u',
	'WITH u AS (INSERT INTO stock VALUES (1), (402) ON CONFLICT DO NOTHING RETURNING *) SELECT 1',
	'WITH u AS (INSERT INTO stock VALUES (2), (403) ON CONFLICT (id) DO UPDATE SET note = ''cte'' RETURNING id)
		INSERT INTO stock SELECT id + 1 FROM u ON CONFLICT (id) DO UPDATE SET note = ''main'' RETURNING *',
	'WITH d AS (DELETE FROM stock WHERE id IN (5, 6) RETURNING *)
		INSERT INTO stock SELECT id + 1 FROM d ON CONFLICT DO NOTHING RETURNING *',
	'WITH u AS (INSERT INTO stock VALUES (10) ON CONFLICT (id) DO UPDATE SET note = ''cte'')
		UPDATE stock SET qty = 0 WHERE id IN (11, 12) RETURNING *');
-- Prepared, with the same plan each time
CALL twice($$
SET plan_cache_mode = force_generic_plan;
PREPARE @am_upsert (int, text) AS
	INSERT INTO stock (id, note) VALUES ($1, $2), (501, $2) ON CONFLICT (id) DO UPDATE SET note = excluded.note;
EXECUTE @am_upsert (20, 'first');
EXECUTE @am_upsert (20, 'second');
ANALYZE stock;
EXECUTE @am_upsert (21, 'third');
DEALLOCATE @am_upsert;
$$);
RESET plan_cache_mode;
SELECT upsert('stock', 'SELECT * FROM stock WHERE id IN (20, 21, 501) ORDER BY id');
-- In functions
CALL twice($$
CREATE FUNCTION count_up(key int) RETURNS SETOF stock
LANGUAGE sql
AS 'INSERT INTO stock (id, qty) VALUES (key, 1) ON CONFLICT (id) DO UPDATE SET qty = stock.qty + 1 RETURNING *';
CREATE FUNCTION count_all(first int, last int) RETURNS bigint
LANGUAGE plpgsql
AS '
DECLARE
	affected bigint := 0;
BEGIN
	FOR i IN first .. last
	LOOP
		INSERT INTO stock (id, qty) VALUES (i, 1) ON CONFLICT (id) DO UPDATE SET qty = stock.qty + 1;
		INSERT INTO stock (id, qty) VALUES (i, 1) ON CONFLICT DO NOTHING;
		IF NOT FOUND THEN
			affected := affected + 1;
		END IF;
	END LOOP;
	RETURN affected;
END';
$$);
SELECT upsert('stock',
	'SELECT count_up(i) FROM generate_series(598, 602) i',
	'SELECT count_all(600, 605)',
	'INSERT INTO stock SELECT (count_up(i)).id, ''f'' || i FROM generate_series(604, 607) i ON CONFLICT (id) DO UPDATE SET note = excluded.name RETURNING *');
-- With triggers that do the same to the same table
CALL twice($$
CREATE FUNCTION next_one() RETURNS trigger
LANGUAGE plpgsql
AS '
BEGIN
	IF new.id BETWEEN 700 AND 750 THEN
		INSERT INTO stock (id, qty) VALUES (new.id + 1, 1) ON CONFLICT (id) DO UPDATE SET qty = stock.qty + 1;
		INSERT INTO stock (id, qty) VALUES (new.id + 100, 1) ON CONFLICT DO NOTHING;
	END IF;
	RETURN new;
END';
CREATE TRIGGER before_one BEFORE INSERT ON stock FOR EACH ROW EXECUTE FUNCTION next_one();
CREATE TRIGGER after_one AFTER UPDATE ON stock FOR EACH ROW EXECUTE FUNCTION next_one();
$$);
SELECT upsert('stock',
	'INSERT INTO stock (id) VALUES (745), (720) ON CONFLICT (id) DO UPDATE SET note = ''hit'' RETURNING id',
	'INSERT INTO stock (id) VALUES (749), (751) ON CONFLICT (id) DO UPDATE SET note = ''hit'' RETURNING id');
CALL twice('DROP TRIGGER before_one ON stock; DROP TRIGGER after_one ON stock');
-- By way of a view
CALL twice($$
CREATE VIEW stock_view AS SELECT id, note FROM stock WHERE id < 1000 WITH CHECK OPTION;
$$);
SELECT upsert('stock',
	'INSERT INTO stock_view VALUES (1, ''view''), (801, ''view'') ON CONFLICT (id) DO UPDATE SET note = excluded.note RETURNING *',
	'INSERT INTO stock_view VALUES (1001, ''view'') ON CONFLICT DO NOTHING RETURNING *');
CALL twice('DROP VIEW stock_view');
-- Temporary tables
CREATE TEMPORARY TABLE brief (a int, b int);
CREATE UNIQUE INDEX ON brief USING bunbtree (a);
INSERT INTO brief SELECT i % 5, i FROM generate_series(1, 20) i ON CONFLICT (a) DO NOTHING;
INSERT INTO brief VALUES (3, 33) ON CONFLICT (a) DO UPDATE SET b = excluded.b;
SELECT * FROM brief ORDER BY a;
DROP TABLE brief;
SELECT disguises();

--
-- Partitioned tables.  Up to PostgreSQL 17, the table as a whole cannot have a
-- unique bunbtree index, but its partitions can: its own is a btree one.
--
CALL twice($$
CREATE TABLE part (k int, u int, v text) PARTITION BY RANGE (k);
CREATE TABLE part_0 PARTITION OF part FOR VALUES FROM (0) TO (100);
CREATE TABLE part_1 (v text, gone int, u int, k int);
ALTER TABLE part_1 DROP gone;
ALTER TABLE part ATTACH PARTITION part_1 FOR VALUES FROM (100) TO (200);
CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM (200) TO (300) PARTITION BY LIST (u);
CREATE TABLE part_2_even PARTITION OF part_2 FOR VALUES IN (0, 2, 4);
CREATE TABLE part_2_odd PARTITION OF part_2 FOR VALUES IN (1, 3, 5);
CREATE TABLE part_rest PARTITION OF part DEFAULT;
CREATE UNIQUE INDEX part_0_u ON part_0 USING @am (u);
CREATE UNIQUE INDEX part_1_u ON part_1 USING @am (u) WHERE u > 0;
CREATE UNIQUE INDEX part_2_k ON part_2_even USING @am (k);
CREATE UNIQUE INDEX part_rest_u ON part_rest USING @am (abs(u));
INSERT INTO part SELECT i, i / 10, 'old' FROM generate_series(0, 390, 10) i WHERE i NOT BETWEEN 200 AND 299;
$$);
SELECT upsert('part',
	'INSERT INTO part VALUES (1, 0), (1, 1000), (101, 10), (101, -10), (201, 2), (201, 2), (201, 3), (201, 3), (301, -30), (301, 31) ON CONFLICT DO NOTHING RETURNING *',
	'INSERT INTO part SELECT i, i % 6 FROM generate_series(1, 398, 3) i WHERE i NOT BETWEEN 200 AND 299 ON CONFLICT DO NOTHING RETURNING *',
	'INSERT INTO part_0 VALUES (1, 0), (7, 1007) ON CONFLICT (u) DO UPDATE SET v = ''hit'' RETURNING *',
	'INSERT INTO part_2 VALUES (202, 2), (202, 2) ON CONFLICT DO NOTHING RETURNING *',
	'WITH u AS (INSERT INTO part VALUES (2, 0), (2, 1001), (102, 11), (102, 1001) ON CONFLICT DO NOTHING) SELECT 1',
	'WITH u AS (INSERT INTO part VALUES (2, 0), (2, 1002), (102, 11), (102, 1002) ON CONFLICT DO NOTHING)
		INSERT INTO part VALUES (3, 0), (3, 1003), (303, 30), (303, 1003) ON CONFLICT DO NOTHING RETURNING *',
	'INSERT INTO part VALUES (1, 0) ON CONFLICT (u) DO NOTHING RETURNING *');
-- With an index of the table as a whole
CALL twice($$
TRUNCATE part;
ALTER TABLE part ADD PRIMARY KEY (k, u);
$$);
SELECT upsert('part',
	'INSERT INTO part SELECT i, i % 6 FROM generate_series(0, 399, 7) i WHERE i NOT BETWEEN 200 AND 299 ON CONFLICT DO NOTHING RETURNING *',
	'INSERT INTO part VALUES (7, 1), (7, 100), (105, 3), (105, 100), (301, 1), (208, 2) ON CONFLICT (k, u) DO UPDATE SET v = ''hit'' RETURNING *',
	'INSERT INTO part VALUES (8, 1) ON CONFLICT (k, u) DO UPDATE SET v = ''hit'' RETURNING *',
	'INSERT INTO part VALUES (7, 1) ON CONFLICT (k, u) DO UPDATE SET k = 300 RETURNING *',
	'INSERT INTO part VALUES (105, 3) ON CONFLICT (k, u) DO UPDATE SET v = ''hit '' || 1 / (part.u - 3) RETURNING *');
-- With triggers, each in the midst of another row's, for more rows than nbtree
-- calls may nest
CALL twice($$
CREATE FUNCTION next_part() RETURNS trigger
LANGUAGE plpgsql
AS '
BEGIN
	IF new.k % 100 < 40 THEN
		INSERT INTO part VALUES ((new.k + 101) % 400, 5000 + new.k) ON CONFLICT DO NOTHING;
	END IF;
	RETURN new;
END';
CREATE TRIGGER next_part BEFORE INSERT ON part_0 FOR EACH ROW EXECUTE FUNCTION next_part();
CREATE TRIGGER next_part BEFORE INSERT ON part_1 FOR EACH ROW EXECUTE FUNCTION next_part();
CREATE TRIGGER next_part AFTER INSERT ON part_rest FOR EACH ROW EXECUTE FUNCTION next_part();
ALTER TABLE part DETACH PARTITION part_2;
CREATE TABLE part_3 PARTITION OF part FOR VALUES FROM (200) TO (300);
CREATE UNIQUE INDEX part_3_u ON part_3 USING @am (u);
CREATE TRIGGER next_part BEFORE INSERT ON part_3 FOR EACH ROW EXECUTE FUNCTION next_part();
$$);
SELECT upsert('part',
	'INSERT INTO part VALUES (20, 2000), (110, 2000) ON CONFLICT DO NOTHING RETURNING *',
	'INSERT INTO part VALUES (15, 2001), (112, 2001) ON CONFLICT (k, u) DO UPDATE SET v = ''hit'' RETURNING *');
SELECT count(*) > 16 AS deep FROM bun.part WHERE u > 5000;
SELECT disguises();

--
-- What a trigger plans in the midst of an upsert is what it would plan at
-- another time, and it keeps that plan.
--
CALL twice($$
CREATE TABLE planned (k int, u int, v int) PARTITION BY RANGE (k);
CREATE TABLE planned_0 PARTITION OF planned FOR VALUES FROM (0) TO (10000)
	WITH (autovacuum_enabled = off);
INSERT INTO planned SELECT i, i, i FROM generate_series(1, 5000) i;
CREATE UNIQUE INDEX planned_u ON planned_0 USING @am (u, v);
ANALYZE planned_0;
CREATE FUNCTION plan_it() RETURNS trigger
LANGUAGE plpgsql
AS '
DECLARE
	line text;
BEGIN
	PREPARE @am_sorted AS SELECT v FROM planned_0 WHERE u > 4000 ORDER BY u, v LIMIT 3;
	PREPARE @am_compared AS SELECT v FROM planned_0 WHERE (u, v) > (4000, 4000) ORDER BY u, v LIMIT 3;
	PREPARE @am_extremes AS SELECT min(u), max(u) FROM planned_0;
	FOR line IN EXECUTE ''EXECUTE @am_sorted'' LOOP NULL; END LOOP;
	FOR line IN EXECUTE ''EXECUTE @am_compared'' LOOP NULL; END LOOP;
	FOR line IN EXECUTE ''EXECUTE @am_extremes'' LOOP NULL; END LOOP;
	RETURN new;
END';
CREATE TRIGGER plan_it BEFORE INSERT ON planned_0 FOR EACH ROW EXECUTE FUNCTION plan_it();
$$);
SET plan_cache_mode = force_generic_plan;
SET max_parallel_workers_per_gather = 0;
SELECT upsert('planned', 'INSERT INTO planned VALUES (2, 9999, 9999) ON CONFLICT DO NOTHING RETURNING *');
CREATE FUNCTION plans(what text) RETURNS text
LANGUAGE plpgsql
SET search_path = public
AS $$
DECLARE
	line text;
	plan text[] := '{"",""}';
BEGIN
	FOR i IN 1 .. 2
	LOOP
		-- as it was when the statements were planned, or they are planned anew
		PERFORM set_config('search_path', (ARRAY['bt', 'bun'])[i] || ', public', true);
		FOR line IN EXECUTE format('EXPLAIN EXECUTE %I', (ARRAY['btree', 'bunbtree'])[i] || what)
		LOOP
			plan[i] := plan[i] || line || E'\n';
		END LOOP;
	END LOOP;
	RETURN CASE WHEN plan[1] <> plan[2] THEN concat(E'btree:\n', plan[1], E'bunbtree:\n', plan[2])
		   WHEN plan[1] !~ 'Index' THEN 'no index' ELSE 'same' END;
END
$$;
SELECT what, plans(what) FROM unnest('{_sorted,_compared,_extremes}'::text[]) what;
SELECT generic_plans > 0 AND custom_plans = 0 AS kept, count(*)
FROM pg_prepared_statements WHERE name ~ '_(sorted|compared|extremes)' GROUP BY 1;
DEALLOCATE ALL;
RESET plan_cache_mode;
RESET max_parallel_workers_per_gather;

--
-- Errors: what was disguised is so no more, and the session goes on.
--
CREATE FUNCTION fail() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
	IF new.v = 'fail' THEN
		RAISE 'failed';
	ELSIF new.v = 'fail inside' THEN
		BEGIN
			EXECUTE 'ALTER INDEX bun.part_1_u RENAME TO part_1_other';
			INSERT INTO bun.part VALUES (new.k, new.u + 10000, 'fail') ON CONFLICT DO NOTHING;
		EXCEPTION WHEN raise_exception THEN
			NULL;
		END;
		INSERT INTO bun.part VALUES (new.k, new.u + 20000), (399, new.u + 20000)
			ON CONFLICT DO NOTHING;
	END IF;
	RETURN new;
END
$$;
CREATE TRIGGER fail BEFORE INSERT ON bun.part FOR EACH ROW EXECUTE FUNCTION fail();
INSERT INTO bun.part VALUES (90, 3000, NULL), (190, 3000, NULL), (390, 3000, 'fail') ON CONFLICT DO NOTHING;
SELECT disguises();
BEGIN;
SAVEPOINT s;
INSERT INTO bun.part VALUES (90, 3000, NULL), (190, 3000, NULL), (390, 3000, 'fail') ON CONFLICT (k, u) DO UPDATE SET v = 'hit';
ROLLBACK TO s;
SELECT disguises();
INSERT INTO bun.part VALUES (90, 3000, NULL), (190, 3000, NULL), (390, 3000, 'fine') ON CONFLICT (k, u) DO UPDATE SET v = 'hit';
SELECT disguises();
COMMIT;
-- Within it, and it ends well.
INSERT INTO bun.part VALUES (91, 3001, NULL), (191, 3001, 'fail inside'), (391, 3001, NULL), (192, 3002, NULL) ON CONFLICT DO NOTHING;
SELECT disguises();
SELECT count(*) FROM bun.part WHERE u IN (3001, 3002, 23001);
-- The index has its name back.
INSERT INTO bun.part VALUES (193, 3001);
-- Nothing keeps the table from being changed.
ALTER INDEX bun.part_1_u SET (fillfactor = 80);
REINDEX INDEX bun.part_0_u;
DROP TRIGGER fail ON bun.part;
ALTER TABLE bun.part ALTER v TYPE varchar(100);
INSERT INTO bun.part VALUES (90, 3000), (92, 3003), (190, 3000) ON CONFLICT DO NOTHING;
DROP INDEX bun.stock_id;
INSERT INTO bun.stock VALUES (1, 'item 1') ON CONFLICT DO NOTHING;

SELECT count(*) FROM pg_class c JOIN pg_am a ON a.oid = c.relam,
	LATERAL (SELECT bunbtree_check(c.oid, true, true)) t
WHERE c.relnamespace = 'bun'::regnamespace AND a.amname = 'bunbtree' AND c.relkind = 'i';
DROP SCHEMA bt, bun CASCADE;
DROP FUNCTION upsert, plans, fail;
