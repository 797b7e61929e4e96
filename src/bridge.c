/*-------------------------------------------------------------------------
 *
 * bridge.c
 *		Makes nbtree and core accept an index of this access method.
 *
 * nbtree's build, insertion and vacuum code, and core code that it calls, ask
 * in places whether "rd_rel->relam" is the OID of btree.  While such code
 * runs for one of our indexes, its relcache entry reads BTREE_AM_OID; we say
 * the index is "presented".  Rules:
 *
 * - Presentation lasts for one guarded call and is undone by PG_FINALLY, so
 *	 an error leaves the entry as it was.
 * - A relcache invalidation that arrives in the middle overwrites rd_rel with
 *	 what the catalog says.  That can happen at any lock acquisition (reading
 *	 a TOAST table, waiting for another transaction in a unique check).  Hence
 *	 the stack of presented entries and the relcache callback, which presents
 *	 them again: callbacks run right after the entry has been rebuilt, before
 *	 nbtree gets to look at it.
 * - Guarded calls nest: an operator class's support function may insert into
 *	 another bunbtree index, or even build one.  The stack is strictly LIFO.
 *
 * No locks are taken here.  The caller of the access method holds a lock on
 * the index already, and an open reference to its relcache entry, so that
 * the entry stays where it is.
 *
 * Portions Copyright (c) 2026, bunbtree developers
 *
 * IDENTIFICATION
 *		src/bridge.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "bunbtree.h"

#include "nodes/execnodes.h"
#include "utils/inval.h"

/* Innermost guarded call of this backend, NULL outside any. */
BunCall    *bun_current_call = NULL;

static void represent_callback(Datum arg, Oid relid);

/*
 * Called once, when the library is loaded.
 */
void
bun_bridge_init(void)
{
	CacheRegisterRelcacheCallback(represent_callback, (Datum) 0);
}

/*
 * Relcache callback: "relid" was invalidated and, where it is in use, rebuilt
 * from the catalogs (InvalidOid: everything was).  No catalog access here;
 * we only write to entries that guarded calls hold open.
 */
static void
represent_callback(Datum arg, Oid relid)
{
	for (BunCall *call = bun_current_call; call != NULL; call = call->outer)
	{
		if (relid == InvalidOid || relid == RelationGetRelid(call->index))
			call->index->rd_rel->relam = BTREE_AM_OID;
	}
}

/*
 * ambuild: nbtree's, presented.
 */
IndexBuildResult *
bun_build(Relation heap, Relation index, IndexInfo *indexInfo)
{
	IndexBuildResult *volatile result;
	BunCall		call;

	bun_begin_call(&call, index, NULL);
	PG_TRY();
	{
		result = btbuild(heap, index, indexInfo);
	}
	PG_FINALLY();
	{
		bun_end_call(&call);
	}
	PG_END_TRY();

	return result;
}

/*
 * ambuildempty: nbtree's, presented.
 */
void
bun_buildempty(Relation index)
{
	BunCall		call;

	bun_begin_call(&call, index, NULL);
	PG_TRY();
	{
		btbuildempty(index);
	}
	PG_FINALLY();
	{
		bun_end_call(&call);
	}
	PG_END_TRY();
}

/*
 * ambulkdelete: nbtree's, presented.
 */
IndexBulkDeleteResult *
bun_bulkdelete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
			   IndexBulkDeleteCallback callback, void *callback_state)
{
	IndexBulkDeleteResult *volatile result;
	BunCall		call;

	bun_begin_call(&call, info->index, NULL);
	PG_TRY();
	{
		result = btbulkdelete(info, stats, callback, callback_state);
	}
	PG_FINALLY();
	{
		bun_end_call(&call);
	}
	PG_END_TRY();

	return result;
}

/*
 * amvacuumcleanup: nbtree's, presented.
 */
IndexBulkDeleteResult *
bun_vacuumcleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *stats)
{
	IndexBulkDeleteResult *volatile result;
	BunCall		call;

	bun_begin_call(&call, info->index, NULL);
	PG_TRY();
	{
		result = btvacuumcleanup(info, stats);
	}
	PG_FINALLY();
	{
		bun_end_call(&call);
	}
	PG_END_TRY();

	return result;
}
