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
#include "access/transam.h"
#include "catalog/pg_am.h"
#include "nodes/pathnodes.h"
#include "utils/rel.h"

#include "compat.h"

/*
 * What follows is for this library only.  Hidden symbols are reached without
 * a detour through the global offset table.
 */
#pragma GCC visibility push(hidden)

/*
 * Upper bound of heap_blocks.  A leaf page of 8 kB holds at most 1,358 TIDs,
 * so this is more than any pass can use.
 */
#define BUN_MAX_HEAP_BLOCKS 1400

/* Heap blocks that one page of the visibility map covers, at two bits each. */
#define BUN_HEAP_BLOCKS_PER_VM_PAGE \
	((BLCKSZ - MAXALIGN(SizeOfPageHeaderData)) * BITS_PER_BYTE / BITS_PER_HEAPBLOCK)

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

/* bunbtree.c: GUCs */
extern int	bun_guc_bottomup;
extern int	bun_guc_heap_blocks;
extern int	bun_guc_read_blocks;
extern double bun_guc_max_pass_time;

/*
 * The mode in force for an index: the storage parameter or else the GUC.
 *
 * Read anew at every insertion, so that ALTER INDEX SET and RESET take effect
 * for the next one: the relcache entry is the only cache.
 */
static inline BunMode
bun_index_mode(Relation index)
{
	BunOptions *options = (BunOptions *) index->rd_options;

	if (options != NULL && options->bottomup != BUN_MODE_UNSET)
		return (BunMode) options->bottomup;
	return (BunMode) bun_guc_bottomup;
}

/*
 * Heap blocks that a pass over a leaf page of this index may visit.
 */
static inline int
bun_index_heap_blocks(Relation index)
{
	BunOptions *options = (BunOptions *) index->rd_options;

	if (options != NULL && options->heap_blocks > 0)
		return options->heap_blocks;
	return bun_guc_heap_blocks;
}

/*
 * Kinds of insertion.  They differ in what a pass can hope for, so each backs
 * off by itself.
 */
typedef enum BunKind
{
	BUN_HINTED,					/* the executor says: UPDATE, key unchanged */
	BUN_APPEND,					/* nbtree has the rightmost leaf cached */
	BUN_OTHER
} BunKind;

#define BUN_NKINDS (BUN_OTHER + 1)

/*
 * What PostgreSQL's statistics say about dead rows of the table.
 */
typedef enum BunEvidence
{
	BUN_NONE,
	BUN_SOME,
	BUN_PLENTY
} BunEvidence;

/*
 * Yield map: where in the heap are dead rows likely?  See yield.c.
 */
#define BUN_YIELD_BUCKETS 64

typedef struct BunYieldMap
{
	int			shift;			/* bucket = heap block >> shift */
	BlockNumber highest;		/* highest heap block ever asked about */
	int			passes;			/* since the buckets last drifted */
	float		prior;			/* yield where nothing is known */
	float		bucket[BUN_YIELD_BUCKETS];	/* entries freed / examined */
} BunYieldMap;

/*
 * Back-off of one kind of insertion; see policy.c.
 */
typedef struct BunBackoff
{
	uint64		until;			/* tick before which this kind may not ask */
	int			streak;			/* unpaid passes since the last paid one */
	int			credit;			/* paid passes lately, less the unpaid ones */
} BunBackoff;

/*
 * Counters of one index; see stats.c.
 */
typedef struct BunCounters
{
	uint64		passes;			/* passes made */
	uint64		passes_productive;	/* passes that freed something */
	uint64		declined;		/* insertions that might not ask: kept waiting
								 * by back-off, or stopped by "off" when
								 * nbtree would have had a pass */
	uint64		entries_deleted;	/* TIDs that passes deleted */
	uint64		heap_blocks_visited;	/* heap blocks the table AM was asked
										 * about */
	uint64		heap_blocks_all_visible;	/* skipped: nothing dead there */
	uint64		heap_blocks_not_cached; /* skipped: would have needed I/O */
	uint64		simple_deletions;	/* TIDs deleted by the LP_DEAD route */
} BunCounters;

/*
 * What a backend knows of an index.  Backend-local, so nothing protects it.
 */
typedef struct BunIndexState
{
	Oid			indexid;		/* hash key; must be first */
	RelFileNumber heapfile;		/* heap file that the yield map describes */
	uint64		ticks;			/* insertions so far: policy.c's clock */
	uint64		next_look;		/* tick at which to look for evidence */
	BunEvidence evidence;		/* has the table dead rows? */
	FullTransactionId blocker;	/* deleter of a row that a pass could not free
								 * because the horizon is held; or invalid */
	BunBackoff	backoff[BUN_NKINDS];
	BunYieldMap yield;
	BunCounters counters;
} BunIndexState;

/*
 * TIDs that a fruitless pass looked at, kept to find out why once no lock is
 * held any more.
 */
#define BUN_MAX_SAMPLES 4

/*
 * What a pass tells policy.c.
 */
typedef struct BunOutcome
{
	int			visited;		/* heap blocks */
	int			freed;			/* entries */
	int			nsamples;
	ItemPointerData samples[BUN_MAX_SAMPLES];
} BunOutcome;

/*
 * A guarded call of nbtree for an index of ours; see bridge.c.  If "heap" is
 * set, it is an insertion, and a pass may come of it.
 */
