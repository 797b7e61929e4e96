/*-------------------------------------------------------------------------
 *
 * check.c
 *		Verification of bunbtree indexes by amcheck.
 *
 * The pages are nbtree's, so amcheck's checks are the right ones.  It refuses
 * indexes of other access methods, by relam; here it is called with the index
 * presented as btree (bridge.c).
 *
 * Portions Copyright (c) 2026, bunbtree developers
 *
 * IDENTIFICATION
 *		src/check.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "bunbtree.h"

#include "access/genam.h"
#include "access/relation.h"
#include "catalog/index.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(bunbtree_check);

/*
 * bunbtree_check(index regclass,
 *				  heapallindexed boolean DEFAULT false,
 *				  parent boolean DEFAULT false)
 *		Verify a bunbtree index; raise an error if it is corrupt.
 *
 * Calls amcheck's bt_index_check(), or with "parent" bt_index_parent_check(),
 * which also checks each level against its parents and looks every entry up
 * from the root.  "heapallindexed" looks for each row of the table in the
 * index besides.
 *
 * Locks: AccessShareLock on table and index, or with "parent" ShareLock on
 * both (no writes to the table meanwhile), as amcheck takes them; always the
 * table first.  Whoever may execute this need not be allowed to execute
 * amcheck's functions.  Errors: ERRCODE_UNDEFINED_OBJECT and
 * ERRCODE_WRONG_OBJECT_TYPE if this is not a bunbtree index,
 * ERRCODE_UNDEFINED_FUNCTION without amcheck, and amcheck's own.
 */
Datum
bunbtree_check(PG_FUNCTION_ARGS)
{
	Oid			indexid = PG_GETARG_OID(0);
	bool		heapallindexed = PG_GETARG_BOOL(1);
	bool		parent = PG_GETARG_BOOL(2);
	LOCKMODE	lockmode = parent ? ShareLock : AccessShareLock;
	Oid			function;
	Oid			heapid;
	Relation	index;
	BunCall    *call;

	function = parent ?
		bun_extension_function("bunbtree_check", "amcheck",
							   "bt_index_parent_check", 3, REGCLASSOID) :
		bun_extension_function("bunbtree_check", "amcheck",
							   "bt_index_check", 2, REGCLASSOID);

	/* Is it ours?  Find out before a lock on the table disturbs anyone. */
	relation_close(bun_open_index(indexid, AccessShareLock), AccessShareLock);

	heapid = IndexGetRelation(indexid, true);
	if (OidIsValid(heapid))
		LockRelationOid(heapid, lockmode);
	index = bun_open_index(indexid, lockmode);

	call = bun_begin_call(index);
	if (parent)
		(void) OidFunctionCall3(function,
								ObjectIdGetDatum(indexid),
								BoolGetDatum(heapallindexed),
								BoolGetDatum(true));
	else
		(void) OidFunctionCall2(function,
								ObjectIdGetDatum(indexid),
								BoolGetDatum(heapallindexed));
	bun_end_call(call);

	relation_close(index, lockmode);
	if (OidIsValid(heapid))
		UnlockRelationOid(heapid, lockmode);

	PG_RETURN_VOID();
}

/*
 * OID of a function of some extension, wherever that is installed: the one of
 * this name with so many arguments, the first of which has this type.  "caller"
 * is who needs it.
 */
Oid
bun_extension_function(const char *caller, const char *extension,
					   const char *name, int nargs, Oid argtype)
{
	Oid			argtypes[] = {TEXTOID, TEXTOID, INT4OID, OIDOID};
	Datum		values[] = {
		CStringGetTextDatum(extension), CStringGetTextDatum(name),
		Int32GetDatum(nargs), ObjectIdGetDatum(argtype)
	};
	Oid			result = InvalidOid;

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	if (SPI_execute_with_args("SELECT p.oid"
							  " FROM pg_catalog.pg_extension e"
							  " JOIN pg_catalog.pg_depend d"
							  "   ON d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass"
							  "  AND d.refobjid OPERATOR(pg_catalog.=) e.oid"
							  "  AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass"
							  "  AND d.deptype OPERATOR(pg_catalog.=) 'e'"
							  " JOIN pg_catalog.pg_proc p"
							  "   ON p.oid OPERATOR(pg_catalog.=) d.objid"
							  " WHERE e.extname OPERATOR(pg_catalog.=) $1::pg_catalog.name"
							  "   AND p.proname OPERATOR(pg_catalog.=) $2::pg_catalog.name"
							  "   AND p.pronargs OPERATOR(pg_catalog.=) $3::pg_catalog.int2"
							  "   AND p.proargtypes[0] OPERATOR(pg_catalog.=) $4",
							  4, argtypes, values, NULL, true, 1) != SPI_OK_SELECT)
		elog(ERROR, "could not look for functions of extension \"%s\"", extension);
	if (SPI_processed == 1)
	{
		bool		isnull;

		result = DatumGetObjectId(SPI_getbinval(SPI_tuptable->vals[0],
												SPI_tuptable->tupdesc,
												1, &isnull));
	}
	SPI_finish();

	if (!OidIsValid(result))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("%s needs the extension \"%s\"", caller, extension),
				 errhint("Use CREATE EXTENSION %s to install it in this database.",
						 quote_identifier(extension))));
	return result;
}
