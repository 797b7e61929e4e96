/*-------------------------------------------------------------------------
 *
 * policy.c
 *		May an insertion ask for a pass?
 *
 * A pass that frees nothing is wasted, and an insert-only table would waste
 * one at every split.  So we ask where it has paid, or where there is reason
 * to believe that it will, and otherwise now and then.
 *
 * Time is counted in insertions into the index ("ticks").  Each kind of
 * insertion backs off by itself, and may ask from the tick "until" on:
 *
 * - A pass that pays earns credit, one that does not uses it up; with credit
 *	 left the next insertion may ask.  Without, the kind waits 64 insertions,
 *	 then 128, and so on, until a pass pays again.
 * - How long the wait may grow depends on what else is known.  If the table
 *	 has dead rows, it stays short: in a churned index one would-be split in
 *	 ten insertions is common, and each one missed is a page more for good.
 *	 If rows that the pass looked at are dead but still visible to somebody,
 *	 the wait grows long, and ends when the horizon has moved past them.
 * - Unless there is credit, or a fair share of the table is dead, a pass is a
 *	 probe (see pass.c), which costs little.  Probes find the hot spot too
 *	 small to show in the table's totals, the aborted rows, and what died
 *	 before statistics were lost.
 *
 * Nothing here runs with a buffer lock held.
 *
 * Portions Copyright (c) 2026, bunbtree developers
 *
 * IDENTIFICATION
 *		src/policy.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "bunbtree.h"

#include "access/heapam.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/snapmgr.h"

/*
 * Evidence is looked up every LOOK_INTERVAL ticks, a horizon that blocks every
 * BLOCKED_LOOK_INTERVAL: either costs about as much as an index descent.
 */
#define LOOK_INTERVAL			256
#define BLOCKED_LOOK_INTERVAL	64

/*
 * Dead rows of a table from which on there is some evidence, and their share
 * from which on there is plenty.  The first only tells tables that have
 * deletions from those that have none, or next to none.
 */
#define SOME_DEAD				64
#define PLENTY_FRACTION			0.005f

/*
 * What the yield map expects where nothing is known, at least.  Not zero: all
 * blocks would tie, and duplicates would no longer rank first.
 */
#define MIN_PRIOR				0.02f

/* Unpaid passes in a row that credit can cover. */
#define MAX_CREDIT				8

/*
 * Waits are FIRST_WAIT << streak.  Caps of the streak: 512 insertions with
 * plenty of evidence, 1,024 with some, 16,384 with none, and 131,072 (about one
 * would-be split in 1,000) while the horizon is held.  Insertions that have
 * neither the executor's hint nor evidence start as if they had failed often.
 */
#define FIRST_WAIT				64
#define MAX_STREAK_PLENTY		3
#define MAX_STREAK_SOME			4
#define MAX_STREAK_NONE			8
#define MAX_STREAK_BLOCKED		11

/*
 * A pass pays if it frees an entry for so many heap blocks visited.  A visit
 * takes about a microsecond where the row is cached, an entry freed lets one
 * insertion go without a split.
 */
#define VISITS_PER_PAID_ENTRY	16

static BunEvidence look_for_dead_rows(Relation heap, float *fraction);
static void end_all_waits(BunIndexState *state);
static FullTransactionId older_of(FullTransactionId a, FullTransactionId b);
static FullTransactionId blocking_xid(Relation heap, ItemPointer tid);

/*
 * First touch of an index by this backend: "state" is all zeroes but for its
 * key.
 */
void
bun_policy_start(BunIndexState *state, Relation heap)
{
	state->blocker = InvalidFullTransactionId;
	bun_policy_look(state, heap);
	if (state->evidence == BUN_NONE)
	{
		for (int kind = BUN_HINTED + 1; kind < BUN_NKINDS; kind++)
		{
			state->backoff[kind].streak = MAX_STREAK_NONE;
			state->backoff[kind].until =
				state->ticks + (FIRST_WAIT << MAX_STREAK_NONE);
		}
	}
}

/*
 * Look for reasons to ask: dead rows in the table, a horizon that has moved.
 * Called as soon as state->ticks has reached state->next_look.
 */
void
bun_policy_look(BunIndexState *state, Relation heap)
{
	float		fraction;
	BunEvidence evidence = look_for_dead_rows(heap, &fraction);

	/* A rewritten heap has its rows elsewhere. */
	state->yield.prior = Max(fraction, MIN_PRIOR);
	if (state->heapfile != bun_file_number(heap))
	{
		state->heapfile = bun_file_number(heap);
		bun_yield_reset(&state->yield);
	}

	if (evidence > state->evidence &&
		!FullTransactionIdIsValid(state->blocker))
		end_all_waits(state);
	state->evidence = evidence;

	if (FullTransactionIdIsValid(state->blocker) &&
		GlobalVisCheckRemovableFullXid(heap, state->blocker))
	{
		state->blocker = InvalidFullTransactionId;
		end_all_waits(state);
	}

	state->next_look = state->ticks +
		(FullTransactionIdIsValid(state->blocker) ?
		 BLOCKED_LOOK_INTERVAL : LOOK_INTERVAL);
}

/*
 * Is there reason to expect that a pass of this kind finds something?  If
 * not, it should be a probe.
 */
