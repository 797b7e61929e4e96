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
 * Up to PostgreSQL 17 the executor asks that question, too.  For executor.c and
 * refresh.c, indexes are presented for longer, any number of them, open and
 * locked by us: "presentations", which form a list.  Its entries end in reverse
 * order, as guarded calls do.  An index is in the list once, and never if it is
 * presented already; so what is presented by both was in the list before.
 *
 * What can happen in the middle:
 *
 * - A relcache invalidation.  It can arrive at any lock acquisition, and
 *	 overwrites rd_rel with what the catalog says.  A relcache callback presents
 *	 the entries of stack and list again: callbacks run right after the entry has
 *	 been rebuilt, before nbtree gets to look at it.  While a subtransaction
 *	 aborts, entries are only marked invalid, to be rebuilt, without a callback,
 *	 when somebody opens them; then we put the mark off until they cease to be
 *	 presented.
 *	 Rebuilding a heap's entry ends its interception; we lose one pass.
 *
 * - An error.  Stack and list are unwound when the (sub)transaction that made
 *	 them aborts: before the resource owner lets go of the relcache entries,
 *	 and before another command can run.  PG_TRY in each insertion would do the
 *	 same, and cost half as much again as all the rest of what we add to
 *	 btinsert().  (C code that swallows an error without aborting a
 *	 subtransaction breaks PostgreSQL's rules: the relcache entries are closed
 *	 at the end of the statement, whoever still points to them.  If it goes on
 *	 to the end of an outer guarded call, that one cleans up.)
 *
 * Guarded calls take no locks.  The caller of the access method holds a lock on
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
#include "utils/memutils.h"

/* Guarded calls of this backend, outermost first, and where the next goes. */
BunCall		bun_calls[BUN_MAX_CALLS];
BunCall    *bun_next_call = bun_calls;

/* Indexes presented until bun_end_presentations(), innermost first. */
BunPresentation *bun_presentations = NULL;

/* What GetCurrentTransactionNestLevel() would say, at no price. */
int			bun_nest_level;

/* Has a presented entry been kept from being rebuilt? */
bool		bun_reload_pending = false;

/* The heap AM's routine, and our copy of it; set when the library is loaded. */
const TableAmRoutine *bun_heap_routine;
TableAmRoutine bun_intercepting_routine;

static bool is_ours(Relation index);
static bool is_unique_and_ours(Oid indexid);
static void end_presentation(void);
static void unwind(int nest_level);
static void present_again(Relation index);
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
 * Is this index of our access method?  Recognised by a callback: relam may read
 * btree at the moment.
 */
static bool
is_ours(Relation index)
{
	return index->rd_indam->aminsert == bun_insert;
}

/*
 * The same by OID, for a unique one only.
 *
 * The caller holds a lock on the table that keeps others from changing the
 * index's access method.  That is enough for a look at the relcache entry, which
 * costs a fraction of locking and opening it.
 */
static bool
is_unique_and_ours(Oid indexid)
{
	Relation	index = RelationIdGetRelation(indexid);
	bool		result;

	if (!RelationIsValid(index))
		return false;			/* dropped concurrently */
	result = index->rd_index->indisunique && is_ours(index);
	RelationClose(index);
	return result;
}

/*
 * Open an index and, if it is ours, present it until bun_end_presentations().
 *
 * If it is presented already, then for something around us, which will last for
 * longer.
 */
void
bun_present(Oid indexid, LOCKMODE lockmode)
{
	Relation	index = index_open(indexid, lockmode);
	BunPresentation *it;

	if (!is_ours(index) || index->rd_rel->relam == BTREE_AM_OID)
	{
		index_close(index, lockmode);
		return;
	}

	it = MemoryContextAlloc(TopMemoryContext, sizeof(BunPresentation));
	it->outer = bun_presentations;
	it->index = index;
	it->lockmode = lockmode;
	it->relam = index->rd_rel->relam;
	it->nest_level = bun_nest_level;
	bun_presentations = it;

	index->rd_rel->relam = BTREE_AM_OID;
}

