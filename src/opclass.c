/*-------------------------------------------------------------------------
 *
 * opclass.c
 *		Gives the access method the operator families and classes of btree.
 *
 * An index of this access method is a B-tree, so whatever nbtree can sort it
 * can sort, with the same operators and support functions.  The catalogs want
 * that spelled out: an operator class belongs to one access method.  Hence
 * bunbtree_mirror_opclasses(), which reads what btree has and issues the DDL
 * that makes the same for us.  Names, schemas, input types and defaults are
 * those of btree.
 *
 * What is compared is the catalog as it is now: what exists already (by name
 * within its schema; for members of a family, by types and number) is left
 * alone, what is missing is added.  So calling it again is cheap, does no
 * harm, and picks up what was added to btree since.  Nothing is ever dropped
 * or changed.
 *
 * A family is mirrored whole or not at all.  The planner may treat our family
 * as btree's only while ours holds every operator that btree's does, and a
 * partial copy would give worse plans than the same columns get from btree.
 * That makes the rule for the argument: the families that the listed types
 * need, with all their classes and cross-type members.
 *
 * Who calls decides what is copied, and what the copies belong to:
 *
 * - The extension's own script (CREATE or ALTER EXTENSION): what initdb
 *	 created, and nothing else.  It becomes a member of the extension, as
 *	 everything that the script creates does.  Were a class of citext to become
 *	 a member too, then DROP EXTENSION citext CASCADE would take this extension
 *	 and all its indexes along.
 *
 * - A user: everything.  What initdb created is made a member of the extension
 *	 (a server can have such classes that the script did not see: pg_upgrade
 *	 carries over those of the old server).  The rest become plain objects with
 *	 the owner of the original, which pg_dump carries, and which go when their
 *	 data type goes.
 *
 * - The script of another extension: what belongs to that extension.  Our
 *	 copies become its members, like the originals.
 *
 * Classes in temporary schemas of other sessions are nobody's business and
 * skipped.
 *
 * Three things to know about what is not mirrored:
 *
 * - A type whose class is missing can still find one.  citext is coercible to
 *	 text, so an index on a citext column that is made before citext_ops exists
 *	 here gets text_ops, and tells "A" from "a".  Mirror first.
 *
 * - What someone adds to a built-in family of btree (an operator between
 *	 integer and a type of their own, say) is in no dump, neither btree's nor
 *	 ours.  After a restore, call the function once btree has it again.
 *
 * - pg_upgrade carries over the classes of the old server.  Support functions
 *	 that the new one added to btree are missing until the function is called.
 *	 Indexes work without.
 *
 * Portions Copyright (c) 2026, bunbtree developers
 *
 * IDENTIFICATION
 *		src/opclass.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "bunbtree.h"
#include "compat.h"

#include "access/genam.h"
#include "access/nbtree.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/pg_am.h"
#include "catalog/pg_index.h"
#include "catalog/pg_opclass.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(bunbtree_mirror_opclasses);

/* Catalog rows below this OID were made by initdb. */
#define BUILTIN_OID_LIMIT	CppAsString2(FirstNormalObjectId)

/*
 * Finds what btree has and we have not, and says how to make it: a DDL command
 * a row, in the order in which they have to run.
 *
 *		$1	our access method's OID
 *		$2	its name
 *		$3	only what initdb created?
 *		$4	only what belongs to this extension, or NULL
 *		$5	only families with a class for one of these input types, or NULL
 *		$6	extension that built-in objects are to become members of, or NULL
 *		$7	give plain objects the owner of the original?
 *
 * The commands that it makes rely on the search_path that our caller has set:
 * regoperator and its kin leave out the schema of what is found without.
 *
 * family	families of btree in question; "mirror" is ours, if there is one
 *
 * class	classes to create.  Several classes of a family may have the same
 *			input type (varchar_ops is text_ops under another name), but a
 *			family holds each operator once: one of them "carries" the
 *			members, and its sisters are created with nothing but a storage
 *			clause, which is the way to create a class without members.
 *
 * member	operators and functions to create.  As in nbtree, the operators of
 *			one type and its comparison function are "tied" to the class
 *			for that type, and everything else is a loose member of the
 *			family.  That distinction decides what a later DROP OPERATOR CLASS
 *			removes, and what pg_dump prints where.
 */
