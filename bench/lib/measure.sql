-- Run a statement and print what it has cost, one line for each index.
--
-- psql variables: statement, indexes (array of names), am
--
-- Output: index, pages before, pages after, seconds, bytes of WAL, entries
-- deleted (empty for btree).  "Pages" are all but the metapage: the extensions
-- that count leaf pages refuse indexes that are not btree's.

CREATE TEMP TABLE before AS
	SELECT i, pg_relation_size(i::regclass) / current_setting('block_size')::int - 1 AS pages
	FROM unnest(:'indexes'::text[]) i;
CHECKPOINT;

SELECT pg_current_wal_insert_lsn() AS lsn, clock_timestamp() AS started \gset
:statement
SELECT round(extract(epoch FROM clock_timestamp() - :'started')::numeric, 4) AS seconds,
	pg_wal_lsn_diff(pg_current_wal_insert_lsn(), :'lsn') AS wal \gset

\set deleted 'NULL::bigint'
SELECT :'am' = 'bunbtree' AS counted \gset
\if :counted
	\set deleted '(SELECT entries_deleted FROM pg_stat_bunbtree WHERE indexrelid = i::regclass)'
\endif
SELECT i, pages,
	pg_relation_size(i::regclass) / current_setting('block_size')::int - 1,
	:seconds, :wal, :deleted
FROM before ORDER BY i;

-- Every heap row has its entry, and the tree is in order.
\if :counted
	SELECT bunbtree_check(i::regclass, true, true) FROM before \g /dev/null
\else
	SELECT bt_index_parent_check(i::regclass, true, true) FROM before \g /dev/null
\endif

DROP TABLE before;
