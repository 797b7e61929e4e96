/*-------------------------------------------------------------------------
 *
 * stats.c
 *		Counters, and the functions behind pg_stat_bunbtree.
 *
 * Each index has its counters for each kind of insertion; the view adds them
 * up.  They are in the index's slot (shared.c), so a restart clears them, and
 * are read one by one, without a lock.
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

#include "access/relation.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(bunbtree_counters);
PG_FUNCTION_INFO_V1(pg_stat_reset_bunbtree);

/* Columns of bunbtree_counters(): index, kind, the counters, then these. */
#define COUNTERS_COLUMNS	(2 + BUN_NCOUNTERS + 6)

static const char *const kind_names[BUN_NKINDS] = {
	[BUN_HINTED] = "hinted",
	[BUN_APPEND] = "append",
	[BUN_OTHER] = "other"
};

/*
 * A copy of the counters of an index, made with a lock held.
 */
typedef struct Row
{
	Oid			indexid;
	uint64		counters[BUN_NKINDS][BUN_NCOUNTERS];
	uint64		longest_pass;
	uint64		last_pass;
	uint64		compact_runs;
	uint64		leaves_merged;
	uint64		last_compact;
	uint64		stats_reset;
} Row;

typedef struct Rows
{
	Row		   *rows;
	int			nrows;
	int			size;
} Rows;

static void count_row(Oid indexid, BunSlot *slot, void *arg);
static void copy_row(Oid indexid, BunSlot *slot, void *arg);
static void reset_row(Oid indexid, BunSlot *slot, void *arg);

/*
 * An insertion of this kind had a pass, which had this outcome.
 */
void
bun_stats_pass(BunSlot *slot, BunKind kind, const BunOutcome *outcome)
{
	bool		productive = outcome->freed > 0;
	uint64		longest = pg_atomic_read_u64(&slot->longest_pass);

	bun_count(slot, kind, BUN_PASSES, 1);
	bun_count(slot, kind, BUN_PASSES_PRODUCTIVE, productive);
	bun_count(slot, kind, BUN_ENTRIES_DELETED, outcome->freed);
	bun_count(slot, kind, BUN_BYTES_FREED, outcome->freespace);
	bun_count(slot, kind,
			  outcome->split ? BUN_SPLITS :
			  productive ? BUN_SPLITS_AVERTED : BUN_DEDUPS, 1);
	bun_count(slot, kind, BUN_BLOCKS_VISITED, outcome->visited);
	bun_count(slot, kind, BUN_BLOCKS_ALL_VISIBLE, outcome->all_visible);
	bun_count(slot, kind, BUN_BLOCKS_NOT_CACHED, outcome->not_cached);
	if (!productive)
	{
		bun_count(slot, kind, BUN_ENTRIES_LIVE, outcome->live);
		bun_count(slot, kind, BUN_ENTRIES_RECENTLY_DEAD, outcome->recently_dead);
		bun_count(slot, kind, BUN_BLOCKED_BY_HORIZON, outcome->recently_dead > 0);
	}
	if (bun_guc_track_timing)
		bun_count(slot, kind, BUN_PASS_TIME, outcome->duration);

	while (outcome->duration > longest &&
		   !pg_atomic_compare_exchange_u64(&slot->longest_pass, &longest,
										   outcome->duration))
		;
	pg_atomic_write_u64(&slot->last_pass, GetCurrentTimestamp());
}

/*
 * Compaction was called so many times, and has removed so many leaf pages.
 */
void
bun_stats_compact(BunSlot *slot, int runs, int leaves)
{
	pg_atomic_fetch_add_u64(&slot->compact_runs, runs);
	pg_atomic_fetch_add_u64(&slot->leaves_merged, leaves);
	pg_atomic_write_u64(&slot->last_compact, GetCurrentTimestamp());
}

/*
 * bunbtree_counters(): a row for each index of this database that has been
 * inserted into or compacted since the server was started, and kind of insertion
 *		index, kind, counters in the order of BunCounter (pass_time in
 *		milliseconds), longest pass in microseconds, time of the last pass, calls
 *		of bunbtree_compact(), leaf pages removed by them, time of the last,
 *		time since when; all from the longest pass on are the same for all kinds.
 *
 * The view pg_stat_bunbtree is made of it, and explains the columns.  Anyone may
 * call it.  Locks no index; bunbtree's own lock is held in share mode while the
 * counters are copied.  If an index has no room in shared memory, its row shows
 * what this session has counted.
 */