static const char *const missing_query =
"WITH family AS ("
"  SELECT f.oid, f.opfowner AS owner, m.oid AS mirror,"
"    f.oid < " BUILTIN_OID_LIMIT " AS builtin,"
"    format('%I.%I', n.nspname, f.opfname) AS name"
"  FROM pg_opfamily f"
"  JOIN pg_namespace n ON n.oid = f.opfnamespace"
"  LEFT JOIN pg_opfamily m ON m.opfmethod = $1"
"    AND m.opfname = f.opfname AND m.opfnamespace = f.opfnamespace"
"  WHERE f.opfmethod = " CppAsString2(BTREE_AM_OID)
"    AND NOT pg_is_other_temp_schema(n.oid)"
"    AND (NOT $3 OR f.oid < " BUILTIN_OID_LIMIT ")"
"    AND ($5 IS NULL OR EXISTS ("
"      SELECT FROM pg_opclass c"
"      WHERE c.opcfamily = f.oid AND c.opcintype = ANY ($5)))"
"    AND ($4 IS NULL"
"      OR EXISTS ("
"        SELECT FROM pg_depend d"
"        WHERE d.classid = 'pg_opfamily'::regclass AND d.objid = f.oid"
"          AND d.deptype = 'e' AND d.refobjid = $4"
"          AND d.refclassid = 'pg_extension'::regclass)"
"      OR (m.oid IS NOT NULL AND EXISTS ("
"        SELECT FROM pg_opclass c"
"        JOIN pg_depend d ON d.classid = 'pg_opclass'::regclass"
"          AND d.objid = c.oid"
"        WHERE c.opcfamily = f.oid AND d.deptype = 'e' AND d.refobjid = $4"
"          AND d.refclassid = 'pg_extension'::regclass)))"
"), class AS ("
"  SELECT c.oid, c.opcfamily AS family, f.name AS familyname,"
"    c.opcowner AS owner, c.oid < " BUILTIN_OID_LIMIT " AS builtin,"
"    format('%I.%I', n.nspname, c.opcname) AS name,"
"    c.opcintype AS intype, c.opckeytype AS keytype,"
"    c.opcdefault AS isdefault, dflt.name AS olddefault,"
"    row_number() OVER (PARTITION BY c.opcfamily, c.opcintype"
"                       ORDER BY c.opcdefault DESC, c.oid) = 1"
"    AND NOT EXISTS ("
"      SELECT FROM pg_opclass s"
"      WHERE s.opcfamily = f.mirror AND s.opcintype = c.opcintype) AS carries"
"  FROM family f"
"  JOIN pg_opclass c ON c.opcfamily = f.oid"
"  JOIN pg_namespace n ON n.oid = c.opcnamespace"
"  LEFT JOIN LATERAL ("
"    SELECT format('%I.%I', dn.nspname, dc.opcname) AS name"
"    FROM pg_opclass dc JOIN pg_namespace dn ON dn.oid = dc.opcnamespace"
"    WHERE dc.opcmethod = $1 AND dc.opcdefault"
"      AND dc.opcintype = c.opcintype) dflt ON c.opcdefault"
"  WHERE NOT pg_is_other_temp_schema(n.oid)"
"    AND (NOT $3 OR c.oid < " BUILTIN_OID_LIMIT ")"
"    AND ($4 IS NULL OR EXISTS ("
"      SELECT FROM pg_depend d"
"      WHERE d.classid = 'pg_opclass'::regclass AND d.objid = c.oid"
"        AND d.deptype = 'e' AND d.refobjid = $4"
"        AND d.refclassid = 'pg_extension'::regclass))"
"    AND NOT EXISTS ("
"      SELECT FROM pg_opclass m"
"      WHERE m.opcmethod = $1 AND m.opcname = c.opcname"
"        AND m.opcnamespace = c.opcnamespace)"
"), member AS ("
"  SELECT f.oid AS family, 1 AS kind, o.amopstrategy AS number,"
"    o.amoplefttype AS lefttype, o.amoprighttype AS righttype,"
"    o.amoplefttype = o.amoprighttype AS tied,"
"    format('OPERATOR %s %s', o.amopstrategy,"
"           o.amopopr::regoperator) AS item"
"  FROM family f"
"  JOIN pg_amop o ON o.amopfamily = f.oid AND o.amoppurpose = 's'"
"  WHERE (NOT $3 OR o.oid < " BUILTIN_OID_LIMIT ")"
"    AND NOT EXISTS ("
"      SELECT FROM pg_amop m"
"      WHERE m.amopfamily = f.mirror AND (m.amopopr = o.amopopr"
"        OR (m.amoplefttype = o.amoplefttype"
"            AND m.amoprighttype = o.amoprighttype"
"            AND m.amopstrategy = o.amopstrategy)))"
"  UNION ALL "
"  SELECT f.oid, 2, p.amprocnum,"
"    p.amproclefttype, p.amprocrighttype,"
"    p.amproclefttype = p.amprocrighttype"
"    AND p.amprocnum = " CppAsString2(BTORDER_PROC) ","
"    format('FUNCTION %s (%s, %s) %s', p.amprocnum,"
"           p.amproclefttype::regtype, p.amprocrighttype::regtype,"
"           p.amproc::regprocedure)"
"  FROM family f"
"  JOIN pg_amproc p ON p.amprocfamily = f.oid"
"  WHERE (NOT $3 OR p.oid < " BUILTIN_OID_LIMIT ")"
"    AND NOT EXISTS ("
"      SELECT FROM pg_amproc m"
"      WHERE m.amprocfamily = f.mirror"
"        AND m.amproclefttype = p.amproclefttype"
"        AND m.amprocrighttype = p.amprocrighttype"
"        AND m.amprocnum = p.amprocnum)"
"), command AS ("
"  SELECT 1 AS step, oid, format("
"      'CREATE OPERATOR FAMILY %s USING %I', name, $2) AS command,"
"    NULL AS class, NULL AS olddefault"
"  FROM family WHERE mirror IS NULL"
"  UNION ALL "
"  SELECT 2, oid, format("
"      'ALTER EXTENSION %I ADD OPERATOR FAMILY %s USING %I', $6, name, $2),"
"    NULL, NULL"
"  FROM family WHERE mirror IS NULL AND builtin AND $6 IS NOT NULL"
"  UNION ALL "
"  SELECT 2, oid, format("
"      'ALTER OPERATOR FAMILY %s USING %I OWNER TO %I', name, $2,"
"      pg_get_userbyid(owner)),"
"    NULL, NULL"
"  FROM family WHERE mirror IS NULL AND NOT builtin AND $7"
"  UNION ALL "
"  SELECT 3, c.oid, format("
"      'CREATE OPERATOR CLASS %s %s FOR TYPE %s USING %I FAMILY %s AS %s',"
"      c.name,"
"      CASE WHEN c.isdefault AND c.olddefault IS NULL THEN 'DEFAULT' END,"
"      c.intype::regtype, $2, c.familyname,"
"      concat_ws(', ', m.items,"
"                CASE WHEN c.keytype <> 0 OR m.items IS NULL"
"                THEN format('STORAGE %s',"
"                            coalesce(nullif(c.keytype, 0),"
"                                     c.intype)::regtype) END)),"
"    c.name, c.olddefault"
"  FROM class c"
"  LEFT JOIN LATERAL ("
"    SELECT string_agg(item, ', ' ORDER BY kind, number) AS items"
"    FROM member"
"    WHERE family = c.family AND tied AND lefttype = c.intype) m ON c.carries"
"  UNION ALL "
"  SELECT 4, oid, format("
"      'ALTER EXTENSION %I ADD OPERATOR CLASS %s USING %I', $6, name, $2),"
"    NULL, NULL"
"  FROM class WHERE builtin AND $6 IS NOT NULL"
"  UNION ALL "
"  SELECT 4, oid, format("
"      'ALTER OPERATOR CLASS %s USING %I OWNER TO %I', name, $2,"
"      pg_get_userbyid(owner)),"
"    NULL, NULL"
"  FROM class WHERE NOT builtin AND $7"
"  UNION ALL "
"  SELECT 5, f.oid, format("
"      'ALTER OPERATOR FAMILY %s USING %I ADD %s', f.name, $2,"
"      string_agg(m.item, ', ' ORDER BY m.kind, m.lefttype, m.righttype,"
"                 m.number)),"
"    NULL, NULL"
"  FROM family f"
"  JOIN member m ON m.family = f.oid"
"  WHERE NOT (m.tied AND EXISTS ("
"    SELECT FROM class c"
"    WHERE c.family = m.family AND c.intype = m.lefttype AND c.carries))"
"  GROUP BY f.oid, f.name"
") "
"SELECT command, class, olddefault FROM command ORDER BY step, oid";