typedef struct BunCall
{
	Relation	index;			/* presented as btree during the call */
	Oid			relam;			/* what rd_rel->relam reads otherwise */
	int			nest_level;		/* of the transaction that made the call */
	Relation	heap;			/* whose table AM is intercepted, or NULL */
	BunIndexState *state;		/* of the index, if heap is set */
	BunKind		kind;			/* of the insertion */
	bool		may_ask;		/* policy's answer for this insertion */
	bool		asked;			/* was there a pass? */
	BunOutcome	outcome;		/* of the pass, if there was one */
} BunCall;

/*
 * How deep guarded calls may nest.  Two levels are exotic, more are a support
 * function that calls itself.
 */
#define BUN_MAX_CALLS 16

/* bridge.c */
extern BunCall bun_calls[BUN_MAX_CALLS];
extern BunCall *bun_next_call;
extern int	bun_nest_level;
extern bool bun_reload_pending;
extern const TableAmRoutine *bun_heap_routine;
extern TableAmRoutine bun_intercepting_routine;

extern void bun_bridge_init(void);
bun_noreturn extern void bun_calls_too_deep(Relation index);
extern void bun_end_call_slow(BunCall *call);
extern void bun_mark_invalid(Relation index);
extern Relation bun_open_index(Oid indexid, LOCKMODE lockmode);
extern IndexBuildResult *bun_build(Relation heap, Relation index,
								   struct IndexInfo *indexInfo);
extern void bun_buildempty(Relation index);
extern IndexBulkDeleteResult *bun_bulkdelete(IndexVacuumInfo *info,
											 IndexBulkDeleteResult *stats,
											 IndexBulkDeleteCallback callback,
											 void *callback_state);
extern IndexBulkDeleteResult *bun_vacuumcleanup(IndexVacuumInfo *info,
												IndexBulkDeleteResult *stats);

/*
 * Begin a guarded call: present the index.  It ends with bun_end_call(), or
 * when the (sub)transaction aborts.
 */
static inline BunCall *
bun_begin_call(Relation index)
{
	BunCall    *call = bun_next_call;

	if (unlikely(call == &bun_calls[BUN_MAX_CALLS]))
		bun_calls_too_deep(index);
	bun_next_call = call + 1;

	call->index = index;
	call->relam = index->rd_rel->relam;
	call->nest_level = bun_nest_level;
	call->heap = NULL;

	index->rd_rel->relam = BTREE_AM_OID;
	return call;
}

/*
 * May this table be intercepted?  Not if its AM is not heap, nor if an
 * insertion into it is going on already: the inner one, which some support
 * function makes, then goes by nbtree's own rules.
 */
static inline bool
bun_can_intercept(Relation heap)
{
	return heap->rd_tableam == bun_heap_routine;
}

/*
 * Intercept the heap for a call just begun.
 */
static inline void
bun_intercept(BunCall *call, Relation heap)
{
	call->heap = heap;
	heap->rd_tableam = &bun_intercepting_routine;
}

/*
 * End a guarded call, and those inside it that C code which swallowed an error
 * has left.
 */
static inline void
bun_end_call(BunCall *call)
{
	while (unlikely(call + 1 < bun_next_call))
		bun_end_call_slow(bun_next_call - 1);
	if (unlikely(bun_reload_pending))
		bun_mark_invalid(call->index);

	if (call->heap != NULL)
		call->heap->rd_tableam = bun_heap_routine;
	call->index->rd_rel->relam = call->relam;
	bun_next_call = call;
}

/* insert.c */
extern bool bun_insert(Relation index, Datum *values, bool *isnull,
					   ItemPointer heap_tid, Relation heap,
					   IndexUniqueCheck checkUnique, bool indexUnchanged,
					   struct IndexInfo *indexInfo);
extern TransactionId bun_index_delete_tuples(BunCall *call,
											 TM_IndexDeleteOp *delstate);

/* pass.c */
extern TransactionId bun_pass(BunCall *call, TM_IndexDeleteOp *delstate);

/* policy.c */
extern void bun_policy_start(BunIndexState *state, Relation heap);
extern void bun_policy_look(BunIndexState *state, Relation heap);
extern bool bun_policy_hopeful(const BunIndexState *state, BunKind kind);
extern void bun_policy_learn(BunIndexState *state, BunKind kind,
							 const BunOutcome *outcome, Relation heap);

/* yield.c */
extern void bun_yield_reset(BunYieldMap *map);
extern float bun_yield_expect(BunYieldMap *map, BlockNumber blkno);
extern void bun_yield_learn(BunYieldMap *map, BlockNumber blkno,
							int examined, int freed);
extern void bun_yield_drift(BunYieldMap *map);

/* stats.c */
extern BunIndexState *bun_state(Relation index, Relation heap);

/* planner.c */
extern void bun_planner_init(void);
extern void bun_costestimate(PlannerInfo *root, IndexPath *path,
							 double loop_count, Cost *startup_cost,
							 Cost *total_cost, Selectivity *selectivity,
							 double *correlation, double *index_pages);

/* options.c */
extern void bun_options_init(void);
extern bytea *bun_options(Datum reloptions, bool validate);

#pragma GCC visibility pop

#endif							/* BUNBTREE_H */
