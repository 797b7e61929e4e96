/*-------------------------------------------------------------------------
 *
 * adopt.c
 *		Turns btree indexes into bunbtree indexes, and back, without a rebuild.
 *
 * The pages are the same, so what has to change is in the catalogs only: the
 * access method (pg_class.relam), the operator classes (pg_index.indclass), the
 * dependencies on those (pg_depend), and, on the way back, storage parameters
 * that btree does not know.  Everything else about the index stays as it is.
 *
 * Locks.  AccessExclusiveLock on the table, then on the index, as DROP INDEX
 * takes them.  That on the index alone would keep out everyone who uses it, but
 * not a session that has found its cached plan valid, and holds a lock on the
 * table only, until it opens the index.  It would then run a plan for the other
 * access method, which up to 17 can fail (row comparisons).  With the lock on the
 * table nobody is between these two points; the next lock on the table that
 * somebody gets makes them accept our invalidation of it, and with it of plans.
 *
 * The relcache takes it for granted that the access method of an index does not
 * change: a rebuild of an entry that is open replaces what is in pg_class, not
 * the routine and the support functions.  An entry that nobody has open is
 * thrown away, and the next one is made from scratch.  In other sessions our lock
 * sees to it that nobody has; in our own, CheckTableNotInUse() does.  Entries of
 * what was created in the running transaction are never thrown away, so
 * such an index is refused.
 *
 * The operator class of an index column goes by its counterpart: the class of
 * the other access method with the same name and schema, for the same input and
 * storage types, whose family has all operators and support functions that the
 * first one's has.  So nothing that the index was used for is lost, and nothing
 * that its order depends on changes.
 *
 * Some adopted indexes come back from a dump as btree ones: those of PRIMARY KEY
 * and UNIQUE constraints, whose syntax has no place for an access method, and
 * those of tables that belong to an extension.  They are noted down in a table of
 * the extension, bunbtree_adopted, that dumps carry.
 *
 * Portions Copyright (c) 2026, bunbtree developers
 *
 * IDENTIFICATION
 *		src/adopt.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "bunbtree.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/dependency.h"
#include "catalog/index.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/partition.h"
#include "catalog/pg_amproc.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_opclass.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/catcache.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(bunbtree_adopt);
PG_FUNCTION_INFO_V1(bunbtree_release);
PG_FUNCTION_INFO_V1(bunbtree_adopt_table);
PG_FUNCTION_INFO_V1(bunbtree_readopt);
PG_FUNCTION_INFO_V1(bunbtree_adopt_refusal);

/*
 * A conversion: from which access method to which?
 */
typedef struct Conversion
{
	Oid			from;
	Oid			to;
	bool		adopt;			/* from btree to ours, or back? */
	Oid			function;		/* SQL function that does it */
} Conversion;

/*
 * Why an index cannot be converted; what ereport() would be given.
 */
typedef struct Refusal
{
	int			sqlerrcode;
	const char *message;
	const char *detail;			/* or NULL */
	const char *hint;			/* or NULL */
} Refusal;

/*
 * A row of the table bunbtree_adopted.  Names, because OIDs mean nothing in
 * another database.  Constraints have the names of their indexes.
 */
typedef struct AdoptedRow
{
	NameData	schemaname;
	NameData	tablename;
	NameData	indexname;
} AdoptedRow;

#define Natts_adopted 3

static void begin_conversion(Conversion *conv, FunctionCallInfo fcinfo,
							 bool adopt, const char *command);
static Datum convert_one(FunctionCallInfo fcinfo, bool adopt,
						 const char *command);
static Refusal *lock_tree(const Conversion *conv, Oid indexid, List **tree);
static void check_owner(Oid indexid);
static void convert_tree(const Conversion *conv, List *tree);
static void convert(const Conversion *conv, Oid indexid);
static void check_not_in_use(Oid indexid);
static Refusal *refusal(int sqlerrcode, const char *message,
						const char *detail, const char *hint);
static void report_refusal(const Refusal *why);
static Refusal *refuse_tree(const Conversion *conv, List *tree, bool locked);
static Refusal *refuse_index(const Conversion *conv, Oid indexid, Oid root,
							 bool locked);
static Refusal *refuse_class(Oid indexid, Form_pg_class class);
static Refusal *refuse_to_adopt(Oid indexid, Form_pg_class class,
								Form_pg_index index, bool in_tree);
