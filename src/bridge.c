/*-------------------------------------------------------------------------
 *
 * bridge.c
 *		Makes nbtree and core accept an index of this access method.
 *
 * Presentation.  nbtree's build, insertion and vacuum code, and core code that
 * it calls, ask in places whether "rd_rel->relam" is the OID of btree.  While
 * such code runs for one of our indexes, its relcache entry reads
 * BTREE_AM_OID; we say that the index is presented.
 *
 * Interception.  During an insertion, heap->rd_tableam points to a copy of the
 * heap AM's routine in which only index_delete_tuples differs.  nbtree calls
 * that with the leaf page locked and all of its TIDs in hand, just before it
 * would deduplicate or split.  Only tables of the heap AM are intercepted.
 * Core recognises them by the address of their routine (heap_getnext() does),
 * and a table AM that wraps heap's would lose what it adds.  The routine to
 * restore is a constant, never a variable that a nested swap could have
 * changed.
 *
 * Both last for one guarded call.  Guarded calls nest: an operator class's
 * support function may insert into another bunbtree index, or even build one.
 * They form a stack.
 *
 * What can happen in the middle:
 *
 * - A relcache invalidation.  It can arrive at any lock acquisition, and
 *	 overwrites rd_rel with what the catalog says.  A relcache callback presents
 *	 the entries on the stack again: callbacks run right after the entry has
 *	 been rebuilt, before nbtree gets to look at it.  While a subtransaction
 *	 aborts, entries are only marked invalid, to be rebuilt, without a callback,
 *	 when somebody opens them; then we put the mark off until the call ends.
 *	 Rebuilding a heap's entry ends its interception; we lose one pass.
 *
 * - An error.  The stack is unwound when the (sub)transaction that made the
 *	 calls aborts: before the resource owner lets go of the relcache entries,
 *	 and before another command can run.  PG_TRY in each insertion would do the
 *	 same, and cost half as much again as all the rest of what we add to
 *	 btinsert().  (C code that swallows an error without aborting a
 *	 subtransaction breaks PostgreSQL's rules: the relcache entries are closed
 *	 at the end of the statement, whoever still points to them.  If it goes on
 *	 to the end of an outer guarded call, that one cleans up.)
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

#include "access/parallel.h"
#include "access/relation.h"
#include "access/xact.h"
#include "nodes/execnodes.h"
#include "utils/inval.h"

/* Guarded calls of this backend, outermost first, and where the next goes. */
BunCall		bun_calls[BUN_MAX_CALLS];
BunCall    *bun_next_call = bun_calls;

/* What GetCurrentTransactionNestLevel() would say, at no price. */
int			bun_nest_level;

/* Has a presented entry been kept from being rebuilt? */
bool		bun_reload_pending = false;

/* The heap AM's routine, and our copy of it; set when the library is loaded. */
const TableAmRoutine *bun_heap_routine;
TableAmRoutine bun_intercepting_routine;

static void unwind(int nest_level);
static void represent_callback(Datum arg, Oid relid);
static void xact_callback(XactEvent event, void *arg);
static void subxact_callback(SubXactEvent event, SubTransactionId mySubid,
							 SubTransactionId parentSubid, void *arg);
static TransactionId intercepted_index_delete_tuples(Relation heap,
													 TM_IndexDeleteOp *delstate);

/*
 * Called once, when the library is loaded.
 */
void
bun_bridge_init(void)
{
	bun_heap_routine = GetHeapamTableAmRoutine();
	bun_intercepting_routine = *bun_heap_routine;
	bun_intercepting_routine.index_delete_tuples =
		intercepted_index_delete_tuples;
	bun_nest_level = GetCurrentTransactionNestLevel();

	CacheRegisterRelcacheCallback(represent_callback, (Datum) 0);
	RegisterXactCallback(xact_callback, NULL);
	RegisterSubXactCallback(subxact_callback, NULL);
}

/*
 * Undo the guarded calls made at this transaction nesting level or deeper.
 */
static void
unwind(int nest_level)
{
	while (bun_next_call > bun_calls &&
		   bun_next_call[-1].nest_level >= nest_level)
		bun_end_call(bun_next_call - 1);
}

/*
 * bun_end_call() for calls that should have ended by themselves.
 */
void
bun_end_call_slow(BunCall *call)
{
	bun_end_call(call);
}

/*
 * At the end of a guarded call: have the relcache entry rebuilt, which was put
 * off for the sake of this call or one around it.
 */
void
bun_mark_invalid(Relation index)
{
	index->rd_isvalid = false;
	if (bun_next_call <= bun_calls + 1)
		bun_reload_pending = false;
}

/*
 * Too many guarded calls inside one another.
 */
