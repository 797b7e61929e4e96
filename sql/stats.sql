--
-- Counters: pg_stat_bunbtree, exactly, for insertions of known outcome
--
SET client_min_messages = warning;
CREATE SCHEMA bun;
-- Scans of these tests must not mark dead entries.
SET enable_indexscan = off;
SET enable_bitmapscan = off;

-- What has been counted for an index, by kind of insertion, without zeroes and
-- without times.
CREATE FUNCTION counted(index regclass) RETURNS TABLE (kind text, counters text)
LANGUAGE sql
AS $$
	SELECT s.kind, string_agg(format('%s %s', value, key), ', ' ORDER BY n)
	FROM bunbtree_counters() s,
		 json_each_text(to_json(s)) WITH ORDINALITY e(key, value, n)
	WHERE s.index = counted.index AND value <> '0'
		  AND key NOT IN ('kind', 'index', 'longest_pass', 'pass_time', 'last_pass', 'stats_reset')
	GROUP BY s.kind
	ORDER BY s.kind;
$$;

-- Nothing yet.
CREATE TABLE bun.quiet (k int);
CREATE INDEX quiet_k ON bun.quiet USING bunbtree (k);
SELECT * FROM pg_stat_bunbtree WHERE relname = 'quiet' \gdesc
SELECT schemaname, relname, indexrelname, relid::regclass, indexrelid::regclass,
	   passes, declined, entries_deleted, splits, longest_pass, pass_time, last_pass, stats_reset
FROM pg_stat_bunbtree WHERE relname = 'quiet';
INSERT INTO bun.quiet VALUES (1);
SELECT * FROM counted('bun.quiet_k');
SELECT passes, declined, last_pass, stats_reset <= now() AS since
FROM pg_stat_bunbtree WHERE relname = 'quiet';

-- A leaf page has room for 407 entries of an int, as long as it is the only one:
-- 8,152 bytes, 20 for each.  226 rows of an int are in a heap block.


-- A table whose rows are dead is reason enough to ask from the first insertion on.
CREATE PROCEDURE make_churned(name text, options text DEFAULT '')
LANGUAGE plpgsql
AS $$
BEGIN
	EXECUTE format('CREATE TABLE bun.%I (k int, pad text) WITH (autovacuum_enabled = off)', name);
	EXECUTE format('ALTER TABLE bun.%I ALTER pad SET STORAGE PLAIN', name);
	EXECUTE format('INSERT INTO bun.%I SELECT generate_series(-100, -1)', name);
	COMMIT;
	EXECUTE format('DELETE FROM bun.%I', name);
	COMMIT;
	CALL wait_for_horizon();
	COMMIT;
	EXECUTE format('CREATE INDEX %I ON bun.%I USING bunbtree (k) %s', name || '_k', name, options);
END
$$;

-- 200 of them are dead, in the heap block that has most of them.  The 408th
-- insertion has a pass, which needs to visit no other.
CALL make_churned('averted');
INSERT INTO bun.averted SELECT generate_series(1, 407);
DELETE FROM bun.averted WHERE k BETWEEN 127 AND 326;
CALL wait_for_horizon();
INSERT INTO bun.averted SELECT generate_series(408, 408 + 199);
SELECT * FROM counted('bun.averted_k');
SELECT pages('bun.averted_k');
-- It has made room for 200.  All that is there now is live.
INSERT INTO bun.averted VALUES (0);
SELECT * FROM counted('bun.averted_k');
SELECT pages('bun.averted_k');

-- Rows that the same transaction has deleted may go when it has ended.
CALL make_churned('blocked');
INSERT INTO bun.blocked SELECT generate_series(1, 407);
BEGIN;
DELETE FROM bun.blocked;
INSERT INTO bun.blocked VALUES (408);
SELECT * FROM counted('bun.blocked_k');
ROLLBACK;

-- Updates that leave a key alone are hinted.
CREATE TABLE bun.hinted (k int, v int) WITH (autovacuum_enabled = off);
CREATE INDEX hinted_k ON bun.hinted USING bunbtree (k);
CREATE INDEX hinted_v ON bun.hinted USING btree (v);
INSERT INTO bun.hinted SELECT i, i FROM generate_series(1, 407) i;
CALL wait_for_horizon();
UPDATE bun.hinted SET v = -1 WHERE k = 1;
UPDATE bun.hinted SET v = -1 WHERE k = 1;
SELECT * FROM counted('bun.hinted_k');