static Oid	access_method(Oid relid);
static oidvector *index_opclasses(HeapTuple indextuple);
static Oid	counterpart(Oid opclass, Oid amoid);
static bool support_contains(Oid family, Oid other);
static Relation open_adopted(const Conversion *conv);
static void note_adopted(const Conversion *conv, Oid indexid);
static bool restored_as_btree(Oid indexid);
static void put_row(ReturnSetInfo *rsinfo, Oid indexid, bool adopted,
					const char *reason);
static bool adopt_or_say_why(const Conversion *conv, Oid indexid,
							 const char **reason);

/*
 * bunbtree_adopt(index regclass) returns void
 *		Turn a btree index into a bunbtree index.
 *
 * For the owner of the index and superusers.  A partitioned index is converted
 * with all indexes of its partitions.  That the index is one of ours already is
 * only worth a NOTICE.  Locks are held until the transaction ends; see the top of
 * this file.
 */
Datum
bunbtree_adopt(PG_FUNCTION_ARGS)
{
	return convert_one(fcinfo, true, "bunbtree_adopt()");
}

/*
 * bunbtree_release(index regclass) returns void
 *		The reverse: turn a bunbtree index into a btree index.
 *
 * Storage parameters that btree does not know are removed.
 */
Datum
bunbtree_release(PG_FUNCTION_ARGS)
{
	return convert_one(fcinfo, false, "bunbtree_release()");
}

/*
 * bunbtree_adopt_table(rel regclass)
 *		returns setof (index regclass, adopted boolean, reason text)
 *		Adopt the indexes of a table or materialized view.
 *
 * Those of constraints are left alone, and those that cannot be converted; the
 * row says why.
 */
Datum
bunbtree_adopt_table(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);
	Conversion	conv;
	HeapTuple	tuple;
	Relation	rel;
	char		relkind;
	List	   *indexes;
	ListCell   *lc;

	begin_conversion(&conv, fcinfo, true, "bunbtree_adopt_table()");
	InitMaterializedSRF(fcinfo, 0);

	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	relkind = ((Form_pg_class) GETSTRUCT(tuple))->relkind;
	if (relkind != RELKIND_RELATION && relkind != RELKIND_MATVIEW &&
		relkind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table or materialized view",
						get_rel_name(relid))));
	if (!bun_owns_relation(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, get_relkind_objtype(relkind),
					   get_rel_name(relid));
	report_refusal(refuse_class(relid, (Form_pg_class) GETSTRUCT(tuple)));
	ReleaseSysCache(tuple);

	rel = table_open(relid, AccessExclusiveLock);
	indexes = RelationGetIndexList(rel);
	table_close(rel, NoLock);

	foreach(lc, indexes)
	{
		Oid			indexid = lfirst_oid(lc);
		const char *reason;
		bool		adopted = false;

		if (OidIsValid(get_index_constraint(indexid)))
			reason = psprintf("index \"%s\" belongs to a constraint",
							  get_rel_name(indexid));
		else
			adopted = adopt_or_say_why(&conv, indexid, &reason);
		put_row((ReturnSetInfo *) fcinfo->resultinfo, indexid, adopted,
				reason);
	}
	return (Datum) 0;
}

/*
 * bunbtree_readopt()
 *		returns setof (index regclass, adopted boolean, reason text)
 *		Adopt what was adopted before and has been restored as btree.
 */
