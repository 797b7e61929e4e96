--
-- Faults: whatever goes wrong in the middle of an insertion, the session goes
-- on as if nothing had been.
--
-- While nbtree works on a bunbtree index, the session sees index and table in a
-- disguise (src/README says why).  An error must take it off.
SET client_min_messages = warning;
\set SHOW_CONTEXT never
CREATE SCHEMA bt;
CREATE SCHEMA bun;
-- Parallel workers do not know what this session is up to.
SET faults.mode = '';
SET faults.key = 11;
SET faults.skip = 0;
SET max_parallel_workers_per_gather = 0;
SET max_parallel_maintenance_workers = 0;

-- A comparison function that does what "faults.mode" says once it is to compare
-- with a multiple of "faults.key", after having skipped "faults.skip" times; and
-- an operator class that uses it.
CREATE TABLE elsewhere (k int, what text);
CREATE FUNCTION act_on_demand(k int) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
	mode text := current_setting('faults.mode');
BEGIN
	IF mode = '' OR k % current_setting('faults.key')::int <> 0 THEN
		RETURN;
	END IF;
	IF current_setting('faults.skip')::int > 0 THEN
		PERFORM set_config('faults.skip',
						   (current_setting('faults.skip')::int - 1)::text, false);
		RETURN;
	END IF;
	-- Once, unless asked for more; and never within itself.
	PERFORM set_config('faults.mode', '', false);
	CASE mode
		WHEN 'raise' THEN
			RAISE EXCEPTION 'raised on demand';
		WHEN 'divide' THEN
			PERFORM 1 / (k - k);
		WHEN 'cancel' THEN
			PERFORM pg_cancel_backend(pg_backend_pid());
		WHEN 'nap' THEN
			PERFORM pg_sleep(0.2);
		WHEN 'duplicate' THEN
			INSERT INTO public.elsewhere VALUES (1, 'one'), (1, 'one more');
		WHEN 'alter' THEN
			ALTER INDEX bun.touchy_k SET (fillfactor = 80);
		WHEN 'drop' THEN
			DROP INDEX bun.touchy_k;
		WHEN 'create' THEN
			CREATE INDEX touchy_again ON bun.touchy USING bunbtree (k);
		WHEN 'each time insert' THEN
			INSERT INTO public.elsewhere VALUES (k, 'inserted while comparing');
		WHEN 'deeper' THEN
			PERFORM set_config('faults.mode', mode, false);
			PERFORM set_config('faults.depth',
							   (current_setting('faults.depth')::int + 1)::text, false);
			EXECUTE format('INSERT INTO public.deep_%s VALUES (%s)',
						   current_setting('faults.depth'), k);
		WHEN 'each time build' THEN
			DROP INDEX IF EXISTS public.elsewhere_built;
			CREATE INDEX elsewhere_built ON public.elsewhere USING bunbtree (what, k);
		WHEN 'each time analyze' THEN
			ANALYZE bun.moving;
	END CASE;
	IF mode LIKE 'each time %' THEN
		PERFORM set_config('faults.mode', mode, false);
	END IF;
END
$$;
CREATE FUNCTION touchy_compare(a int, b int) RETURNS int
LANGUAGE plpgsql
AS $$
BEGIN
	IF current_setting('faults.mode') NOT IN ('', 'expression') THEN
		PERFORM public.act_on_demand(a), public.act_on_demand(b);
	END IF;
	RETURN a - b;
END
$$;
CREATE OPERATOR CLASS touchy_ops FOR TYPE int USING bunbtree AS
	OPERATOR 1 <, OPERATOR 2 <=, OPERATOR 3 =, OPERATOR 4 >=, OPERATOR 5 >,
	FUNCTION 1 touchy_compare(int, int);
CREATE INDEX elsewhere_k ON elsewhere USING bunbtree (k touchy_ops, what);

-- A table with bunbtree indexes of several kinds and a btree one.  The
-- expression raises on demand, the predicate fails for one value.
CREATE FUNCTION touchy_expression(e int) RETURNS int
LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
	IF current_setting('faults.mode') = 'expression' THEN
		RAISE EXCEPTION 'raised by the expression';
	END IF;
	RETURN e;