static Datum listed_input_types(ArrayType *types);
static int	mirror_missing(Oid extension, Oid amoid, const char *amname,
						   Datum intypes, bool all);

/*
 * bunbtree_mirror_opclasses(types regtype[] DEFAULT NULL) returns integer
 *
 * Mirrors btree's operator families and classes, as described at the top of
 * this file.  Returns the number of operator classes that were created.
 *
 * "types", if not NULL, limits the work to the families that have a class for
 * one of these types.  The class that a type needs is the one that an index on
 * a column of that type would get: that of the base type for a domain, text's
 * for varchar, and those of the polymorphic types for arrays, enums, ranges,
 * multiranges and composite types.  An empty array means no type, and nothing
 * is done.  A null element is an error, and so is a type that btree cannot
 * sort.
 *
 * Two calls must not both find the same thing missing.  So each takes a
 * ShareUpdateExclusiveLock on the access method first (an object lock, which
 * conflicts with itself and with what DROP EXTENSION takes, and with nothing
 * that queries or CREATE INDEX do), keeps it until the transaction ends, and
 * only then looks at the catalogs.
 */
Datum
bunbtree_mirror_opclasses(PG_FUNCTION_ARGS)
{
	Oid			extension;
	Oid			amoid;
	char	   *amname;
	Datum		intypes = (Datum) 0;
	int			save_nestlevel;
	int			created;

	/*
	 * EXECUTE can be granted, but CREATE OPERATOR CLASS insists on this, and
	 * would say so less clearly.
	 */
	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to mirror operator classes"),
				 errhint("Must be superuser to create operator classes.")));
	PreventCommandIfReadOnly("bunbtree_mirror_opclasses()");

	if (!PG_ARGISNULL(0))
		intypes = listed_input_types(PG_GETARG_ARRAYTYPE_P(0));

	amoid = bun_access_method(fcinfo->flinfo->fn_oid, &extension);

	/*
	 * Nothing that we run may be fooled by objects that someone has put into
	 * a schema of the caller's search_path, temporary ones included.
	 */
	save_nestlevel = NewGUCNestLevel();
	(void) set_config_option("search_path", "pg_catalog, pg_temp",
							 PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	SPI_connect();

	amname = get_am_name(amoid);
	LockDatabaseObject(AccessMethodRelationId, amoid, 0,
					   ShareUpdateExclusiveLock);
	created = mirror_missing(extension, amoid, amname, intypes,
							 PG_ARGISNULL(0));

	SPI_finish();
	AtEOXact_GUC(true, save_nestlevel);

	PG_RETURN_INT32(created);
}