Datum
bunbtree_readopt(PG_FUNCTION_ARGS)
{
	Conversion	conv;
	Relation	adopted_rel;
	SysScanDesc scan;
	HeapTuple	tuple;
	List	   *rows = NIL;
	ListCell   *lc;

	begin_conversion(&conv, fcinfo, true, "bunbtree_readopt()");
	InitMaterializedSRF(fcinfo, 0);

	adopted_rel = open_adopted(&conv);
	scan = systable_beginscan(adopted_rel, InvalidOid, false, NULL, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		rows = lappend(rows, memcpy(palloc(sizeof(AdoptedRow)),
									GETSTRUCT(tuple), sizeof(AdoptedRow)));
	systable_endscan(scan);
	table_close(adopted_rel, NoLock);

	foreach(lc, rows)
	{
		AdoptedRow *row = (AdoptedRow *) lfirst(lc);
		Oid			namespace;
		Oid			tableid = InvalidOid;
		Oid			indexid = InvalidOid;
		const char *reason;
		bool		adopted = false;

		namespace = get_namespace_oid(NameStr(row->schemaname), true);
		if (OidIsValid(namespace))
		{
			tableid = get_relname_relid(NameStr(row->tablename), namespace);
			indexid = get_relname_relid(NameStr(row->indexname), namespace);
		}
		if (OidIsValid(tableid) && OidIsValid(indexid) &&
			IndexGetRelation(indexid, true) == tableid)
			adopted = adopt_or_say_why(&conv, indexid, &reason);
		else
		{
			indexid = InvalidOid;
			reason = psprintf("table %s has no index \"%s\"",
							  quote_qualified_identifier(NameStr(row->schemaname),
														 NameStr(row->tablename)),
							  NameStr(row->indexname));
		}
		put_row((ReturnSetInfo *) fcinfo->resultinfo, indexid, adopted,
				reason);
	}
	return (Datum) 0;
}

/*
 * bunbtree_adopt_refusal(index regclass) returns text
 *		Why could an index not be adopted?  NULL if it could.
 *
 * Takes no locks on it, so the answer is what the catalogs say now.  Not
 * considered: who asks, and what only matters for the moment, such as the index
 * being in use.
 */
Datum
bunbtree_adopt_refusal(PG_FUNCTION_ARGS)
{
	Oid			indexid = PG_GETARG_OID(0);
	Conversion	conv;
	Oid			extension;
	List	   *tree;
	Refusal    *why;

	conv.from = BTREE_AM_OID;
	conv.to = bun_access_method(fcinfo->flinfo->fn_oid, &extension);
	conv.adopt = true;
	conv.function = fcinfo->flinfo->fn_oid;

	if (get_rel_relkind(indexid) == RELKIND_PARTITIONED_INDEX)
		tree = find_all_inheritors(indexid, NoLock, NULL);
	else
		tree = list_make1_oid(indexid);
	why = refuse_tree(&conv, tree, false);

	if (why == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(why->message));
}

/*
 * Common beginning of the functions that convert.
 */
static void
begin_conversion(Conversion *conv, FunctionCallInfo fcinfo, bool adopt,
				 const char *command)
{
	Oid			extension;
	Oid			ours;

	PreventCommandDuringRecovery(command);
	PreventCommandIfReadOnly(command);
	PreventCommandIfParallelMode(command);

	ours = bun_access_method(fcinfo->flinfo->fn_oid, &extension);
	conv->from = adopt ? BTREE_AM_OID : ours;
	conv->to = adopt ? ours : BTREE_AM_OID;
	conv->adopt = adopt;
	conv->function = fcinfo->flinfo->fn_oid;
}

/*
 * bunbtree_adopt() and bunbtree_release().
 */
static Datum
convert_one(FunctionCallInfo fcinfo, bool adopt, const char *command)
{
	Oid			indexid = PG_GETARG_OID(0);
	Conversion	conv;
	List	   *tree;
	Refusal    *why;

	begin_conversion(&conv, fcinfo, adopt, command);

	why = lock_tree(&conv, indexid, &tree);
	if (why != NULL && access_method(indexid) == conv.to)
	{
		/* Its constraint may be new to us, or have another name. */
		check_owner(indexid);
		LockRelationOid(indexid, ShareUpdateExclusiveLock);
		note_adopted(&conv, indexid);
		ereport(NOTICE,
				(errmsg_internal("%s", why->message)));
		PG_RETURN_VOID();
	}
	report_refusal(why);
	convert_tree(&conv, tree);
	PG_RETURN_VOID();
}

/*
 * Adopt an index, or say why not.
 */
static bool
adopt_or_say_why(const Conversion *conv, Oid indexid, const char **reason)
{
	List	   *tree;
	Refusal    *why = lock_tree(conv, indexid, &tree);

	if (why != NULL)
	{
		*reason = why->message;
		return false;
	}
	convert_tree(conv, tree);
	*reason = NULL;
	return true;
}

/*
 * Lock an index, if it is partitioned those of its partitions, too, and all their
 * tables; the tables first.  Sets "tree" to the indexes, the given one first, and
 * returns why they cannot be converted, or NULL.
 *
 * Whatever will be refused anyway is refused before it is locked, and so is an
 * index of somebody else.
 */
static Refusal *
lock_tree(const Conversion *conv, Oid indexid, List **tree)
{
	Refusal    *why = refuse_index(conv, indexid, InvalidOid, false);
	Oid			tableid;
	ListCell   *lc;

	if (why != NULL)
		return why;
	check_owner(indexid);
	tableid = IndexGetRelation(indexid, true);
	LockRelationOid(tableid, AccessExclusiveLock);
	if (get_rel_relkind(indexid) == RELKIND_PARTITIONED_INDEX)
		(void) find_all_inheritors(tableid, AccessExclusiveLock, NULL);
	LockRelationOid(indexid, AccessExclusiveLock);
	if (!OidIsValid(tableid) || IndexGetRelation(indexid, true) != tableid)
		return refusal(ERRCODE_UNDEFINED_OBJECT,
					   psprintf("index with OID %u does not exist", indexid),
					   NULL, NULL);

	if (get_rel_relkind(indexid) == RELKIND_PARTITIONED_INDEX)
		*tree = find_all_inheritors(indexid, AccessExclusiveLock, NULL);
	else
		*tree = list_make1_oid(indexid);
	foreach(lc, *tree)
		check_owner(lfirst_oid(lc));
	return refuse_tree(conv, *tree, true);
}

/*
 * Raise an error if the current user does not own an index.
 */
static void
check_owner(Oid indexid)
{
	if (!bun_owns_relation(indexid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_INDEX,
					   get_rel_name(indexid));
}

/*
 * Convert all indexes of a list, which are locked and have been checked.
 */
static void
convert_tree(const Conversion *conv, List *tree)
{
	ListCell   *lc;

	foreach(lc, tree)
		check_not_in_use(lfirst_oid(lc));
	foreach(lc, tree)
		convert(conv, lfirst_oid(lc));

	/* The relcache entries go now; see the top of this file. */
	CommandCounterIncrement();

	foreach(lc, tree)
		note_adopted(conv, lfirst_oid(lc));
}

/*
 * Raise an error if our own session is using an index or its table.
 */
static void
check_not_in_use(Oid indexid)
{
	Relation	table;
	Relation	index;

	table = table_open(IndexGetRelation(indexid, false), NoLock);
	CheckTableNotInUse(table, "convert an index of");
	index = relation_open(indexid, NoLock);
	CheckTableNotInUse(index, "convert index");
	relation_close(index, NoLock);
	table_close(table, NoLock);
}

/*
 * Change the catalogs for one index.
 *
 * pg_index.indcheckxmin, if set, keeps its meaning: it speaks of the xmin of the
 * row, which becomes ours, so snapshots that could not use the index still
 * cannot, and for the moment a few more.
 */
static void
convert(const Conversion *conv, Oid indexid)
{
	Relation	pg_class;
	Relation	pg_index;
	HeapTuple	tuple;
	HeapTuple	newtuple;
	oidvector  *opclasses;
	Oid			newclasses[INDEX_MAX_KEYS];
	Datum		classvalues[Natts_pg_class];
	bool		classnulls[Natts_pg_class];
	bool		classreplaces[Natts_pg_class];
	Datum		indexvalues[Natts_pg_index];
	bool		indexnulls[Natts_pg_index];
	bool		indexreplaces[Natts_pg_index];

	/* operator classes */
	pg_index = table_open(IndexRelationId, RowExclusiveLock);
	tuple = SearchSysCacheCopy1(INDEXRELID, ObjectIdGetDatum(indexid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for index %u", indexid);
	opclasses = index_opclasses(tuple);
	for (int i = 0; i < opclasses->dim1; i++)
	{
		Oid			opclass = opclasses->values[i];
		bool		seen = false;

		newclasses[i] = counterpart(opclass, conv->to);
		for (int j = 0; j < i; j++)
			seen = seen || opclasses->values[j] == opclass;
		if (seen)
			continue;

		/* Nobody drops it before the dependency can be seen. */
		if (OidIsValid(newclasses[i]))
			LockDatabaseObject(OperatorClassRelationId, newclasses[i], 0,
							   AccessShareLock);
		if (!OidIsValid(newclasses[i]) ||
			!SearchSysCacheExists1(CLAOID, ObjectIdGetDatum(newclasses[i])))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT),
					 errmsg("operator class %u was dropped concurrently",
							newclasses[i])));

		if (changeDependencyFor(RelationRelationId, indexid,
								OperatorClassRelationId, opclass,
								newclasses[i]) != 1)
			elog(ERROR, "could not change dependency of index %u on operator class %u",
				 indexid, opclass);
	}
	memset(indexnulls, false, sizeof(indexnulls));
	memset(indexreplaces, false, sizeof(indexreplaces));
	indexvalues[Anum_pg_index_indclass - 1] =
		PointerGetDatum(buildoidvector(newclasses, opclasses->dim1));
	indexreplaces[Anum_pg_index_indclass - 1] = true;
	newtuple = heap_modify_tuple(tuple, RelationGetDescr(pg_index),
								 indexvalues, indexnulls, indexreplaces);
	CatalogTupleUpdate(pg_index, &newtuple->t_self, newtuple);
	table_close(pg_index, RowExclusiveLock);

	/* access method, storage parameters */
	pg_class = table_open(RelationRelationId, RowExclusiveLock);
	tuple = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(indexid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", indexid);
	memset(classnulls, false, sizeof(classnulls));
	memset(classreplaces, false, sizeof(classreplaces));
	classvalues[Anum_pg_class_relam - 1] = ObjectIdGetDatum(conv->to);
	classreplaces[Anum_pg_class_relam - 1] = true;
	if (!conv->adopt)
	{
		bool		isnull;
		Datum		options = SysCacheGetAttr(RELOID, tuple,
											  Anum_pg_class_reloptions,
											  &isnull);

		if (!isnull)
		{
			options = bun_btree_options(options);
			classvalues[Anum_pg_class_reloptions - 1] = options;
			classnulls[Anum_pg_class_reloptions - 1] = (options == (Datum) 0);
			classreplaces[Anum_pg_class_reloptions - 1] = true;
		}
	}
	newtuple = heap_modify_tuple(tuple, RelationGetDescr(pg_class),
								 classvalues, classnulls, classreplaces);
	CatalogTupleUpdate(pg_class, &newtuple->t_self, newtuple);
	table_close(pg_class, RowExclusiveLock);

	InvokeObjectPostAlterHook(RelationRelationId, indexid, 0);

	/* Plans depend on the table.  The rows above speak for the index. */
	CacheInvalidateRelcacheByRelid(IndexGetRelation(indexid, false));
}

/*
 * A refusal.  Strings are the current memory context's.
 */
static Refusal *
refusal(int sqlerrcode, const char *message, const char *detail,
		const char *hint)
{
	Refusal    *result = palloc(sizeof(Refusal));

	result->sqlerrcode = sqlerrcode;
	result->message = message;
	result->detail = detail;
	result->hint = hint;
	return result;
}

/*
 * Raise a refusal, if there is one, as an error.
 */
static void
report_refusal(const Refusal *why)
{
	if (why != NULL)
		ereport(ERROR,
				(errcode(why->sqlerrcode),
				 errmsg_internal("%s", why->message),
				 why->detail ? errdetail_internal("%s", why->detail) : 0,
				 why->hint ? errhint("%s", why->hint) : 0));
}

/*
 * Why cannot these indexes be converted: an index, or a partitioned index and
 * those of its partitions?  NULL if they can.
 */
static Refusal *
refuse_tree(const Conversion *conv, List *tree, bool locked)
{
	ListCell   *lc;

	foreach(lc, tree)
	{
		Refusal    *why = refuse_index(conv, lfirst_oid(lc), linitial_oid(tree),
									   locked);

		if (why != NULL)
			return why;
	}
	return NULL;
}

/*
 * Why cannot this index be converted, together with a partitioned index "root"
 * above it, if that is another one?
 */
static Refusal *
refuse_index(const Conversion *conv, Oid indexid, Oid root, bool locked)
{
	HeapTuple	classtuple;
	HeapTuple	indextuple;
	Form_pg_class class;
	Form_pg_index index;
	char	   *name;
	oidvector  *opclasses;
	bool		in_tree;
	Refusal    *why;

	classtuple = SearchSysCacheCopy1(RELOID, ObjectIdGetDatum(indexid));
	if (!HeapTupleIsValid(classtuple))
		return refusal(ERRCODE_UNDEFINED_OBJECT,
					   psprintf("index with OID %u does not exist", indexid),
					   NULL, NULL);
	class = (Form_pg_class) GETSTRUCT(classtuple);
	name = NameStr(class->relname);
	in_tree = class->relkind == RELKIND_PARTITIONED_INDEX ||
		class->relispartition;

	indextuple = SearchSysCacheCopy1(INDEXRELID, ObjectIdGetDatum(indexid));
	if (!HeapTupleIsValid(indextuple))
		return refusal(ERRCODE_WRONG_OBJECT_TYPE,
					   psprintf("\"%s\" is not an index", name),
					   NULL, NULL);
	index = (Form_pg_index) GETSTRUCT(indextuple);

	why = refuse_class(indexid, class);
	if (why != NULL)
		return why;

	if (class->relam == conv->to)
		return refusal(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
					   psprintf("access method of index \"%s\" is %s already",
								name, get_am_name(conv->to)),
					   NULL, NULL);
	if (class->relam != conv->from)
		return refusal(ERRCODE_WRONG_OBJECT_TYPE,
					   psprintf("\"%s\" is not a %s index",
								name, get_am_name(conv->from)),
					   psprintf("Its access method is %s.",
								get_am_name(class->relam)),
					   NULL);

	if (class->relispartition && (root == indexid || !OidIsValid(root)))
	{
		List	   *ancestors = get_partition_ancestors(indexid);
		Oid			top;

		/* Without a lock, what we know of the index may be out of date. */
		if (ancestors == NIL)
			return refusal(ERRCODE_OBJECT_IN_USE,
						   psprintf("index \"%s\" is being detached from a partitioned index",
									name),
						   NULL, "Try again.");
		top = llast_oid(ancestors);
		return refusal(ERRCODE_WRONG_OBJECT_TYPE,
					   psprintf("index \"%s\" is part of partitioned index \"%s\"",
								name, get_rel_name(top)),
					   "All of its indexes must have the same access method.",
					   psprintf("Convert \"%s\".", get_rel_name(top)));
	}

	if (!index->indisvalid || !index->indisready || !index->indislive)
		return refusal(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
					   psprintf("index \"%s\" is not valid", name), NULL,
					   class->relkind == RELKIND_PARTITIONED_INDEX ?
					   "Attach the indexes of all partitions." :
					   "Use REINDEX INDEX CONCURRENTLY, or drop it.");

	if (locked)
	{
		Relation	rel = relation_open(indexid, NoLock);
		bool		is_new = bun_new_in_transaction(rel);

		relation_close(rel, NoLock);
		if (is_new)
			return refusal(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
						   psprintf("index \"%s\" was created or rebuilt in this transaction",
									name),
						   NULL, "Commit first.");
	}

	opclasses = index_opclasses(indextuple);
	for (int i = 0; i < opclasses->dim1; i++)
	{
		if (!OidIsValid(counterpart(opclasses->values[i], conv->to)))
			return refusal(ERRCODE_UNDEFINED_OBJECT,
						   psprintf("%s has no counterpart in access method %s",
									getObjectDescriptionOids(OperatorClassRelationId,
															 opclasses->values[i]),
									get_am_name(conv->to)),
						   psprintf("Index \"%s\" uses it.  A counterpart has the same name, schema and types, and its operator family all operators and functions of the other.",
									name),
						   conv->adopt ?
						   "Create what is missing with bunbtree_mirror_opclasses()." :
						   "Create another index USING btree, and drop this one.");
	}

	return conv->adopt ?
		refuse_to_adopt(indexid, class, index, in_tree) : NULL;
}

/*
 * Refusals of what is nobody's business.
 */
static Refusal *
refuse_class(Oid indexid, Form_pg_class class)
{
	const char *name = pstrdup(NameStr(class->relname));

	if (IsToastClass(class))
		return refusal(ERRCODE_FEATURE_NOT_SUPPORTED,
					   psprintf("\"%s\" belongs to a TOAST table", name),
					   NULL, NULL);
	if (IsSystemClass(indexid, class))
		return refusal(ERRCODE_INSUFFICIENT_PRIVILEGE,
					   psprintf("\"%s\" belongs to a system catalog", name),
					   NULL, NULL);
	if (class->relpersistence == RELPERSISTENCE_TEMP &&
		!isTempNamespace(class->relnamespace))
		return refusal(ERRCODE_FEATURE_NOT_SUPPORTED,
					   psprintf("\"%s\" belongs to a temporary table of another session",
								name),
					   NULL, NULL);
	return NULL;
}

/*
 * Refusals of what the server could not live with, or restore from a dump.
 */
static Refusal *
refuse_to_adopt(Oid indexid, Form_pg_class class, Form_pg_index index,
				bool in_tree)
{
	const char *name = NameStr(class->relname);

	/*
	 * A partition that comes with a constraint of its own, which has a btree
	 * index, could not be attached.
	 */
	if (in_tree && OidIsValid(get_index_constraint(indexid)))
		return refusal(ERRCODE_FEATURE_NOT_SUPPORTED,
					   psprintf("index \"%s\" belongs to a constraint of a partitioned table",
								name),
					   "Constraints have btree indexes when they are created, and those would not match it.",
					   NULL);

	if (BUN_UNIQUE_PARTITIONED_NEEDS_BTREE && in_tree && index->indisunique)
		return refusal(ERRCODE_FEATURE_NOT_SUPPORTED,
					   psprintf("index \"%s\" is a unique index on a partitioned table",
								name),
					   "This server creates them, and restores them from a dump, as btree only.",
					   NULL);

	/* The index of a constraint is restored as btree, before foreign keys. */
	if (BUN_FOREIGN_KEYS_NEED_BTREE &&
		get_index_ref_constraints(indexid) != NIL &&
		!OidIsValid(get_index_constraint(indexid)))
		return refusal(ERRCODE_FEATURE_NOT_SUPPORTED,
					   psprintf("index \"%s\" is referenced by a foreign key",
								name),
					   "This server could not restore the foreign key from a dump.",
					   NULL);

	if (BUN_APPLY_NEEDS_BTREE && (index->indisprimary || index->indisreplident))
		return refusal(ERRCODE_FEATURE_NOT_SUPPORTED,
					   psprintf("index \"%s\" is a primary key or replica identity",
								name),
					   "Logical replication would stop at it on this server.",
					   NULL);

	return NULL;
}

/*
 * The access method of a relation, or InvalidOid.
 */
static Oid
access_method(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			result = InvalidOid;

	if (HeapTupleIsValid(tuple))
	{
		result = ((Form_pg_class) GETSTRUCT(tuple))->relam;
		ReleaseSysCache(tuple);
	}
	return result;
}

/*
 * The operator classes of an index, one for each key column.
 */
static oidvector *
index_opclasses(HeapTuple indextuple)
{
	bool		isnull;
	Datum		datum = SysCacheGetAttr(INDEXRELID, indextuple,
										Anum_pg_index_indclass, &isnull);

	Assert(!isnull);
	return (oidvector *) DatumGetPointer(datum);
}

/*
 * The operator class of access method "amoid" that stands for "opclass" of
 * another one, or InvalidOid.
 */
static Oid
counterpart(Oid opclass, Oid amoid)
{
	HeapTuple	tuple;
	HeapTuple	othertuple;
	Form_pg_opclass class;
	Oid			result = InvalidOid;

	tuple = SearchSysCache1(CLAOID, ObjectIdGetDatum(opclass));
	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	class = (Form_pg_opclass) GETSTRUCT(tuple);

	othertuple = SearchSysCache3(CLAAMNAMENSP, ObjectIdGetDatum(amoid),
								 NameGetDatum(&class->opcname),
								 ObjectIdGetDatum(class->opcnamespace));
	if (HeapTupleIsValid(othertuple))
	{
		Form_pg_opclass other = (Form_pg_opclass) GETSTRUCT(othertuple);

		if (other->opcintype == class->opcintype &&
			other->opckeytype == class->opckeytype &&
			bun_family_contains(other->opcfamily, class->opcfamily) &&
			support_contains(other->opcfamily, class->opcfamily))
			result = other->oid;
		ReleaseSysCache(othertuple);
	}
	ReleaseSysCache(tuple);

	return result;
}

/*
 * Does an operator family have every support function of another, for the same
 * types?
 */
static bool
support_contains(Oid family, Oid other)
{
	CatCList   *theirs = SearchSysCacheList1(AMPROCNUM,
											 ObjectIdGetDatum(other));
	bool		result = true;

	for (int i = 0; i < theirs->n_members && result; i++)
	{
		Form_pg_amproc wanted = (Form_pg_amproc)
			GETSTRUCT(&theirs->members[i]->tuple);

		result = wanted->amproc == get_opfamily_proc(family,
													 wanted->amproclefttype,
													 wanted->amprocrighttype,
													 wanted->amprocnum);
	}
	ReleaseSysCacheList(theirs);

	return result;
}

/*
 * Does an index belong to a PRIMARY KEY or UNIQUE constraint?
 */
bool
bun_has_key_constraint(Oid indexid)
{
	Oid			constraint = get_index_constraint(indexid);
	HeapTuple	tuple;
	bool		result = false;

	if (!OidIsValid(constraint))
		return false;
	tuple = SearchSysCache1(CONSTROID, ObjectIdGetDatum(constraint));
	if (HeapTupleIsValid(tuple))
	{
		char		contype = ((Form_pg_constraint) GETSTRUCT(tuple))->contype;

		result = contype == CONSTRAINT_PRIMARY || contype == CONSTRAINT_UNIQUE;
		ReleaseSysCache(tuple);
	}
	return result;
}

/*
 * Does a dump restore this index as a btree one, whatever it is?
 */
static bool
restored_as_btree(Oid indexid)
{
	return bun_has_key_constraint(indexid) ||
		OidIsValid(getExtensionOfObject(RelationRelationId,
										IndexGetRelation(indexid, false)));
}

/*
 * Open the table of what was adopted, for writing.
 */
static Relation
open_adopted(const Conversion *conv)
{
	Oid			relid = get_relname_relid("bunbtree_adopted",
										  get_func_namespace(conv->function));

	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table \"%s\" of extension \"%s\" does not exist",
						"bunbtree_adopted", "bunbtree"),
				 errhint("Drop the extension and create it again.")));
	return table_open(relid, RowExclusiveLock);
}