END
$$;
CREATE TABLE bun.touchy (k int, u int, e int)
	WITH (autovacuum_enabled = off);
INSERT INTO bun.touchy SELECT i, i, i + 1000 FROM generate_series(1, 60) i;
CREATE INDEX touchy_k ON bun.touchy USING bunbtree (k touchy_ops);
CREATE UNIQUE INDEX touchy_u ON bun.touchy USING bunbtree (u);
CREATE INDEX touchy_expr ON bun.touchy USING bunbtree (touchy_expression(e));
CREATE INDEX touchy_partial ON bun.touchy USING bunbtree (e) WHERE 100 / (e - 5000) < 0;
CREATE INDEX touchy_btree ON bun.touchy USING btree (k);

SELECT in_disguise('bun.touchy_btree');

-- Uses the table after a fault: what this session still believes about its
-- indexes, a build (which only works on an undisguised table), insertions, scans.
CREATE FUNCTION alive(OUT disguises bigint, OUT counted bigint, OUT by_index bigint)
LANGUAGE plpgsql
SET enable_bitmapscan = off
AS $$
BEGIN
	PERFORM set_config('faults.mode', '', false);
	SELECT count(*) FILTER (WHERE in_disguise(index)) INTO disguises
	FROM unnest('{bun.touchy_k,bun.touchy_u,elsewhere_k}'::regclass[]) index;
	REINDEX INDEX bun.touchy_btree;
	INSERT INTO bun.touchy SELECT i, i, i FROM generate_series(10001, 10002) i;
	SELECT count(*) INTO counted FROM bun.touchy;
	SET LOCAL enable_seqscan = off;
	SELECT count(u) INTO by_index FROM bun.touchy WHERE u > 0;
	DELETE FROM bun.touchy WHERE k > 10000;
END
$$;
SELECT * FROM alive();

--
-- Errors that the index itself raises
--
INSERT INTO bun.touchy VALUES (77, 17, 1);
UPDATE bun.touchy SET u = 18 WHERE u = 17;
SELECT * FROM alive();
-- Within a subtransaction, after which the transaction goes on.
BEGIN;
SAVEPOINT s;
INSERT INTO bun.touchy VALUES (77, 17, 1);
ROLLBACK TO s;
SELECT * FROM alive();
COMMIT;
-- A row that is too large.
CREATE TABLE bun.large (k int, v text);
ALTER TABLE bun.large ALTER v SET STORAGE EXTERNAL;
CREATE INDEX large_v ON bun.large USING bunbtree (v);
INSERT INTO bun.large VALUES (1, repeat('x', 3000));
SELECT in_disguise('bun.large_v');
INSERT INTO bun.large SELECT i, repeat('x', 2000) FROM generate_series(1, 20) i;
SELECT bunbtree_check('bun.large_v', true);
-- New indexes, VACUUM.
CREATE INDEX touchy_later ON bun.touchy USING bunbtree (e, u, k);
VACUUM (ANALYZE) bun.touchy;
SELECT bunbtree_check('bun.touchy_k', true, true), bunbtree_check('bun.touchy_later', true);
DROP INDEX bun.touchy_later;

--
-- Errors in what nbtree calls: the comparison function, at the first
-- comparison and further down the tree
--
SET faults.mode = 'raise';
INSERT INTO bun.touchy VALUES (77, 1001, 1);
SET faults.mode = 'divide';
INSERT INTO bun.touchy VALUES (77, 1001, 1);
SET faults.mode = 'raise';
SET faults.skip = 4;
INSERT INTO bun.touchy VALUES (77, 1001, 1);
SET faults.skip = 0;
SELECT * FROM alive();
DO $$
BEGIN
	FOR i IN 1 .. 3
	LOOP
		BEGIN
			SET faults.mode = 'raise';
			INSERT INTO bun.touchy VALUES (77, 1000 + i, 1);
			RAISE 'not raised';
		EXCEPTION WHEN raise_exception THEN
			IF sqlerrm <> 'raised on demand' THEN
				RAISE;
			END IF;
		END;
	END LOOP;