/*
 * Is there a btree operator class with exactly this input type?
 */
static bool
is_btree_input_type(Oid type)
{
	CatCList   *classes;
	bool		result = false;

	classes = SearchSysCacheList1(CLAAMNAMENSP,
								  ObjectIdGetDatum(BTREE_AM_OID));
	for (int i = 0; i < classes->n_members && !result; i++)
	{
		HeapTuple	tuple = &classes->members[i]->tuple;

		result = ((Form_pg_opclass) GETSTRUCT(tuple))->opcintype == type;
	}
	ReleaseCatCacheList(classes);

	return result;
}

/*
 * Turn the list of types that a user gave into one of input types of btree's
 * operator classes: an oid[].
 */
static Datum
listed_input_types(ArrayType *types)
{
	Datum	   *elems;
	bool	   *nulls;
	int			nelems;
	Datum	   *result;
	int			nresults = 0;

	deconstruct_array(types, REGTYPEOID, sizeof(Oid), true, TYPALIGN_INT,
					  &elems, &nulls, &nelems);
	result = palloc(2 * Max(nelems, 1) * sizeof(Datum));

	for (int i = 0; i < nelems; i++)
	{
		Oid			type;
		Oid			opclass;
		bool		found;

		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("array of types must not contain nulls")));

		/* a regtype can be any number */
		type = DatumGetObjectId(elems[i]);
		if (!SearchSysCacheExists1(TYPEOID, ObjectIdGetDatum(type)))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("type with OID %u does not exist", type)));

		/* classes of just this type, such as text_pattern_ops for text */
		type = getBaseType(type);
		found = is_btree_input_type(type);
		if (found)
			result[nresults++] = ObjectIdGetDatum(type);

		/* the class that it uses otherwise, such as text_ops for varchar */
		opclass = GetDefaultOpClass(type, BTREE_AM_OID);
		if (OidIsValid(opclass))
			result[nresults++] =
				ObjectIdGetDatum(get_opclass_input_type(opclass));
		else if (!found)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("data type %s has no operator class for access method \"%s\"",
							format_type_be(DatumGetObjectId(elems[i])),
							"btree")));
	}

	return PointerGetDatum(construct_array(result, nresults, OIDOID,
										   sizeof(Oid), true, TYPALIGN_INT));
}

