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
#include "access/xlogrecord.h"
#include "catalog/pg_am.h"
#include "nodes/pathnodes.h"
#include "port/atomics.h"
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
 * May a pass visit heap blocks that are not in shared buffers?  GUC bunbtree.io
 * and the reloption io.
 */
typedef enum BunIO
{
	BUN_IO_UNSET = -1,
	BUN_IO_CACHED,				/* no */
	BUN_IO_ANY					/* a few, see BUN_MAX_READS */
} BunIO;

/* Heap blocks that a pass may read in with "any"; the leaf page waits. */
#define BUN_MAX_READS 16

/*
 * Reloptions.  Starts with nbtree's own struct, because nbtree's macros read
 * rd_options as a BTOptions.
 */
typedef struct BunOptions
{
	BTOptions	bt;
	int			bottomup;		/* a BunMode */
	int			heap_blocks;	/* heap blocks a pass may visit; -1 = GUC */
	int			io;				/* a BunIO */
	double		min_yield;		/* entries per heap block; -1 = GUC */
} BunOptions;

/* bunbtree.c: GUCs */
extern int	bun_guc_bottomup;
extern int	bun_guc_heap_blocks;
extern int	bun_guc_io;
extern int	bun_guc_max_indexes;
extern double bun_guc_max_pass_time;
extern double bun_guc_min_yield;
extern bool bun_guc_track_timing;
extern int	bun_guc_scan_cleanup_limit;
extern bool bun_guc_compact_untested;

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
 * Heap blocks that a pass over a leaf page of this index may read in.
 */
static inline int
bun_index_max_reads(Relation index)
{
	BunOptions *options = (BunOptions *) index->rd_options;
	int			io = bun_guc_io;

	if (options != NULL && options->io != BUN_IO_UNSET)
		io = options->io;
	return io == BUN_IO_ANY ? BUN_MAX_READS : 0;
}

/*
 * Entries freed per heap block visited below which a pass gives up.
 */
