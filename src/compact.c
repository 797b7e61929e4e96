/*-------------------------------------------------------------------------
 *
 * compact.c
 *		Compaction: sparse leaf pages of a btree give their space back.
 *
 * bunbtree_compact() works in slices, each a transaction of its own that holds
 * AccessExclusiveLock on the index for about a millisecond, as a rule.  What
 * is done in that time is in merge.c.
 *
 * A slice takes the lock only if there is work, which it looks for with
 * AccessShareLock first, and only if the lock can be had at once.  Whoever queues
 * for such a lock has everybody else queue behind, and who fails to get it has
 * used up a transaction ID, because standbys have to be told of it beforehand.
 * So it looks who is in the way before it tries.
 *
 * Portions Copyright (c) 2026, bunbtree developers
 *
 * IDENTIFICATION
 *		src/compact.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "bunbtree.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/catalog.h"
#include "catalog/index.h"
#include "catalog/pg_authid.h"
#include "commands/progress.h"
#include "commands/tablecmds.h"
#include "executor/instrument.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/backend_progress.h"
#include "utils/backend_status.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

PG_FUNCTION_INFO_V1(bunbtree_compact);
PG_FUNCTION_INFO_V1(bunbtree_compact_estimate);
PG_FUNCTION_INFO_V1(bunbtree_compact_progress);

/* Leaf pages that are looked at for work before the transaction is ended. */
#define SEARCH_BUDGET 10000

/*
 * When the lock cannot be had, try again after this time at least; after twice
 * that if it still cannot, and so on.
 */
#define MIN_RETRY_MS 10
#define MAX_RETRY_MS 1000

/*
 * Progress is reported as the server's own commands do, by numbers in the
 * backend's public status, which goes with the backend and with an error.  No
 * command of the server's has this one, so none of its views shows it.
 */
#define PROGRESS_COMMAND	((ProgressCommandType) 0x62756e)

enum
{
	PROGRESS_LEAVES,
	PROGRESS_SCANNED,
	PROGRESS_REMOVED,
	PROGRESS_SLICES,
	PROGRESS_REFUSED,
	PROGRESS_HELD,				/* microseconds */
	PROGRESS_NPARAMS
};

/* Columns of bunbtree_compact_progress(): pid, datid, index, then these. */
#define PROGRESS_COLUMNS	(3 + PROGRESS_NPARAMS)

/* Arguments and course of a compaction. */
typedef struct Compaction
{
	Oid			indexid;
	double		fill;
	int			max_pages;
	bool		wait;
	BunCursor	cursor;
	BunMerger  *merger;
	int64		removed;
	int64		slices;
	int64		refused;
	double		retry;			/* milliseconds to wait when refused again */
	instr_time	locked;			/* when the slice got the lock */
	double		held;			/* milliseconds, all slices */
	double		longest;
} Compaction;

typedef enum SliceResult
{
	SLICE_END,					/* no more work */
	SLICE_SEARCHED,				/* none so far */
	SLICE_REFUSED,				/* by somebody's lock */
	SLICE_DONE
} SliceResult;

static Relation open_index(Oid indexid, LOCKMODE lockmode, Relation *heap);
static void close_index(Relation index, LOCKMODE lockmode, Relation heap);
static void check_privilege(Relation index, bool reading);
static void check_fill(double fill);
static void count(Relation index, Relation heap, int runs, int leaves);
static SliceResult do_slice(Compaction *c);
static bool lock_index(Oid indexid, bool wait);
static void nap(double ms);
static double interval_ms(const Interval *interval);
static double density(const BunSurvey *survey);

/*
 * CALL bunbtree_compact(index regclass, fill float8, max_pages int,
 *						 pause interval, max_runtime interval,
 *						 verbose boolean, wait boolean)
 *		Merge sparse leaf pages of a bunbtree or btree index.
 *
 * For whoever may REINDEX it.  Locks: AccessShareLock on the table and the index
 * and, a slice at a time, AccessExclusiveLock on the index; conditionally, unless
 * "wait" is set.  Can be cancelled between slices, which leaves what is done
 * done.  "max_runtime" is for the slices: the index is also read, once before and
 * once at the end, which takes as long as it takes.
 *
 * Errors: ERRCODE_ACTIVE_SQL_TRANSACTION in a transaction block,
 * ERRCODE_READ_ONLY_SQL_TRANSACTION in recovery, those of open_index(),
 * ERRCODE_INSUFFICIENT_PRIVILEGE, ERRCODE_INDEX_CORRUPTED, and
 * ERRCODE_INVALID_PARAMETER_VALUE or ERRCODE_NULL_VALUE_NOT_ALLOWED for the
 * arguments.
 */