/*
 * Present a table's unique indexes of ours, if there are any.  The caller holds
 * a lock on the table that CREATE INDEX conflicts with.
 */
void
bun_present_unique(Relation table, LOCKMODE lockmode)
{
	List	   *indexes;
	ListCell   *lc;

	if (!table->rd_rel->relhasindex)
		return;

	indexes = RelationGetIndexList(table);
	foreach(lc, indexes)
	{
		if (is_unique_and_ours(lfirst_oid(lc)))
			bun_present(lfirst_oid(lc), lockmode);
	}
	list_free(indexes);
}

/*
 * End what bun_present() has begun since bun_presentations read "outer", and
 * close the indexes.
 */
void
bun_end_presentations(BunPresentation *outer)
{
	while (bun_presentations != outer)
	{
		Relation	index = bun_presentations->index;
		LOCKMODE	lockmode = bun_presentations->lockmode;

		end_presentation();
		index_close(index, lockmode);
	}
}

/*
 * End the innermost presentation.
 */
static void
end_presentation(void)
{
	BunPresentation *it = bun_presentations;

	if (unlikely(bun_reload_pending))
		bun_catch_up(it->index, it->relam);
	it->index->rd_rel->relam = it->relam;
	bun_presentations = it->outer;
	pfree(it);
}

/*
 * Undo what was presented at this transaction nesting level or deeper, without
 * closing it: the resource owner does that.
 *
 * Guarded calls come first.  If one is for an index that is in the list, it
 * began after that, and leaves it presented.  If one is an insertion, policy.c is
 * told that it has failed.
 */
static void
unwind(int nest_level)
{
	while (bun_next_call > bun_calls &&
		   bun_next_call[-1].nest_level >= nest_level)
	{
		BunCall    *call = bun_next_call - 1;

		if (call->heap != NULL)
			bun_policy_failed(call->state);
		bun_end_call(call);
	}
	while (bun_presentations != NULL &&
		   bun_presentations->nest_level >= nest_level)
		end_presentation();
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
 * An index ceases to be presented: have its relcache entry rebuilt if that was
 * put off.  Not if it will still be presented, which "relam", what it is to read
 * now, says.
 */
void
bun_catch_up(Relation index, Oid relam)
{
	if (relam == BTREE_AM_OID)
		return;
	index->rd_isvalid = false;

	/* the last one? */
	if (bun_presentations == NULL ? bun_next_call == bun_calls + 1 :
		bun_next_call == bun_calls && bun_presentations->outer == NULL)
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
		if (relid == InvalidOid || relid == RelationGetRelid(call->index))
			present_again(call->index);
	}
	for (BunPresentation *it = bun_presentations; it != NULL; it = it->outer)
	{
		if (relid == InvalidOid || relid == RelationGetRelid(it->index))
			present_again(it->index);
	}
}

/*
 * Present an index whose relcache entry was invalidated.
 */
static void
present_again(Relation index)
{
	index->rd_rel->relam = BTREE_AM_OID;
	if (!index->rd_isvalid)
	{
		/*
		 * Not rebuilt yet: a subtransaction is aborting.  What is there is
		 * good enough for those who have the index open, us among them, as
		 * the relcache itself says of such entries.
		 */
		index->rd_isvalid = true;
		bun_reload_pending = true;
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
 * Open a relation that is to be an index by OID, with the given lock; for SQL
 * functions, whose argument can be any number.
 */
Relation
bun_open_any_relation(Oid relid, LOCKMODE lockmode)
{
	Relation	rel = try_relation_open(relid, lockmode);

	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("index with OID %u does not exist", relid)));
	return rel;
}

/*
 * Likewise, an index of ours.
 */
Relation
bun_open_index(Oid indexid, LOCKMODE lockmode)
{
	Relation	rel = bun_open_any_relation(indexid, lockmode);

	if (rel->rd_rel->relkind != RELKIND_INDEX || !is_ours(rel))
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
	BunCall    *call;
	IndexBuildResult *result;

	bun_check_collations(index);

	call = bun_begin_call(index);
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
