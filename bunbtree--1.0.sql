/* bunbtree--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION bunbtree" to load this file. \quit

CREATE FUNCTION bunbtree_handler(internal)
RETURNS index_am_handler
AS 'MODULE_PATHNAME'
LANGUAGE C;

CREATE ACCESS METHOD bunbtree TYPE INDEX HANDLER bunbtree_handler;
COMMENT ON ACCESS METHOD bunbtree IS
	'b-tree index access method that deletes dead entries before it splits a page';

--
-- Operator classes: those of btree, with the same names and defaults.
--
-- What the call below creates (the classes that the server comes with) are
-- members of the extension.  For classes of other extensions or your own, call
-- the function again when they exist; see its comment in src/opclass.c.
--
CREATE FUNCTION bunbtree_mirror_opclasses(types regtype[] DEFAULT NULL)
RETURNS integer
AS 'MODULE_PATHNAME'
LANGUAGE C;
COMMENT ON FUNCTION bunbtree_mirror_opclasses(regtype[]) IS
	'create the operator classes that btree has and bunbtree has not';
REVOKE ALL ON FUNCTION bunbtree_mirror_opclasses(regtype[]) FROM PUBLIC;

SELECT @extschema@.bunbtree_mirror_opclasses(NULL::pg_catalog.regtype[]);

--
-- Statistics: README.md explains the columns.
--
CREATE FUNCTION bunbtree_counters(
	OUT index oid,
	OUT kind text,
	OUT passes bigint,
	OUT passes_productive bigint,
	OUT declined bigint,
	OUT entries_deleted bigint,
	OUT bytes_freed bigint,
	OUT entries_simple_deleted bigint,
	OUT splits_averted bigint,
	OUT dedups bigint,
	OUT splits bigint,
	OUT heap_blocks_visited bigint,
	OUT heap_blocks_all_visible bigint,
	OUT heap_blocks_not_cached bigint,
	OUT entries_live bigint,
	OUT entries_recently_dead bigint,
	OUT blocked_by_horizon bigint,
	OUT pass_time double precision,
	OUT longest_pass double precision,
	OUT last_pass timestamptz,
	OUT compact_runs bigint,
	OUT leaves_merged bigint,
	OUT last_compact timestamptz,
	OUT stats_reset timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED
ROWS 300;
COMMENT ON FUNCTION bunbtree_counters() IS
	'counters of each bunbtree index for each kind of insertion';

CREATE VIEW pg_stat_bunbtree AS
	SELECT n.nspname AS schemaname,
		   t.relname,
		   c.relname AS indexrelname,
		   i.indrelid AS relid,
		   i.indexrelid,
		   coalesce(sum(s.passes), 0)::bigint AS passes,
		   coalesce(sum(s.passes) FILTER (WHERE s.kind = 'hinted'), 0)::bigint AS passes_hinted,
		   coalesce(sum(s.passes) FILTER (WHERE s.kind = 'append'), 0)::bigint AS passes_append,
		   coalesce(sum(s.passes) FILTER (WHERE s.kind = 'other'), 0)::bigint AS passes_other,
		   coalesce(sum(s.passes_productive), 0)::bigint AS passes_productive,
		   coalesce(sum(s.passes_productive) FILTER (WHERE s.kind = 'hinted'), 0)::bigint AS passes_productive_hinted,
		   coalesce(sum(s.passes_productive) FILTER (WHERE s.kind = 'append'), 0)::bigint AS passes_productive_append,
		   coalesce(sum(s.passes_productive) FILTER (WHERE s.kind = 'other'), 0)::bigint AS passes_productive_other,
		   coalesce(sum(s.declined), 0)::bigint AS declined,
		   coalesce(sum(s.declined) FILTER (WHERE s.kind = 'hinted'), 0)::bigint AS declined_hinted,
		   coalesce(sum(s.declined) FILTER (WHERE s.kind = 'append'), 0)::bigint AS declined_append,
		   coalesce(sum(s.declined) FILTER (WHERE s.kind = 'other'), 0)::bigint AS declined_other,
		   coalesce(sum(s.entries_deleted), 0)::bigint AS entries_deleted,
		   coalesce(sum(s.bytes_freed), 0)::bigint AS bytes_freed,
		   coalesce(sum(s.entries_simple_deleted), 0)::bigint AS entries_simple_deleted,
		   coalesce(sum(s.splits_averted), 0)::bigint AS splits_averted,
		   coalesce(sum(s.dedups), 0)::bigint AS dedups,
		   coalesce(sum(s.splits), 0)::bigint AS splits,
		   coalesce(max(s.longest_pass), 0) AS longest_pass,
		   coalesce(sum(s.heap_blocks_visited), 0)::bigint AS heap_blocks_visited,
		   coalesce(sum(s.heap_blocks_all_visible), 0)::bigint AS heap_blocks_all_visible,
		   coalesce(sum(s.heap_blocks_not_cached), 0)::bigint AS heap_blocks_not_cached,
		   coalesce(sum(s.pass_time), 0) AS pass_time,
		   coalesce(sum(s.entries_live), 0)::bigint AS entries_live,
		   coalesce(sum(s.entries_recently_dead), 0)::bigint AS entries_recently_dead,
		   coalesce(sum(s.blocked_by_horizon), 0)::bigint AS blocked_by_horizon,
		   max(s.last_pass) AS last_pass,
		   coalesce(max(s.compact_runs), 0) AS compact_runs,
		   coalesce(max(s.leaves_merged), 0) AS leaves_merged,
		   max(s.last_compact) AS last_compact,
		   max(s.stats_reset) AS stats_reset
	FROM pg_am a
		 JOIN pg_class c ON c.relam = a.oid AND c.relkind = 'i'
		 JOIN pg_index i ON i.indexrelid = c.oid
		 JOIN pg_class t ON t.oid = i.indrelid
		 JOIN pg_namespace n ON n.oid = t.relnamespace
		 LEFT JOIN bunbtree_counters() s ON s.index = c.oid
	WHERE a.amname = 'bunbtree'
	GROUP BY n.nspname, t.relname, c.relname, i.indrelid, i.indexrelid;
COMMENT ON VIEW pg_stat_bunbtree IS
	'what passes over full leaf pages and compaction have brought and cost, for each bunbtree index of the database';
GRANT SELECT ON pg_stat_bunbtree TO PUBLIC;

CREATE FUNCTION pg_stat_reset_bunbtree(index regclass DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C CALLED ON NULL INPUT VOLATILE PARALLEL RESTRICTED;
COMMENT ON FUNCTION pg_stat_reset_bunbtree(regclass) IS
	'set the counters of a bunbtree index, or of all of the database, to zero';
REVOKE ALL ON FUNCTION pg_stat_reset_bunbtree(regclass) FROM PUBLIC;

-- Verification by amcheck, for those whom the owner grants it.
CREATE FUNCTION bunbtree_check(index regclass,
	heapallindexed boolean DEFAULT false,
	parent boolean DEFAULT false)
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;
REVOKE ALL ON FUNCTION bunbtree_check(regclass, boolean, boolean) FROM PUBLIC;

--
-- Who keeps dead versions of this database's rows alive, oldest first.
--
-- The rules are those of ComputeXidHorizons() in the server's procarray.c:
-- - A session counts with its transaction ID or its snapshot, whichever is
--   older, if it is of this database; a walsender without a database counts in
--   all of them, and in recovery everything does.
-- - A session that runs VACUUM does not count.  (One that builds an index
--   CONCURRENTLY does.)
-- - A slot counts whatever its database, unless it has been invalidated.  Its
--   catalog_xmin is for catalogs alone.
-- - vacuum_defer_cleanup_age, gone in 16, comes on top of the sessions, but not
--   of slots, and not in recovery.
--
-- The session that asks is only listed if its transaction has begun before the
-- query.  Parallel workers hold what their leader does.
--
CREATE VIEW bunbtree_horizon_holders AS
WITH running (kind, name, pid, usename, state, xact_age, query_age, held_by, xid) AS (
	SELECT CASE WHEN is_standby THEN 'standby' ELSE 'backend' END,
		   coalesce(nullif(a.application_name, ''), a.backend_type),
		   a.pid, a.usename, a.state,
		   clock_timestamp() - a.xact_start, clock_timestamp() - a.query_start,
		   CASE WHEN by_xid THEN 'backend_xid' ELSE 'backend_xmin' END,
		   CASE WHEN by_xid THEN a.backend_xid ELSE a.backend_xmin END
	FROM pg_stat_activity a,
		 LATERAL (SELECT a.datid IS NULL
						 AND a.pid IN (SELECT r.pid FROM pg_stat_replication r) AS is_standby,
						 a.backend_xmin IS NULL
						 OR coalesce(age(a.backend_xid) >= age(a.backend_xmin), false) AS by_xid) l
	WHERE (a.backend_xid IS NOT NULL OR a.backend_xmin IS NOT NULL)
		  AND (a.datid = (SELECT oid FROM pg_database WHERE datname = current_database())
			   OR is_standby
			   OR pg_is_in_recovery())
		  AND a.backend_type IS DISTINCT FROM 'parallel worker'
		  AND a.pid NOT IN (SELECT v.pid FROM pg_stat_progress_vacuum v)
		  AND (a.pid <> pg_backend_pid()
			   OR a.backend_xid IS NOT NULL
			   OR now() < statement_timestamp())
	UNION ALL
	SELECT 'prepared transaction', p.gid, NULL, p.owner, NULL,
		   clock_timestamp() - p.prepared, NULL, 'transaction', p.transaction
	FROM pg_prepared_xacts p
	WHERE p.database = current_database()
)
SELECT kind, name, pid, usename, state, xact_age, query_age, held_by,
	   'tables' AS affects, xid, age(xid) AS age
FROM running
UNION ALL
SELECT 'replication slot', s.slot_name, s.active_pid, NULL,
	   CASE WHEN s.active THEN 'active' ELSE 'inactive' END, NULL, NULL,
	   held_by, affects, xid, age(xid)
FROM pg_replication_slots s,
	 LATERAL (VALUES ('xmin', 'tables', s.xmin),
					 ('catalog_xmin', 'catalogs', s.catalog_xmin)) l (held_by, affects, xid)
WHERE xid IS NOT NULL AND s.wal_status IS DISTINCT FROM 'lost'
UNION ALL
SELECT 'vacuum_defer_cleanup_age', NULL, NULL, NULL, NULL, NULL, NULL,
	   'vacuum_defer_cleanup_age', 'tables', NULL,
	   defer + (SELECT greatest(max(age(xid)), 0) FROM running)
FROM (SELECT current_setting('vacuum_defer_cleanup_age', true)::integer AS defer) d
WHERE defer > 0 AND NOT pg_is_in_recovery()
ORDER BY age DESC;
COMMENT ON VIEW bunbtree_horizon_holders IS
	'who keeps dead versions of this database''s rows alive, oldest first';
GRANT SELECT ON bunbtree_horizon_holders TO PUBLIC;

-- Page statistics by pgstattuple, page contents by pageinspect.
CREATE FUNCTION bunbtree_index_info(index regclass,
	OUT version integer,
	OUT tree_level integer,
	OUT index_size bigint,
	OUT root_block_no bigint,
	OUT internal_pages bigint,
	OUT leaf_pages bigint,
	OUT empty_pages bigint,
	OUT deleted_pages bigint,
	OUT avg_leaf_density double precision,
	OUT leaf_fragmentation double precision,
	OUT fillfactor integer,
	OUT fresh_size bigint,
	OUT times_fresh double precision,
	OUT leaf_pages_after bigint,
	OUT advice text)
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;
REVOKE ALL ON FUNCTION bunbtree_index_info(regclass) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION bunbtree_index_info(regclass) TO pg_stat_scan_tables;

CREATE FUNCTION bunbtree_page_items(index regclass, blkno bigint,
	OUT itemoffset smallint,
	OUT ctid tid,
	OUT itemlen smallint,
	OUT nulls boolean,
	OUT vars boolean,
	OUT data text,
	OUT dead boolean,
	OUT htid tid,
	OUT tids tid[])
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;
REVOKE ALL ON FUNCTION bunbtree_page_items(regclass, bigint) FROM PUBLIC;

--
-- Compaction: sparse leaf pages are merged.  See src/compact.c.
--
CREATE PROCEDURE bunbtree_compact(index regclass,
	fill double precision DEFAULT 0.9,
	max_pages integer DEFAULT 64,
	pause interval DEFAULT '10 ms',
	max_runtime interval DEFAULT NULL,
	verbose boolean DEFAULT false,
	wait boolean DEFAULT false)
AS 'MODULE_PATHNAME'
LANGUAGE C;
COMMENT ON PROCEDURE bunbtree_compact(regclass, double precision, integer, interval, interval, boolean, boolean) IS
	'merge sparse leaf pages of a bunbtree or btree index';

CREATE FUNCTION bunbtree_compact_estimate(index regclass,
	fill double precision DEFAULT 0.9,
	OUT leaf_pages bigint,
	OUT leaf_pages_after bigint,
	OUT bytes_reusable bigint)
RETURNS record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;
COMMENT ON FUNCTION bunbtree_compact_estimate(regclass, double precision) IS
	'what compaction would leave of the leaf pages of a bunbtree or btree index';

CREATE FUNCTION bunbtree_compact_progress(
	OUT pid integer,
	OUT datid oid,
	OUT index oid,
	OUT leaf_pages bigint,
	OUT leaf_pages_scanned bigint,
	OUT leaf_pages_removed bigint,
	OUT slices bigint,
	OUT slices_refused bigint,
	OUT time_held double precision)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT VOLATILE PARALLEL RESTRICTED;

CREATE VIEW bunbtree_progress_compact AS
	SELECT p.pid, d.datname, p.index::regclass AS index, p.leaf_pages,
		   p.leaf_pages_scanned, p.leaf_pages_removed, p.slices,
		   p.slices_refused, p.time_held
	FROM bunbtree_compact_progress() p
		 JOIN pg_database d ON d.oid = p.datid
	WHERE d.datname = current_database();
COMMENT ON VIEW bunbtree_progress_compact IS
	'what running calls of bunbtree_compact() have done so far';
GRANT SELECT ON bunbtree_progress_compact TO PUBLIC;

--
-- Conversion of existing btree indexes.  See src/adopt.c.
--
CREATE FUNCTION bunbtree_adopt(index regclass)
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;

CREATE FUNCTION bunbtree_release(index regclass)
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;

CREATE FUNCTION bunbtree_adopt_table(rel regclass,
	OUT index regclass,
	OUT adopted boolean,
	OUT reason text)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;

CREATE FUNCTION bunbtree_adopt_refusal(index regclass)
RETURNS text
AS 'MODULE_PATHNAME'
LANGUAGE C STABLE STRICT;

-- Adopted indexes that a dump restores as btree, for bunbtree_readopt().  Dumps
-- made by anyone carry the table, so anyone may read it.
CREATE TABLE bunbtree_adopted (
	schemaname name NOT NULL,
	tablename name NOT NULL,
	indexname name NOT NULL,
	PRIMARY KEY (schemaname, tablename, indexname)
);
GRANT SELECT ON bunbtree_adopted TO PUBLIC;
SELECT pg_catalog.pg_extension_config_dump('bunbtree_adopted', '');

CREATE FUNCTION bunbtree_readopt(
	OUT index regclass,
	OUT adopted boolean,
	OUT reason text)
RETURNS SETOF record
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;
REVOKE ALL ON FUNCTION bunbtree_readopt() FROM PUBLIC;

--
-- Which btree indexes should be bunbtree?
--
-- "fresh_size" is what CREATE INDEX would make of the rows and column widths
-- that ANALYZE has seen; it reads no page of the index.  A tuple is 8 bytes plus
-- its columns, rounded up to 8, and has a line pointer of 4.  Where equal keys
-- are merged, a key has one tuple for each posting list of at most 812 bytes, and
-- 6 bytes a row.  Pages hold what the fillfactor says of 8152 bytes, upper levels
-- are filled to 70 %.  (These numbers are for pages of 8 kB.)
--
-- "try_compact" says that, if all pages were in use, they would be less than half
-- as full as new ones.  (Compaction leaves free pages, so it stays true.)
--
-- NULL where there are no statistics.  For monitoring roles, because statistics
-- tell about rows.
--
-- Many of its operators and functions take a cast to be found.  Nobody's closer match is
-- to be found instead, in a schema where others may create some.
--
SET LOCAL search_path = pg_catalog, pg_temp;
CREATE VIEW @extschema@.bunbtree_candidates AS
SELECT i.*,
	CASE WHEN i.n_tup_del + i.n_tup_upd - i.n_tup_hot_upd = 0
			OR i.index_size < i.fresh_size THEN 0
		ELSE i.index_size - i.fresh_size END AS expected_gain,
	@extschema@.bunbtree_adopt_refusal(i.indexrelid::regclass) AS refusal,
	i.index_size > 1048576 AND i.index_size > 2 * i.fresh_size AS try_compact
FROM (
	SELECT n.nspname AS schemaname, t.relname, i.relname AS indexrelname,
		i.oid AS indexrelid,
		pg_catalog.pg_relation_size(i.oid) AS index_size,
		CASE WHEN c.entry IS NULL THEN NULL
			WHEN i.reltuples = 0 THEN b.block
			ELSE (1 + CASE WHEN l.pages <= 1 THEN 1
					ELSE ceil(l.pages) + ceil(l.pages / (0.7 * 8152 / c.entry - 1)) END
				)::bigint * b.block END AS fresh_size,
		pg_catalog.pg_stat_get_dead_tuples(t.oid) AS n_dead_tup,
		pg_catalog.pg_stat_get_tuples_updated(t.oid) AS n_tup_upd,
		pg_catalog.pg_stat_get_tuples_hot_updated(t.oid) AS n_tup_hot_upd,
		pg_catalog.pg_stat_get_tuples_deleted(t.oid) AS n_tup_del
	FROM pg_catalog.pg_index x
	JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid
	JOIN pg_catalog.pg_class t ON t.oid = x.indrelid
	JOIN pg_catalog.pg_namespace n ON n.oid = i.relnamespace
	JOIN pg_catalog.pg_am a ON a.oid = i.relam AND a.amname = 'btree'
	CROSS JOIN LATERAL (
		SELECT pg_catalog.current_setting('block_size')::bigint AS block,
			coalesce((SELECT option_value::integer
				FROM pg_catalog.pg_options_to_table(i.reloptions)
				WHERE option_name = 'fillfactor'), 90) AS fillfactor,
			coalesce((SELECT option_value::boolean
				FROM pg_catalog.pg_options_to_table(i.reloptions)
				WHERE option_name = 'deduplicate_items'), true) AS deduplicate
	) b
	-- size of an entry, and number of distinct keys; a column without NULLs
	-- has "stadistinct" values, or that fraction of the rows if negative
	LEFT JOIN LATERAL (
		SELECT ceil((8 + sum(CASE WHEN a.attlen > 0 THEN a.attlen
						ELSE s.stawidth END)) / 8.0) * 8 + 4 AS entry,
			exp(least(sum(ln(greatest(1,
				CASE WHEN s.stadistinct > 0 THEN s.stadistinct
					WHEN s.stadistinct < 0 THEN - s.stadistinct * i.reltuples
					ELSE i.reltuples END)))
				FILTER (WHERE a.attnum <= x.indnkeyatts),
				ln(greatest(i.reltuples, 1)))) AS keys,
			bool_and(a.attnum <= x.indnkeyatts AND
				(l.collisdeterministic IS NOT FALSE) AND EXISTS (
					SELECT FROM pg_catalog.pg_opclass o
					JOIN pg_catalog.pg_amproc p ON p.amprocfamily = o.opcfamily
						AND p.amproclefttype = o.opcintype
						AND p.amprocrighttype = o.opcintype
						AND p.amprocnum = 4
					WHERE o.oid = x.indclass[a.attnum - 1])) AS mergeable
		FROM pg_catalog.pg_attribute a
		LEFT JOIN pg_catalog.pg_collation l ON l.oid = a.attcollation
		LEFT JOIN pg_catalog.pg_statistic s ON NOT s.stainherit
			AND s.starelid = CASE WHEN x.indkey[a.attnum - 1] = 0
				THEN i.oid ELSE t.oid END
			AND s.staattnum = CASE WHEN x.indkey[a.attnum - 1] = 0
				THEN a.attnum ELSE x.indkey[a.attnum - 1] END
		WHERE a.attrelid = i.oid
		HAVING bool_and(s.starelid IS NOT NULL) AND i.reltuples >= 0
	) c ON true
	-- posting lists of a key, and their average number of rows
	CROSS JOIN LATERAL (
		SELECT i.reltuples / c.keys / lists AS list_rows, c.keys * lists AS lists
		FROM greatest(1, ceil(i.reltuples / c.keys /
			greatest(1, floor((812 - c.entry) / 6)))) lists
	) m
	CROSS JOIN LATERAL (
		SELECT least(i.reltuples * c.entry,
				CASE WHEN c.mergeable AND b.deduplicate AND NOT x.indisunique
				THEN m.lists * (ceil((c.entry - 4 + 6 * m.list_rows) / 8) * 8 + 4) END)
			/ (8152 - b.block * (100 - b.fillfactor) / 100.0) AS pages
	) l
	WHERE i.relkind = 'i' AND t.relkind <> 't'
		AND n.nspname NOT IN ('pg_catalog', 'information_schema')
		AND NOT pg_catalog.pg_is_other_temp_schema(n.oid)
) i
ORDER BY expected_gain DESC NULLS LAST,
	i.n_tup_del + i.n_tup_upd - i.n_tup_hot_upd DESC, i.indexrelid;
GRANT SELECT ON @extschema@.bunbtree_candidates TO pg_monitor;
