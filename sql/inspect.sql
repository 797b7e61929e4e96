--
-- What pgstattuple and pageinspect say of bunbtree indexes.
--
SET client_min_messages = warning;
-- in case an earlier run was interrupted
DROP ROLE IF EXISTS regress_bunbtree_user;
RESET client_min_messages;
CREATE SCHEMA inspect;
SET search_path = inspect, public;

CREATE TABLE t (a int, b text) WITH (autovacuum_enabled = off);
INSERT INTO t SELECT i % 1000, 'b' || i FROM generate_series(1, 10000) i;
CREATE INDEX t_btree ON t USING btree (a, b) WITH (fillfactor = 75);
CREATE INDEX t_bunbtree ON t USING bunbtree (a, b) WITH (fillfactor = 75);
CREATE INDEX t_hash ON t USING hash (a);
CREATE TABLE p (a int) PARTITION BY RANGE (a);
CREATE INDEX p_a ON p USING bunbtree (a);

-- Without these extensions.
SELECT bunbtree_index_info('t_bunbtree');
SELECT bunbtree_page_items('t_bunbtree', 1);
CREATE SCHEMA elsewhere;
CREATE EXTENSION pgstattuple SCHEMA elsewhere;
CREATE EXTENSION pageinspect SCHEMA elsewhere;

-- The same as of a btree index with the same rows.
CREATE TEMP TABLE info AS SELECT * FROM elsewhere.pgstatindex('t_btree'::regclass);
CREATE TEMP TABLE items (n, tid, len, nulls, vars, data, dead, htid, tids) AS
	SELECT * FROM elsewhere.bt_page_items('t_btree', 1);
SELECT leaf_pages > 10 AS pages FROM info;
SELECT count(*) > 10 AS items FROM items;
SELECT index, to_jsonb(i) @> to_jsonb(info) AS same, i.fillfactor,
	i.fresh_size = i.index_size AS fresh, i.times_fresh
	FROM unnest('{t_btree,t_bunbtree}'::regclass[]) index, bunbtree_index_info(index) i, info;
SELECT index, (SELECT count(*) FROM (
		(TABLE items EXCEPT ALL SELECT * FROM bunbtree_page_items(index, 1))
		UNION ALL (SELECT * FROM bunbtree_page_items(index, 1) EXCEPT ALL TABLE items)) d) AS differences
	FROM unnest('{t_btree,t_bunbtree}'::regclass[]) index;

-- The disguise is gone afterwards, also after an error.
SELECT elsewhere.pgstatindex('t_bunbtree'::regclass);
DO $$
BEGIN
	PERFORM bunbtree_page_items('t_bunbtree', 1000000);
EXCEPTION WHEN OTHERS THEN
	RAISE NOTICE '%', regexp_replace(sqlerrm, '1000000 is ', '');
END
$$;
SELECT elsewhere.pgstatindex('t_bunbtree'::regclass);
INSERT INTO t SELECT i, 'x' FROM generate_series(1, 1000) i;
SELECT bunbtree_check('t_bunbtree', true, true);

-- Indexes without rows.
CREATE INDEX t_none ON t USING bunbtree (a) WHERE a < 0;
SELECT index_size / 8192 AS pages, leaf_pages, fresh_size / 8192 AS fresh_pages, times_fresh
	FROM bunbtree_index_info('t_none');
BEGIN;
INSERT INTO t VALUES (-1);
ROLLBACK;
VACUUM t;
SELECT index_size / 8192 AS pages, leaf_pages, fresh_size / 8192 AS fresh_pages, times_fresh
	FROM bunbtree_index_info('t_none');

-- Others.
SELECT bunbtree_index_info('t_hash');
SELECT bunbtree_index_info('t');
SELECT bunbtree_index_info('p_a');
SELECT bunbtree_page_items('t_hash', 1);
SELECT bunbtree_page_items('t_bunbtree', 0);
CREATE ROLE regress_bunbtree_user;
GRANT USAGE ON SCHEMA inspect TO regress_bunbtree_user;
SET ROLE regress_bunbtree_user;
SELECT bunbtree_index_info('t_bunbtree');
SELECT bunbtree_page_items('t_bunbtree', 1);
RESET ROLE;
GRANT pg_stat_scan_tables TO regress_bunbtree_user;
GRANT EXECUTE ON FUNCTION bunbtree_page_items(regclass, bigint) TO regress_bunbtree_user;
SET ROLE regress_bunbtree_user;
SELECT leaf_pages > 10 AS allowed FROM bunbtree_index_info('t_bunbtree');
SELECT bunbtree_page_items('t_bunbtree', 1);
RESET ROLE;
REVOKE EXECUTE ON FUNCTION bunbtree_page_items(regclass, bigint) FROM regress_bunbtree_user;

SET client_min_messages = warning;
DROP EXTENSION pgstattuple, pageinspect;
DROP SCHEMA elsewhere;
DROP SCHEMA inspect CASCADE;
DROP ROLE regress_bunbtree_user;
