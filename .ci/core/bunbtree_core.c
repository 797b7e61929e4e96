/*-------------------------------------------------------------------------
 *
 * bunbtree_core.c
 *		Makes bunbtree indexes of what is said to become btree indexes.
 *
 * To be preloaded into a server on which PostgreSQL's own tests run, in a
 * database that has the extension.  Commands are changed as they are executed,
 * not as they are written, so it does not matter whether one comes from a file,
 * a function, or another command, and what the tests print of them is the same.
 *
 * - CREATE INDEX without access method, or with USING btree, makes a bunbtree
 *	 index.  So does an EXCLUDE constraint in CREATE TABLE.  PRIMARY KEY and
 *	 UNIQUE stay btree, as they do for everybody, and so does an index that asks
 *	 for an operator class which bunbtree has not.
 *
 * - When an operator class of btree has been created, or something added to one
 *	 of its families, bunbtree_mirror_opclasses() is called, as README.md asks of
 *	 users.  When a class or family of btree's is dropped, ours is dropped first.
 *
 * Each such index makes a line in the server's log, which is how they are counted.
 *
 * Portions Copyright (c) 2026, bunbtree developers
 *
 * IDENTIFICATION
 *		.ci/core/bunbtree_core.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_am.h"
#include "catalog/pg_authid.h"
#include "commands/defrem.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/value.h"
#include "tcop/utility.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

static ProcessUtility_hook_type prev_ProcessUtility_hook;

/*
 * Does a command create an index that bunbtree can be asked for instead?
 */
static bool
is_ours(IndexStmt *stmt, Oid am)
{
	ListCell   *lc;

	if (strcmp(stmt->accessMethod, "btree") != 0)
		return false;
	if (stmt->primary || (stmt->isconstraint && stmt->excludeOpNames == NIL))
		return false;

	foreach(lc, stmt->indexParams)
	{
		IndexElem  *elem = lfirst_node(IndexElem, lc);

		if (elem->opclass != NIL &&
			OidIsValid(get_opclass_oid(BTREE_AM_OID, elem->opclass, true)) &&
			!OidIsValid(get_opclass_oid(am, elem->opclass, true)))
		{
			ereport(LOG_SERVER_ONLY,
					(errmsg_internal("core: \"%s\" stays btree",
							stmt->idxname ? stmt->idxname : "")));
			return false;
		}
	}
	return true;
}

/*
 * Give bunbtree what btree's operator families have got.
 */
static void
mirror_opclasses(void)
{
	Oid			user;
	int			security;
	int			level = NewGUCNestLevel();

	GetUserIdAndSecContext(&user, &security);
	SetUserIdAndSecContext(BOOTSTRAP_SUPERUSERID,
						   security | SECURITY_LOCAL_USERID_CHANGE);
	(void) set_config_option("client_min_messages", "error", PGC_USERSET,
							 PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	SPI_connect();
	if (SPI_execute("SELECT public.bunbtree_mirror_opclasses()", false, 0) != SPI_OK_SELECT)
		elog(ERROR, "bunbtree_mirror_opclasses() failed");
	SPI_finish();
	AtEOXact_GUC(true, level);
	SetUserIdAndSecContext(user, security);
}

/*
 * Drop what corresponds to an operator class or family of btree's, if there is
 * such a thing.
 */
static void
drop_mirrored(DropStmt *stmt, Oid am)
{
	DropStmt   *ours;
	List	   *wanted = NIL;
	ListCell   *lc;

	if (stmt->removeType != OBJECT_OPCLASS && stmt->removeType != OBJECT_OPFAMILY)
		return;

	ours = copyObject(stmt);
	foreach(lc, ours->objects)
	{
		List	   *object = lfirst_node(List, lc);
		List	   *name = list_copy_tail(object, 1);

		if (strcmp(strVal(linitial(object)), "btree") != 0)
			continue;
		if (OidIsValid(stmt->removeType == OBJECT_OPCLASS ?
					   get_opclass_oid(am, name, true) :
					   get_opfamily_oid(am, name, true)))
		{
			linitial(object) = makeString("bunbtree");
			wanted = lappend(wanted, object);
		}
	}
	ours->objects = wanted;
	if (wanted != NIL)
		RemoveObjects(ours);
}

static void
process_utility(PlannedStmt *pstmt, const char *queryString,
				bool readOnlyTree, ProcessUtilityContext context,
				ParamListInfo params, QueryEnvironment *queryEnv,
				DestReceiver *dest, QueryCompletion *qc)
{
	Node	   *stmt = pstmt->utilityStmt;
	bool		mirror = false;

	/* Other commands come in transactions that can read no catalog. */
	if (IsA(stmt, IndexStmt))
	{
		Oid			am = get_index_am_oid("bunbtree", true);

		if (OidIsValid(am) && is_ours((IndexStmt *) stmt, am))
		{
			pstmt = copyObject(pstmt);
			stmt = pstmt->utilityStmt;
			readOnlyTree = false;
			((IndexStmt *) stmt)->accessMethod = pstrdup("bunbtree");
			ereport(LOG_SERVER_ONLY, (errmsg_internal("core: an index becomes bunbtree")));
		}
	}
	else if (IsA(stmt, DropStmt))
	{
		Oid			am = get_index_am_oid("bunbtree", true);

		if (OidIsValid(am))
			drop_mirrored((DropStmt *) stmt, am);
	}
	else if (IsA(stmt, CreateOpClassStmt))
		mirror = strcmp(((CreateOpClassStmt *) stmt)->amname, "btree") == 0;
	else if (IsA(stmt, AlterOpFamilyStmt))
		mirror = strcmp(((AlterOpFamilyStmt *) stmt)->amname, "btree") == 0 &&
			!((AlterOpFamilyStmt *) stmt)->isDrop;

	if (prev_ProcessUtility_hook)
		prev_ProcessUtility_hook(pstmt, queryString, readOnlyTree, context,
								 params, queryEnv, dest, qc);
	else
		standard_ProcessUtility(pstmt, queryString, readOnlyTree, context,
								params, queryEnv, dest, qc);

	if (mirror && OidIsValid(get_index_am_oid("bunbtree", true)))
	{
		CommandCounterIncrement();
		mirror_opclasses();
	}
}

void
_PG_init(void)
{
	prev_ProcessUtility_hook = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}
