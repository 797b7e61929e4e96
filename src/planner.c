/*-------------------------------------------------------------------------
 *
 * planner.c
 *		Makes plans on indexes of this access method those of btree.
 *
 * The planner knows btree's operator families.  Equivalence classes, sort
 * orders, unique proofs and boolean index columns are told by the OIDs of
 * those, and a few things are done for indexes only whose access method is
 * btree's.  An index of ours has families of our own, so it would miss them.
 * Hence a hook that rewrites what the planner has just noted down about our
 * indexes: the families are those of btree, and so is the access method.  The
 * height of the tree enters the costs, and core (up to 17) asks btree only, so
 * our cost estimator fills it in.
 *
 * Nothing of that reaches the executor.  A plan holds operators and the OID of
 * the index, and the executor looks the operators up in the index's real
 * families: ours.  An operator that btree's family has and ours has not would
 * make it fail, so families are only exchanged while ours holds all that
 * btree's does; see btree_family().
 *
 * An index of ours is recognised by its cost estimator, which the planner
 * copies from the index's own routine.  That is a comparison of two pointers:
 * no catalog access, nothing to invalidate, and true whatever relam reads at
 * the moment (bridge.c).  Tables without an index of ours pay for nothing else.
 *
 * Portions Copyright (c) 2026, bunbtree developers
 *
 * IDENTIFICATION
 *		src/planner.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "bunbtree.h"

#include "access/genam.h"
#include "access/stratnum.h"
#include "catalog/pg_amop.h"
#include "common/hashfn.h"
#include "optimizer/plancat.h"
#include "utils/catcache.h"
#include "utils/index_selfuncs.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

/*
 * Which family of btree stands for a family of ours?  A backend-local cache.
 */
typedef struct FamilyKey
{
	Oid			family;			/* ours */
	Oid			intype;			/* input type of the index column's class */
} FamilyKey;

typedef struct FamilyEntry
{
	FamilyKey	key;
	char		status;			/* simplehash's */
	Oid			btree_family;	/* or InvalidOid */
} FamilyEntry;

#define SH_PREFIX		families
#define SH_ELEMENT_TYPE	FamilyEntry
#define SH_KEY_TYPE		FamilyKey
#define SH_KEY			key
#define SH_HASH_KEY(tb, key) (murmurhash32((key).family) ^ (key).intype)
#define SH_EQUAL(tb, a, b) ((a).family == (b).family && (a).intype == (b).intype)
#define SH_SCOPE		static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

static families_hash *families;

/*
 * Changes of pg_amop seen so far, and how many of them the cache knows of.  The
 * callback only counts: it can run in the middle of a look-up.
 */
static uint64 amop_changes;
static uint64 families_as_of;

static get_relation_info_hook_type prev_get_relation_info_hook;

static void amop_callback(Datum arg, int cacheid, uint32 hashvalue);
static void relation_info(PlannerInfo *root, Oid relid, bool inhparent,
						  RelOptInfo *rel);
static void present_to_planner(IndexOptInfo *info);
static Oid	btree_family(Oid family, Oid intype);
static Oid	find_btree_family(Oid family, Oid intype);
static void note_row_comparisons(IndexPath *path);

/*
 * Called once, when the library is loaded.
 *
 * That can be in the middle of planning: the first index of ours that a backend
 * opens loads the library.  The planner calls the hook after it has opened a
 * table's indexes, so not even that table is missed.
 */
void
bun_planner_init(void)
{
	prev_get_relation_info_hook = get_relation_info_hook;
	get_relation_info_hook = relation_info;

	CacheRegisterSyscacheCallback(AMOPOPID, amop_callback, (Datum) 0);
}

/*
 * Syscache callback: some row of pg_amop has come, gone or changed.
 *
 * Cached plans are made anew then, too; core does that by itself.
 */
static void
amop_callback(Datum arg, int cacheid, uint32 hashvalue)
{
	amop_changes++;
}

/*
 * get_relation_info_hook: look for indexes of ours.
 *
 * Indexes that some other extension has made up are left alone.  A partitioned
 * index has no cost estimator, and serves for proofs that need no help from us.
 */
static void
relation_info(PlannerInfo *root, Oid relid, bool inhparent, RelOptInfo *rel)
{
	ListCell   *lc;

	foreach(lc, rel->indexlist)
	{
		IndexOptInfo *info = (IndexOptInfo *) lfirst(lc);

		if (unlikely(info->amcostestimate == bun_costestimate) &&
			!info->hypothetical)
			present_to_planner(info);
	}

	if (prev_get_relation_info_hook)
		prev_get_relation_info_hook(root, relid, inhparent, rel);
}

/*
 * Make an index of ours look like one of btree to the planner.
 *
 * All key columns are exchanged or none, and they are not if that would change
 * the sort order as core has found it.  Core maps our "<" operators to btree's
 * families; the answer differs from ours if an operator is in several families,
 * or, from 18 on, if our family is older than btree's: then it is our own.
 *
 * If the index is presented (bridge.c) right now, core has taken our families
 * for btree's.  Then there is no answer to compare with; and if we have no
 * family of btree either, the index has to pass for unordered, because in a sort
 * order the planner can do nothing with a family that is not btree's.
 */
