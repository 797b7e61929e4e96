/*-------------------------------------------------------------------------
 *
 * policy.c
 *		May an insertion ask for a pass?
 *
 * A pass that frees nothing is wasted, and an insert-only table would waste
 * one at every split.  So we ask where it has paid, or where there is reason
 * to believe that it will, and otherwise now and then.
 *
 * Time is counted in insertions into the index ("ticks"), those of all backends.
 * Each kind of insertion backs off by itself, and may ask from the tick "until"
 * on:
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
 * All backends share what is learned (BunSlot).  Each acts on its own copy
 * (BunIndexState), which may be a few hundred ticks old, and writes back without
 * a lock: if two learn at once, one lesson may be lost.
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

#include "pgstat.h"
#include "utils/snapmgr.h"

/*
 * Evidence is looked up every LOOK_INTERVAL ticks, a horizon that blocks every
 * BLOCKED_LOOK_INTERVAL, by one of the backends: either costs about as much as an
 * index descent.  A backend reads and writes shared memory every SYNC_INTERVAL
 * insertions at the latest.
 */
#define LOOK_INTERVAL			256
#define BLOCKED_LOOK_INTERVAL	64
#define SYNC_INTERVAL			256

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
 * plenty of evidence, 1,024 with some, 65,536 with none, and 131,072 (about one
 * would-be split in 1,000) while the horizon is held.  Insertions that have
 * neither the executor's hint nor evidence start as if they had failed often.
 */
#define FIRST_WAIT				64
#define MAX_STREAK_PLENTY		3
#define MAX_STREAK_SOME			4
#define MAX_STREAK_NONE			10
#define MAX_STREAK_BLOCKED		11

/*
 * A pass pays if it frees an entry for so many heap blocks visited.  A visit
 * takes about a microsecond where the row is cached, an entry freed lets one
 * insertion go without a split.
 */
#define VISITS_PER_PAID_ENTRY	16

/* A BunBackoff in 64 bits, so that it is read and written as a whole. */
#define BACKOFF_UNTIL_SHIFT		16
#define BACKOFF_STREAK_SHIFT	8
#define BACKOFF_MASK			0xff

static BunEvidence look_for_dead_rows(Relation heap, float *fraction);
static void store_backoff(BunIndexState *state, BunKind kind);
static void end_all_waits(BunIndexState *state);
static void add_blocker(BunSlot *slot, FullTransactionId blocker,
						Relation index);

/*
 * First touch of an index by any backend: its slot is empty.
 */
void
bun_policy_start(BunIndexState *state, Relation index, Relation heap)
{
	bun_policy_look(state, index, heap);
	if (state->evidence == BUN_NONE)
	{
		for (int kind = BUN_HINTED + 1; kind < BUN_NKINDS; kind++)
		{
			state->backoff[kind].streak = MAX_STREAK_NONE;
			state->backoff[kind].until =
				state->ticks + (FIRST_WAIT << MAX_STREAK_NONE);
			store_backoff(state, kind);
		}
	}
}

/*
 * Copy from the slot what the backends have learned; state->ticks is up to
 * date.
 */
void
bun_policy_load(BunIndexState *state)
{
	BunSlot    *slot = state->slot;

	state->evidence = pg_atomic_read_u32(&slot->evidence);
	for (int kind = 0; kind < BUN_NKINDS; kind++)
	{
		uint64		packed = pg_atomic_read_u64(&slot->backoff[kind]);

		state->backoff[kind].until = packed >> BACKOFF_UNTIL_SHIFT;
		state->backoff[kind].streak =
			(packed >> BACKOFF_STREAK_SHIFT) & BACKOFF_MASK;
		state->backoff[kind].credit = packed & BACKOFF_MASK;
	}
	state->next_sync = Min(pg_atomic_read_u64(&slot->next_look),
						   state->ticks + SYNC_INTERVAL);
}

/*
 * Write back what has been learned of a kind.
 */
static void
store_backoff(BunIndexState *state, BunKind kind)
{
	const BunBackoff *backoff = &state->backoff[kind];

	pg_atomic_write_u64(&state->slot->backoff[kind],
						backoff->until << BACKOFF_UNTIL_SHIFT |
						(uint64) backoff->streak << BACKOFF_STREAK_SHIFT |
						(uint64) backoff->credit);
}

/*
 * An insertion has reached state->next_sync.
 */
