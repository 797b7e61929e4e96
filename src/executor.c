/*-------------------------------------------------------------------------
 *
 * executor.c
 *		Makes the executor accept indexes of this access method, up to 17.
 *
 * In two places the executor insists that an index's relam be btree's:
 *
 * - Row comparisons, "(a, b) > (x, y)", as index conditions.  It looks when it
 *	 initializes the scan, so the index is presented (bridge.c) while the
 *	 executor starts.  Under READ COMMITTED a row that turns out to have been
 *	 updated concurrently is evaluated anew by a copy of the plan, which is
 *	 initialized then and there, in the midst of the run.  For statements that
 *	 may lock rows, the index is presented during the run, too.
 *
 * - ON CONFLICT, when it opens the unique indexes of the table, at the first row.
 *	 We let it do so right after its start, with the indexes presented, and at
 *	 the first row it finds that done.  If the table is partitioned, it opens the
 *	 indexes of each partition when it comes upon the first row for that.  We are
 *	 told (see partition_reached()), and present them until the end of the run.
 *
 * A presentation should be short, because whatever runs meanwhile sees it:
 * triggers, functions, and what they plan (planner.c copes).  And it should not
 * be there for statements that do not need it, nor should the search for it cost
 * them anything.  Statements with ON CONFLICT are known by their plan's top.  Row
 * comparisons can be anywhere in it, but no plan has one for an index of ours if
 * this backend has never seen one while planning.  Parallel workers get their
 * plans from elsewhere, and always look.
 *
 * Nothing of this is active from 18 on.
 *
 * Portions Copyright (c) 2026, bunbtree developers
 *
 * IDENTIFICATION
 *		src/executor.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "bunbtree.h"

#include "access/parallel.h"
#include "access/table.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "parser/parsetree.h"
#include "utils/hsearch.h"

/*
 * Has this backend ever planned a scan of an index of ours that has a row
 * comparison as a condition?  Set by planner.c.
 */
bool		bun_row_comparisons = false;

/* Done to a ModifyTable node with ON CONFLICT. */
typedef void (*upsert_action) (ModifyTableState *mtstate);

/*
 * A hash table in which nothing is ever found, and whose hash function is
 * partition_reached().
 */
static HTAB *partitions = NULL;

/* Others' hooks, or the standard functions. */
static ExecutorStart_hook_type next_start;
static ExecutorRun_hook_type next_run;
static ExecutorFinish_hook_type next_finish;

static void executor_start(QueryDesc *queryDesc, int eflags);
static void executor_run(bun_run_parameters);
static void executor_finish(QueryDesc *queryDesc);
static inline bool is_of_no_concern(PlannedStmt *stmt);
static pg_noinline void assist_start(QueryDesc *queryDesc, int eflags);
static pg_noinline void assist_run(bun_run_parameters);
static pg_noinline void assist_finish(QueryDesc *queryDesc);
static bool may_evaluate_anew(PlannedStmt *stmt);
static void present_row_comparisons(PlannedStmt *stmt);
static void present_scans(Plan *plan, PlannedStmt *stmt);
static void present_scan(Scan *scan, Oid indexid, List *indexqual,
						 PlannedStmt *stmt);
static void for_each_upsert(QueryDesc *queryDesc, upsert_action action);
static void open_indexes(ModifyTableState *mtstate);
static void watch_partitions(ModifyTableState *mtstate);
static void ignore_partitions(ModifyTableState *mtstate);
static uint32 partition_reached(const void *key, Size keysize);

/*
 * Called once, when the library is loaded.
 *
 * That can be in the middle of planning.  The executor starts later.
 */
void
bun_executor_init(void)
{
	next_start = ExecutorStart_hook ? ExecutorStart_hook : standard_ExecutorStart;
	next_run = ExecutorRun_hook ? ExecutorRun_hook : standard_ExecutorRun;
	next_finish = ExecutorFinish_hook ? ExecutorFinish_hook : standard_ExecutorFinish;

	ExecutorStart_hook = executor_start;
	ExecutorRun_hook = executor_run;
	ExecutorFinish_hook = executor_finish;
}

/*
 * Is a statement none of our business?  Most are, and have to find out quickly.
 */
static inline bool
is_of_no_concern(PlannedStmt *stmt)
{
	return stmt->commandType == CMD_SELECT && !stmt->hasModifyingCTE &&
		!bun_row_comparisons && !IsParallelWorker();
}

/*
 * ExecutorStart_hook.
 */