static inline double
bun_index_min_yield(Relation index)
{
	BunOptions *options = (BunOptions *) index->rd_options;

	if (options != NULL && options->min_yield >= 0)
		return options->min_yield;
	return bun_guc_min_yield;
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
 *
 * Shared; values are read and written one by one, without a lock.  Yields are
 * floats in [0, 1], stored by their bits.
 */
#define BUN_YIELD_BUCKETS 64

typedef struct BunYieldMap
{
	pg_atomic_uint32 shift;		/* bucket = heap block >> shift */
	pg_atomic_uint32 highest;	/* highest heap block ever asked about */
	pg_atomic_uint32 passes;	/* tells when to drift */
	pg_atomic_uint32 prior;		/* yield where nothing is known */
	pg_atomic_uint32 bucket[BUN_YIELD_BUCKETS]; /* entries freed / examined */
} BunYieldMap;

/*
 * Counters of an index, for each kind of insertion; see README.md for what
 * they mean to the user.
 */
typedef enum BunCounter
{
	BUN_PASSES,					/* passes made */
	BUN_PASSES_PRODUCTIVE,		/* passes that freed something */
	BUN_DECLINED,				/* insertions that might not ask: kept waiting
								 * by back-off, or stopped by "off" when
								 * nbtree would have had a pass */
	BUN_ENTRIES_DELETED,		/* TIDs that passes deleted */
	BUN_BYTES_FREED,			/* bytes on leaf pages that these took */
	BUN_ENTRIES_SIMPLE_DELETED, /* TIDs deleted by the LP_DEAD route */
	BUN_SPLITS_AVERTED,			/* productive pass, no split */
	BUN_DEDUPS,					/* fruitless pass, no split either */
	BUN_SPLITS,					/* a pass, and a split all the same */
	BUN_BLOCKS_VISITED,			/* heap blocks the table AM was asked about */
	BUN_BLOCKS_ALL_VISIBLE,		/* skipped: nothing dead there */
	BUN_BLOCKS_NOT_CACHED,		/* skipped: would have needed I/O */
	BUN_ENTRIES_LIVE,			/* samples of fruitless passes: live rows */
	BUN_ENTRIES_RECENTLY_DEAD,	/* the same: dead, but not for everybody */
	BUN_BLOCKED_BY_HORIZON,		/* fruitless passes that met such a row */
	BUN_PASS_TIME				/* nanoseconds, if bunbtree.track_timing */
} BunCounter;

#define BUN_NCOUNTERS (BUN_PASS_TIME + 1)

/*
 * What is known of an index, by all backends.  In shared memory, unless there
 * was no room (shared.c); no lock protects it, because everything is a number
 * of its own, and advice or a counter.
 *
 * "generation" says whose slot it is: it changes when the slot is given up.
 */
typedef struct BunSlot
{
	pg_atomic_uint32 generation;
	pg_atomic_uint32 heapfile;	/* heap file that the yield map describes */
	pg_atomic_uint32 evidence;	/* a BunEvidence: has the table dead rows? */
	pg_atomic_uint64 ticks;		/* insertions so far: policy.c's clock */
	pg_atomic_uint64 next_look; /* tick at which to look for evidence */
	pg_atomic_uint64 blocker;	/* deleter of a row that a pass could not free
								 * because the horizon is held (a
								 * FullTransactionId), or 0 */
	pg_atomic_uint64 backoff[BUN_NKINDS];	/* see policy.c */
	BunYieldMap yield;
	pg_atomic_uint64 counters[BUN_NKINDS][BUN_NCOUNTERS];
	pg_atomic_uint64 longest_pass;	/* nanoseconds */
	pg_atomic_uint64 last_pass; /* a TimestampTz, or 0 */
	pg_atomic_uint64 compact_runs;	/* calls of bunbtree_compact() */
	pg_atomic_uint64 leaves_merged; /* leaf pages that these have removed */
	pg_atomic_uint64 last_compact;	/* as last_pass */
	pg_atomic_uint64 stats_reset;	/* likewise */
} BunSlot;

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
 * A backend's own view of an index: a copy of what insertions need of its
 * slot, and what has yet to be added there; see state.c.
 */
typedef struct BunIndexState
{
	Oid			indexid;		/* hash key; must be first */
	uint32		generation;		/* of the slot, when it was found */
	BunSlot    *slot;
	struct BunIndexState *next_active;	/* in the list of those to flush */
	bool		active;			/* in that list? */
	uint64		ticks;			/* slot's ticks when last synchronized, and
								 * this backend's insertions since */
	uint64		synced;			/* ticks when last synchronized */
	uint64		next_sync;		/* tick at which to synchronize */
	BunEvidence evidence;
	BunBackoff	backoff[BUN_NKINDS];
	uint64		declined[BUN_NKINDS];	/* for the counters of these names */
	uint64		simple_deleted[BUN_NKINDS];
} BunIndexState;

/*
 * TIDs that a fruitless pass looked at, kept to find out why once no lock is
 * held any more.
 */
#define BUN_MAX_SAMPLES 4

/*
 * What became of an insertion that had a pass.  The first group is filled by
 * pass.c, with the leaf page locked, the second after the insertion.
 */
typedef struct BunOutcome
{
	int			freed;			/* entries */
	int			freespace;		/* bytes that these took on the leaf page */
	int			visited;		/* heap blocks */
	int			all_visible;	/* heap blocks skipped for that reason */
	int			not_cached;		/* likewise */
	uint64		duration;		/* nanoseconds */
	int			nsamples;
	ItemPointerData samples[BUN_MAX_SAMPLES];

	bool		split;			/* was the page split all the same? */
	int			live;			/* samples that are live rows */
	int			recently_dead;	/* samples that are rows dead for some */
	FullTransactionId blocker;	/* oldest deleter of these, or invalid */
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
	BlockNumber leaf;			/* page of the pass, if there was one */
	BlockNumber right;			/* its right sibling before the insertion */
	BunOutcome	outcome;		/* of the pass, if there was one */
} BunCall;

/*
 * An index presented for a while to the executor, or to other code of core's;
 * see bridge.c.  Allocated in TopMemoryContext.
 */
typedef struct BunPresentation
{
	struct BunPresentation *outer;	/* the one before, or NULL */
	Relation	index;			/* open, with this lock */
	LOCKMODE	lockmode;
	Oid			relam;			/* what rd_rel->relam reads otherwise */
	int			nest_level;		/* of the transaction that presents it */
} BunPresentation;

/*
 * How deep guarded calls may nest.  Two levels are exotic, more are a support
 * function that calls itself.
 */
#define BUN_MAX_CALLS 16

/*
 * Leaf pages that one WAL record can merge: one more image is the parent's.
 */
#define BUN_MAX_RUN XLR_MAX_BLOCK_ID

/*
 * Where compaction is: a level-1 page and the offset of a child's pivot tuple.
 */
typedef struct BunCursor
{
	RelFileNumber file;			/* of the index, or 0: at the beginning */
	BlockNumber blkno;
	OffsetNumber offset;		/* or InvalidOffsetNumber: the first child */
	int64		passed;			/* leaf pages left behind */
} BunCursor;

/*
 * What merging needs besides the index, for all slices of a compaction: memory
 * that is there before the lock is taken, and what nbtree wants to know of a
 * VACUUM, with the pages that it has deleted.
 */
typedef struct BunMerger
{
	PGAlignedBlock images[BUN_MAX_RUN + 1]; /* what pages will be */
	RelFileNumber file;			/* that "vacuum" is about */
	IndexVacuumInfo info;
	IndexBulkDeleteResult stats;
	BTVacState	vacuum;
} BunMerger;

/*
 * What came of looking for pages to merge.
 */
typedef enum BunSearch
{
	BUN_SEARCH_FOUND,
	BUN_SEARCH_BUDGET,			/* looked at enough pages for now */
	BUN_SEARCH_END				/* of the index */
} BunSearch;

/*
 * The leaf pages of an index, in numbers.
 */
typedef struct BunSurvey
{
	int64		leaves;
	int64		leaves_after;	/* what compaction would leave of them */
	double		used;			/* bytes */
	double		space;			/* bytes that could be used */
} BunSurvey;

/* bridge.c */
extern BunCall bun_calls[BUN_MAX_CALLS];
extern BunCall *bun_next_call;
extern BunPresentation *bun_presentations;
extern int	bun_nest_level;
extern bool bun_reload_pending;
extern const TableAmRoutine *bun_heap_routine;
extern TableAmRoutine bun_intercepting_routine;

extern void bun_bridge_init(void);
bun_noreturn extern void bun_calls_too_deep(Relation index);
extern void bun_end_call_slow(BunCall *call);
extern void bun_catch_up(Relation index, Oid relam);
extern void bun_present(Oid indexid, LOCKMODE lockmode);
extern void bun_present_unique(Relation table, LOCKMODE lockmode);
extern void bun_end_presentations(BunPresentation *outer);
extern Relation bun_open_any_relation(Oid relid, LOCKMODE lockmode);
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
		bun_catch_up(call->index, call->relam);

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
extern void bun_policy_start(BunIndexState *state, Relation index,
							 Relation heap);
extern void bun_policy_load(BunIndexState *state);
extern void bun_policy_tick(BunIndexState *state, Relation index,
							Relation heap);
extern void bun_policy_look(BunIndexState *state, Relation index,
							Relation heap);
extern bool bun_policy_hopeful(const BunIndexState *state, BunKind kind);
extern bool bun_policy_paid(const BunOutcome *outcome);
extern void bun_policy_learn(BunIndexState *state, BunKind kind,
							 const BunOutcome *outcome, Relation index);
extern void bun_policy_failed(BunIndexState *state);

/* yield.c */
extern void bun_yield_init(BunYieldMap *map);
extern void bun_yield_set_prior(BunYieldMap *map, float prior);
extern void bun_yield_reset(BunYieldMap *map);
extern float bun_yield_expect(BunYieldMap *map, BlockNumber blkno);
extern void bun_yield_learn(BunYieldMap *map, BlockNumber blkno,
							int examined, int freed);
extern void bun_yield_drift(BunYieldMap *map);

/* sample.c */
extern void bun_sample(BunOutcome *outcome, Relation heap);
extern FullTransactionId bun_older_xid(FullTransactionId a,
									   FullTransactionId b);

/* shared.c */
extern void bun_shared_init(void);
extern BunSlot *bun_slot_attach(Oid indexid, bool *taken);
extern void bun_slot_init(BunSlot *slot, uint32 generation);
extern bool bun_slot_is_shared(const BunSlot *slot);
extern bool bun_slots_sweep(void);
extern bool bun_index_is_gone(Oid indexid);
extern void bun_for_each_slot(void (*function) (Oid indexid, BunSlot *slot,
												void *arg),
							  void *arg);

/* state.c */
extern void bun_state_init(void);
extern BunIndexState *bun_state(Relation index, Relation heap);
extern void bun_state_sync(BunIndexState *state);
extern void bun_state_flush_all(void);
extern void bun_for_each_local_slot(void (*function) (Oid indexid,
													  BunSlot *slot,
													  void *arg),
									void *arg);

/* stats.c */
extern void bun_stats_pass(BunSlot *slot, BunKind kind,
						   const BunOutcome *outcome);
extern void bun_stats_compact(BunSlot *slot, int runs, int leaves);

/*
 * Add to a counter.
 */
static inline void
bun_count(BunSlot *slot, BunKind kind, BunCounter counter, uint64 n)
{
	if (n > 0)
		pg_atomic_fetch_add_u64(&slot->counters[kind][counter], n);
}

/* scan.c */
extern bool bun_gettuple(IndexScanDesc scan, ScanDirection dir);

/* opclass.c */
extern Oid	bun_access_method(Oid function, Oid *extension);
extern void bun_check_collations(Relation index);

/* adopt.c */
extern bool bun_has_key_constraint(Oid indexid);

/* check.c */
extern Oid	bun_extension_function(const char *caller, const char *extension,
								   const char *name, int nargs, Oid argtype);

/* merge.c */
extern bool bun_read_meta(Relation index, BTMetaPageData *meta);
extern BunSearch bun_find_slice(Relation index, BunCursor *cursor, double fill,
								int max_pages, int64 *budget);
extern int	bun_merge(Relation index, Relation heap, BunCursor *cursor,
					  double fill, int max_pages, BunMerger *merger);
extern void bun_start_merger(BunMerger *merger);
extern void bun_free_deleted(BunMerger *merger, Relation index, Relation heap);
extern void bun_survey(Relation index, double fill, BunSurvey *survey);

/* planner.c */
extern void bun_planner_init(void);
extern bool bun_family_contains(Oid family, Oid other);
extern void bun_costestimate(PlannerInfo *root, IndexPath *path,
							 double loop_count, Cost *startup_cost,
							 Cost *total_cost, Selectivity *selectivity,
							 double *correlation, double *index_pages);

/* executor.c */
extern bool bun_row_comparisons;

extern void bun_executor_init(void);

/* refresh.c */
extern void bun_refresh_init(void);

/* options.c */
extern void bun_options_init(void);
extern bytea *bun_options(Datum reloptions, bool validate);
extern Datum bun_btree_options(Datum reloptions);

#pragma GCC visibility pop

#endif							/* BUNBTREE_H */
