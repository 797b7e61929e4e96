--
-- Churn: rows that come and go while their keys stay about the same.
--
-- Without VACUUM, btree splits pages that are full of dead entries; bunbtree
-- deletes these entries first.
SET client_min_messages = warning;
CREATE SCHEMA bt;
CREATE SCHEMA bun;
-- The index scans of these tests would mark dead entries as such.
SET enable_indexscan = off;
SET enable_bitmapscan = off;

-- Repeats commands, each in a transaction of its own; "@round" stands for the
-- number of the round.
CREATE PROCEDURE churn(rounds int, VARIADIC commands text[])
LANGUAGE plpgsql
AS $$
DECLARE
	command text;
BEGIN
	CALL wait_for_horizon();
	COMMIT;
	FOR round IN 1 .. rounds
	LOOP
		FOREACH command IN ARRAY commands
		LOOP
			EXECUTE replace(command, '@round', round::text);
			COMMIT;
		END LOOP;
	END LOOP;
END
$$;

-- Counters in words.
CREATE FUNCTION summary(index regclass,
						OUT asked boolean, OUT deleted boolean,
						OUT consistent boolean)
LANGUAGE sql
AS $$
	SELECT passes > 0, entries_deleted > 0,
		   passes_productive <= passes
		   AND entries_deleted >= passes_productive
		   AND (entries_deleted = 0) = (passes_productive = 0)
		   AND (heap_blocks_visited > 0 OR entries_deleted = 0)
	FROM pg_stat_bunbtree WHERE indexrelid = index;
$$;

