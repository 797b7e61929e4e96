/*-------------------------------------------------------------------------
 *
 * bunbtree.c
 *		Module load, settings and the index access method handler.
 *
 * Only the public interface lives here: which callbacks of nbtree are
 * replaced, and by what.  See src/README for the whole.
 *
 * Portions Copyright (c) 2026, bunbtree developers
 *
 * IDENTIFICATION
 *		src/bunbtree.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "bunbtree.h"

#include "utils/fmgrprotos.h"
#include "utils/guc.h"

PG_MODULE_MAGIC;

/* GUCs */
int			bun_guc_bottomup = BUN_MODE_AUTO;
int			bun_guc_heap_blocks = 64;
int			bun_guc_io = BUN_IO_CACHED;
int			bun_guc_max_indexes = 2000;
double		bun_guc_max_pass_time = 1.0;
double		bun_guc_min_yield = 0.0;
bool		bun_guc_track_timing = false;
int			bun_guc_scan_cleanup_limit = -1;
bool		bun_guc_compact_untested = false;

static const struct config_enum_entry bottomup_values[] = {
	{"off", BUN_MODE_OFF, false},
	{"hinted", BUN_MODE_HINTED, false},
	{"auto", BUN_MODE_AUTO, false},
	{NULL, 0, false}
};

static const struct config_enum_entry io_values[] = {
	{"cached", BUN_IO_CACHED, false},
	{"any", BUN_IO_ANY, false},
	{NULL, 0, false}
};

/* What the handler hands out a copy of; filled by _PG_init(). */
static IndexAmRoutine routine;

void		_PG_init(void);

PG_FUNCTION_INFO_V1(bunbtree_handler);

void
_PG_init(void)
{
	DefineCustomEnumVariable("bunbtree.bottomup",
							 "When an insertion may look for dead entries on a leaf page that is about to split.",
							 "\"off\" never does, \"hinted\" only where btree would, \"auto\" wherever it may pay. "
							 "The index storage parameter \"bottomup\" takes precedence.",
							 &bun_guc_bottomup,
							 BUN_MODE_AUTO,
							 bottomup_values,
							 PGC_USERSET,
							 0,
							 NULL, NULL, NULL);

	DefineCustomIntVariable("bunbtree.heap_blocks",
							"Number of heap blocks that one pass over a leaf page may visit.",
							"The index storage parameter \"heap_blocks\" takes precedence.",
							&bun_guc_heap_blocks,
							64, 1, BUN_MAX_HEAP_BLOCKS,
							PGC_USERSET,
							0,
							NULL, NULL, NULL);

	/* For superusers only, for the same reason as max_pass_time. */
	DefineCustomEnumVariable("bunbtree.io",
							 "Whether a pass over a leaf page may read heap blocks into shared buffers.",
							 "\"cached\" skips those that are not there, \"any\" reads up to 16. "
							 "The index storage parameter \"io\" takes precedence.",
							 &bun_guc_io,
							 BUN_IO_CACHED,
							 io_values,
							 PGC_SUSET,
							 0,
							 NULL, NULL, NULL);

	DefineCustomRealVariable("bunbtree.min_yield",
							 "Entries freed per heap block visited below which a pass over a leaf page gives up.",
							 "The index storage parameter \"min_yield\" takes precedence.",
							 &bun_guc_min_yield,
							 0.0, 0.0, 100.0,
							 PGC_USERSET,
							 0,
							 NULL, NULL, NULL);

	DefineCustomIntVariable("bunbtree.max_indexes",
							"Number of indexes that have room in shared memory for what is learned and counted.",
							"A change takes effect when the server is restarted.",
							&bun_guc_max_indexes,
							2000, 1, 1000000,
							PGC_SIGHUP,
							0,
							NULL, NULL, NULL);

	DefineCustomBoolVariable("bunbtree.track_timing",
							 "Collects the time that passes take in pg_stat_bunbtree.",
							 NULL,
							 &bun_guc_track_timing,
							 false,
							 PGC_SUSET,
							 0,
							 NULL, NULL, NULL);

	/*
	 * For superusers only: the leaf page stays locked for that long, and
	 * everyone else who wants it waits.
	 */
	DefineCustomRealVariable("bunbtree.max_pass_time",
							 "Time after which a pass over a leaf page ends whatever it has found.",
							 NULL,
							 &bun_guc_max_pass_time,
							 1.0, 0.01, 1000.0,
							 PGC_SUSET,
							 GUC_UNIT_MS,
							 NULL, NULL, NULL);

	DefineCustomIntVariable("bunbtree.scan_cleanup_limit",
							"Number of leaf pages on which one index scan may mark dead entries.",
							"-1 means no limit. A transaction that writes has none either.",
							&bun_guc_scan_cleanup_limit,
							-1, -1, INT_MAX,
							PGC_USERSET,
							0,
							NULL, NULL, NULL);

	/* For superusers only: what is at stake is the index. */
	DefineCustomBoolVariable("bunbtree.compact_untested",
							 "Allows compaction on servers of a major version on which it has not been tested.",
							 NULL,
							 &bun_guc_compact_untested,
							 false,
							 PGC_SUSET,
							 0,
							 NULL, NULL, NULL);

	MarkGUCPrefixReserved("bunbtree");

	bun_options_init();
	bun_bridge_init();
	bun_shared_init();
	bun_state_init();
	bun_planner_init();
	if (BUN_CORE_WANTS_BTREE)
		bun_executor_init();
	if (BUN_CORE_WANTS_BTREE && !BUN_REFRESH_ASSERTS_BTREE)
		bun_refresh_init();

	/*
	 * Copy nbtree's routine rather than write to it: newer servers hand out
	 * constant storage.
	 */
	routine = *(const IndexAmRoutine *)
		DatumGetPointer(DirectFunctionCall1(bthandler, (Datum) 0));

	/*
	 * CREATE OPERATOR CLASS insists on this for name_ops, which stores
	 * cstring as btree's does.  Nothing else looks at it.
	 */
	routine.amstorage = true;
	bun_disable_parallel_build(&routine);

	routine.ambuild = bun_build;
	routine.ambuildempty = bun_buildempty;
	routine.aminsert = bun_insert;
	routine.ambulkdelete = bun_bulkdelete;
	routine.amvacuumcleanup = bun_vacuumcleanup;
	routine.amgettuple = bun_gettuple;
	routine.amcostestimate = bun_costestimate;
	routine.amoptions = bun_options;
}

/*
 * The access method's handler.
 *
 * PostgreSQL 18 calls it while planning any query whose operators belong to
 * one of our operator families, so it copies a prepared struct and does
 * nothing else.
 */
Datum
bunbtree_handler(PG_FUNCTION_ARGS)
{
	IndexAmRoutine *result = palloc(sizeof(IndexAmRoutine));

	memcpy(result, &routine, sizeof(IndexAmRoutine));
	PG_RETURN_POINTER(result);
}