END
$$;
SELECT * FROM alive();
-- What PostgreSQL refuses to do to an index in use.
SET faults.mode = 'alter';
INSERT INTO bun.touchy VALUES (77, 1001, 1);
SET faults.mode = 'drop';
INSERT INTO bun.touchy VALUES (77, 1001, 1);
SET faults.mode = 'create';
INSERT INTO bun.touchy VALUES (77, 1001, 1);
SELECT * FROM alive();
-- While the index is being built, or rebuilt.
SET faults.mode = 'raise';
CREATE INDEX touchy_again ON bun.touchy USING bunbtree (k touchy_ops);
SET faults.mode = 'raise';
REINDEX INDEX bun.touchy_k;
SELECT * FROM alive();
-- While the table is being read.
SET enable_seqscan = off;
SET enable_bitmapscan = off;
DROP INDEX bun.touchy_btree;
SET faults.mode = 'raise';
SELECT count(*) FROM bun.touchy WHERE k = 33;
RESET enable_seqscan;
RESET enable_bitmapscan;
CREATE INDEX touchy_btree ON bun.touchy USING btree (k);
SELECT * FROM alive();
-- New indexes, VACUUM.
CREATE INDEX touchy_later ON bun.touchy USING bunbtree (e, u, k);
VACUUM (ANALYZE) bun.touchy;
SELECT bunbtree_check('bun.touchy_k', true, true), bunbtree_check('bun.touchy_later', true);
DROP INDEX bun.touchy_later;

--
-- A query that is cancelled
--
SET faults.mode = 'cancel';
INSERT INTO bun.touchy VALUES (77, 1001, 1);
SELECT * FROM alive();
SET faults.mode = 'nap';
SET statement_timeout = '100ms';
INSERT INTO bun.touchy VALUES (77, 1001, 1);
RESET statement_timeout;
SELECT * FROM alive();

--
-- Errors before the index is reached: in the expression, in the predicate, and
-- in what the expression does elsewhere
--
SET faults.mode = 'expression';
INSERT INTO bun.touchy VALUES (77, 1001, 1);
SET faults.mode = '';
INSERT INTO bun.touchy VALUES (77, 1001, 5000);
SELECT * FROM alive();
CREATE UNIQUE INDEX elsewhere_unique ON elsewhere USING bunbtree (k) WHERE what LIKE 'one%';
SET faults.mode = 'duplicate';
INSERT INTO bun.touchy VALUES (77, 1001, 1);
SELECT * FROM alive();
SELECT * FROM elsewhere ORDER BY k, what;
-- New indexes, VACUUM.
CREATE INDEX touchy_later ON bun.touchy USING bunbtree (e, u, k);
VACUUM (ANALYZE) bun.touchy;
SELECT bunbtree_check('bun.touchy_k', true, true), bunbtree_check('bun.touchy_later', true);
DROP INDEX bun.touchy_later;

--
-- Insertions within insertions: the comparison inserts into another table,
-- whose index has the same operator class
--
SET faults.mode = 'each time insert';
INSERT INTO bun.touchy VALUES (76, 1001, 1), (78, 1002, 1), (77, 1003, 1);
SET faults.mode = '';
SELECT count(*) > 0 AS inserted_elsewhere FROM elsewhere;
SELECT * FROM alive();
-- And so on, each time into another table: a leaf page that is being compared
-- with is locked.
DO $$
BEGIN
	FOR i IN 1 .. 20
	LOOP
		EXECUTE format('CREATE TABLE deep_%s AS SELECT 77 AS k', i);
		EXECUTE format('CREATE INDEX ON deep_%s USING bunbtree (k touchy_ops)', i);
	END LOOP;
