/*-------------------------------------------------------------------------
 *
 * options.c
 *		Storage parameters (reloptions) of a bunbtree index.
 *
 * nbtree's parameters keep their names, bounds and meaning; ours follow them
 * in the same struct.  A parameter of ours that was not given reads as -1,
 * and the GUC of the same name decides.
 *
 * Portions Copyright (c) 2026, bunbtree developers
 *
 * IDENTIFICATION
 *		src/options.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "bunbtree.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "nodes/parsenodes.h"
#include "utils/fmgroids.h"
#include "utils/snapmgr.h"

static relopt_kind bun_relopt_kind;

static const relopt_parse_elt options_table[] = {
	{.optname = "fillfactor", .opttype = RELOPT_TYPE_INT,
	.offset = offsetof(BunOptions, bt.fillfactor)},
	{.optname = "vacuum_cleanup_index_scale_factor",
		.opttype = RELOPT_TYPE_REAL,
	.offset = offsetof(BunOptions, bt.vacuum_cleanup_index_scale_factor)},
	{.optname = "deduplicate_items", .opttype = RELOPT_TYPE_BOOL,
	.offset = offsetof(BunOptions, bt.deduplicate_items)},
	{.optname = "bottomup", .opttype = RELOPT_TYPE_ENUM,
	.offset = offsetof(BunOptions, bottomup)},
	{.optname = "heap_blocks", .opttype = RELOPT_TYPE_INT,
	.offset = offsetof(BunOptions, heap_blocks)},
	{.optname = "io", .opttype = RELOPT_TYPE_ENUM,
	.offset = offsetof(BunOptions, io)},
	{.optname = "min_yield", .opttype = RELOPT_TYPE_REAL,
	.offset = offsetof(BunOptions, min_yield)}
};

static relopt_enum_elt_def bottomup_members[] = {
	{"off", BUN_MODE_OFF},
	{"hinted", BUN_MODE_HINTED},
	{"auto", BUN_MODE_AUTO},
	{NULL, 0}
};

static relopt_enum_elt_def io_members[] = {
	{"cached", BUN_IO_CACHED},
	{"any", BUN_IO_ANY},
	{NULL, 0}
};

static object_access_hook_type prev_object_access_hook;
static bool hook_installed = false;

static bool is_btree_option(const char *name);
static const char *own_option(Datum reloptions);
static void object_access(ObjectAccessType access, Oid classId, Oid objectId,
						  int subId, void *arg);
static void refuse_for_constraint(Oid indexid);

/*
 * Called once, when the library is loaded.
 */
void
bun_options_init(void)
{
	/* No parameter needs more: an insertion that misses one is as good. */
	const LOCKMODE lockmode = ShareUpdateExclusiveLock;

	bun_relopt_kind = add_reloption_kind();

	add_int_reloption(bun_relopt_kind, "fillfactor",
					  "Packs index pages only to this percentage",
					  BTREE_DEFAULT_FILLFACTOR, BTREE_MIN_FILLFACTOR, 100,
					  lockmode);
	add_real_reloption(bun_relopt_kind, "vacuum_cleanup_index_scale_factor",
					   "Accepted for compatibility with btree, without effect",
					   -1, 0.0, 1e10, lockmode);
	add_bool_reloption(bun_relopt_kind, "deduplicate_items",
					   "Merges entries of equal keys into posting lists",
					   true, lockmode);
	add_enum_reloption(bun_relopt_kind, "bottomup",
					   "When an insertion may look for dead entries on a full leaf page",
					   bottomup_members, BUN_MODE_UNSET,
					   "Valid values are \"off\", \"hinted\", and \"auto\".",
					   lockmode);
	add_int_reloption(bun_relopt_kind, "heap_blocks",
					  "Heap blocks that one pass over a leaf page may visit",
					  -1, 1, BUN_MAX_HEAP_BLOCKS, lockmode);
	add_enum_reloption(bun_relopt_kind, "io",
					   "Whether a pass over a leaf page may read heap blocks into shared buffers",
					   io_members, BUN_IO_UNSET,
					   "Valid values are \"cached\" and \"any\".",
					   lockmode);
	add_real_reloption(bun_relopt_kind, "min_yield",
					   "Entries freed per heap block visited below which a pass gives up",
					   -1, 0, 100, lockmode);
}