-- Duplicates: deduplication makes room.
CALL make_churned('dups');
INSERT INTO bun.dups SELECT i % 100 FROM generate_series(1, 408) i;
SELECT * FROM counted('bun.dups_k');
SELECT pages('bun.dups_k');

-- Entries that a scan has marked dead.
CREATE TABLE bun.simple (k int) WITH (autovacuum_enabled = off);
CREATE INDEX simple_k ON bun.simple USING bunbtree (k);
INSERT INTO bun.simple SELECT generate_series(1, 407);
DELETE FROM bun.simple WHERE k % 4 = 0;
CALL wait_for_horizon();
SET enable_seqscan = off;
SET enable_indexscan = on;
SELECT count(*) FROM (SELECT k FROM bun.simple WHERE k > 0 ORDER BY k) s;
RESET enable_seqscan;
SET enable_indexscan = off;
INSERT INTO bun.simple VALUES (408);
SELECT * FROM counted('bun.simple_k');

-- Switched off: on unique indexes btree would have looked after a duplicate.
CREATE TABLE bun.off (k int) WITH (autovacuum_enabled = off);
CREATE UNIQUE INDEX off_k ON bun.off USING bunbtree (k) WITH (bottomup = off);
INSERT INTO bun.off SELECT generate_series(1, 407);
DELETE FROM bun.off WHERE k = 1;
CALL wait_for_horizon();
BEGIN;
INSERT INTO bun.off VALUES (1);
DELETE FROM bun.off WHERE k = 1;
INSERT INTO bun.off VALUES (1);
COMMIT;
SELECT * FROM counted('bun.off_k');

-- Each pass has come out as one thing, and totals are those of the kinds.
SELECT every(passes = splits_averted + dedups + splits) AS outcomes,
	   every(passes_productive <= passes) AS productive,
	   every((last_pass IS NULL) = (passes = 0) AND (longest_pass = 0) = (passes = 0)) AS last_pass,
	   sum(passes) > 0 AS passes
FROM pg_stat_bunbtree;
SELECT v.indexrelname, v.key, v.value, k.value
FROM (SELECT indexrelid, indexrelname, key, value::numeric
	  FROM pg_stat_bunbtree s, jsonb_each_text(to_jsonb(s))
	  WHERE key NOT IN ('schemaname', 'relname', 'indexrelname', 'relid', 'indexrelid',
						'longest_pass', 'last_pass', 'compact_runs', 'leaves_merged', 'last_compact',
						'stats_reset')
			AND schemaname = 'bun') v
	 FULL JOIN
	 (SELECT index, name AS key, sum(value::numeric) AS value
	  FROM bunbtree_counters() c, jsonb_each_text(to_jsonb(c)),
		   LATERAL (VALUES (key), (CASE WHEN key IN ('passes', 'passes_productive', 'declined')
								   THEN key || '_' || c.kind END)) n(name)
	  WHERE key NOT IN ('index', 'kind', 'longest_pass', 'last_pass', 'compact_runs', 'leaves_merged',
						'last_compact', 'stats_reset')
			AND name IS NOT NULL
			AND index IN (SELECT oid FROM pg_class WHERE relnamespace = 'bun'::regnamespace)
	  GROUP BY index, name) k ON k.index = v.indexrelid AND k.key = v.key
WHERE v.value IS DISTINCT FROM k.value;

-- Time is only taken if asked for.
SELECT sum(pass_time) FROM pg_stat_bunbtree;
-- The longest pass is always measured; forget those before.
SELECT pg_stat_reset_bunbtree(indexrelid) FROM pg_stat_bunbtree WHERE relname = 'averted';
SET bunbtree.track_timing = on;
INSERT INTO bun.averted SELECT generate_series(1000, 3000);
DELETE FROM bun.averted;
CALL wait_for_horizon();
INSERT INTO bun.averted SELECT generate_series(1, 3000);
SELECT pass_time > 0 AS timed, longest_pass <= 1000 * pass_time AS plausible
FROM pg_stat_bunbtree WHERE relname = 'averted';
RESET bunbtree.track_timing;

