/*-------------------------------------------------------------------------
 *
 * bunbtree.h
 *		Declarations for the bunbtree index access method.
 *
 * Read src/README first: it says what the pieces are for and how they fit.
 * Prototypes stand here under the file that defines them.
 *
 * Portions Copyright (c) 2026, bunbtree developers
 *
 * IDENTIFICATION
 *		include/bunbtree.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef BUNBTREE_H
#define BUNBTREE_H

#include "access/amapi.h"
#include "access/nbtree.h"
#include "access/tableam.h"
#include "utils/rel.h"

/*
 * Upper bound of heap_blocks.  A leaf page of 8 kB holds at most 1,358 TIDs,
 * so this is more than any pass can use.
 */
#define BUN_MAX_HEAP_BLOCKS 1400

/*
 * When may an insertion ask for a pass?  GUC bunbtree.bottomup and the
 * reloption bottomup.
 */
typedef enum BunMode
{
	BUN_MODE_UNSET = -1,		/* reloption not given: the GUC decides */
	BUN_MODE_OFF,				/* never: nbtree before PostgreSQL 14 */
	BUN_MODE_HINTED,			/* only where nbtree itself would */
	BUN_MODE_AUTO				/* at any would-be split that may pay */
} BunMode;

/*
 * Reloptions.  Starts with nbtree's own struct, because nbtree's macros read
 * rd_options as a BTOptions.
 */
typedef struct BunOptions
{
	BTOptions	bt;
	int			bottomup;		/* a BunMode */
	int			heap_blocks;	/* heap blocks a pass may visit; -1 = GUC */
} BunOptions;

/*
 * An index that nbtree is working on; see bridge.c.  Lives on the C stack of
 * the guarded call.
 */
typedef struct BunPresented
{
	Relation	index;
	Oid			relam;			/* what rd_rel->relam reads otherwise */
	struct BunPresented *outer; /* guarded call around this one, or NULL */
} BunPresented;

/* bunbtree.c */
extern int	bun_guc_bottomup;
extern int	bun_guc_heap_blocks;
extern double bun_guc_max_pass_time;

/* bridge.c */
extern void bun_bridge_init(void);
extern const IndexAmRoutine *bun_nbtree_routine(void);
extern void bun_present(BunPresented *entry, Relation index);
extern void bun_unpresent(BunPresented *entry);
extern IndexBuildResult *bun_build(Relation heap, Relation index,
								   struct IndexInfo *indexInfo);
extern void bun_buildempty(Relation index);
extern IndexBulkDeleteResult *bun_bulkdelete(IndexVacuumInfo *info,
											 IndexBulkDeleteResult *stats,
											 IndexBulkDeleteCallback callback,
											 void *callback_state);
extern IndexBulkDeleteResult *bun_vacuumcleanup(IndexVacuumInfo *info,
												IndexBulkDeleteResult *stats);

/* insert.c */
extern bool bun_insert(Relation index, Datum *values, bool *isnull,
					   ItemPointer heap_tid, Relation heap,
					   IndexUniqueCheck checkUnique, bool indexUnchanged,
					   struct IndexInfo *indexInfo);

/* options.c */
extern void bun_options_init(void);
extern bytea *bun_options(Datum reloptions, bool validate);
extern BunMode bun_index_mode(Relation index);
extern int	bun_index_heap_blocks(Relation index);

#endif							/* BUNBTREE_H */
