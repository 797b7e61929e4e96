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

-- Operator classes: those of btree, with the same names and defaults.
CREATE FUNCTION bunbtree_mirror_opclasses(types regtype[] DEFAULT NULL)
RETURNS integer
AS 'MODULE_PATHNAME'
LANGUAGE C;
REVOKE ALL ON FUNCTION bunbtree_mirror_opclasses(regtype[]) FROM PUBLIC;

SELECT bunbtree_mirror_opclasses();

CREATE FUNCTION bunbtree_stats(index regclass,
	OUT passes bigint,
	OUT passes_productive bigint,
	OUT declined bigint,
	OUT entries_deleted bigint,
	OUT heap_blocks_visited bigint,
	OUT heap_blocks_all_visible bigint,
	OUT heap_blocks_not_cached bigint,
	OUT simple_deletions bigint)
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;
