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

-- Verification by amcheck, for those whom the owner grants it.
CREATE FUNCTION bunbtree_check(index regclass,
	heapallindexed boolean DEFAULT false,
	parent boolean DEFAULT false)
RETURNS void
AS 'MODULE_PATHNAME'
LANGUAGE C STRICT;
REVOKE ALL ON FUNCTION bunbtree_check(regclass, boolean, boolean) FROM PUBLIC;
