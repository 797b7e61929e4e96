/*-------------------------------------------------------------------------
 *
 * inspect.c
 *		What pgstattuple and pageinspect know of btree indexes, for ours.
 *
 * Both refuse indexes of other access methods by relam, as amcheck does; here,
 * too, they are called with the index presented as btree (bridge.c).
 *
 * Portions Copyright (c) 2026, bunbtree developers
 *
 * IDENTIFICATION
 *		src/inspect.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "bunbtree.h"

#include <math.h>

#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(bunbtree_index_info);
PG_FUNCTION_INFO_V1(bunbtree_page_items);

/* Columns of pgstatindex()'s row that are of interest here. */
#define STAT_INDEX_SIZE		3
#define STAT_INTERNAL_PAGES	5
#define STAT_LEAF_PAGES		6
#define STAT_LEAF_DENSITY	9
#define STAT_NCOLUMNS		10

/* Columns of ours after these. */
#define INFO_NCOLUMNS		(STAT_NCOLUMNS + 5)

/* Nobody needs advice on an index of fewer leaf pages: 1 MB. */
#define ADVICE_MIN_LEAVES	128

static double fresh_leaves(int64 leaf_pages, double density, int fillfactor);
static double fresh_pages(int64 leaf_pages, int64 internal_pages, double leaf);
static const char *advice(double leaves, double compacted, double fresh);

/*
 * Open an index of ours or of btree, and begin a guarded call if it is ours.
 */
static Relation
open_any_btree(Oid indexid, BunCall **call)
{
	Relation	index = bun_open_any_relation(indexid, AccessShareLock);

	*call = NULL;
	if (index->rd_rel->relkind == RELKIND_INDEX &&
		index->rd_indam->aminsert == bun_insert)
		*call = bun_begin_call(index);
	else if (index->rd_rel->relkind != RELKIND_INDEX ||
			 index->rd_rel->relam != BTREE_AM_OID)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a bunbtree or btree index",
						RelationGetRelationName(index)),
				 index->rd_rel->relkind == RELKIND_PARTITIONED_INDEX ?
				 errhint("Name the index of a partition.") : 0));
	return index;
}

/*
 * The reverse.
 */
static void
close_any_btree(Relation index, BunCall *call)
{
	if (call != NULL)
		bun_end_call(call);
	relation_close(index, AccessShareLock);
}

/*
 * bunbtree_index_info(index regclass)
 *		What pgstatindex() says of an index of ours or of btree, its fillfactor,
 *		the size that it would have when built anew, how many times that it
 *		has, the leaf pages that compaction up to the fillfactor would leave, and
 *		"compact" or "reindex" if one of them is worth its while.
 *
 * Reads the whole index twice, with AccessShareLock.  Errors:
 * ERRCODE_UNDEFINED_FUNCTION without pgstattuple, ERRCODE_UNDEFINED_OBJECT,
 * ERRCODE_WRONG_OBJECT_TYPE, and pgstattuple's own.
 */
Datum
bunbtree_index_info(PG_FUNCTION_ARGS)
{
	Oid			indexid = PG_GETARG_OID(0);
	TupleDesc	tupdesc;
	Datum		values[INFO_NCOLUMNS];
	bool		nulls[INFO_NCOLUMNS] = {false};
	Oid			function;
	Relation	index;
	BunCall    *call;
	HeapTupleHeader stats;
	int			fillfactor;
	BunSurvey	survey;
	int64		leaf_pages;
	double		leaves;
	double		fresh;
	const char *what;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");

	function = bun_extension_function("bunbtree_index_info", "pgstattuple",
									  "pgstatindex", 1, REGCLASSOID);
	index = open_any_btree(indexid, &call);
	fillfactor = BTGetFillFactor(index);
	stats = DatumGetHeapTupleHeader(OidFunctionCall1(function,
													 ObjectIdGetDatum(indexid)));
	bun_survey(index, fillfactor / 100.0, &survey);
	close_any_btree(index, call);

	if (HeapTupleHeaderGetNatts(stats) != STAT_NCOLUMNS)
		elog(ERROR, "pgstatindex returned %d columns, expected %d",
			 (int) HeapTupleHeaderGetNatts(stats), STAT_NCOLUMNS);
	for (int i = 0; i < STAT_NCOLUMNS; i++)
		values[i] = GetAttributeByNum(stats, i + 1, &nulls[i]);

	leaf_pages = DatumGetInt64(values[STAT_LEAF_PAGES - 1]);
	leaves = fresh_leaves(leaf_pages,
						  DatumGetFloat8(values[STAT_LEAF_DENSITY - 1]),
						  fillfactor);
	fresh = BLCKSZ *
		fresh_pages(leaf_pages, DatumGetInt64(values[STAT_INTERNAL_PAGES - 1]),
					leaves);
	values[STAT_NCOLUMNS] = Int32GetDatum(fillfactor);
	values[STAT_NCOLUMNS + 1] = Int64GetDatum((int64) fresh);
	values[STAT_NCOLUMNS + 2] =
		Float8GetDatum(rint(100 * DatumGetInt64(values[STAT_INDEX_SIZE - 1]) /
							fresh) / 100);
	values[STAT_NCOLUMNS + 3] = Int64GetDatum(survey.leaves_after);
	what = advice(leaf_pages, survey.leaves_after, leaves);
	if (what != NULL)
		values[STAT_NCOLUMNS + 4] = CStringGetTextDatum(what);
	else
		nulls[STAT_NCOLUMNS + 4] = true;

	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(tupdesc, values, nulls)));
}

