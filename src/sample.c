/*-------------------------------------------------------------------------
 *
 * sample.c
 *		Why did a pass free nothing?
 *
 * A pass that frees nothing has met rows that are live, or dead rows that
 * somebody may still see: a held horizon.  The two ask for different patience,
 * and users want to know.  The pass keeps a few TIDs; here their rows are
 * examined.
 *
 * The insertion is over and no lock is held.  Pins and share-locks one heap block
 * at a time.  It is a sample: a row may have been moved or removed since the pass
 * looked at it, which is as good as live.
 *
 * Portions Copyright (c) 2026, bunbtree developers
 *
 * IDENTIFICATION
 *		src/sample.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "bunbtree.h"

#include "access/heapam.h"
#include "storage/bufmgr.h"

static HTSV_Result row_status(Relation heap, ItemPointer tid,
							  TransactionId *deleter);
static FullTransactionId full_xid(TransactionId xid);

/*
 * Examine the samples of a pass, unless it has paid: then nobody wants to know.
 */
void
bun_sample(BunOutcome *outcome, Relation heap)
{
	outcome->live = 0;
	outcome->recently_dead = 0;
	outcome->blocker = InvalidFullTransactionId;

	if (bun_policy_paid(outcome))
		return;

	for (int i = 0; i < outcome->nsamples; i++)
	{
		ItemPointerData tid = outcome->samples[i];
		TransactionId deleter = InvalidTransactionId;

		switch (row_status(heap, &tid, &deleter))
		{
			case HEAPTUPLE_LIVE:
			case HEAPTUPLE_INSERT_IN_PROGRESS:
				outcome->live++;
				break;
			case HEAPTUPLE_RECENTLY_DEAD:
			case HEAPTUPLE_DELETE_IN_PROGRESS:
				outcome->recently_dead++;
				outcome->blocker = bun_older_xid(outcome->blocker,
												 full_xid(deleter));
				break;
			case HEAPTUPLE_DEAD:
				break;
		}
	}
}

/*
 * The older of two transactions, either of which may be invalid.
 */
FullTransactionId
bun_older_xid(FullTransactionId a, FullTransactionId b)
{
	if (!FullTransactionIdIsValid(a))
		return b;
	if (!FullTransactionIdIsValid(b) || FullTransactionIdPrecedes(a, b))
		return a;
	return b;
}

/*
 * Status of the row at this TID, that is of the last version of its HOT chain;
 * HEAPTUPLE_DEAD if there is none any more.  If it is recently dead or being
 * deleted, "*deleter" says by whom, as far as that can be told.
 */
static HTSV_Result
row_status(Relation heap, ItemPointer tid, TransactionId *deleter)
{
	HTSV_Result result = HEAPTUPLE_DEAD;
	OffsetNumber offnum = ItemPointerGetOffsetNumber(tid);
	Buffer		buffer;
	Page		page;

	buffer = ReadBuffer(heap, ItemPointerGetBlockNumber(tid));
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);

	/* A chain is no longer than the page has items. */
	for (int i = 0; i < MaxHeapTuplesPerPage; i++)
	{
		ItemId		lp;
		HeapTupleData tuple;
		TransactionId dead_after;
		bool		is_multi;

		if (offnum < FirstOffsetNumber || offnum > PageGetMaxOffsetNumber(page))
			break;
		lp = PageGetItemId(page, offnum);
		if (ItemIdIsRedirected(lp))
		{
			offnum = ItemIdGetRedirect(lp);
			continue;
		}
		if (!ItemIdIsNormal(lp))
			break;

		tuple.t_data = (HeapTupleHeader) PageGetItem(page, lp);
		tuple.t_len = ItemIdGetLength(lp);
		tuple.t_tableOid = RelationGetRelid(heap);
		ItemPointerSet(&tuple.t_self, BufferGetBlockNumber(buffer), offnum);

		if (HeapTupleHeaderIsHotUpdated(tuple.t_data))
		{
			offnum = ItemPointerGetOffsetNumber(&tuple.t_data->t_ctid);
			continue;
		}

		/*
		 * Hint bits can change under a share lock, so whether xmax is a
		 * MultiXactId has to be looked at before.  If it is, and the update
		 * is in progress, leave it: the next sample will do.
		 */
		is_multi = (tuple.t_data->t_infomask & HEAP_XMAX_IS_MULTI) != 0;
		result = HeapTupleSatisfiesVacuumHorizon(&tuple, buffer, &dead_after);
		if (result == HEAPTUPLE_RECENTLY_DEAD)
			*deleter = dead_after;
		else if (result == HEAPTUPLE_DELETE_IN_PROGRESS && !is_multi)
			*deleter = HeapTupleHeaderGetRawXmax(tuple.t_data);
		break;
	}
	UnlockReleaseBuffer(buffer);

	return result;
}

/*
 * The full form of a deleter's xid, or an invalid one.
 */
static FullTransactionId
full_xid(TransactionId xid)
{
	if (TransactionIdIsNormal(xid))
	{
		/* Not long past, so its epoch follows from the next xid's. */
		FullTransactionId next = ReadNextFullTransactionId();
		uint32		age = XidFromFullTransactionId(next) - xid;

		if (age < PG_INT32_MAX && age < U64FromFullTransactionId(next))
			return FullTransactionIdFromU64(U64FromFullTransactionId(next) - age);
	}
	return InvalidFullTransactionId;
}