void
bun_policy_tick(BunIndexState *state, Relation index, Relation heap)
{
	bun_state_sync(state);
	if (state->ticks >= pg_atomic_read_u64(&state->slot->next_look))
		bun_policy_look(state, index, heap);
}

/*
 * Look for reasons to ask: dead rows in the table, a horizon that has moved.
 */
void
bun_policy_look(BunIndexState *state, Relation index, Relation heap)
{
	BunSlot    *slot = state->slot;
	float		fraction;
	BunEvidence evidence = look_for_dead_rows(heap, &fraction);
	uint32		heapfile;
	uint64		blocker;

	bun_yield_set_prior(&slot->yield, Max(fraction, MIN_PRIOR));

	/* A rewritten heap has its rows elsewhere. */
	heapfile = pg_atomic_read_u32(&slot->heapfile);
	if (heapfile != bun_file_number(heap) &&
		pg_atomic_compare_exchange_u32(&slot->heapfile, &heapfile,
									   bun_file_number(heap)))
		bun_yield_reset(&slot->yield);

	blocker = pg_atomic_read_u64(&slot->blocker);
	if (evidence > state->evidence && blocker == 0)
		end_all_waits(state);
	state->evidence = evidence;
	pg_atomic_write_u32(&slot->evidence, evidence);

	if (blocker != 0 &&
		GlobalVisCheckRemovableFullXid(heap,
									   FullTransactionIdFromU64(blocker)) &&
		pg_atomic_compare_exchange_u64(&slot->blocker, &blocker, 0))
	{
		end_all_waits(state);
		ereport(DEBUG1,
				(errmsg_internal("index \"%s\": rows deleted by transaction " UINT64_FORMAT " can be removed now, passes begin again",
								 RelationGetRelationName(index), blocker)));
		blocker = 0;
	}

	pg_atomic_write_u64(&slot->next_look, state->ticks +
						(blocker != 0 ? BLOCKED_LOOK_INTERVAL : LOOK_INTERVAL));
	bun_policy_load(state);
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
 * Has a pass paid?
 */
bool
bun_policy_paid(const BunOutcome *outcome)
{
	return outcome->freed > 0 &&
		outcome->freed * VISITS_PER_PAID_ENTRY >= outcome->visited;
}

/*
 * Learn from a pass that an insertion of this kind had.
 */
void
bun_policy_learn(BunIndexState *state, BunKind kind, const BunOutcome *outcome,
				 Relation index)
{
	BunBackoff *backoff = &state->backoff[kind];
	int			max_streak;

	bun_state_sync(state);

	if (bun_policy_paid(outcome))
	{
		backoff->streak = 0;
		backoff->credit = Min(backoff->credit + 1, MAX_CREDIT);
	}
	else if (backoff->credit > 0)
		backoff->credit--;
	else
	{
		if (FullTransactionIdIsValid(outcome->blocker))
			add_blocker(state->slot, outcome->blocker, index);

		if (FullTransactionIdIsValid(outcome->blocker))
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
	store_backoff(state, kind);
}

/*
 * An insertion has failed.  If that was for want of space, room can only come from
 * a pass, and the disk stays full for whoever waits: the next one may ask.  After
 * other errors that costs one pass, if its leaf page is full.
 *
 * Called while a transaction aborts.
 */
void
bun_policy_failed(BunIndexState *state)
{
	for (int kind = 0; kind < BUN_NKINDS; kind++)
	{
		state->backoff[kind].until = Min(state->backoff[kind].until,
										 state->ticks);
		store_backoff(state, kind);
	}
}

/*
 * A transaction has deleted rows that cannot be removed yet.
 *
 * The oldest such transaction ends the waits of all kinds, and only when what
 * it has deleted can be removed: another kind's failure says nothing about it.
 */
static void
add_blocker(BunSlot *slot, FullTransactionId blocker, Relation index)
{
	uint64		new = U64FromFullTransactionId(blocker);
	uint64		old = pg_atomic_read_u64(&slot->blocker);

	while (old == 0 || old > new)
	{
		if (!pg_atomic_compare_exchange_u64(&slot->blocker, &old, new))
			continue;
		if (old == 0)
			ereport(DEBUG1,
					(errmsg_internal("index \"%s\": rows deleted by transaction " UINT64_FORMAT " cannot be removed yet, passes wait",
									 RelationGetRelationName(index), new)));
		break;
	}
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
		store_backoff(state, kind);
	}
}