void
bun_calls_too_deep(Relation index)
{
	ereport(ERROR,
			(errcode(ERRCODE_STATEMENT_TOO_COMPLEX),
			 errmsg("operations on bunbtree indexes nest too deep"),
			 errdetail("The one on index \"%s\" would be number %d.",
					   RelationGetRelationName(index), BUN_MAX_CALLS + 1),
			 errhint("Do not modify tables in functions that support operator classes.")));
}

/*
 * The table AM callback that nbtree reaches.
 *
 * The leaf page "delstate->iblknum" is locked exclusively.  A call for an index
 * other than the innermost guarded call's is not ours.
 */
static TransactionId
intercepted_index_delete_tuples(Relation heap, TM_IndexDeleteOp *delstate)
{
	if (bun_next_call > bun_calls)
	{
		BunCall    *call = bun_next_call - 1;

		if (call->heap != NULL && call->index == delstate->irel)
			return bun_index_delete_tuples(call, delstate);
	}
	return bun_heap_routine->index_delete_tuples(heap, delstate);
}

/*
 * Relcache callback: "relid" was invalidated and, where it is in use, rebuilt
 * from the catalogs (InvalidOid: everything was).  No catalog access here;
 * we only write to entries that guarded calls hold open.
 */
static void
represent_callback(Datum arg, Oid relid)
{
	for (BunCall *call = bun_calls; call < bun_next_call; call++)
	{
		Relation	index = call->index;

		if (relid != InvalidOid && relid != RelationGetRelid(index))
			continue;
		index->rd_rel->relam = BTREE_AM_OID;
		if (!index->rd_isvalid)
		{
			/*
			 * Not rebuilt yet: a subtransaction is aborting.  What is there
			 * is good enough for those who have the index open, us among
			 * them, as the relcache itself says of such entries.
			 */
			index->rd_isvalid = true;
			bun_reload_pending = true;
		}
	}
}

/*
 * End of a transaction: unwind what an error left.
 */
static void
xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PARALLEL_ABORT:
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PREPARE:
			unwind(0);
			bun_nest_level = 1;
			break;
		default:
			break;
	}
}

/*
 * Start or end of a subtransaction, which is current still or already: unwind
 * the calls made in one that aborts.
 */
static void
subxact_callback(SubXactEvent event, SubTransactionId mySubid,
				 SubTransactionId parentSubid, void *arg)
{
	int			level = GetCurrentTransactionNestLevel();

	switch (event)
	{
		case SUBXACT_EVENT_START_SUB:
			bun_nest_level = level;
			break;
		case SUBXACT_EVENT_COMMIT_SUB:
			bun_nest_level = level - 1;
			break;
		case SUBXACT_EVENT_ABORT_SUB:
			unwind(level);
			bun_nest_level = level - 1;

			/* An error may have come between a rebuild and its callback. */
			represent_callback((Datum) 0, InvalidOid);
			break;
		default:
			break;
	}
}

/*
 * Open an index of ours by OID, with the given lock; for SQL functions, whose
 * argument can be anything.  Recognised by its callback: relam may read btree
 * at the moment.
 */
Relation
bun_open_index(Oid indexid, LOCKMODE lockmode)
{
	Relation	rel = relation_open(indexid, lockmode);

	if (rel->rd_rel->relkind != RELKIND_INDEX ||
		rel->rd_indam->aminsert != bun_insert)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a bunbtree index",
						RelationGetRelationName(rel)),
				 rel->rd_rel->relkind == RELKIND_PARTITIONED_INDEX ?
				 errhint("Name the index of a partition.") : 0));
	return rel;
}

/*
 * ambuild: nbtree's, presented.
 */
IndexBuildResult *
bun_build(Relation heap, Relation index, IndexInfo *indexInfo)
{
	BunCall    *call = bun_begin_call(index);
	IndexBuildResult *result;

	result = btbuild(heap, index, indexInfo);
	bun_end_call(call);
	return result;
}

/*
 * ambuildempty: nbtree's, presented.
 */
void
bun_buildempty(Relation index)
{
	BunCall    *call = bun_begin_call(index);

	btbuildempty(index);
	bun_end_call(call);
}

/*
 * ambulkdelete: nbtree's, presented.
 */
IndexBulkDeleteResult *
bun_bulkdelete(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
			   IndexBulkDeleteCallback callback, void *callback_state)
{
	BunCall    *call = bun_begin_call(info->index);

	stats = btbulkdelete(info, stats, callback, callback_state);
	bun_end_call(call);
	return stats;
}

/*
 * amvacuumcleanup: nbtree's, presented, and an occasion to look for what has been
 * left in shared memory.
 */
IndexBulkDeleteResult *
bun_vacuumcleanup(IndexVacuumInfo *info, IndexBulkDeleteResult *stats)
{
	BunCall    *call = bun_begin_call(info->index);

	stats = btvacuumcleanup(info, stats);
	bun_end_call(call);

	if (!info->analyze_only && !IsParallelWorker())
		(void) bun_slots_sweep();
	return stats;
}