--
-- Rows deleted, then inserted again with the same keys
--
CALL twice($$
CREATE TABLE again (k int, v text)
	WITH (autovacuum_enabled = off);
INSERT INTO again SELECT i, 'first' FROM generate_series(1, 2000) i;
CREATE INDEX again_k ON again USING @am (k);
$$);
CALL churn(10,
		   $$ CALL twice('DELETE FROM again') $$,
		   $$ CALL twice('INSERT INTO again SELECT i, ''round @round''
						  FROM generate_series(1, 2000) i ORDER BY hashint4(i)') $$);

-- The same with a unique index: the check for duplicates marks dead entries
-- as such, so that btree stays small, too.
CALL twice($$
CREATE TABLE again_unique (k int, v text)
	WITH (autovacuum_enabled = off);
INSERT INTO again_unique SELECT i, 'first' FROM generate_series(1, 2000) i;
CREATE UNIQUE INDEX again_unique_k ON again_unique USING @am (k);
$$);
CALL churn(6,
		   $$ CALL twice('DELETE FROM again_unique') $$,
		   $$ CALL twice('INSERT INTO again_unique SELECT i, ''round @round''
						  FROM generate_series(1, 2000) i ORDER BY hashint4(i)') $$);
INSERT INTO bun.again_unique VALUES (77, 'duplicate');

--
-- Updates that change the key, here to the mirrored value and back
--
CALL twice($$
CREATE TABLE mirror (k int, v text)
	WITH (autovacuum_enabled = off);
INSERT INTO mirror SELECT i, 'row ' || i FROM generate_series(1, 2000) i;
CREATE INDEX mirror_k ON mirror USING @am (k);
$$);
CALL churn(8, $$ CALL twice('UPDATE mirror SET k = 2001 - k') $$);

--
-- Updates that assign the key to itself, as object-relational mappers do.
-- "v" has an index, so that each row version needs entries.
--
CALL twice($$
CREATE TABLE self (k int, v int)
	WITH (autovacuum_enabled = off);
INSERT INTO self SELECT i, i FROM generate_series(1, 2000) i;
CREATE INDEX self_k ON self USING @am (k);
CREATE INDEX self_v ON self USING @am (v);
$$);
CALL churn(8, $$ CALL twice('UPDATE self SET k = k, v = v + 1') $$);

--
-- Insertions that are rolled back
--
CALL twice($$
CREATE TABLE aborted (k int, v text)
	WITH (autovacuum_enabled = off);
INSERT INTO aborted SELECT i, 'kept' FROM generate_series(1, 2000) i;
CREATE INDEX aborted_k ON aborted USING @am (k);
$$);
DO $$
BEGIN
	FOR i IN 1 .. 8
	LOOP
		CALL twice('INSERT INTO aborted SELECT k, ''aborted'' FROM aborted');
		ROLLBACK;
	END LOOP;
END
$$;

-- How have these indexes fared?  Each began with the same 2000 keys, and has them
-- now; "fresh" is what an index of these needs.
CREATE TABLE bun.fresh (k int);
INSERT INTO bun.fresh SELECT k FROM bun.again;
CREATE INDEX fresh_k ON bun.fresh USING bunbtree (k);
SELECT name,
	   pages(format('bt.%s_k', name)::regclass) >= 3 * pages('bun.fresh_k')
	   AS btree_at_least_3_times,
	   pages(format('bun.%s_k', name)::regclass) <= 2 * pages('bun.fresh_k')
	   AS bunbtree_at_most_2_times
FROM unnest('{again,again_unique,mirror,self,aborted}'::name[]) WITH ORDINALITY t(name, n)
ORDER BY n;
SELECT name, s.*
FROM unnest('{again,mirror,self,aborted}'::name[]) WITH ORDINALITY t(name, n),
	 summary(format('bun.%s_k', name)::regclass) s
ORDER BY n;
SELECT * FROM compare('index',
	'SELECT k, v FROM again ORDER BY k',
	'SELECT k, v FROM again_unique ORDER BY k',
	'SELECT k, v FROM mirror ORDER BY k',
	'SELECT k, v FROM self ORDER BY k',
	'SELECT k, v FROM aborted ORDER BY k');

--
-- Several columns, NULLs, a partial index, an expression: all at once
--
CALL twice($$
CREATE TABLE mixed (a int, b text, c int)
	WITH (autovacuum_enabled = off);
CREATE INDEX mixed_ab ON mixed USING @am (a, b DESC) INCLUDE (c);
CREATE INDEX mixed_expr ON mixed USING @am (lower(b) DESC NULLS LAST) WHERE c % 3 <> 0;
CREATE UNIQUE INDEX mixed_c ON mixed USING @am (c, a);
$$);
CALL churn(5,
		   $$ CALL twice('INSERT INTO mixed
						  SELECT nullif(i % 50, 0), nullif(''B'' || i % 300, ''B7''), i
						  FROM generate_series(1, 1500) i ORDER BY hashint4(i)') $$,
		   $$ CALL twice('UPDATE mixed SET c = c + 3000, b = b WHERE c % 2 = @round % 2') $$,
		   $$ CALL twice('DELETE FROM mixed WHERE @round < 5') $$);
SELECT * FROM compare('index',
	'SELECT a, b FROM mixed WHERE a = 7 ORDER BY a, b DESC',
	'SELECT lower(b) FROM mixed WHERE c % 3 <> 0 ORDER BY lower(b) DESC NULLS LAST',
	'SELECT c, a FROM mixed ORDER BY c, a');
SELECT * FROM summary('bun.mixed_ab');
SELECT check_indexes('bun');

--
-- Mode "off": never.  On unique indexes btree asks whenever it has seen a
-- duplicate; it gets declined.
--
CREATE TABLE bun.never (k int, u int)
	WITH (autovacuum_enabled = off);
CREATE INDEX never_k ON bun.never USING bunbtree (k) WITH (bottomup = off);
CREATE UNIQUE INDEX never_u ON bun.never USING bunbtree (u) WITH (bottomup = off);
CALL churn(6,
		   $$ INSERT INTO bun.never SELECT i, i FROM generate_series(1, 1000) i ORDER BY hashint4(i) $$,
		   $$ DELETE FROM bun.never WHERE @round < 6 $$);
CALL churn(3, $$ UPDATE bun.never SET k = k + 1 $$);
SELECT indexrelname, passes, entries_deleted, heap_blocks_visited
FROM pg_stat_bunbtree WHERE relname = 'never' ORDER BY 1;
SELECT declined > 0 AS declined FROM pg_stat_bunbtree WHERE indexrelname = 'never_u';

--
-- Mode "hinted": as btree does.  A row deleted and inserted again is no hint, an
-- update that leaves the key alone is.
--
CREATE TABLE bun.hinted (k int, v int)
	WITH (autovacuum_enabled = off);
CREATE INDEX hinted_k ON bun.hinted USING bunbtree (k) WITH (bottomup = hinted);
CREATE INDEX hinted_v ON bun.hinted USING bunbtree (v) WITH (bottomup = off);
CALL churn(6,
		   $$ INSERT INTO bun.hinted SELECT i, i FROM generate_series(1, 1000) i ORDER BY hashint4(i) $$,
		   $$ DELETE FROM bun.hinted WHERE @round < 6 $$);
SELECT passes, entries_deleted FROM pg_stat_bunbtree WHERE indexrelname = 'hinted_k';
CALL churn(8, $$ UPDATE bun.hinted SET v = v + 1 $$);
SELECT * FROM summary('bun.hinted_k');

--
-- The mode changes for the next insertion
--
CREATE TABLE bun.switch (k int)
	WITH (autovacuum_enabled = off);
CREATE INDEX switch_k ON bun.switch USING bunbtree (k);
CREATE TABLE bun.switch_log (step int, what text, passes bigint);
CREATE PROCEDURE churn_and_log(what text)
LANGUAGE plpgsql
AS $$
#variable_conflict use_variable
BEGIN
	CALL churn(6,
			   'INSERT INTO bun.switch SELECT i FROM generate_series(1, 1000) i ORDER BY hashint4(i)',
			   'DELETE FROM bun.switch');
	INSERT INTO bun.switch_log
		SELECT count(*), what, (SELECT s.passes FROM pg_stat_bunbtree s WHERE indexrelname = 'switch_k')
		FROM bun.switch_log;
END
$$;
CALL churn_and_log('as made');
ALTER INDEX bun.switch_k SET (bottomup = off);
CALL churn_and_log('storage parameter: off');
ALTER INDEX bun.switch_k RESET (bottomup);
CALL churn_and_log('storage parameter: none');
SET bunbtree.bottomup = off;
CALL churn_and_log('configuration parameter: off');
ALTER INDEX bun.switch_k SET (bottomup = auto);
CALL churn_and_log('storage parameter: auto');
RESET bunbtree.bottomup;
SELECT what, passes > lag(passes, 1, 0::bigint) OVER (ORDER BY step) AS asked
FROM bun.switch_log ORDER BY step;

--
-- A pass visits a limited number of heap blocks
--
CREATE TABLE bun.limited (k int, pad text)
	WITH (autovacuum_enabled = off);
CREATE INDEX limited_k ON bun.limited USING bunbtree (k) WITH (heap_blocks = 2);
CALL churn(6,
		   $$ INSERT INTO bun.limited SELECT i, repeat('x', 100) FROM generate_series(1, 1000) i ORDER BY hashint4(i) $$,
		   $$ DELETE FROM bun.limited $$);
SELECT passes > 0 AS asked, entries_deleted > 0 AS deleted,
	   heap_blocks_visited <= 2 * passes AS within_limit
FROM pg_stat_bunbtree WHERE indexrelname = 'limited_k';

--
-- Heap blocks whose rows are all visible have nothing to delete: they are not
-- visited
--
-- (A page is all-visible only if its rows' commits have reached the disk.)
SET synchronous_commit = on;
CREATE TABLE bun.visible (k int, pad text)
	WITH (autovacuum_enabled = off);
INSERT INTO bun.visible SELECT i * 10, repeat('x', 100) FROM generate_series(1, 4000) i ORDER BY hashint4(i);
CREATE INDEX visible_k ON bun.visible USING bunbtree (k);
CALL wait_for_horizon();
VACUUM bun.visible;
DELETE FROM bun.visible WHERE ctid < '(10,0)';
CALL wait_for_horizon();
INSERT INTO bun.visible SELECT i * 10 + 5, repeat('x', 100) FROM generate_series(1, 4000) i ORDER BY hashint4(i);
SELECT passes > 0 AS asked, entries_deleted > 0 AS deleted, heap_blocks_all_visible > 0 AS skipped
FROM pg_stat_bunbtree WHERE indexrelname = 'visible_k';

--
-- An entry that is wide needs more room than passes make as a rule
--
CREATE TABLE bun.wide (k text, pad text)
	WITH (autovacuum_enabled = off);
ALTER TABLE bun.wide ALTER k SET STORAGE PLAIN, ALTER pad SET STORAGE PLAIN;
SET bunbtree.max_pass_time = 1000;
-- One leaf page, nearly full, of rows in half as many heap blocks.
INSERT INTO bun.wide SELECT 'm' || lpad(i::text, 10, '0'), repeat('x', 3000) FROM generate_series(1, 288) i;
CREATE INDEX wide_k ON bun.wide USING bunbtree (k) WITH (heap_blocks = 1400, fillfactor = 100);
SELECT pages('bun.wide_k');
DELETE FROM bun.wide WHERE k < 'm0000000288';
CALL wait_for_horizon();
INSERT INTO bun.wide SELECT 'm' || string_agg(md5(i::text), '' ORDER BY i) FROM generate_series(1, 82) i;
SELECT passes > 0 AS asked, entries_deleted > 0 AS deleted FROM pg_stat_bunbtree WHERE indexrelname = 'wide_k';
SELECT pages('bun.wide_k');
RESET bunbtree.max_pass_time;

--
-- The same, but the pass has no time for so many heap blocks: it ends when it next
-- reads the clock, and the page is split
--
CREATE TABLE bun.hasty (LIKE bun.wide INCLUDING STORAGE)
	WITH (autovacuum_enabled = off);
INSERT INTO bun.hasty SELECT 'm' || lpad(i::text, 10, '0'), repeat('x', 3000) FROM generate_series(1, 288) i;
CREATE INDEX hasty_k ON bun.hasty USING bunbtree (k) WITH (heap_blocks = 1400, fillfactor = 100);
DELETE FROM bun.hasty WHERE k < 'm0000000288';
CALL wait_for_horizon();
SET bunbtree.max_pass_time = 0.01;
INSERT INTO bun.hasty SELECT 'm' || string_agg(md5(i::text), '' ORDER BY i) FROM generate_series(1, 82) i;
RESET bunbtree.max_pass_time;
SELECT passes, heap_blocks_visited < 32 AS ended, entries_deleted > 0 AS deleted
FROM pg_stat_bunbtree WHERE indexrelname = 'hasty_k';
SELECT pages('bun.hasty_k');

--
-- Nothing was dead when the index was first used, so a pass is far off.  But an
-- insertion that fails, perhaps on a full disk, lets the next one ask at once
--
CREATE TABLE bun.failing (k int)
	WITH (autovacuum_enabled = off);
INSERT INTO bun.failing SELECT 10 * i FROM generate_series(1, 400) i;
CREATE UNIQUE INDEX failing_k ON bun.failing USING bunbtree (k) WITH (fillfactor = 100);
INSERT INTO bun.failing VALUES (1);
DELETE FROM bun.failing WHERE k BETWEEN 100 AND 3000;
CALL wait_for_horizon();
INSERT INTO bun.failing VALUES (4000);
INSERT INTO bun.failing SELECT 10 * i + 1 FROM generate_series(1, 10) i;
SELECT passes, entries_deleted > 0 AS deleted FROM pg_stat_bunbtree WHERE indexrelname = 'failing_k';
SELECT pages('bun.failing_k');

--
-- Dead entries that an index scan has met are btree's to delete, in every
-- mode; that is counted apart
--
CREATE TABLE bun.simple (k int)
	WITH (autovacuum_enabled = off);
CREATE INDEX simple_k ON bun.simple USING bunbtree (k) WITH (bottomup = off);
INSERT INTO bun.simple SELECT i FROM generate_series(1, 1000) i;
DELETE FROM bun.simple WHERE k % 2 = 0;
CALL wait_for_horizon();
SET enable_seqscan = off;
SET enable_indexscan = on;
SELECT count(k) FROM bun.simple WHERE k > 0;
RESET enable_seqscan;
SET enable_indexscan = off;
INSERT INTO bun.simple SELECT i FROM generate_series(1, 1000) i;
SELECT passes, entries_deleted, entries_simple_deleted > 0 AS simple_deleted
FROM pg_stat_bunbtree WHERE indexrelname = 'simple_k';

SELECT check_indexes('bun');
DROP SCHEMA bt, bun CASCADE;
DROP PROCEDURE churn, churn_and_log;
DROP FUNCTION summary;
