/*-------------------------------------------------------------------------
 *
 * stats.c
 *		What a backend knows of its indexes, and the function that shows it.
 *
 * One BunIndexState for each index that this backend has inserted into, in a
 * hash table that lives as long as the backend.
 *
 * Portions Copyright (c) 2026, bunbtree developers
 *
 * IDENTIFICATION
 *		src/stats.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "bunbtree.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(bunbtree_stats);

/*
 * With so many indexes, look for dropped ones before making room for another;
 * a session that makes and drops temporary tables all day needs it.
 */
#define SWEEP_THRESHOLD 256

static HTAB *states = NULL;

static void forget_dropped_indexes(void);

/*
 * State of an index, made at first use.
 *
 * The pointer stays valid as long as somebody holds a lock on the index: only
 * states of dropped indexes are removed.
 */
BunIndexState *
bun_state(Relation index, Relation heap)
{
	Oid			indexid = RelationGetRelid(index);
	BunIndexState *state;

	if (states == NULL)
	{
		HASHCTL		ctl;

		ctl.keysize = sizeof(Oid);
		ctl.entrysize = sizeof(BunIndexState);
		ctl.hcxt = TopMemoryContext;
		states = hash_create("bunbtree index states", 64, &ctl,
							 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}

	state = hash_search(states, &indexid, HASH_FIND, NULL);
	if (state == NULL)
	{
		BunIndexState fresh;

		if (hash_get_num_entries(states) % SWEEP_THRESHOLD ==
			SWEEP_THRESHOLD - 1)
			forget_dropped_indexes();

		/* Make it first, enter it then: looking for evidence may fail. */
		memset(&fresh, 0, sizeof(fresh));
		fresh.indexid = indexid;
		bun_policy_start(&fresh, heap);

		state = hash_search(states, &indexid, HASH_ENTER, NULL);
		*state = fresh;
	}
	return state;
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
		if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(state->indexid)))
			(void) hash_search(states, &state->indexid, HASH_REMOVE, NULL);
	}
}

/*
 * bunbtree_stats(index regclass): one row of counters, all bigint
 *		What this backend's insertions into the index have led to, since it
 *		first inserted into it.  All zero if it has not.
 *
 * Anyone may call it.  Takes AccessShareLock on the index.  Error:
 * ERRCODE_WRONG_OBJECT_TYPE if this is not a bunbtree index.
 */
Datum
bunbtree_stats(PG_FUNCTION_ARGS)
{
	Oid			indexid = PG_GETARG_OID(0);
	BunCounters counters = {0};
	TupleDesc	tupdesc;
	Datum		values[8];
	bool		nulls[8] = {0};

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	relation_close(bun_open_index(indexid, AccessShareLock), AccessShareLock);

	if (states != NULL)
	{
		BunIndexState *state = hash_search(states, &indexid, HASH_FIND, NULL);

		if (state != NULL)
			counters = state->counters;
	}

	values[0] = Int64GetDatum(counters.passes);
	values[1] = Int64GetDatum(counters.passes_productive);
	values[2] = Int64GetDatum(counters.declined);
	values[3] = Int64GetDatum(counters.entries_deleted);
	values[4] = Int64GetDatum(counters.heap_blocks_visited);
	values[5] = Int64GetDatum(counters.heap_blocks_all_visible);
	values[6] = Int64GetDatum(counters.heap_blocks_not_cached);
	values[7] = Int64GetDatum(counters.simple_deletions);

	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(tupdesc, values, nulls)));
}
