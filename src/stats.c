/*-------------------------------------------------------------------------
 *
 * stats.c
 *		What a backend knows of its indexes, and the view of it.
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
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(bunbtree_stats);

static HTAB *states = NULL;

BunIndexState *
bun_state(Relation index, Relation heap)
{
	Oid			indexid = RelationGetRelid(index);
	BunIndexState *state;
	bool		found;

	if (states == NULL)
	{
		HASHCTL		ctl;

		ctl.keysize = sizeof(Oid);
		ctl.entrysize = sizeof(BunIndexState);
		ctl.hcxt = TopMemoryContext;
		states = hash_create("bunbtree index states", 64, &ctl,
							 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	state = hash_search(states, &indexid, HASH_ENTER, &found);
	if (!found)
	{
		memset((char *) state + sizeof(Oid), 0, sizeof(BunIndexState) - sizeof(Oid));
		bun_policy_start(state, heap);
	}
	return state;
}

Datum
bunbtree_stats(PG_FUNCTION_ARGS)
{
	Oid			indexid = PG_GETARG_OID(0);
	BunIndexState *state = NULL;
	BunCounters zero = {0};
	BunCounters *c = &zero;
	TupleDesc	tupdesc;
	Datum		values[8];
	bool		nulls[8] = {0};

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (states)
		state = hash_search(states, &indexid, HASH_FIND, NULL);
	if (state)
	{
		c = &state->counters;
	}
	values[0] = Int64GetDatum(c->passes);
	values[1] = Int64GetDatum(c->passes_productive);
	values[2] = Int64GetDatum(c->declined);
	values[3] = Int64GetDatum(c->entries_deleted);
	values[4] = Int64GetDatum(c->heap_blocks_visited);
	values[5] = Int64GetDatum(c->heap_blocks_all_visible);
	values[6] = Int64GetDatum(c->heap_blocks_not_cached);
	values[7] = Int64GetDatum(c->simple_deletions);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(tupdesc, values, nulls)));
}
