--
-- Compaction.
--
SET client_min_messages = warning;
-- in case an earlier run was interrupted
DROP ROLE IF EXISTS regress_bunbtree_user;
DROP ROLE IF EXISTS regress_bunbtree_owner;
CREATE SCHEMA compact;
SET search_path = compact, public;
CREATE EXTENSION pgstattuple SCHEMA public;
SET synchronous_commit = on;

-- A low fillfactor makes the leaf pages that deletions would leave.
CREATE TABLE t (k int, v text, n int, u uuid) WITH (autovacuum_enabled = off);
INSERT INTO t
	SELECT i, 'text ' || i, nullif(i % 50, 0), md5(i::text)::uuid
	FROM generate_series(1, 20000) i;
CREATE INDEX t_k ON t USING bunbtree (k) WITH (fillfactor = 20);
CREATE INDEX t_btree ON t USING btree (k) WITH (fillfactor = 20);

-- Where it is advised: not as long as the index is as full as it should be.
CREATE INDEX t_denser ON t USING btree (k, v, u) WITH (fillfactor = 60);
ANALYZE t;
SELECT index, advice FROM unnest('{t_k,t_btree,t_denser}'::regclass[]) index, bunbtree_index_info(index);
SELECT indexrelname, try_compact FROM bunbtree_candidates WHERE relname = 't' ORDER BY 1;
ALTER INDEX t_k SET (fillfactor = 90);
ALTER INDEX t_btree SET (fillfactor = 90);
ALTER INDEX t_denser SET (fillfactor = 90);
SELECT index, advice, i.leaf_pages_after = e.leaf_pages_after AS as_estimated
	FROM unnest('{t_k,t_btree,t_denser}'::regclass[]) index, bunbtree_index_info(index) i,
		bunbtree_compact_estimate(index) e;
SELECT indexrelname, try_compact FROM bunbtree_candidates WHERE relname = 't' ORDER BY 1;
DROP INDEX t_denser;

-- What it would do, and what it does.
SELECT index, e.leaf_pages > 200 AS sparse, e.leaf_pages_after < 70 AS dense,
	bytes_reusable = 8192 * (e.leaf_pages - e.leaf_pages_after) AS bytes
	FROM unnest('{t_k,t_btree}'::regclass[]) index, bunbtree_compact_estimate(index) e;
CREATE TEMP TABLE estimate AS SELECT * FROM bunbtree_compact_estimate('t_k');
RESET client_min_messages;
\set VERBOSITY terse
CALL bunbtree_compact('t_k', pause => '0');
CALL bunbtree_compact('t_btree', pause => '0');
-- again: nothing is left to do
CALL bunbtree_compact('t_k', pause => '0');
\set VERBOSITY default
SET client_min_messages = warning;
SELECT index, i.avg_leaf_density BETWEEN 75 AND 90.1 AS dense,
	i.leaf_pages = e.leaf_pages_after AS as_estimated,
	i.deleted_pages = e.leaf_pages - i.leaf_pages AS all_deleted, i.advice
	FROM unnest('{t_k,t_btree}'::regclass[]) index, bunbtree_index_info(index) i, estimate e;
-- What is counted, for bunbtree indexes.
SELECT indexrelname, compact_runs, leaves_merged = leaf_pages - leaf_pages_after AS leaves_merged,
	last_compact BETWEEN now() - interval '10 min' AND now() AS last_compact, passes
	FROM pg_stat_bunbtree, estimate WHERE relname = 't';
SELECT pg_stat_reset_bunbtree('t_k');
SELECT compact_runs, leaves_merged, last_compact FROM pg_stat_bunbtree WHERE indexrelname = 't_k';
SELECT bunbtree_check('t_k', true, true);
SELECT bt_index_parent_check('t_btree', true, true);

-- Four pages are nearer to "fill" than three, but beyond it.
CREATE INDEX t_near ON t USING btree (k) WITH (fillfactor = 23);
CALL bunbtree_compact('t_near', pause => '0', fill => 0.88);
SELECT avg_leaf_density > 80 AS near, e.leaf_pages = e.leaf_pages_after AS done
	FROM pgstatindex('t_near'), bunbtree_compact_estimate('t_near', 0.88) e;
SELECT bt_index_parent_check('t_near', true, true);
DROP INDEX t_near;

-- The same rows through the index, in the same order.
DROP INDEX t_btree;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_sort = off;
EXPLAIN (COSTS OFF) SELECT k FROM t WHERE k > 0 ORDER BY k;
SELECT count(*), bool_and(k = row) AS in_order
	FROM (SELECT k, row_number() OVER () AS row FROM (SELECT k FROM t WHERE k > 0 ORDER BY k) s) s;
SELECT count(*), bool_and(k = 20001 - row) AS in_order
	FROM (SELECT k, row_number() OVER () AS row FROM (SELECT k FROM t WHERE k > 0 ORDER BY k DESC) s) s;
RESET enable_seqscan;
RESET enable_bitmapscan;
RESET enable_sort;