/*
 * Leaf pages that the entries of an index would fill when it is built anew.
 *
 * "density" is the percentage of the leaf pages' space that is in use, dead
 * entries included.  CREATE INDEX fills a leaf page until less than the
 * fillfactor's complement, a share of the whole page, is free.
 */
static double
fresh_leaves(int64 leaf_pages, double density, int fillfactor)
{
	const double usable = BLCKSZ - SizeOfPageHeaderData -
		MAXALIGN(sizeof(BTPageOpaqueData));
	double		filled = usable - BLCKSZ * (100 - fillfactor) / 100.0;

	/* an index without entries has no leaf page, or a single empty one */
	if (leaf_pages == 0)
		return 0;
	return Max(1.0, ceil(leaf_pages * density / 100.0 * usable / filled));
}

/*
 * All pages that it would have with so many leaf pages: upper levels shrink as
 * the leaf level does.
 */
static double
fresh_pages(int64 leaf_pages, int64 internal_pages, double leaf)
{
	double		internal = 0;

	if (leaf > 1)
		internal = Max(1.0, rint(internal_pages * leaf / leaf_pages));

	return 1 + internal + leaf;
}

/*
 * Which would help an index of so many leaf pages that compaction would reduce to
 * "compacted", a new build to "fresh"?  NULL if there is less than a fifth to
 * gain; compaction if that gains most of it, because it needs no second index and
 * waits for nobody.
 */
static const char *
advice(double leaves, double compacted, double fresh)
{
	if (leaves < ADVICE_MIN_LEAVES || leaves - fresh < 0.2 * leaves)
		return NULL;
	return leaves - compacted >= 0.8 * (leaves - fresh) ? "compact" : "reindex";
}

/*
 * bunbtree_page_items(index regclass, blkno bigint) returns setof record
 *		What pageinspect's bt_page_items() says of a page of an index of ours or
 *		of btree.
 *
 * For superusers, as that function.  AccessShareLock on the index.  Errors:
 * ERRCODE_UNDEFINED_FUNCTION without pageinspect, ERRCODE_UNDEFINED_OBJECT,
 * ERRCODE_WRONG_OBJECT_TYPE, and pageinspect's own.
 */
Datum
bunbtree_page_items(PG_FUNCTION_ARGS)
{
	Oid			indexid = PG_GETARG_OID(0);
	Oid			argtypes[] = {TEXTOID, INT8OID};
	Datum		values[2];
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Oid			function;
	char	   *query;
	Relation	index;
	BunCall    *call;

	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to inspect pages"),
				 errhint("Must be superuser to look at pages of an index.")));

	InitMaterializedSRF(fcinfo, 0);
	function = bun_extension_function("bunbtree_page_items", "pageinspect",
									  "bt_page_items", 2, TEXTOID);
	query = psprintf("SELECT itemoffset, ctid, itemlen, nulls, vars, data, dead, htid, tids"
					 " FROM %s($1, $2)",
					 quote_qualified_identifier(get_namespace_name(get_func_namespace(function)),
												get_func_name(function)));

	index = open_any_btree(indexid, &call);
	values[0] = CStringGetTextDatum(quote_qualified_identifier(get_namespace_name(RelationGetNamespace(index)),
															   RelationGetRelationName(index)));
	values[1] = PG_GETARG_DATUM(1);

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	if (SPI_execute_with_args(query, 2, argtypes, values, NULL, true, 0) !=
		SPI_OK_SELECT)
		elog(ERROR, "could not call bt_page_items");
	for (uint64 i = 0; i < SPI_processed; i++)
		tuplestore_puttuple(rsinfo->setResult, SPI_tuptable->vals[i]);
	SPI_finish();

	close_any_btree(index, call);
	return (Datum) 0;
}