Datum
bunbtree_compact(PG_FUNCTION_ARGS)
{
	Compaction	c = {0};
	double		pause;
	bool		limited = !PG_ARGISNULL(4);
	bool		verbose;
	TimestampTz deadline = 0;
	uint64		wal_before = pgWalUsage.wal_bytes;
	BunSurvey	before;
	BunSurvey	after;
	Relation	heap;
	Relation	index;
	char	   *name;
	SliceResult result = SLICE_SEARCHED;

	for (int i = 0; i < 7; i++)
	{
		if (i != 4 && PG_ARGISNULL(i))
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("only \"max_runtime\" may be null")));
	}
	c.indexid = PG_GETARG_OID(0);
	c.fill = PG_GETARG_FLOAT8(1);
	c.max_pages = PG_GETARG_INT32(2);
	pause = interval_ms(PG_GETARG_INTERVAL_P(3));
	verbose = PG_GETARG_BOOL(5);
	c.wait = PG_GETARG_BOOL(6);

	check_fill(c.fill);
	if (c.max_pages < 2 || c.max_pages > 10000)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"max_pages\" must be between 2 and 10000")));
	if (pause < 0 || (limited && interval_ms(PG_GETARG_INTERVAL_P(4)) < 0))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"pause\" and \"max_runtime\" must not be negative")));

	PreventCommandDuringRecovery("CALL bunbtree_compact()");
	if (fcinfo->context == NULL || !IsA(fcinfo->context, CallContext) ||
		((CallContext *) fcinfo->context)->atomic)
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("%s cannot run inside a transaction block",
						"CALL bunbtree_compact()")));
	if (!BUN_COMPACT_TESTED && !bun_guc_compact_untested)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("compaction has not been tested on this version of the server"),
				 errhint("Superusers can set bunbtree.compact_untested to on.")));

	index = open_index(c.indexid, AccessShareLock, &heap);
	check_privilege(index, false);
	name = pstrdup(RelationGetRelationName(index));
	c.merger = palloc(sizeof(BunMerger));
	bun_start_merger(c.merger);
	close_index(index, AccessShareLock, heap);

	/*
	 * A caller's work, in a procedure of his, is to be committed before the
	 * survey, which may take long, and as he wants it: not with what is set
	 * for slices.
	 */
	if (SPI_connect_ext(SPI_OPT_NONATOMIC) != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	SPI_commit();

	pgstat_progress_start_command(PROGRESS_COMMAND, c.indexid);
	index = open_index(c.indexid, AccessShareLock, &heap);
	check_privilege(index, false);
	bun_survey(index, c.fill, &before);
	count(index, heap, 1, 0);
	close_index(index, NoLock, heap);
	pgstat_progress_update_param(PROGRESS_LEAVES, before.leaves);
	SPI_commit();

	c.retry = MIN_RETRY_MS;

	/* The time for slices: else a survey that takes longer would leave none. */
	if (limited)
		deadline = GetCurrentTimestamp() +
			(TimestampTz) (interval_ms(PG_GETARG_INTERVAL_P(4)) * 1000);

	while (!limited || GetCurrentTimestamp() < deadline)
	{
		int64		removed = c.removed;
		double		rest = 0;

		CHECK_FOR_INTERRUPTS();
		result = do_slice(&c);
		SPI_commit();

		/* Not before: the lock is held through the commit. */
		if (result == SLICE_DONE)
		{
			instr_time	held;

			INSTR_TIME_SET_CURRENT(held);
			INSTR_TIME_SUBTRACT(held, c.locked);
			c.held += INSTR_TIME_GET_MILLISEC(held);
			c.longest = Max(c.longest, INSTR_TIME_GET_MILLISEC(held));
			c.retry = MIN_RETRY_MS;
			rest = pause;

			/*
			 * Standbys get what is flushed.  Else the lock and the images
			 * would go there before the commit record, which is on a WAL page
			 * not full yet, and keep the lock until the next slice.
			 */
			if (XLogStandbyInfoActive())
				XLogFlush(XactLastCommitEnd);
			if (verbose)
				ereport(INFO,
						(errmsg_internal("slice " INT64_FORMAT ": " INT64_FORMAT " leaf pages removed, lock held for %.3f ms",
										 c.slices, c.removed - removed,
										 INSTR_TIME_GET_MILLISEC(held))));
		}
		else if (result == SLICE_REFUSED)
		{
			rest = Max(pause, c.retry);
			c.retry = Min(2 * c.retry, MAX_RETRY_MS);
			if (verbose)
				ereport(INFO,
						(errmsg_internal("index \"%s\" is in use, refused for the " INT64_FORMAT ". time",
										 name, c.refused)));
		}

		pgstat_progress_update_param(PROGRESS_SCANNED, c.cursor.passed);
		pgstat_progress_update_param(PROGRESS_REMOVED, c.removed);
		pgstat_progress_update_param(PROGRESS_SLICES, c.slices);
		pgstat_progress_update_param(PROGRESS_REFUSED, c.refused);
		pgstat_progress_update_param(PROGRESS_HELD, (int64) (c.held * 1000));

		if (result == SLICE_END)
			break;
		if (limited)
			rest = Min(rest, (deadline - GetCurrentTimestamp()) / 1000.0);
		if (rest > 0)
			nap(rest);
	}

	index = open_index(c.indexid, AccessShareLock, &heap);
	check_privilege(index, false);
	bun_free_deleted(c.merger, index, heap);
	bun_survey(index, c.fill, &after);
	close_index(index, NoLock, heap);
	SPI_commit();
	pgstat_progress_end_command();
	SPI_finish();

	ereport(NOTICE,
			(errmsg("index \"%s\": " INT64_FORMAT " leaf pages before, " INT64_FORMAT " after",
					name, before.leaves, after.leaves),
			 errdetail("Density was %.1f %% and is %.1f %%. "
					   "Slices: " INT64_FORMAT ", refused: " INT64_FORMAT ", longest hold of the lock: %.3f ms. "
					   "WAL: " UINT64_FORMAT " bytes.",
					   density(&before), density(&after),
					   c.slices, c.refused, c.longest,
					   (uint64) (pgWalUsage.wal_bytes - wal_before)),
			 result != SLICE_END ?
			 errhint("It was ended by \"max_runtime\". Call it again to go on.") : 0));
	PG_RETURN_VOID();
}