static void
executor_start(QueryDesc *queryDesc, int eflags)
{
	if (likely(is_of_no_concern(queryDesc->plannedstmt)))
		next_start(queryDesc, eflags);
	else
		assist_start(queryDesc, eflags);
}

/*
 * ExecutorStart() of a statement that may be our business.
 *
 * If it is only to be explained, the executor neither looks at index conditions
 * nor opens the indexes of its target.
 */
static void
assist_start(QueryDesc *queryDesc, int eflags)
{
	PlannedStmt *stmt = queryDesc->plannedstmt;
	BunPresentation *outer = bun_presentations;

	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
	{
		next_start(queryDesc, eflags);
		return;
	}

	if (bun_row_comparisons || IsParallelWorker())
		present_row_comparisons(stmt);
	next_start(queryDesc, eflags);
	bun_end_presentations(outer);

	for_each_upsert(queryDesc, open_indexes);
}

/*
 * ExecutorRun_hook.
 */
static void
executor_run(bun_run_parameters)
{
	if (likely(is_of_no_concern(queryDesc->plannedstmt)))
		next_run(bun_run_arguments);
	else
		assist_run(bun_run_arguments);
}

/*
 * ExecutorRun() of a statement that may be our business.
 *
 * What partition_reached() presents during the run ends here, too.
 */
static void
assist_run(bun_run_parameters)
{
	BunPresentation *outer = bun_presentations;

	if (bun_row_comparisons && may_evaluate_anew(queryDesc->plannedstmt))
		present_row_comparisons(queryDesc->plannedstmt);
	for_each_upsert(queryDesc, watch_partitions);
	next_run(bun_run_arguments);
	for_each_upsert(queryDesc, ignore_partitions);
	bun_end_presentations(outer);
}

/*
 * ExecutorFinish_hook: data-modifying CTEs are run to their end here.
 */
static void
executor_finish(QueryDesc *queryDesc)
{
	if (likely(!queryDesc->plannedstmt->hasModifyingCTE))
		next_finish(queryDesc);
	else
		assist_finish(queryDesc);
}

/*
 * ExecutorFinish() of a statement that may be our business.
 */
static void
assist_finish(QueryDesc *queryDesc)
{
	BunPresentation *outer = bun_presentations;

	if (bun_row_comparisons)
		present_row_comparisons(queryDesc->plannedstmt);
	for_each_upsert(queryDesc, watch_partitions);
	next_finish(queryDesc);
	for_each_upsert(queryDesc, ignore_partitions);
	bun_end_presentations(outer);
}

/*
 * Can a statement come upon a row that was updated concurrently, and evaluate
 * its plan anew for the new version?
 */
static bool
may_evaluate_anew(PlannedStmt *stmt)
{
	return stmt->rowMarks != NIL || stmt->hasModifyingCTE ||
		stmt->commandType == CMD_UPDATE || stmt->commandType == CMD_DELETE ||
		stmt->commandType == CMD_MERGE;
}

/*
 * Present the indexes of ours that a plan scans with a row comparison.
 *
 * Partitions that will be pruned when the plan starts are not known here, so
 * their indexes get locked and opened for a moment, too.
 */
static void
present_row_comparisons(PlannedStmt *stmt)
{
	ListCell   *lc;

	present_scans(stmt->planTree, stmt);
	foreach(lc, stmt->subplans)
		present_scans((Plan *) lfirst(lc), stmt);
}

/*
 * present_row_comparisons() for one plan tree.
 */
static void
present_scans(Plan *plan, PlannedStmt *stmt)
{
	List	   *children = NIL;
	ListCell   *lc;

	/* a parallel worker does not get the subplans that it cannot run */
	if (plan == NULL)
		return;
	check_stack_depth();

	switch (nodeTag(plan))
	{
		case T_IndexScan:
			present_scan((Scan *) plan, ((IndexScan *) plan)->indexid,
						 ((IndexScan *) plan)->indexqual, stmt);
			break;
		case T_IndexOnlyScan:
			present_scan((Scan *) plan, ((IndexOnlyScan *) plan)->indexid,
						 ((IndexOnlyScan *) plan)->indexqual, stmt);
			break;
		case T_BitmapIndexScan:
			present_scan((Scan *) plan, ((BitmapIndexScan *) plan)->indexid,
						 ((BitmapIndexScan *) plan)->indexqual, stmt);
			break;
		case T_Append:
			children = ((Append *) plan)->appendplans;
			break;
		case T_MergeAppend:
			children = ((MergeAppend *) plan)->mergeplans;
			break;
		case T_BitmapAnd:
			children = ((BitmapAnd *) plan)->bitmapplans;
			break;
		case T_BitmapOr:
			children = ((BitmapOr *) plan)->bitmapplans;
			break;
		case T_SubqueryScan:
			present_scans(((SubqueryScan *) plan)->subplan, stmt);
			break;
		case T_CustomScan:
			children = ((CustomScan *) plan)->custom_plans;
			break;
		default:
			break;
	}

	foreach(lc, children)
		present_scans((Plan *) lfirst(lc), stmt);
	present_scans(outerPlan(plan), stmt);
	present_scans(innerPlan(plan), stmt);
}