/*
 * Make the table of what was adopted agree with an index.
 *
 * The table is the extension's, and users may only read it, so this goes past
 * what an INSERT or DELETE would check.  The caller's lock on the index keeps
 * others from doing the same.
 */
static void
note_adopted(const Conversion *conv, Oid indexid)
{
	Oid			ours = conv->adopt ? conv->to : conv->from;
	bool		wanted = access_method(indexid) == ours &&
		restored_as_btree(indexid);
	bool		found = false;
	Oid			tableid = IndexGetRelation(indexid, false);
	AdoptedRow	row;
	Relation	adopted;
	ScanKeyData key[Natts_adopted];
	SysScanDesc scan;
	HeapTuple	tuple;
	Datum		values[Natts_adopted];
	bool		nulls[Natts_adopted] = {false};

	namestrcpy(&row.schemaname, get_namespace_name(get_rel_namespace(tableid)));
	namestrcpy(&row.tablename, get_rel_name(tableid));
	namestrcpy(&row.indexname, get_rel_name(indexid));
	values[0] = NameGetDatum(&row.schemaname);
	values[1] = NameGetDatum(&row.tablename);
	values[2] = NameGetDatum(&row.indexname);
	for (int i = 0; i < Natts_adopted; i++)
		ScanKeyInit(&key[i], i + 1, BTEqualStrategyNumber, F_NAMEEQ, values[i]);

	adopted = open_adopted(conv);
	scan = systable_beginscan(adopted, InvalidOid, false, NULL,
							  Natts_adopted, key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		found = true;
		if (!wanted)
			CatalogTupleDelete(adopted, &tuple->t_self);
	}
	systable_endscan(scan);
	if (wanted && !found)
		CatalogTupleInsert(adopted, heap_form_tuple(RelationGetDescr(adopted),
													values, nulls));
	table_close(adopted, NoLock);
}

/*
 * Put a row into the result of a set-returning function.
 */
static void
put_row(ReturnSetInfo *rsinfo, Oid indexid, bool adopted, const char *reason)
{
	Datum		values[3];
	bool		nulls[3];

	values[0] = ObjectIdGetDatum(indexid);
	nulls[0] = !OidIsValid(indexid);
	values[1] = BoolGetDatum(adopted);
	nulls[1] = false;
	values[2] = reason ? CStringGetTextDatum(reason) : (Datum) 0;
	nulls[2] = reason == NULL;
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}
