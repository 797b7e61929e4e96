/*-------------------------------------------------------------------------
 *
 * insert.c
 *		One insertion, from aminsert to nbtree and back.
 *
 * The insertion itself is btinsert()'s.  Around it we
 *
 * - ask policy.c whether this insertion may have a pass, if it turns out
 *	 that its leaf page is full;
 * - present the index (bridge.c);
 * - intercept the table AM's index_delete_tuples, by pointing
 *	 heap->rd_tableam to a copy of the heap AM's routine in which only that
 *	 callback differs.  nbtree calls it with the leaf page locked and all of
 *	 its TIDs in hand, just before it would deduplicate or split.
 *
 * A pass happens if nbtree is told that the executor's hint was there
 * ("indexUnchanged"), and sometimes although it was told otherwise: on unique
 * indexes, after a duplicate was seen or entries marked LP_DEAD were removed.
 * The callback therefore has to know the answer of policy.c as well.
 *
 * Only tables of the heap AM are intercepted.  Core recognises heap tables by
 * the address of their routine (heap_getnext() does), and a table AM that
 * wraps heap's would lose what it adds; any other table gets nbtree's own
 * behaviour.  The routine to restore is a constant, never a variable that a
 * nested swap could have changed.  A relcache rebuild of the heap in the
 * middle restores the original early; we lose one pass.
 *
 * The callback finds the insertion through bridge.c's stack of guarded calls.
 * Insertions nest when an operator class's support function inserts elsewhere,
 * or even into the same table; a callback for an index other than the
 * innermost call's is not ours.
 *
 * Portions Copyright (c) 2026, bunbtree developers
 *
 * IDENTIFICATION
 *		src/insert.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "bunbtree.h"

#include "nodes/execnodes.h"

/* The heap AM's routine, and our copy of it; set when the library is loaded. */
static const TableAmRoutine *heap_routine;
static TableAmRoutine intercepting_routine;

static bool insert_unintercepted(Relation index, Datum *values, bool *isnull,
								 ItemPointer heap_tid, Relation heap,
								 IndexUniqueCheck checkUnique,
								 bool indexUnchanged, IndexInfo *indexInfo);
static TransactionId intercepted_index_delete_tuples(Relation heap,
													 TM_IndexDeleteOp *delstate);

/*
 * Called once, when the library is loaded.
 */
void
bun_insert_init(void)
{
	heap_routine = GetHeapamTableAmRoutine();
	intercepting_routine = *heap_routine;
	intercepting_routine.index_delete_tuples = intercepted_index_delete_tuples;
}

/*
 * aminsert.
 *
 * Locks and errors are nbtree's.  Between any two insertions that may not ask
 * this adds a few dozen instructions to btinsert(), most of them PG_TRY's, so
 * look at what it costs (bench/instructions) before you add to it.
 */
bool
bun_insert(Relation index, Datum *values, bool *isnull,
		   ItemPointer heap_tid, Relation heap,
		   IndexUniqueCheck checkUnique, bool indexUnchanged,
		   IndexInfo *indexInfo)
{
	volatile bool result;
	BunIndexState *state;
	BunMode		mode = bun_index_mode(index);
	bool		hint;
	BunInsertion insertion;
	BunCall		call;

	if (unlikely(heap->rd_tableam != heap_routine))
		return insert_unintercepted(index, values, isnull, heap_tid, heap,
									checkUnique, indexUnchanged, indexInfo);

	/* One look-up a statement: nbtree leaves ii_AmCache alone. */
	if (unlikely(indexInfo->ii_AmCache == NULL))
		indexInfo->ii_AmCache = bun_state(index, heap);
	state = indexInfo->ii_AmCache;

	if (unlikely(++state->ticks >= state->next_look))
		bun_policy_look(state, heap);

	insertion.state = state;
	insertion.asked = false;
	insertion.kind =
		indexUnchanged ? BUN_HINTED :
		RelationGetTargetBlock(index) != InvalidBlockNumber ? BUN_APPEND :
		BUN_OTHER;
	insertion.may_ask = mode != BUN_MODE_OFF &&
		state->ticks >= state->backoff[insertion.kind].until;

	/*
	 * What nbtree gets to see as the executor's hint.  A hint that was there
	 * is passed on while backing off, for the sake of deduplication, which
	 * goes about its work differently without it; the callback then declines.
	 */
	hint = mode != BUN_MODE_OFF &&
		(indexUnchanged || (insertion.may_ask && mode == BUN_MODE_AUTO));

	if (!insertion.may_ask && mode != BUN_MODE_OFF)
		state->counters.declined++;

	bun_begin_call(&call, index, &insertion);
	PG_TRY();
	{
		heap->rd_tableam = &intercepting_routine;
		result = btinsert(index, values, isnull, heap_tid, heap, checkUnique,
						  hint, indexInfo);
	}
	PG_FINALLY();
	{
		heap->rd_tableam = heap_routine;
		bun_end_call(&call);
	}
	PG_END_TRY();

	/* No lock is held any more: time to think about what the pass brought. */
	if (unlikely(insertion.asked))
		bun_policy_learn(state, insertion.kind, &insertion.outcome, heap);

	return result;
}

/*
 * An insertion in which nbtree deletes by its own rules: the table's AM is not
 * heap, or an insertion into the same table is going on around this one, and
 * has intercepted its callback already.
 */
static bool
insert_unintercepted(Relation index, Datum *values, bool *isnull,
					 ItemPointer heap_tid, Relation heap,
					 IndexUniqueCheck checkUnique, bool indexUnchanged,
					 IndexInfo *indexInfo)
{
	volatile bool result;
	BunCall		call;

	bun_begin_call(&call, index, NULL);
	PG_TRY();
	{
		result = btinsert(index, values, isnull, heap_tid, heap, checkUnique,
						  indexUnchanged, indexInfo);
	}
	PG_FINALLY();
	{
		bun_end_call(&call);
	}
	PG_END_TRY();

	return result;
}

/*
 * The table AM callback that nbtree reaches during an insertion of ours.
 *
 * The leaf page "delstate->iblknum" is locked exclusively.
 */
static TransactionId
intercepted_index_delete_tuples(Relation heap, TM_IndexDeleteOp *delstate)
{
	BunCall    *call = bun_current_call;
	BunInsertion *insertion;
	TransactionId horizon;

	if (call == NULL || call->index != delstate->irel ||
		call->insertion == NULL)
		return heap_routine->index_delete_tuples(heap, delstate);
	insertion = call->insertion;

	if (delstate->bottomup)
	{
		if (insertion->may_ask)
			return bun_pass(heap, insertion, delstate);

		/* Nothing to delete: the contract's way to decline. */
		delstate->ndeltids = 0;
		return InvalidTransactionId;
	}

	/* Simple deletion: nbtree's affair, we only count. */
	horizon = heap_routine->index_delete_tuples(heap, delstate);
	for (int i = 0; i < delstate->ndeltids; i++)
	{
		if (delstate->status[delstate->deltids[i].id].knowndeletable)
			insertion->state->counters.simple_deletions++;
	}
	return horizon;
}

/*
 * The heap AM's own index_delete_tuples, for the pass.
 */
TransactionId
bun_heap_index_delete_tuples(Relation heap, TM_IndexDeleteOp *delstate)
{
	return heap_routine->index_delete_tuples(heap, delstate);
}