bool
bun_policy_hopeful(const BunIndexState *state, BunKind kind)
{
	return state->evidence == BUN_PLENTY || state->backoff[kind].credit > 0;
}

/*
 * Learn from a pass that an insertion of this kind had.
 */
void
bun_policy_learn(BunIndexState *state, BunKind kind, const BunOutcome *outcome,
				 Relation heap)
{
	BunBackoff *backoff = &state->backoff[kind];
	FullTransactionId blocker = InvalidFullTransactionId;
	int			max_streak;

	if (outcome->freed > 0 &&
		outcome->freed * VISITS_PER_PAID_ENTRY >= outcome->visited)
	{
		backoff->streak = 0;
		backoff->credit = Min(backoff->credit + 1, MAX_CREDIT);
		return;
	}

	if (backoff->credit > 0)
	{
		backoff->credit--;
		return;
	}

	/* Nothing to delete, or nothing that may be deleted yet? */
	if (outcome->freed == 0)
	{
		for (int i = 0; i < outcome->nsamples; i++)
		{
			ItemPointerData tid = outcome->samples[i];

			blocker = older_of(blocker, blocking_xid(heap, &tid));
		}
	}

	/*
	 * The oldest of all blockers ends the waits of all kinds, and only when
	 * it has been removed: another kind's failure says nothing about it.
	 */
	state->blocker = older_of(state->blocker, blocker);

	if (FullTransactionIdIsValid(blocker))
		max_streak = MAX_STREAK_BLOCKED;
	else if (state->evidence == BUN_PLENTY)
		max_streak = MAX_STREAK_PLENTY;
	else if (state->evidence == BUN_SOME)
		max_streak = MAX_STREAK_SOME;
	else
		max_streak = MAX_STREAK_NONE;
	backoff->streak = Min(backoff->streak, max_streak);
	backoff->until = state->ticks + ((uint64) FIRST_WAIT << backoff->streak);
	backoff->streak++;
}

/*
 * Has the table dead rows, and which share of its rows is dead?  By
 * PostgreSQL's own count: what all backends have reported to the cumulative
 * statistics system, and what this one has yet to report.  Deletions of the
 * running transaction are in neither; nobody could remove them anyway.  With
 * track_counts off nobody knows, and probes have to find out.
 *
 * Reads the shared entry directly, without its lock: two counters, of which
 * an estimate is made.  pgstat_fetch_stat_tabentry() would freeze the entry
 * for the rest of the transaction (stats_fetch_consistency = cache), for us
 * and for the user who looks at pg_stat_user_tables.
 */
static BunEvidence
look_for_dead_rows(Relation heap, float *fraction)
{
	PgStat_EntryRef *ref;
	double		live = 0;
	double		dead = 0;

	ref = pgstat_get_entry_ref(PGSTAT_KIND_RELATION, MyDatabaseId,
							   RelationGetRelid(heap), false, NULL);
	if (ref != NULL)
	{
		PgStatShared_Relation *shared =
			(PgStatShared_Relation *) ref->shared_stats;

		live += bun_shared_live_tuples(&shared->stats);
		dead += bun_shared_dead_tuples(&shared->stats);
	}
	if (heap->pgstat_info != NULL)
	{
		live += bun_pending_live_tuples(heap->pgstat_info);
		dead += bun_pending_dead_tuples(heap->pgstat_info);
	}

	*fraction = dead > 0 ? dead / (dead + Max(live, 0)) : 0;

	if (*fraction > PLENTY_FRACTION && dead >= SOME_DEAD)
		return BUN_PLENTY;
	if (dead >= SOME_DEAD || !pgstat_track_counts)
		return BUN_SOME;
	return BUN_NONE;
}

/*
 * Every kind may ask again at once.
 */
static void
end_all_waits(BunIndexState *state)
{
	for (int kind = 0; kind < BUN_NKINDS; kind++)
	{
		state->backoff[kind].until = state->ticks;
		state->backoff[kind].streak = 0;
	}
}

/*
 * The older of two transactions, either of which may be invalid.
 */
static FullTransactionId
older_of(FullTransactionId a, FullTransactionId b)
{
	if (!FullTransactionIdIsValid(a))
		return b;
	if (!FullTransactionIdIsValid(b) || FullTransactionIdPrecedes(a, b))
		return a;
	return b;
}

/*
 * If the row at this TID, that is the last version of its HOT chain, has been
 * deleted, but not long enough ago for its index entry to go, return the
 * deleting transaction, else InvalidFullTransactionId.
 *
 * Pins and share-locks the heap block.  A sample: the row may have been moved
 * or removed since the pass looked at it, which is as good as live.
 */
static FullTransactionId
blocking_xid(Relation heap, ItemPointer tid)
{
	TransactionId xid = InvalidTransactionId;
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
		switch (HeapTupleSatisfiesVacuumHorizon(&tuple, buffer, &dead_after))
		{
			case HEAPTUPLE_RECENTLY_DEAD:
				xid = dead_after;
				break;
			case HEAPTUPLE_DELETE_IN_PROGRESS:
				if (!is_multi)
					xid = HeapTupleHeaderGetRawXmax(tuple.t_data);
				break;
			default:
				break;
		}
		break;
	}
	UnlockReleaseBuffer(buffer);

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