END
$$;
SET faults.depth = 0;
SET faults.mode = 'deeper';
INSERT INTO bun.touchy VALUES (77, 1006, 1);
\echo :LAST_ERROR_SQLSTATE
SELECT * FROM alive();
SELECT bool_or(in_disguise(indexrelid::regclass)) FROM pg_index WHERE indrelid = 'deep_1'::regclass;
-- Builds an index on another table meanwhile.
SET faults.mode = 'each time build';
INSERT INTO bun.touchy VALUES (76, 1004, 1), (77, 1005, 1);
SELECT * FROM alive();
SELECT bunbtree_check('elsewhere_built', true);
-- An expression that inserts elsewhere is called outside of nbtree.  (It must
-- hide behind a query: immutable functions are not to write.)
CREATE FUNCTION note_elsewhere(k int) RETURNS int
LANGUAGE plpgsql
AS $$
BEGIN
	INSERT INTO public.elsewhere VALUES (k, 'noted');
	RETURN k;
END
$$;
CREATE FUNCTION noting_expression(k int) RETURNS int
LANGUAGE sql IMMUTABLE
AS 'SELECT public.note_elsewhere(k)';
CREATE TABLE bun.noting (k int);
CREATE INDEX noting_k ON bun.noting USING bunbtree (noting_expression(k));
INSERT INTO bun.noting SELECT i FROM generate_series(2001, 2020) i;
SELECT count(*) FROM elsewhere WHERE what = 'noted';
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SELECT count(*) FROM elsewhere WHERE k BETWEEN 2001 AND 2020;
RESET enable_seqscan;
RESET enable_bitmapscan;

--
-- What the session knows of the index is invalidated and read again in
-- mid-insertion.  Rows are wide, so that the same insertion may have to split a
-- page afterwards.
--
CREATE TABLE bun.moving (k int, pad text)
	WITH (autovacuum_enabled = off);
ALTER TABLE bun.moving ALTER pad SET STORAGE EXTERNAL;
CREATE INDEX moving_k ON bun.moving USING bunbtree (k touchy_ops) INCLUDE (pad);
SET faults.key = 3;
SET faults.mode = 'each time analyze';
INSERT INTO bun.moving SELECT i, repeat('-', 1500) FROM generate_series(1, 20) i;
SET faults.mode = '';
SELECT bunbtree_check('bun.moving_k', true, true);
SELECT in_disguise('bun.moving_k');
SELECT reltuples > 0 AS analyzed FROM pg_class WHERE oid = 'bun.moving_k'::regclass;

--
-- While a subtransaction aborts, the session only marks what it knows of an
-- index as out of date, and reads it again at the next use
--
CREATE FUNCTION rename_and_undo() RETURNS void
LANGUAGE plpgsql
AS $$
BEGIN
	BEGIN
		ALTER INDEX bun.undone_k RENAME TO undone_other;
		RAISE EXCEPTION 'undo';
	EXCEPTION WHEN raise_exception THEN
		NULL;
	END;
	PERFORM pg_relation_size('bun.undone_k');
END
$$;
CREATE FUNCTION undoing_expression(k int) RETURNS int
LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
	IF k = 1000 THEN
		PERFORM public.rename_and_undo();
	END IF;
	RETURN k;
END
$$;
CREATE TABLE bun.undone (k int);
INSERT INTO bun.undone SELECT i FROM generate_series(1, 2000) i;
CREATE UNIQUE INDEX undone_k ON bun.undone USING bunbtree (undoing_expression(k));
SELECT bunbtree_check('bun.undone_k', true, true);
SELECT in_disguise('bun.undone_k');

DROP INDEX bun.touchy_btree;
SELECT check_indexes('bun');
DROP SCHEMA bt, bun CASCADE;
DO $$
BEGIN
	FOR i IN 1 .. 20
	LOOP
		EXECUTE format('DROP TABLE deep_%s', i);
	END LOOP;
END
$$;
DROP TABLE elsewhere;
DROP OPERATOR FAMILY touchy_ops USING bunbtree;
DROP FUNCTION act_on_demand, touchy_compare, touchy_expression, alive,
	note_elsewhere, noting_expression, rename_and_undo, undoing_expression;