/*
 * bunbtree_compact_estimate(index regclass, fill float8)
 *		Leaf pages now and after compaction, and bytes that it would make
 *		reusable.
 *
 * Reads all leaf pages, with AccessShareLock.  For whoever may compact the index,
 * and members of pg_stat_scan_tables.
 */
Datum
bunbtree_compact_estimate(PG_FUNCTION_ARGS)
{
	double		fill = PG_GETARG_FLOAT8(1);
	BunSurvey	survey;
	Relation	heap;
	Relation	index;
	TupleDesc	tupdesc;
	Datum		values[3];
	bool		nulls[3] = {false};

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	check_fill(fill);
	index = open_index(PG_GETARG_OID(0), AccessShareLock, &heap);
	check_privilege(index, true);
	bun_survey(index, fill, &survey);
	close_index(index, NoLock, heap);
	values[0] = Int64GetDatum(survey.leaves);
	values[1] = Int64GetDatum(survey.leaves_after);
	values[2] = Int64GetDatum((survey.leaves - survey.leaves_after) * BLCKSZ);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(tupdesc, values, nulls)));
}

/*
 * Open an index for compaction, and its table; the table is locked first, as
 * everywhere, with AccessShareLock.  NoLock is for a lock that is held already.
 *
 * Errors: ERRCODE_WRONG_OBJECT_TYPE, ERRCODE_UNDEFINED_OBJECT,
 * ERRCODE_FEATURE_NOT_SUPPORTED for system catalogs, temporary tables of others
 * and old formats, ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE if it is not valid.
 */