/*
 * Present the index of one scan if that has a row comparison.  The lock is the
 * one that the executor is about to take.
 */
static void
present_scan(Scan *scan, Oid indexid, List *indexqual, PlannedStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, indexqual)
	{
		if (IsA(lfirst(lc), RowCompareExpr))
		{
			bun_present(indexid,
						rt_fetch(scan->scanrelid, stmt->rtable)->rellockmode);
			break;
		}
	}
}

/*
 * Do something to all ModifyTable nodes of a statement that have ON CONFLICT.
 * There may be one at the top of its plan, if no extension has put something else
 * there, and others in common table expressions.
 */
static void
for_each_upsert(QueryDesc *queryDesc, upsert_action action)
{
	ModifyTableState *mtstate = (ModifyTableState *) queryDesc->planstate;
	ListCell   *lc;

	if (IsA(mtstate, ModifyTableState) &&
		((ModifyTable *) mtstate->ps.plan)->onConflictAction != ONCONFLICT_NONE)
		action(mtstate);
	foreach(lc, queryDesc->estate->es_auxmodifytables)
	{
		mtstate = lfirst_node(ModifyTableState, lc);
		if (((ModifyTable *) mtstate->ps.plan)->onConflictAction != ONCONFLICT_NONE)
			action(mtstate);
	}
}

/*
 * The executor has started: have the indexes of a target opened.
 *
 * A target without a unique index of ours is left alone: the executor opens its
 * indexes at the first row, if there is one.
 */
static void
open_indexes(ModifyTableState *mtstate)
{
	ResultRelInfo *target = mtstate->resultRelInfo;
	BunPresentation *outer = bun_presentations;

	if (mtstate->mt_partition_tuple_routing != NULL ||
		target->ri_IndexRelationDescs != NULL)
		return;

	bun_present_unique(target->ri_RelationDesc, RowExclusiveLock);
	if (bun_presentations != outer)
	{
		/* what it notes down about indexes belongs to the query */
		MemoryContext old_context =
			MemoryContextSwitchTo(mtstate->ps.state->es_query_cxt);

		ExecOpenIndices(target, true);
		MemoryContextSwitchTo(old_context);
		bun_end_presentations(outer);
	}
}

/*
 * The executor is about to run: if the target is partitioned, have us told which
 * partitions rows are for.
 *
 * Before the executor initializes a partition for a row, it looks whether that is
 * among the tables that the ModifyTable node has anyway.  That is a look-up in
 * the node's hash table of them, if it has one.  For an INSERT, which has but one
 * target, it has none, so there is room for ours.
 */
static void
watch_partitions(ModifyTableState *mtstate)
{
	if (mtstate->mt_partition_tuple_routing == NULL ||
		mtstate->mt_resultOidHash != NULL)
		return;

	if (partitions == NULL)
	{
		HASHCTL		info;

		info.keysize = sizeof(Oid);
		info.entrysize = sizeof(Oid);
		info.hash = partition_reached;
		partitions = hash_create("bunbtree: partitions", 1, &info,
								 HASH_ELEM | HASH_FUNCTION);
	}
	mtstate->mt_resultOidHash = partitions;
}

/*
 * The executor has run: no more of that, because nobody would see to the end of
 * what partition_reached() presents.  (After an error, the node is not used again.)
 */
static void
ignore_partitions(ModifyTableState *mtstate)
{
	if (mtstate->mt_resultOidHash == partitions)
		mtstate->mt_resultOidHash = NULL;
}

/*
 * The executor is about to initialize a partition for an INSERT, and open the
 * indexes of it: present those that it would refuse.  This comes once for each
 * partition and execution.
 *
 * The locks are those that the executor is about to take.  That on the table is
 * kept to the end of the transaction, as the executor does.
 */
static uint32
partition_reached(const void *key, Size keysize)
{
	Relation	partition = table_open(*(const Oid *) key, RowExclusiveLock);

	bun_present_unique(partition, RowExclusiveLock);
	table_close(partition, NoLock);
	return 0;
}