-- Pages that are deleted are used again: at once, or, if somebody had an older
-- snapshot, after VACUUM.
CREATE TEMP TABLE size AS SELECT pg_relation_size('t_k') AS before;
CALL wait_for_horizon();
VACUUM t;
INSERT INTO t (k) SELECT 20000 + i FROM generate_series(1, 20000) i;
SELECT pg_relation_size('t_k') = before AS no_growth FROM size;

-- Any kind of index, compacted, changed and compacted again.  From a procedure,
-- because CALL in a loop is one.
CREATE INDEX kind_text ON t USING bunbtree (v COLLATE "C") WITH (fillfactor = 15);
CREATE UNIQUE INDEX kind_uuid ON t USING bunbtree (u) WITH (fillfactor = 15);
CREATE INDEX kind_posting ON t USING bunbtree (n) WITH (fillfactor = 15);
CREATE INDEX kind_no_posting ON t USING bunbtree (n) WITH (fillfactor = 15, deduplicate_items = off);
CREATE INDEX kind_desc ON t USING bunbtree (n DESC NULLS LAST, k) WITH (fillfactor = 15);
CREATE INDEX kind_include ON t USING bunbtree (k) INCLUDE (v) WITH (fillfactor = 15);
CREATE INDEX kind_deep ON t USING bunbtree (rpad(k::text, 480, 'x') COLLATE "C") WITH (fillfactor = 20) WHERE k <= 10000;
CREATE UNLOGGED TABLE kind_u AS TABLE t;
CREATE INDEX kind_unlogged ON kind_u USING bunbtree (k) WITH (fillfactor = 15);
CREATE TEMP TABLE kind_t AS TABLE t;
CREATE INDEX kind_temporary ON kind_t USING bunbtree (k) WITH (fillfactor = 15);
SELECT tree_level > 3 AS deep FROM bunbtree_index_info('kind_deep');

CREATE TABLE found (index text, round int, leaves_before bigint, leaves_after bigint);
CREATE PROCEDURE round(round int)
LANGUAGE plpgsql
AS $$
DECLARE
	index regclass;
	leaves bigint;
BEGIN
	FOR index IN SELECT oid FROM pg_class WHERE relname LIKE 'kind\_%' AND relkind = 'i' ORDER BY relname
	LOOP
		leaves := (bunbtree_compact_estimate(index)).leaf_pages;
		CALL bunbtree_compact(index, pause => '0', fill => CASE round WHEN 1 THEN 0.9 ELSE 1.0 END);
		INSERT INTO found
			SELECT index::text, round, leaves, (bunbtree_compact_estimate(index)).leaf_pages;
		PERFORM bunbtree_check(index, true, true);
	END LOOP;
END
$$;
CALL round(1);
DELETE FROM t WHERE k % 7 < 5;
DELETE FROM kind_u WHERE k % 7 < 5;
DELETE FROM kind_t WHERE k % 7 < 5;
CALL wait_for_horizon();
VACUUM t, kind_u, kind_t;
CALL round(2);
INSERT INTO t SELECT i, 'text ' || i, nullif(i % 50, 0), md5('again' || i)::uuid FROM generate_series(1, 20000, 3) i;
INSERT INTO kind_u SELECT i FROM generate_series(1, 20000, 3) i;
INSERT INTO kind_t SELECT i FROM generate_series(1, 20000, 3) i;
DELETE FROM t WHERE k BETWEEN 5000 AND 15000;
CALL round(3);
CALL wait_for_horizon();
VACUUM t;
CALL round(4);
SELECT index, array_agg(leaves_after < leaves_before ORDER BY round) AS fewer
	FROM found GROUP BY index ORDER BY index COLLATE "C";

-- An empty index, one of a single page, and one without any rows left.
CREATE TABLE small (k int) WITH (autovacuum_enabled = off);
CREATE INDEX small_k ON small USING bunbtree (k);
SELECT * FROM bunbtree_compact_estimate('small_k');
CALL bunbtree_compact('small_k');
INSERT INTO small SELECT generate_series(1, 10);
SELECT * FROM bunbtree_compact_estimate('small_k');
CALL bunbtree_compact('small_k');
INSERT INTO small SELECT generate_series(11, 10000);
DELETE FROM small;
VACUUM small;
CALL bunbtree_compact('small_k');
SELECT bunbtree_check('small_k', true, true);

-- The index of a TOAST table.
CREATE TABLE toasted (k int, v text) WITH (autovacuum_enabled = off);
ALTER TABLE toasted ALTER v SET STORAGE EXTERNAL;
INSERT INTO toasted SELECT i, repeat(chr(65 + i % 26), 7900) FROM generate_series(1, 1500) i;
DELETE FROM toasted WHERE hashint4(k) % 5 <> 0;
CALL wait_for_horizon();
VACUUM toasted;
SELECT indexrelid AS toast_index FROM pg_index
	WHERE indrelid = (SELECT reltoastrelid FROM pg_class WHERE oid = 'toasted'::regclass) \gset