/*
 * amoptions: parse and, if asked to, validate storage parameters.
 *
 * Wrong values raise PostgreSQL's usual errors, which name the bounds.
 *
 * Which index they are for is not known here.  If one of ours is given, somebody
 * is about to create or alter an index; what has to be checked then is checked
 * by a hook, which other sessions need not pay for.
 */
bytea *
bun_options(Datum reloptions, bool validate)
{
	if (validate && !hook_installed && own_option(reloptions) != NULL)
	{
		prev_object_access_hook = object_access_hook;
		object_access_hook = object_access;
		hook_installed = true;
	}
	return (bytea *) build_reloptions(reloptions, validate,
									  bun_relopt_kind,
									  sizeof(BunOptions),
									  options_table,
									  lengthof(options_table));
}

/*
 * Is a parameter of ours one of btree, too?
 */
static bool
is_btree_option(const char *name)
{
	for (size_t i = 0; i < lengthof(options_table); i++)
	{
		if (strcmp(options_table[i].optname, name) == 0)
			return options_table[i].offset < (int) sizeof(BTOptions);
	}
	return false;
}

/*
 * The first of an index's storage parameters that btree does not know, or NULL.
 */
static const char *
own_option(Datum reloptions)
{
	ListCell   *lc;

	foreach(lc, untransformRelOptions(reloptions))
	{
		const char *name = lfirst_node(DefElem, lc)->defname;

		if (!is_btree_option(name))
			return name;
	}
	return NULL;
}

/*
 * Of the storage parameters of an index, those that btree knows: a value for
 * pg_class.reloptions, or 0 if there are none.
 */
Datum
bun_btree_options(Datum reloptions)
{
	List	   *options = untransformRelOptions(reloptions);
	ListCell   *lc;

	foreach(lc, options)
	{
		if (!is_btree_option(lfirst_node(DefElem, lc)->defname))
			options = foreach_delete_current(options, lc);
	}
	return transformRelOptions((Datum) 0, options, NULL, NULL, false, false);
}

/*
 * object_access_hook: an index has got other storage parameters, perhaps.
 */
static void
object_access(ObjectAccessType access, Oid classId, Oid objectId, int subId,
			  void *arg)
{
	if (prev_object_access_hook)
		prev_object_access_hook(access, classId, objectId, subId, arg);

	if (access == OAT_POST_ALTER && classId == RelationRelationId && subId == 0)
		refuse_for_constraint(objectId);
}

/*
 * Raise an error if a relation is an index of ours that belongs to a primary key
 * or unique constraint, and has parameters that are not btree's.
 *
 * Such a constraint is restored from a dump, and made anew by ALTER COLUMN TYPE,
 * with a btree index and the parameters that it has, and that would fail.
 *
 * The new version of the catalog row is not visible yet to others than those
 * who look for it.
 */
static void
refuse_for_constraint(Oid indexid)
{
	Relation	pg_class;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	pg_class = table_open(RelationRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_class_oid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(indexid));
	scan = systable_beginscan(pg_class, ClassOidIndexId, true, SnapshotSelf,
							  1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		Form_pg_class class = (Form_pg_class) GETSTRUCT(tuple);
		bool		isnull;
		Datum		reloptions = heap_getattr(tuple, Anum_pg_class_reloptions,
											  RelationGetDescr(pg_class),
											  &isnull);
		const char *name = isnull ? NULL : own_option(reloptions);

		if (name != NULL &&
			(class->relkind == RELKIND_INDEX ||
			 class->relkind == RELKIND_PARTITIONED_INDEX) &&
			GetIndexAmRoutineByAmId(class->relam, false)->aminsert == bun_insert &&
			bun_has_key_constraint(indexid))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("storage parameter \"%s\" cannot be set for index \"%s\" of a constraint",
							name, NameStr(class->relname)),
					 errdetail("A dump restores the constraint with a btree index, which has no such parameter."),
					 errhint("Use the setting \"bunbtree.%s\".", name)));
	}
	systable_endscan(scan);
	table_close(pg_class, AccessShareLock);
}
