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
#include "compat.h"

#include "catalog/pg_am.h"
#include "nodes/execnodes.h"
#include "utils/fmgrprotos.h"
#include "utils/inval.h"
#include "utils/memutils.h"

/* Innermost guarded call of this backend, NULL outside any. */
static BunPresented *presented = NULL;

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
 * nbtree's own routine, for the callbacks that we wrap.
 *
 * Fetched once a backend and kept, so that a wrapper costs one pointer
 * dereference more than nbtree.
 */
const IndexAmRoutine *
bun_nbtree_routine(void)
{
	static const IndexAmRoutine *routine = NULL;

	if (unlikely(routine == NULL))
	{
		MemoryContext oldcontext = MemoryContextSwitchTo(TopMemoryContext);

		routine = (const IndexAmRoutine *)
			DatumGetPointer(DirectFunctionCall1(bthandler, (Datum) 0));
		MemoryContextSwitchTo(oldcontext);
	}
	return routine;
}

/*
 * Begin to present an index.  "entry" is the caller's, and must stay valid
 * until bun_unpresent(), which the caller guarantees with PG_FINALLY.
 */
void
bun_present(BunPresented *entry, Relation index)
{
	entry->index = index;
	entry->relam = index->rd_rel->relam;
	entry->outer = presented;
	presented = entry;
	index->rd_rel->relam = BTREE_AM_OID;
}

/*
 * End what bun_present() began.
 */
void
bun_unpresent(BunPresented *entry)
{
	Assert(presented == entry);

	presented = entry->outer;
	entry->index->rd_rel->relam = entry->relam;
}

/*
 * Relcache callback: "relid" was invalidated and, where it is in use, rebuilt
 * from the catalogs (InvalidOid: everything was).  No catalog access here;
 * we only write to entries that guarded calls hold open.
 */
static void
represent_callback(Datum arg, Oid relid)
{
	for (BunPresented *entry = presented; entry != NULL; entry = entry->outer)
	{
		if (relid == InvalidOid || relid == RelationGetRelid(entry->index))
			entry->index->rd_rel->relam = BTREE_AM_OID;
	}
}

/*
 * ambuild: nbtree's, presented.
 */
IndexBuildResult *
bun_build(Relation heap, Relation index, IndexInfo *indexInfo)
{
	IndexBuildResult *volatile result;
	BunPresented entry;

	bun_present(&entry, index);
	PG_TRY();
	{
		result = bun_nbtree_routine()->ambuild(heap, index, indexInfo);
	}
	PG_FINALLY();
	{
		bun_unpresent(&entry);
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
	BunPresented entry;

	bun_present(&entry, index);
	PG_TRY();
	{
		bun_nbtree_routine()->ambuildempty(index);
	}
	PG_FINALLY();
	{
		bun_unpresent(&entry);
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
	BunPresented entry;

	bun_present(&entry, info->index);
	PG_TRY();
	{
		result = bun_nbtree_routine()->ambulkdelete(info, stats, callback,
													callback_state);
	}
	PG_FINALLY();
	{
		bun_unpresent(&entry);
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
	BunPresented entry;

	bun_present(&entry, info->index);
	PG_TRY();
	{
		result = bun_nbtree_routine()->amvacuumcleanup(info, stats);
	}
	PG_FINALLY();
	{
		bun_unpresent(&entry);
	}
	PG_END_TRY();

	return result;
}