-- A pass gives up after 16 heap blocks if it gets less out of them than it should:
-- here there are four rows in each, and one of them is dead.
CALL make_churned('scattered', 'WITH (heap_blocks = 1400, min_yield = 2)');
CALL make_churned('content', 'WITH (heap_blocks = 1400, min_yield = 0.9)');
SET bunbtree.max_pass_time = 1000;
INSERT INTO bun.scattered SELECT i, repeat('x', 1900) FROM generate_series(1, 407) i;
INSERT INTO bun.content SELECT i, repeat('x', 1900) FROM generate_series(1, 407) i;
DELETE FROM bun.scattered WHERE k % 4 = 0;
DELETE FROM bun.content WHERE k % 4 = 0;
CALL wait_for_horizon();
INSERT INTO bun.scattered VALUES (408);
INSERT INTO bun.content VALUES (408);
SELECT * FROM counted('bun.scattered_k');
SELECT * FROM counted('bun.content_k');
RESET bunbtree.max_pass_time;

-- Reset: one index, or all.
SELECT pg_stat_reset_bunbtree('bun.averted_k');
SELECT relname, passes > 0 AS passes, last_pass IS NOT NULL AS last_pass
FROM pg_stat_bunbtree WHERE relname IN ('averted', 'dups') ORDER BY relname;
SELECT count(*) FROM counted('bun.averted_k');
SELECT clock_timestamp() AS before_reset \gset
SELECT pg_stat_reset_bunbtree();
SELECT every(stats_reset >= :'before_reset') AS reset, sum(passes) AS passes, sum(declined) AS declined,
	   max(longest_pass) AS longest_pass, max(last_pass) AS last_pass
FROM pg_stat_bunbtree;
-- bunbtree indexes only.
SELECT pg_stat_reset_bunbtree('bun.hinted_v');
SELECT pg_stat_reset_bunbtree('bun.hinted');
SELECT pg_stat_reset_bunbtree(0);

-- Everyone may look, few may reset.
CREATE ROLE regress_bunbtree_user;
SET ROLE regress_bunbtree_user;
SELECT count(*) > 0 AS visible FROM pg_stat_bunbtree;
SELECT pg_stat_reset_bunbtree();
RESET ROLE;
GRANT EXECUTE ON FUNCTION pg_stat_reset_bunbtree(regclass) TO regress_bunbtree_user;
SET ROLE regress_bunbtree_user;
SELECT pg_stat_reset_bunbtree();
RESET ROLE;
REVOKE EXECUTE ON FUNCTION pg_stat_reset_bunbtree(regclass) FROM regress_bunbtree_user;
DROP ROLE regress_bunbtree_user;

-- Counters follow the index, not its name; what rebuilds it in place keeps them,
-- REINDEX CONCURRENTLY makes another index.
INSERT INTO bun.quiet VALUES (2);
SELECT declined FROM pg_stat_bunbtree WHERE relname = 'quiet';
ALTER INDEX bun.quiet_k RENAME TO silent_k;
REINDEX INDEX bun.silent_k;
TRUNCATE bun.quiet;
INSERT INTO bun.quiet VALUES (3);
SELECT indexrelname, declined FROM pg_stat_bunbtree WHERE relname = 'quiet';
REINDEX INDEX CONCURRENTLY bun.silent_k;
INSERT INTO bun.quiet VALUES (4);
SELECT indexrelname, declined FROM pg_stat_bunbtree WHERE relname = 'quiet';

-- What is left of an index that is gone goes when VACUUM comes by; of one whose
-- creation was rolled back, too.  Not so if the transaction that drops it may
-- still be rolled back.
CREATE TABLE bun.gone (k int);
CREATE INDEX gone_k ON bun.gone USING bunbtree (k);
INSERT INTO bun.gone VALUES (1);
SELECT 'bun.gone_k'::regclass::oid AS gone_k \gset
BEGIN;
CREATE INDEX never_k ON bun.gone USING bunbtree (k);
INSERT INTO bun.gone VALUES (2);
SELECT 'bun.never_k'::regclass::oid AS never_k \gset
SELECT count(*) FROM bunbtree_counters() WHERE index IN (:gone_k, :never_k);
ROLLBACK;
BEGIN;
DROP INDEX bun.gone_k;
ROLLBACK;
INSERT INTO bun.gone VALUES (3);
SELECT declined FROM pg_stat_bunbtree WHERE relname = 'gone';
DROP INDEX bun.gone_k;
VACUUM bun.averted;
SELECT count(*) FROM bunbtree_counters() WHERE index IN (:gone_k, :never_k);

DROP INDEX bun.hinted_v;
SELECT check_indexes('bun');
DROP SCHEMA bun CASCADE;
DROP FUNCTION counted;
DROP PROCEDURE make_churned;
