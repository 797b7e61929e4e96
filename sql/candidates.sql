--
-- Estimates: how large would an index be when built anew, and which ones should be
-- bunbtree?
--
SET client_min_messages = warning;
-- in case an earlier run was interrupted
DROP ROLE IF EXISTS regress_bunbtree_user;
RESET client_min_messages;
CREATE SCHEMA candidates;
SET search_path = candidates, public;
CREATE EXTENSION pgstattuple;
-- How good are the estimates of a fresh build?  "info" reads the index,
-- "candidates" goes by statistics.
CREATE TABLE est (id int, k int, low int, pad text, num numeric, skew int)
	WITH (autovacuum_enabled = off);
INSERT INTO est
	SELECT i, hashint4(i), i % 50, md5(i::text), i / 10.0, CASE WHEN i % 20 = 0 THEN i END
	FROM generate_series(1, 20000) i ORDER BY hashint4(i);
CREATE INDEX est_id ON est (id);
CREATE INDEX est_k ON est (k) WITH (fillfactor = 70);
CREATE INDEX est_low ON est (low);
CREATE INDEX est_low_off ON est (low) WITH (deduplicate_items = off);
CREATE INDEX est_low_k ON est (low, k);
CREATE INDEX est_pad ON est (pad) INCLUDE (id);
CREATE INDEX est_lower ON est (lower(pad));
CREATE INDEX est_num ON est (num);
CREATE INDEX est_third ON est ((id / 3));
CREATE INDEX est_some ON est (k) WHERE low = 7;
CREATE INDEX est_skew ON est (skew);
CREATE INDEX est_none ON est (k) WHERE low = -1;
CREATE UNIQUE INDEX est_unique ON est (id, low);
SELECT bool_and(adopted) FROM bunbtree_adopt_table('est');
-- half of the rows go and come back, twice, bloating the indexes a little
SET bunbtree.bottomup = off;
DO $$
BEGIN
	FOR i IN 1 .. 2 LOOP
		UPDATE est SET id = id, k = k, low = low, pad = pad, num = num, skew = skew
			WHERE id % 2 = i - 1;
	END LOOP;
END
$$;
RESET bunbtree.bottomup;
CALL wait_for_horizon();
VACUUM ANALYZE est;
SELECT pg_stat_force_next_flush();
SELECT count(bunbtree_release(indexrelid)) FROM pg_index WHERE indrelid = 'est'::regclass;
CREATE TEMP TABLE estimates AS
	SELECT indexrelname AS index, indexrelid, c.index_size, i.fresh_size AS info,
		c.fresh_size AS candidates, i.times_fresh, c.expected_gain
	FROM bunbtree_candidates c, bunbtree_index_info(c.indexrelid) i
	WHERE relname = 'est';
REINDEX TABLE est;
-- Within 15 %, or a page.  But "info" takes equal keys for what they need now, and
-- pages that have not been full yet have not merged theirs: it is up to 40 % too
-- high where keys have few duplicates.
SELECT index,
	abs(info - size) <= greatest(tolerance * size, 8192) AS info_good,
	abs(candidates - size) <= greatest(0.15 * size, 8192) AS candidates_good,
	abs(times_fresh - index_size::numeric / size) <= tolerance * times_fresh
		OR index_size <= 5 * 8192 AS times_good
	FROM estimates, pg_relation_size(indexrelid) size,
		LATERAL (SELECT CASE index WHEN 'est_third' THEN 0.4 ELSE 0.15 END) o (tolerance)
	ORDER BY index;
SELECT max(times_fresh) > 1.5 AS were_bloated FROM estimates;

CREATE TABLE never (a int) WITH (autovacuum_enabled = off);
CREATE INDEX never_analyzed ON never (a);
CREATE TABLE empty (a int) WITH (autovacuum_enabled = off);
CREATE INDEX empty_a ON empty (a);
INSERT INTO empty VALUES (1);
ANALYZE empty;
CREATE TABLE p (a int PRIMARY KEY, b int) PARTITION BY RANGE (a);
CREATE TABLE p1 PARTITION OF p FOR VALUES FROM (0) TO (10);
CREATE INDEX p_b ON p (b);
SELECT schemaname, relname, indexrelname, fresh_size, expected_gain, refusal
	FROM bunbtree_candidates
	WHERE relname IN ('p', 'p1', 'never', 'empty') ORDER BY indexrelname;
SELECT count(*) AS of_catalogs FROM bunbtree_candidates WHERE schemaname LIKE 'pg_%' OR indexrelid < 16384;
SELECT count(*) AS not_btree FROM bunbtree_candidates c JOIN pg_class i ON i.oid = c.indexrelid
	WHERE relam <> (SELECT oid FROM pg_am WHERE amname = 'btree');
-- What was churned and bloated comes first.
SELECT (SELECT expected_gain FROM estimates WHERE index = 'est_id') > 0 AS gain;
SELECT bool_and(expected_gain <= before)
	FROM (SELECT expected_gain, lag(expected_gain) OVER () AS before FROM bunbtree_candidates
		  WHERE expected_gain IS NOT NULL) c;

-- Who may.
CREATE ROLE regress_bunbtree_user;
SET ROLE regress_bunbtree_user;
TABLE bunbtree_candidates;
RESET ROLE;
GRANT pg_monitor TO regress_bunbtree_user;
SET ROLE regress_bunbtree_user;
SELECT count(*) > 10 AS candidates FROM bunbtree_candidates;
RESET ROLE;
DROP ROLE regress_bunbtree_user;

SET client_min_messages = warning;
DROP EXTENSION pgstattuple;
DROP SCHEMA candidates CASCADE;
