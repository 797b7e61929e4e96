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

static relopt_kind bun_relopt_kind;

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
 */
bytea *
bun_options(Datum reloptions, bool validate)
{
	static const relopt_parse_elt tab[] = {
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

	return (bytea *) build_reloptions(reloptions, validate,
									  bun_relopt_kind,
									  sizeof(BunOptions),
									  tab, lengthof(tab));
}