static Relation
open_index(Oid indexid, LOCKMODE lockmode, Relation *heap)
{
	Oid			heapid = IndexGetRelation(indexid, true);
	BTMetaPageData meta;
	Relation	index;

	if (OidIsValid(heapid))
		LockRelationOid(heapid, AccessShareLock);
	index = try_relation_open(indexid, lockmode);
	if (index == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("index with OID %u does not exist", indexid)));

	if (index->rd_rel->relkind != RELKIND_INDEX ||
		(index->rd_indam->aminsert != bun_insert &&
		 index->rd_rel->relam != BTREE_AM_OID))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a bunbtree or btree index",
						RelationGetRelationName(index)),
				 index->rd_rel->relkind == RELKIND_PARTITIONED_INDEX ?
				 errhint("Name the index of a partition.") : 0));
	/* Scans of catalogs are everywhere; a mistake here would be fatal. */
	if (IsCatalogRelation(index))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot compact \"%s\": it is an index of a system catalog",
						RelationGetRelationName(index))));
	/* Its pages are in that session's own memory. */
	if (RELATION_IS_OTHER_TEMP(index))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot compact \"%s\": it is an index of another session's temporary table",
						RelationGetRelationName(index))));
	if (!index->rd_index->indisvalid || !index->rd_index->indisready ||
		!index->rd_index->indislive)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot compact \"%s\": it is not valid",
						RelationGetRelationName(index))));
	/* Before, keys of equal entries are not told apart by their TIDs. */
	(void) bun_read_meta(index, &meta);
	if (meta.btm_version < BTREE_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot compact \"%s\": its format is from before PostgreSQL 12",
						RelationGetRelationName(index)),
				 errhint("REINDEX it.")));

	*heap = table_open(heapid, NoLock);
	return index;
}

/*
 * The reverse.  The lock on the table stays until the transaction ends.
 */
static void
close_index(Relation index, LOCKMODE lockmode, Relation heap)
{
	table_close(heap, NoLock);
	relation_close(index, lockmode);
}

/*
 * May the current user compact this index?  Or, if "reading", look at its pages'
 * fill?
 */
static void
check_privilege(Relation index, bool reading)
{
	if (bun_may_maintain(index->rd_index->indrelid, GetUserId()) ||
		(reading && has_privs_of_role(GetUserId(), ROLE_PG_STAT_SCAN_TABLES)))
		return;
	aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_INDEX,
				   RelationGetRelationName(index));
}

static void
check_fill(double fill)
{
	/* written so that NaN fails */
	if (!(fill >= 0.1 && fill <= 1.0))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"fill\" must be between 0.1 and 1.0")));
}

/*
 * Count calls and leaf pages removed, if the index is one of ours: others have no
 * counters.  The caller has a lock on it.
 */
static void
count(Relation index, Relation heap, int runs, int leaves)
{
	if (index->rd_indam->aminsert == bun_insert)
		bun_stats_compact(bun_state(index, heap)->slot, runs, leaves);
}

/*
 * One slice, in a transaction that the caller commits.
 */
static SliceResult
do_slice(Compaction *c)
{
	MemoryContext context;
	MemoryContext oldcontext;
	Relation	heap;
	Relation	index;
	BunCall    *call = NULL;
	BTMetaPageData meta;
	int64		budget = SEARCH_BUDGET;
	BunSearch	search;
	int			deleted;

	/* Is there work?  If not, nobody is bothered, here or on standbys. */
	index = open_index(c->indexid, AccessShareLock, &heap);
	check_privilege(index, false);
	search = bun_find_slice(index, &c->cursor, c->fill, c->max_pages, &budget);
	close_index(index, AccessShareLock, heap);
	if (search != BUN_SEARCH_FOUND)
		return search == BUN_SEARCH_END ? SLICE_END : SLICE_SEARCHED;

	/*
	 * The lock is held while the commit waits.  If that were for a standby's
	 * replay (remote_apply), and replay for a query that uses the index
	 * there, everybody here would wait, too.  Losing the commit loses
	 * nothing: it is the WAL records in it that do the work.
	 */
	(void) set_config_option("synchronous_commit", "off", PGC_USERSET,
							 PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0, false);

	if (!lock_index(c->indexid, c->wait))
	{
		c->refused++;
		return SLICE_REFUSED;
	}
	INSTR_TIME_SET_CURRENT(c->locked);
	index = open_index(c->indexid, NoLock, &heap);

	/* Nor may a cursor of ours stand on a page: a lock does not tell. */
	CheckTableNotInUse(index, "CALL bunbtree_compact() for");

	context = AllocSetContextCreate(CurrentMemoryContext, "bunbtree compaction",
									ALLOCSET_DEFAULT_SIZES);
	oldcontext = MemoryContextSwitchTo(context);
	if (index->rd_indam->aminsert == bun_insert)
		call = bun_begin_call(index);

	/*
	 * A slice is short, and nobody is helped if it leaves half-dead pages, so
	 * it is cancelled afterwards.
	 */
	HOLD_INTERRUPTS();
	deleted = bun_merge(index, heap, &c->cursor, c->fill, c->max_pages,
						c->merger);

	/* Else VACUUM might not look for them: it skips indexes without work. */
	if (deleted > 0)
	{
		(void) bun_read_meta(index, &meta);
		_bt_set_cleanup_info(index, meta.btm_last_cleanup_num_delpages + deleted);
	}
	RESUME_INTERRUPTS();

	if (call != NULL)
		bun_end_call(call);
	MemoryContextSwitchTo(oldcontext);
	MemoryContextDelete(context);
	count(index, heap, 0, deleted);
	close_index(index, NoLock, heap);

	c->removed += deleted;
	c->slices++;
	return SLICE_DONE;
}