SELECT leaf_pages AS before FROM bunbtree_compact_estimate(:toast_index) \gset
CALL bunbtree_compact(:toast_index, pause => '0');
SELECT leaf_pages < :before / 2 AS merged FROM bunbtree_compact_estimate(:toast_index);
SELECT bt_index_parent_check(:toast_index, true, true);
SELECT bool_and(v = repeat(chr(65 + k % 26), 7900)) AS intact FROM toasted;

-- Cancelled between slices: what is done stays done, the index is intact.
CREATE INDEX t_cancel ON t USING bunbtree (k) WITH (fillfactor = 15);
SELECT leaf_pages AS before FROM bunbtree_compact_estimate('t_cancel') \gset
SET statement_timeout = '1s';
CALL bunbtree_compact('t_cancel', max_pages => 31, pause => '1 hour');
RESET statement_timeout;
SELECT leaf_pages < :before AS begun, leaf_pages_after < leaf_pages AS unfinished
	FROM bunbtree_compact_estimate('t_cancel');
SELECT indisvalid FROM pg_index WHERE indexrelid = 't_cancel'::regclass;
SELECT bunbtree_check('t_cancel', true, true);
SELECT count(*) FROM bunbtree_progress_compact;

-- Limited: ends, and is no error.
RESET client_min_messages;
CREATE INDEX t_limited ON t USING bunbtree (k) WITH (fillfactor = 50);
\set VERBOSITY terse
CALL bunbtree_compact('t_limited', max_runtime => '0');
\set VERBOSITY default
SELECT count(*) FROM bunbtree_progress_compact;

-- What slices set for themselves does not outlive them.
SHOW synchronous_commit;

-- What is refused.
BEGIN;
CALL bunbtree_compact('t_k');
\echo :LAST_ERROR_SQLSTATE
ROLLBACK;
CREATE FUNCTION in_function() RETURNS void LANGUAGE plpgsql AS $$ BEGIN CALL bunbtree_compact('t_k'); END $$;
SELECT in_function();
\echo :LAST_ERROR_SQLSTATE
DO $$ BEGIN CALL bunbtree_compact('t_k'); EXCEPTION WHEN division_by_zero THEN END $$;
\echo :LAST_ERROR_SQLSTATE
CALL bunbtree_compact('t');
\echo :LAST_ERROR_SQLSTATE
CREATE INDEX t_hash ON t USING hash (k);
CALL bunbtree_compact('t_hash');
\echo :LAST_ERROR_SQLSTATE
SELECT bunbtree_compact_estimate('t_hash');
CREATE TABLE p (k int) PARTITION BY RANGE (k);
CREATE INDEX p_k ON p USING bunbtree (k);
CALL bunbtree_compact('p_k');
\echo :LAST_ERROR_SQLSTATE
CALL bunbtree_compact('pg_class_oid_index');
\echo :LAST_ERROR_SQLSTATE
CREATE TABLE twice (k int);
INSERT INTO twice VALUES (1), (1);
CREATE UNIQUE INDEX CONCURRENTLY twice_k ON twice USING bunbtree (k);
CALL bunbtree_compact('twice_k');
\echo :LAST_ERROR_SQLSTATE
CALL bunbtree_compact(0);
\echo :LAST_ERROR_SQLSTATE
CALL bunbtree_compact('t_k', NULL);
\echo :LAST_ERROR_SQLSTATE
CALL bunbtree_compact('t_k', fill => 0.05);
\echo :LAST_ERROR_SQLSTATE
CALL bunbtree_compact('t_k', fill => 'NaN');
CALL bunbtree_compact('t_k', max_pages => 1);
\echo :LAST_ERROR_SQLSTATE
CALL bunbtree_compact('t_k', pause => '-1 s');
\echo :LAST_ERROR_SQLSTATE

-- For the owner, and an estimate for those who may read statistics, too.
CREATE ROLE regress_bunbtree_user;
CREATE ROLE regress_bunbtree_owner;
GRANT USAGE ON SCHEMA compact TO regress_bunbtree_user, regress_bunbtree_owner;
CREATE TABLE owned AS SELECT generate_series(1, 2000) AS k;
CREATE INDEX owned_k ON owned USING bunbtree (k) WITH (fillfactor = 30);
ALTER TABLE owned OWNER TO regress_bunbtree_owner;
SET ROLE regress_bunbtree_user;
CALL bunbtree_compact('owned_k');
\echo :LAST_ERROR_SQLSTATE
SELECT bunbtree_compact_estimate('owned_k');
\echo :LAST_ERROR_SQLSTATE
SET bunbtree.compact_untested = on;
RESET ROLE;
GRANT pg_stat_scan_tables TO regress_bunbtree_user;
SET ROLE regress_bunbtree_user;
SELECT leaf_pages > leaf_pages_after AS sparse FROM bunbtree_compact_estimate('owned_k');
CALL bunbtree_compact('owned_k');
SET ROLE regress_bunbtree_owner;
\set VERBOSITY terse
CALL bunbtree_compact('owned_k');
\set VERBOSITY default
RESET ROLE;

SET client_min_messages = warning;
DROP SCHEMA compact CASCADE;
DROP EXTENSION pgstattuple;
DROP ROLE regress_bunbtree_user, regress_bunbtree_owner;