/*
 * Run a query on the catalogs and leave the result in SPI_tuptable.
 *
 * It sees everything that is committed now and what we have done ourselves,
 * whatever the transaction's isolation level: another call may have committed
 * while we waited for its lock, and DDL would trip over its work just the
 * same.
 */
static void
catalog_query(const char *query, int nargs, Oid *argtypes, Datum *values,
			  const char *nulls)
{
	int			rc;

	CommandCounterIncrement();
	PushActiveSnapshot(GetLatestSnapshot());
	rc = SPI_execute_with_args(query, nargs, argtypes, values, nulls,
							   true, 0);
	PopActiveSnapshot();
	if (rc != SPI_OK_SELECT)
		elog(ERROR, "could not query the catalogs: %s",
			 SPI_result_code_string(rc));
}

/*
 * Our access method: the index access method that belongs to the same extension
 * as "function", one of our own.  Its name alone could be somebody else's.
 */
Oid
bun_access_method(Oid function, Oid *extension)
{
	Relation	pg_am;
	SysScanDesc scan;
	HeapTuple	tuple;
	Oid			result = InvalidOid;
	int			found = 0;

	*extension = getExtensionOfObject(ProcedureRelationId, function);
	if (!OidIsValid(*extension))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("function %s is not a member of an extension",
						format_procedure(function)),
				 errhint("Create it with CREATE EXTENSION.")));

	pg_am = table_open(AccessMethodRelationId, AccessShareLock);
	scan = systable_beginscan(pg_am, InvalidOid, false, NULL, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_am	am = (Form_pg_am) GETSTRUCT(tuple);

		if (am->amtype == AMTYPE_INDEX &&
			getExtensionOfObject(AccessMethodRelationId, am->oid) == *extension)
		{
			result = am->oid;
			found++;
		}
	}
	systable_endscan(scan);
	table_close(pg_am, AccessShareLock);

	if (found != 1)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("extension \"%s\" does not have exactly one index access method",
						get_extension_name(*extension)),
				 errhint("Drop the extension and create it again.")));
	return result;
}

/*
 * Create what is missing, and return the number of classes among it.
 *
 * "intypes" is an oid[] of input types whose families to mirror; it is ignored
 * if "all" is true.  The caller holds the lock that keeps others from doing
 * the same.
 */
