/*-------------------------------------------------------------------------
 *
 * insert.c
 *		One insertion, from aminsert to nbtree and back.
 *
 * The insertion itself is btinsert()'s.  We ask policy.c whether it may have a
 * pass, if it turns out that its leaf page is full, call btinsert() through
 * the bridge, and tell policy.c what came of it.
 *
 * A pass happens if nbtree is told that the executor's hint was there
 * ("indexUnchanged"), and sometimes although it was told otherwise: on unique
 * indexes, after a duplicate was seen or entries marked LP_DEAD were removed.
 * The callback therefore has to know the answer of policy.c as well.
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
#include "storage/bufmgr.h"

static void after_pass(BunCall *call, Relation heap);
static BlockNumber right_sibling(Relation index, BlockNumber leaf, bool lock);

/*
 * aminsert.
 *
 * Locks and errors are nbtree's, and ERRCODE_STATEMENT_TOO_COMPLEX.  Run
 * bench/instructions before and after you add to it: most insertions may not
 * ask, and should cost next to nothing more than btinsert().
 */
bool
bun_insert(Relation index, Datum *values, bool *isnull,
		   ItemPointer heap_tid, Relation heap,
		   IndexUniqueCheck checkUnique, bool indexUnchanged,
		   IndexInfo *indexInfo)
{
	bool		result;
	BunIndexState *state;
	BunMode		mode;
	BunCall    *call;

	call = bun_begin_call(index);
	if (unlikely(!bun_can_intercept(heap)))
	{
		result = btinsert(index, values, isnull, heap_tid, heap, checkUnique,
						  indexUnchanged, indexInfo);
		bun_end_call(call);
		return result;
	}

	/* One look-up a statement: nbtree leaves ii_AmCache alone. */
	if (unlikely(indexInfo->ii_AmCache == NULL))
		indexInfo->ii_AmCache = bun_state(index, heap);
	state = indexInfo->ii_AmCache;

	if (unlikely(++state->ticks >= state->next_sync))
		bun_policy_tick(state, index, heap);

	call->state = state;
	call->asked = false;
	call->may_ask = false;
	call->kind =
		indexUnchanged ? BUN_HINTED :
		RelationGetTargetBlock(index) != InvalidBlockNumber ? BUN_APPEND :
		BUN_OTHER;

	/*
	 * What nbtree gets to see as the executor's hint.  A hint that was there
	 * is passed on while backing off, for the sake of deduplication, which
	 * goes about its work differently without it; the callback then declines.
	 */
	mode = bun_index_mode(index);
	if (unlikely(mode == BUN_MODE_OFF))
		indexUnchanged = false;
	else if (state->ticks < state->backoff[call->kind].until)
		state->declined[call->kind]++;
	else
	{
		call->may_ask = true;
		indexUnchanged |= mode == BUN_MODE_AUTO;
	}

	bun_intercept(call, heap);
	result = btinsert(index, values, isnull, heap_tid, heap, checkUnique,
					  indexUnchanged, indexInfo);
	bun_end_call(call);

	if (unlikely(call->asked))
		after_pass(call, heap);

	return result;
}

/*
 * nbtree asks the table AM, during an insertion of ours, which of a leaf page's
 * entries may go.
 *
 * Called with the leaf page "delstate->iblknum" locked exclusively.  The
 * contract is that of table_index_delete_tuples().
 */
TransactionId
bun_index_delete_tuples(BunCall *call, TM_IndexDeleteOp *delstate)
{
	TransactionId horizon;

	if (delstate->bottomup)
	{
		if (call->may_ask)
		{
			call->asked = true;
			call->leaf = delstate->iblknum;
			call->right = right_sibling(delstate->irel, delstate->iblknum,
										false);
			return bun_pass(call, delstate);
		}

		/* With "off" in force, only insertions that get here were declined. */
		if (bun_index_mode(call->index) == BUN_MODE_OFF)
			call->state->declined[call->kind]++;

		/* Nothing to delete: the contract's way to decline. */
		delstate->ndeltids = 0;
		return InvalidTransactionId;
	}

	/* Simple deletion: nbtree's affair, we only count. */
	horizon = bun_heap_routine->index_delete_tuples(call->heap, delstate);
	for (int i = 0; i < delstate->ndeltids; i++)
	{
		if (delstate->status[delstate->deltids[i].id].knowndeletable)
			call->state->simple_deleted[call->kind]++;
	}
	return horizon;
}

/*
 * An insertion that had a pass is over, and no lock is held any more: time to
 * think about what it has brought.
 *
 * A leaf page that has another right sibling than before has been split.  (Or
 * somebody else has split it in between, or VACUUM has deleted that sibling,
 * which is rare, and taken for a split.)
 */
static void
after_pass(BunCall *call, Relation heap)
{
	BunOutcome *outcome = &call->outcome;

	outcome->split =
		right_sibling(call->index, call->leaf, true) != call->right;
	bun_sample(outcome, heap);
	bun_policy_learn(call->state, call->kind, outcome, call->index);
	bun_stats_pass(call->state->slot, call->kind, outcome);
}

/*
 * Right sibling of a leaf page, which the caller has locked unless "lock" is
 * set.
 */
static BlockNumber
right_sibling(Relation index, BlockNumber leaf, bool lock)
{
	Buffer		buffer = ReadBuffer(index, leaf);
	BlockNumber result;

	if (lock)
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
	result = BTPageGetOpaque(BufferGetPage(buffer))->btpo_next;
	if (lock)
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	ReleaseBuffer(buffer);
	return result;
}