static void
present_to_planner(IndexOptInfo *info)
{
	bool		presented = (info->sortopfamily == info->opfamily);
	Oid			btree_families[INDEX_MAX_KEYS];
	int			i;

	if (info->sortopfamily == NULL)
		return;
	for (i = 0; i < info->nkeycolumns; i++)
	{
		btree_families[i] = btree_family(info->opfamily[i],
										 info->opcintype[i]);
		if (!OidIsValid(btree_families[i]) ||
			(!presented && btree_families[i] != info->sortopfamily[i]))
			break;
	}

	if (i == info->nkeycolumns)
	{
		memcpy(info->opfamily, btree_families, i * sizeof(Oid));
		info->sortopfamily = info->opfamily;
		info->relam = BTREE_AM_OID;
	}
	else if (presented)
	{
		info->relam = InvalidOid;	/* anything but btree */
		info->sortopfamily = NULL;
		info->reverse_sort = NULL;
		info->nulls_first = NULL;
	}
}

/*
 * The family of btree that stands for one of ours, or InvalidOid.
 *
 * The verdict is cached until pg_amop changes.  It can be out of date when it is
 * used: planning takes locks, and with them accepts what others have committed.
 * An operator that is added to btree's family in just that moment can make one
 * execution of a query that uses it fail, and none after.
 */
static Oid
btree_family(Oid family, Oid intype)
{
	FamilyKey	key = {family, intype};
	FamilyEntry *entry;
	uint64		as_of;
	Oid			result;

	if (unlikely(families == NULL))
		families = families_create(CacheMemoryContext, 64, NULL);
	if (unlikely(families_as_of != amop_changes))
	{
		families_reset(families);
		families_as_of = amop_changes;
	}

	entry = families_lookup(families, key);
	if (likely(entry != NULL))
		return entry->btree_family;

	as_of = amop_changes;
	result = find_btree_family(family, intype);

	/* not if there was a change while we looked */
	if (as_of == amop_changes)
	{
		bool		found;

		entry = families_insert(families, key, &found);
		entry->btree_family = result;
	}
	return result;
}

/*
 * btree_family() without its cache.
 *
 * As in core, it is "less than" for the column's type that says what belongs
 * together, and the first family wins if several have it.
 */
static Oid
find_btree_family(Oid family, Oid intype)
{
	Oid			less_than;
	CatCList   *candidates;
	Oid			result = InvalidOid;

	less_than = get_opfamily_member(family, intype, intype,
									BTLessStrategyNumber);
	if (!OidIsValid(less_than))
		return InvalidOid;

	candidates = SearchSysCacheList1(AMOPOPID, ObjectIdGetDatum(less_than));
	for (int i = 0; i < candidates->n_members; i++)
	{
		Form_pg_amop amop = (Form_pg_amop)
			GETSTRUCT(&candidates->members[i]->tuple);

		if (amop->amopmethod == BTREE_AM_OID &&
			amop->amopstrategy == BTLessStrategyNumber &&
			amop->amoplefttype == intype &&
			amop->amoprighttype == intype &&
			bun_family_contains(family, amop->amopfamily))
		{
			result = amop->amopfamily;
			break;
		}
	}
	ReleaseSysCacheList(candidates);

	return result;
}

/*
 * Does an operator family contain every operator of another, in the same
 * place?
 */
bool
bun_family_contains(Oid family, Oid other)
{
	CatCList   *ours = SearchSysCacheList1(AMOPSTRATEGY,
										   ObjectIdGetDatum(family));
	CatCList   *theirs = SearchSysCacheList1(AMOPSTRATEGY,
											 ObjectIdGetDatum(other));
	bool		result = true;

	for (int i = 0; i < theirs->n_members && result; i++)
	{
		Form_pg_amop wanted = (Form_pg_amop)
			GETSTRUCT(&theirs->members[i]->tuple);
		int			j;

		for (j = 0; j < ours->n_members; j++)
		{
			Form_pg_amop amop = (Form_pg_amop)
				GETSTRUCT(&ours->members[j]->tuple);

			if (amop->amopopr == wanted->amopopr &&
				amop->amopstrategy == wanted->amopstrategy &&
				amop->amoppurpose == wanted->amoppurpose &&
				amop->amoplefttype == wanted->amoplefttype &&
				amop->amoprighttype == wanted->amoprighttype)
				break;
		}
		result = j < ours->n_members;
	}
	ReleaseSysCacheList(theirs);
	ReleaseSysCacheList(ours);

	return result;
}

/*
 * amcostestimate: nbtree's.
 *
 * Its address is how an index of ours is recognised.  And since the planner
 * comes here with each index path that it makes, before it may become part of a
 * plan, this is where we see what the executor will have to be helped with.
 *
 * The height of the tree, which nothing but this estimate uses, waits until
 * here: few of a table's indexes are of use to a query.  The planner holds a
 * lock on the index.
 */
void
bun_costestimate(PlannerInfo *root, IndexPath *path, double loop_count,
				 Cost *startup_cost, Cost *total_cost,
				 Selectivity *selectivity, double *correlation,
				 double *index_pages)
{
	IndexOptInfo *info = path->indexinfo;

	/* from 18 on, core has asked for it already */
	if (info->tree_height < 0 && !info->hypothetical)
	{
		Relation	index = index_open(info->indexoid, NoLock);

		info->tree_height = _bt_getrootheight(index);
		index_close(index, NoLock);
	}

	if (BUN_CORE_WANTS_BTREE && !bun_row_comparisons)
		note_row_comparisons(path);

	btcostestimate(root, path, loop_count, startup_cost, total_cost,
				   selectivity, correlation, index_pages);
}

/*
 * Tell executor.c of row comparisons among the index conditions of a path.
 */
static void
note_row_comparisons(IndexPath *path)
{
	ListCell   *lc;

	foreach(lc, path->indexclauses)
	{
		IndexClause *clause = (IndexClause *) lfirst(lc);

		/* one is its own, and only, condition */
		if (unlikely(IsA(linitial_node(RestrictInfo, clause->indexquals)->clause,
						 RowCompareExpr)))
			bun_row_comparisons = true;
	}
}