static int
mirror_missing(Oid extension, Oid amoid, const char *amname, Datum intypes,
			   bool all)
{
	bool		own_script;
	bool		other_script;
	Oid			argtypes[7] = {
		OIDOID, NAMEOID, BOOLOID, OIDOID, OIDARRAYOID, NAMEOID, BOOLOID
	};
	Datum		values[7];
	char		nulls[7];
	NameData	amnamedata;
	NameData	extnamedata;
	SPITupleTable *commands;
	int			created = 0;

	own_script = creating_extension && CurrentExtensionObject == extension;
	other_script = creating_extension && !own_script;

	namestrcpy(&amnamedata, amname);
	namestrcpy(&extnamedata, get_extension_name(extension));

	memset(nulls, ' ', sizeof(nulls));
	values[0] = ObjectIdGetDatum(amoid);
	values[1] = NameGetDatum(&amnamedata);
	values[2] = BoolGetDatum(own_script);
	values[3] = ObjectIdGetDatum(CurrentExtensionObject);
	if (!other_script)
		nulls[3] = 'n';
	values[4] = intypes;
	if (all)
		nulls[4] = 'n';
	values[5] = NameGetDatum(&extnamedata);
	if (creating_extension)
		nulls[5] = 'n';
	values[6] = BoolGetDatum(!creating_extension);

	catalog_query(missing_query, 7, argtypes, values, nulls);
	commands = SPI_tuptable;

	for (uint64 i = 0; i < commands->numvals; i++)
	{
		HeapTuple	tuple = commands->vals[i];
		char	   *command = SPI_getvalue(tuple, commands->tupdesc, 1);
		char	   *class = SPI_getvalue(tuple, commands->tupdesc, 2);
		char	   *olddefault = SPI_getvalue(tuple, commands->tupdesc, 3);
		int			rc;

		CHECK_FOR_INTERRUPTS();

		rc = SPI_execute(command, false, 0);
		if (rc != SPI_OK_UTILITY)
			elog(ERROR, "could not execute \"%s\": %s", command,
				 SPI_result_code_string(rc));

		if (class != NULL)
			created++;

		/*
		 * Somebody was here before us, or the original has moved to another
		 * schema since it was mirrored.  A type has one default, so that one
		 * stays.
		 */
		if (olddefault != NULL)
			ereport(NOTICE,
					(errmsg("operator class %s for access method %s is not made the default for its type",
							class, amname),
					 errdetail("Operator class %s is the default already.",
							   olddefault)));
	}

	return created;
}

/*
 * Refuse what would give wrong answers: a nondeterministic collation with an
 * operator class whose order is by bytes and whose "=" is by the collation
 * (text_pattern_ops, varchar_pattern_ops, bpchar_pattern_ops).
 *
 * CREATE INDEX refuses it by the OIDs of btree's classes, so ours has to do it
 * itself, with the same error.  It can when the index is built, by the comparison
 * function; that is late for a partitioned index, which has no build, but its
 * partitions' indexes have one.
 */
void
bun_check_collations(Relation index)
{
	for (AttrNumber i = 0; i < IndexRelationGetNumberOfKeyAttributes(index); i++)
	{
		RegProcedure compare = index_getprocid(index, i + 1, BTORDER_PROC);
		Oid			collation = index->rd_indcollation[i];
		Datum		classes;
		bool		isnull;
		HeapTuple	class;

		if ((compare != F_BTTEXT_PATTERN_CMP && compare != F_BTBPCHAR_PATTERN_CMP) ||
			!OidIsValid(collation) || get_collation_isdeterministic(collation))
			continue;

		classes = SysCacheGetAttr(INDEXRELID, index->rd_indextuple,
								  Anum_pg_index_indclass, &isnull);
		class = SearchSysCache1(CLAOID,
								ObjectIdGetDatum(((oidvector *) DatumGetPointer(classes))->values[i]));
		if (!HeapTupleIsValid(class))
			elog(ERROR, "cache lookup failed for operator class");
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("nondeterministic collations are not supported for operator class \"%s\"",
						NameStr(((Form_pg_opclass) GETSTRUCT(class))->opcname))));
	}
}
