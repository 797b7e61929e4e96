/*-------------------------------------------------------------------------
 *
 * state.c
 *		A backend's own view of the indexes that it inserts into.
 *
 * An insertion should not have to touch shared memory, so each backend keeps a
 * copy of what insertions need of an index's slot (shared.c), and counts by
 * itself.  The two are synchronized when a statement first inserts into the
 * index, when policy.c has something to decide, and at the end of the
 * transaction.
 *
 * Portions Copyright (c) 2026, bunbtree developers
 *
 * IDENTIFICATION
 *		src/state.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "bunbtree.h"

#include "access/xact.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

/*
 * With so many indexes, look for dropped ones before making room for another;
 * a session that makes and drops temporary tables all day needs it.
 */
#define SWEEP_THRESHOLD 256

static HTAB *states = NULL;

/* States that may have something to flush. */
static BunIndexState *active_states = NULL;

static void flush(BunIndexState *state);
static void forget_dropped_indexes(void);
static void xact_callback(XactEvent event, void *arg);

/*
 * Called once, when the library is loaded.
 */
void
bun_state_init(void)
{
	RegisterXactCallback(xact_callback, NULL);
}

/*
 * State of an index, made at first use, up to date.
 *
 * The pointer stays valid as long as somebody holds a lock on the index: only
 * states of dropped indexes are removed.
 */
BunIndexState *
bun_state(Relation index, Relation heap)
{
	Oid			indexid = RelationGetRelid(index);
	BunIndexState *state;
	bool		found;
	bool		taken = false;

	if (unlikely(states == NULL))
	{
		HASHCTL		ctl;

		ctl.keysize = sizeof(Oid);
		ctl.entrysize = sizeof(BunIndexState);
		ctl.hcxt = TopMemoryContext;
		states = hash_create("bunbtree index states", 64, &ctl,
							 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}

	state = hash_search(states, &indexid, HASH_FIND, NULL);
	if (unlikely(state == NULL ||
				 pg_atomic_read_u32(&state->slot->generation) != state->generation))
	{
		/* Get the slot first, enter the state then: it may fail. */
		BunSlot    *slot = bun_slot_attach(indexid, &taken);

		if (slot == NULL)
		{
			slot = MemoryContextAlloc(TopMemoryContext, sizeof(BunSlot));
			bun_slot_init(slot, 0);
			taken = true;
		}

		if (hash_get_num_entries(states) % SWEEP_THRESHOLD ==
			SWEEP_THRESHOLD - 1)
			forget_dropped_indexes();
		state = hash_search(states, &indexid, HASH_ENTER, &found);
		if (!found)
			state->active = false;
		state->slot = slot;
		state->generation = pg_atomic_read_u32(&slot->generation);
		state->ticks = state->synced = 0;
		memset(state->declined, 0, sizeof(state->declined));
		memset(state->simple_deleted, 0, sizeof(state->simple_deleted));
	}

	if (!state->active)
	{
		state->active = true;
		state->next_active = active_states;
		active_states = state;
	}
	bun_state_sync(state);
	if (unlikely(taken))
		bun_policy_start(state, index, heap);
	else if (unlikely(pg_atomic_read_u32(&state->slot->heapfile) !=
					  bun_file_number(heap)))
		bun_policy_look(state, index, heap);
	return state;
}

/*
 * Add to the slot what has come together here, and copy from it what others
 * have put there.
 */
void
bun_state_sync(BunIndexState *state)
{
	flush(state);
	bun_policy_load(state);
}

/*
 * Add to the slot what has come together here.
 */
static void
flush(BunIndexState *state)
{
	BunSlot    *slot = state->slot;
	uint64		ticks = state->ticks - state->synced;

	state->ticks = state->synced =
		pg_atomic_fetch_add_u64(&slot->ticks, ticks) + ticks;

	for (int kind = 0; kind < BUN_NKINDS; kind++)
	{
		bun_count(slot, kind, BUN_DECLINED, state->declined[kind]);
		bun_count(slot, kind, BUN_ENTRIES_SIMPLE_DELETED,
				  state->simple_deleted[kind]);
		state->declined[kind] = 0;
		state->simple_deleted[kind] = 0;
	}
}

/*
 * Call a function for each index of which this backend alone knows: there was no
 * room in shared memory.
 */
void
bun_for_each_local_slot(void (*function) (Oid indexid, BunSlot *slot, void *arg),
						void *arg)
{
	HASH_SEQ_STATUS scan;
	BunIndexState *state;

	if (states == NULL)
		return;
	hash_seq_init(&scan, states);
	while ((state = hash_seq_search(&scan)) != NULL)
	{
		if (!bun_slot_is_shared(state->slot))
			function(state->indexid, state->slot, arg);
	}
}

/*
 * Have what this backend has counted so far counted in the slots.
 */
void
bun_state_flush_all(void)
{
	for (BunIndexState *state = active_states; state; state = state->next_active)
	{
		/* The slot may be another index's by now: ours has been dropped. */
		if (pg_atomic_read_u32(&state->slot->generation) == state->generation)
			flush(state);
	}
}

/*
 * Remove the states of indexes that are gone.
 */
static void
forget_dropped_indexes(void)
{
	HASH_SEQ_STATUS scan;
	BunIndexState *state;

	hash_seq_init(&scan, states);
	while ((state = hash_seq_search(&scan)) != NULL)
	{
		if (!state->active &&
			bun_index_is_gone(state->indexid))
		{
			if (!bun_slot_is_shared(state->slot))
				pfree(state->slot);
			(void) hash_search(states, &state->indexid, HASH_REMOVE, NULL);
		}
	}
}

/*
 * End of a transaction: let others know.  Locks on the indexes are still held,
 * save what a subtransaction that aborted has let go.
 */
static void
xact_callback(XactEvent event, void *arg)
{
	BunIndexState *state;

	switch (event)
	{
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PARALLEL_ABORT:
		case XACT_EVENT_PREPARE:
			bun_state_flush_all();
			while ((state = active_states) != NULL)
			{
				active_states = state->next_active;
				state->active = false;
			}
			break;
		default:
			break;
	}
}