/*
 * Get AccessExclusiveLock on the index.  False if others have it in use, and we
 * should not wait.
 */
static bool
lock_index(Oid indexid, bool wait)
{
	LOCKTAG		tag;
	int			conflicts;

	if (wait)
	{
		LockRelationOid(indexid, AccessExclusiveLock);
		return true;
	}

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, indexid);
	pfree(GetLockConflicts(&tag, AccessExclusiveLock, &conflicts));
	return conflicts == 0 &&
		ConditionalLockRelationOid(indexid, AccessExclusiveLock);
}

/*
 * Sleep, and be cancelled at once.
 */
static void
nap(double ms)
{
	TimestampTz end = GetCurrentTimestamp() + (TimestampTz) (ms * 1000);

	for (;;)
	{
		TimestampTz now = GetCurrentTimestamp();

		CHECK_FOR_INTERRUPTS();
		if (now >= end)
			break;
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 Min((end - now) / 1000 + 1, 60000),
						 PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
	}
}

/*
 * Months have 30 days, which nobody will notice, and 3,000 years are for ever.
 */
static double
interval_ms(const Interval *interval)
{
	double		ms = interval->time / 1000.0 +
		(interval->day + 30.0 * interval->month) * 86400000.0;

	return Min(ms, 1e14);
}

static double
density(const BunSurvey *survey)
{
	return survey->space > 0 ? 100.0 * survey->used / survey->space : 0.0;
}

/*
 * bunbtree_compact_progress(): a row for each compaction that is running
 *		pid, database, index, leaf pages at the beginning, of these left behind,
 *		removed, slices, slices refused by locks, milliseconds that the lock was
 *		held.
 *
 * Anyone may call it; others' rows are null but for pid and database, as in the
 * server's own progress views.
 */
Datum
bunbtree_compact_progress(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);

	for (int i = 1; i <= pgstat_fetch_stat_numbackends(); i++)
	{
		PgBackendStatus *entry = &bun_local_beentry(i)->backendStatus;
		Datum		values[PROGRESS_COLUMNS] = {0};
		bool		nulls[PROGRESS_COLUMNS];

		if (entry->st_progress_command != PROGRESS_COMMAND)
			continue;

		memset(nulls, true, sizeof(nulls));
		values[0] = Int32GetDatum(entry->st_procpid);
		values[1] = ObjectIdGetDatum(entry->st_databaseid);
		nulls[0] = nulls[1] = false;
		if (has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS) ||
			has_privs_of_role(GetUserId(), entry->st_userid))
		{
			memset(nulls, false, sizeof(nulls));
			values[2] = ObjectIdGetDatum(entry->st_progress_command_target);
			for (int j = 0; j < PROGRESS_NPARAMS; j++)
				values[3 + j] = j == PROGRESS_HELD ?
					Float8GetDatum(entry->st_progress_param[j] / 1000.0) :
					Int64GetDatum(entry->st_progress_param[j]);
		}
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
