/*-------------------------------------------------------------------------
 *
 * refresh.c
 *		REFRESH MATERIALIZED VIEW CONCURRENTLY by an index of ours, up to 17.
 *
 * The command needs a unique index, to know which old row is which new one, and
 * looks for one whose relam is btree's.  All that it wants of it are the columns
 * and the "=" operators, which it gets from the index's own operator families:
 * ours have the same.  So the indexes are presented (bridge.c) for the command.
 *
 * It can be a long one, and runs the view's query and the functions in there.
 * They see the presentation, if they look at that view's indexes, which is what
 * functions see that are called during an insertion.
 *
 * Servers with assertions have one that the operator class be btree's, so
 * nothing of this is active there, nor from 18 on.
 *
 * Portions Copyright (c) 2026, bunbtree developers
 *
 * IDENTIFICATION
 *		src/refresh.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "bunbtree.h"

#include "access/relation.h"
#include "catalog/namespace.h"
#include "tcop/utility.h"

static ProcessUtility_hook_type prev_ProcessUtility_hook;

static void process_utility(PlannedStmt *pstmt, const char *queryString,
							bool readOnlyTree, ProcessUtilityContext context,
							ParamListInfo params, QueryEnvironment *queryEnv,
							DestReceiver *dest, QueryCompletion *qc);
static void present_view(RangeVar *name);

/*
 * Called once, when the library is loaded.
 */
void
bun_refresh_init(void)
{
	prev_ProcessUtility_hook = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}

/*
 * ProcessUtility_hook.
 *
 * The command does not end the transaction, so what was presented for it, or
 * around it, is still there when it returns.  Others may, and are kept out.
 */
static void
process_utility(PlannedStmt *pstmt, const char *queryString,
				bool readOnlyTree, ProcessUtilityContext context,
				ParamListInfo params, QueryEnvironment *queryEnv,
				DestReceiver *dest, QueryCompletion *qc)
{
	RefreshMatViewStmt *refresh = (RefreshMatViewStmt *) pstmt->utilityStmt;
	bool		present = IsA(refresh, RefreshMatViewStmt) && refresh->concurrent;
	BunPresentation *outer = bun_presentations;

	if (present)
		present_view(refresh->relation);

	if (prev_ProcessUtility_hook)
		prev_ProcessUtility_hook(pstmt, queryString, readOnlyTree, context,
								 params, queryEnv, dest, qc);
	else
		standard_ProcessUtility(pstmt, queryString, readOnlyTree, context,
								params, queryEnv, dest, qc);

	if (present)
		bun_end_presentations(outer);
}

/*
 * Present the unique indexes of a materialized view.
 *
 * Whether there is one of that name, and who may refresh it, is for the command
 * to check.  Until then, the lock is a weak one, which everyone gets who may look
 * up a name, and which is given back by the error.
 */
static void
present_view(RangeVar *name)
{
	Oid			relid = RangeVarGetRelid(name, AccessShareLock, true);
	Relation	view;

	if (!OidIsValid(relid))
		return;

	view = relation_open(relid, NoLock);
	if (view->rd_rel->relkind == RELKIND_MATVIEW)
		bun_present_unique(view, AccessShareLock);
	relation_close(view, NoLock);
}