Datum
bunbtree_counters(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Rows		result = {0};

	InitMaterializedSRF(fcinfo, 0);

	/* What has just happened in this session should be in it. */
	bun_state_flush_all();

	/* There may be more of them when we come back: leave these out. */
	bun_for_each_slot(count_row, &result);
	bun_for_each_local_slot(count_row, &result);
	result.rows = palloc(Max(result.size, 1) * sizeof(Row));
	bun_for_each_slot(copy_row, &result);
	bun_for_each_local_slot(copy_row, &result);

	for (const Row *row = result.rows; row < result.rows + result.nrows; row++)
	{
		for (int kind = 0; kind < BUN_NKINDS; kind++)
		{
			Datum		values[COUNTERS_COLUMNS];
			bool		nulls[COUNTERS_COLUMNS] = {0};
			int			i = 0;

			values[i++] = ObjectIdGetDatum(row->indexid);
			values[i++] = CStringGetTextDatum(kind_names[kind]);
			for (int j = 0; j < BUN_NCOUNTERS; j++)
				values[i++] = j == BUN_PASS_TIME ?
					Float8GetDatum(row->counters[kind][j] / 1e6) :
					Int64GetDatum(row->counters[kind][j]);
			values[i++] = Float8GetDatum(row->longest_pass / 1e3);
			nulls[i] = row->last_pass == 0;
			values[i++] = TimestampTzGetDatum(row->last_pass);
			values[i++] = Int64GetDatum(row->compact_runs);
			values[i++] = Int64GetDatum(row->leaves_merged);
			nulls[i] = row->last_compact == 0;
			values[i++] = TimestampTzGetDatum(row->last_compact);
			values[i++] = TimestampTzGetDatum(row->stats_reset);
			Assert(i == COUNTERS_COLUMNS);

			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values,
								 nulls);
		}
	}
	return (Datum) 0;
}

static void
count_row(Oid indexid, BunSlot *slot, void *arg)
{
	((Rows *) arg)->size++;
}

static void
copy_row(Oid indexid, BunSlot *slot, void *arg)
{
	Rows	   *result = arg;
	Row		   *row;

	if (result->nrows >= result->size)
		return;
	row = &result->rows[result->nrows++];
	row->indexid = indexid;
	for (int kind = 0; kind < BUN_NKINDS; kind++)
	{
		for (int i = 0; i < BUN_NCOUNTERS; i++)
			row->counters[kind][i] =
				pg_atomic_read_u64(&slot->counters[kind][i]);
	}
	row->longest_pass = pg_atomic_read_u64(&slot->longest_pass);
	row->last_pass = pg_atomic_read_u64(&slot->last_pass);
	row->compact_runs = pg_atomic_read_u64(&slot->compact_runs);
	row->leaves_merged = pg_atomic_read_u64(&slot->leaves_merged);
	row->last_compact = pg_atomic_read_u64(&slot->last_compact);
	row->stats_reset = pg_atomic_read_u64(&slot->stats_reset);
}

/*
 * pg_stat_reset_bunbtree(index regclass DEFAULT NULL)
 *		Set the counters of an index, or of all indexes of this database if it
 *		is NULL, to zero.  What has been learned stays.
 *
 * For superusers, and whom they grant it.  Takes AccessShareLock on the index.
 * Error: ERRCODE_WRONG_OBJECT_TYPE if this is not a bunbtree index.
 */
Datum
pg_stat_reset_bunbtree(PG_FUNCTION_ARGS)
{
	Oid			indexid = InvalidOid;

	if (!PG_ARGISNULL(0))
	{
		indexid = PG_GETARG_OID(0);
		relation_close(bun_open_index(indexid, AccessShareLock),
					   AccessShareLock);
	}

	/* Or it would turn up afterwards. */
	bun_state_flush_all();

	bun_for_each_slot(reset_row, &indexid);
	bun_for_each_local_slot(reset_row, &indexid);
	PG_RETURN_VOID();
}

static void
reset_row(Oid indexid, BunSlot *slot, void *arg)
{
	Oid			wanted = *(Oid *) arg;

	if (OidIsValid(wanted) && indexid != wanted)
		return;
	for (int kind = 0; kind < BUN_NKINDS; kind++)
	{
		for (int i = 0; i < BUN_NCOUNTERS; i++)
			pg_atomic_write_u64(&slot->counters[kind][i], 0);
	}
	pg_atomic_write_u64(&slot->longest_pass, 0);
	pg_atomic_write_u64(&slot->last_pass, 0);
	pg_atomic_write_u64(&slot->compact_runs, 0);
	pg_atomic_write_u64(&slot->leaves_merged, 0);
	pg_atomic_write_u64(&slot->last_compact, 0);
	pg_atomic_write_u64(&slot->stats_reset, GetCurrentTimestamp());
}
