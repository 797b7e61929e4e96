/*-------------------------------------------------------------------------
 *
 * pass.c
 *		The bottom-up deletion pass over one leaf page.
 *
 * Which entries may go is the table AM's verdict, against its own horizon;
 * this file only chooses which heap blocks to ask about, and when to stop.
 *
 * Everything here runs with the leaf page locked exclusively, and interrupts
 * held for that reason.  So this file raises no ereport below ERROR, looks up
 * nothing in catalogs, allocates no memory, and waits for no read unless told
 * to (a heap block that is not in shared buffers is skipped); and there is a
 * limit on time as well as on blocks.  What the table AM does, it does in
 * nbtree's own passes as well.
 *
 * Portions Copyright (c) 2026, bunbtree developers
 *
 * IDENTIFICATION
 *		src/pass.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "bunbtree.h"

#include "access/visibilitymap.h"
#include "portability/instr_time.h"
#include "storage/bufmgr.h"

/* The clock is read once in so many heap blocks, visited or skipped. */
#define CLOCK_INTERVAL 8

/*
 * Free this much of the page and the pass has done its work: what dies later
 * is found later, at the same price.
 */
#define ENOUGH_FREESPACE (BLCKSZ / 4)

/*
 * Once nbtree's own target is met (a sixteenth of the page, or room for the
 * new entry), so many heap blocks in a row that free nothing end the pass:
 * those that promised much have been visited.
 */
#define MAX_FRUITLESS 8

/* Heap blocks after which a pass has to yield what "min_yield" demands. */
#define MIN_YIELD_VISITED 16

/*
 * A pass without much hope is a probe: it considers so many heap blocks, visits
 * so many of them, and asks for so many entries of each.  It goes on as a full
 * pass as soon as it finds something.
 */
#define PROBE_CONSIDERED	16
#define PROBE_VISITED		2
#define PROBE_ENTRIES		8

/*
 * Entries for one heap block: a run of sorted[].
 */
typedef struct LeafBlock
{
	BlockNumber blkno;
	uint16		first;			/* position in sorted[] */
	uint16		ntids;			/* entries */
	uint16		npromising;		/* entries that nbtree thinks promising */
	uint16		promising;		/* the first of them, counted from "first" */
} LeafBlock;

/*
 * What the table AM has said so far.
 */
typedef struct Findings
{
	int			examined;		/* entries it was asked about */
	int			freed;			/* entries that may go */
	int			freespace;		/* bytes that they take on the leaf page */
	TransactionId horizon;		/* newest conflict horizon */
} Findings;

/*
 * Workspace.  Static, because a pass must not allocate.  Passes do not nest:
 * while a leaf page is locked, no code but the table AM's runs.
 */
static TM_IndexDelete sorted[MaxTIDsPerBTreePage];	/* grouped by block */
static LeafBlock blocks[MaxTIDsPerBTreePage];
static uint16 owner[MaxTIDsPerBTreePage];	/* of each TID, in blocks[] */
static uint64 ranking[MaxTIDsPerBTreePage]; /* heap of scores, see below */

/* Hash table of blocks[], at least twice as large as it can get full. */
#define BLOCK_HASH_BITS	(BLCKSZ <= 8192 ? 12 : 14)
#define NO_BLOCK		PG_UINT16_MAX
static uint16 block_hash[1 << BLOCK_HASH_BITS];

StaticAssertDecl(2 * MaxTIDsPerBTreePage <= (1 << BLOCK_HASH_BITS),
				 "block_hash is too small for this block size");

static int	group_by_block(const TM_IndexDeleteOp *delstate);
static int	find_block(BlockNumber blkno, int *nblocks);
static void rank_blocks(BunYieldMap *map, int nblocks);
static LeafBlock *next_block(int *nranked);
static void sift_down(int nranked, int at);
static bool is_cached(Relation rel, ForkNumber forknum, BlockNumber blkno);
static bool is_all_visible(Relation heap, BlockNumber blkno, Buffer *vmbuffer);
static void visit_run(Relation heap, const TM_IndexDeleteOp *delstate,
					  int first, int ntids, Findings *findings);
static ItemPointer pick_sample(const TM_IndexDeleteOp *delstate, int first,
							   int ntids);
static double elapsed_seconds(instr_time start);

/*
 * Look for deletable entries on a leaf page that is about to split.
 *
 * The contract is that of table_index_delete_tuples() for bottom-up callers:
 * on return "deltids" holds just the entries to delete, all of them marked
 * knowndeletable in "status"; their number may be zero.  Returns the snapshot
 * conflict horizon of what is deleted: the newest of the table AM's answers,
 * which nbtree WAL-logs for standbys.
 */
TransactionId
bun_pass(BunCall *call, TM_IndexDeleteOp *delstate)
{
	Relation	heap = call->heap;
	BunYieldMap *yield = &call->state->slot->yield;
	BunOutcome *outcome = &call->outcome;
	int			budget = bun_index_heap_blocks(delstate->irel);
	int			max_reads = bun_index_max_reads(delstate->irel);
	double		min_yield = bun_index_min_yield(delstate->irel);
	bool		probing = !bun_policy_hopeful(call->state, call->kind);
	int			nblocks;
	int			considered = 0;
	int			nread = 0;
	int			visited = 0;
	int			fruitless = 0;	/* visits since the last that freed something */
	int			ndeletable = 0;
	Findings	findings = {0, 0, 0, InvalidTransactionId};
	Buffer		vmbuffer = InvalidBuffer;
	bool		check_vm;
	bool		check_cache;
	instr_time	start;

	INSTR_TIME_SET_CURRENT(start);

	memset(outcome, 0, offsetof(BunOutcome, samples));

	nblocks = group_by_block(delstate);
	rank_blocks(yield, nblocks);

	/*
	 * If VACUUM has never found an all-visible block, leave the visibility
	 * map alone.  A heap smaller than half of shared buffers is taken to be
	 * cached, since the table AM looks each block up twice by itself.  Local
	 * buffers make nobody wait.
	 */
	check_vm = heap->rd_rel->relallvisible > 0;
	check_cache = pg_atomic_read_u32(&yield->highest) >=
		(BlockNumber) NBuffers / 2 &&
		!RelationUsesLocalBuffers(heap);

	while (nblocks > 0 && visited < budget)
	{
		const LeafBlock *block = next_block(&nblocks);
		Findings	before = findings;
		int			asked_first = block->first;
		int			asked_ntids = block->ntids;

		if (probing && considered >= PROBE_CONSIDERED)
			break;
		if (++considered % CLOCK_INTERVAL == 0 &&
			elapsed_seconds(start) * 1000 >= bun_guc_max_pass_time)
			break;

		if (check_vm && is_all_visible(heap, block->blkno, &vmbuffer))
		{
			outcome->all_visible++;
			continue;
		}
		if (check_cache && !is_cached(heap, MAIN_FORKNUM, block->blkno) &&
			nread++ >= max_reads)
		{
			outcome->not_cached++;
			continue;
		}

		visited++;
		if (probing && block->ntids > PROBE_ENTRIES)
		{
			/* Begin with a duplicate if there is one: the best guess. */
			asked_first += Min(block->promising, block->ntids - PROBE_ENTRIES);
			asked_ntids = PROBE_ENTRIES;
		}
		visit_run(heap, delstate, asked_first, asked_ntids, &findings);
		if (asked_ntids < block->ntids && findings.freed > before.freed)
		{
			int			next = asked_first + asked_ntids;

			visit_run(heap, delstate, block->first,
					  asked_first - block->first, &findings);
			visit_run(heap, delstate, next,
					  block->first + block->ntids - next, &findings);
		}

		bun_yield_learn(yield, block->blkno,
						findings.examined - before.examined,
						findings.freed - before.freed);

		if (findings.freed > before.freed)
		{
			for (int j = block->first; j < block->first + block->ntids; j++)
			{
				if (delstate->status[sorted[j].id].knowndeletable)
					delstate->deltids[ndeletable++] = sorted[j];
			}
			probing = false;
			fruitless = 0;
			if (findings.freespace >= Max(ENOUGH_FREESPACE,
										  delstate->bottomupfreespace))
				break;
		}
		else
		{
			if (outcome->nsamples < BUN_MAX_SAMPLES)
				outcome->samples[outcome->nsamples++] =
					*pick_sample(delstate, asked_first, asked_ntids);
			if (++fruitless >= MAX_FRUITLESS &&
				findings.freespace >= delstate->bottomupfreespace)
				break;
		}

		if (probing && visited >= PROBE_VISITED)
			break;
		if (visited >= MIN_YIELD_VISITED &&
			findings.freed < visited * min_yield)
			break;
	}

	if (BufferIsValid(vmbuffer))
		ReleaseBuffer(vmbuffer);

	Assert(ndeletable == findings.freed);
	delstate->ndeltids = ndeletable;

	bun_yield_drift(yield);
	outcome->visited = visited;
	outcome->freed = findings.freed;
	outcome->freespace = findings.freespace;
	outcome->duration = elapsed_seconds(start) * 1e9;

	return findings.horizon;
}

/*
 * Fill blocks[] with the heap blocks that the leaf page points to, and sorted[]
 * with its TIDs, those of a block together.  Returns the number of blocks.
 *
 * Nobody needs the TIDs in order: the table AM sorts those of a block by
 * itself.  So they are distributed, not sorted; a leaf page of posting lists
 * has over 1,300, and sorting them would take as long as all the rest of a
 * pass.
 */
static int
group_by_block(const TM_IndexDeleteOp *delstate)
{
	int			ntids = delstate->ndeltids;
	int			nblocks = 0;
	int			first = 0;
	int			b = 0;

	Assert(ntids > 0 && ntids <= MaxTIDsPerBTreePage);

	memset(block_hash, 0xff, sizeof(block_hash));	/* NO_BLOCK */
	for (int i = 0; i < ntids; i++)
	{
		ItemPointer tid = &delstate->deltids[i].tid;
		BlockNumber blkno = ItemPointerGetBlockNumberNoCheck(tid);

		/* Neighbours in the index are often neighbours in the heap. */
		if (i == 0 || blocks[b].blkno != blkno)
			b = find_block(blkno, &nblocks);
		owner[i] = b;
		blocks[b].ntids++;
	}

	for (b = 0; b < nblocks; b++)
	{
		blocks[b].first = first;
		first += blocks[b].ntids;
		blocks[b].ntids = 0;
	}

	for (int i = 0; i < ntids; i++)
	{
		LeafBlock  *block = &blocks[owner[i]];

		if (delstate->status[delstate->deltids[i].id].promising &&
			block->npromising++ == 0)
			block->promising = block->ntids;
		sorted[block->first + block->ntids++] = delstate->deltids[i];
	}
	return nblocks;
}

/*
 * Position in blocks[] of a heap block, which is added if it is new.
 */
static int
find_block(BlockNumber blkno, int *nblocks)
{
	/* Fibonacci hashing (Knuth): 2^32 divided by the golden ratio */
	uint32		slot = (blkno * 2654435769U) >> (32 - BLOCK_HASH_BITS);
	LeafBlock  *block;

	while (block_hash[slot] != NO_BLOCK)
	{
		if (blocks[block_hash[slot]].blkno == blkno)
			return block_hash[slot];
		slot = (slot + 1) % lengthof(block_hash);
	}

	block_hash[slot] = *nblocks;
	block = &blocks[*nblocks];
	block->blkno = blkno;
	block->ntids = 0;
	block->npromising = 0;
	block->promising = 0;
	return (*nblocks)++;
}

/*
 * Rank blocks[] by what they promise.  ranking[] becomes a heap (of the sort
 * that data structures are) with the best on top, since few passes need more
 * than a part of the order.
 */
static void
rank_blocks(BunYieldMap *map, int nblocks)
{
	static uint32 seed = 0;

	for (int b = 0; b < nblocks; b++)
	{
		LeafBlock  *block = &blocks[b];
		float		score = bun_yield_expect(map, block->blkno) *
			(block->ntids + block->npromising);
		uint32		luck;

		/*
		 * Blocks of one bucket tie.  Decide by lot, or else every pass over
		 * this leaf page would visit the same of them.
		 */
		seed = seed * 1664525 + 1013904223;
		luck = seed >> 16;

		/* 1e5: resolves yields far below any that pays, and fits 32 bits */
		ranking[b] = ((uint64) (score * 100000) << 32) |
			(luck << 16) | (uint64) b;
	}
	for (int b = nblocks / 2 - 1; b >= 0; b--)
		sift_down(nblocks, b);
}

/*
 * Take the most promising block off the ranking.
 */
static LeafBlock *
next_block(int *nranked)
{
	uint64		best = ranking[0];

	ranking[0] = ranking[--(*nranked)];
	sift_down(*nranked, 0);
	return &blocks[(uint16) best];
}

/*
 * Restore the heap property of ranking[] below position "at".
 */
static void
sift_down(int nranked, int at)
{
	uint64		score = ranking[at];
	int			child;

	while ((child = 2 * at + 1) < nranked)
	{
		if (child + 1 < nranked && ranking[child + 1] > ranking[child])
			child++;
		if (ranking[child] <= score)
			break;
		ranking[at] = ranking[child];
		at = child;
	}
	ranking[at] = score;
}

/*
 * Is this block in shared buffers, and valid there?  The answer may be out of
 * date as soon as it is given; the price of a wrong one is a wait for I/O, or
 * a block that is not visited.
 *
 * Takes the buffer mapping partition's lock in share mode for the look-up, as
 * reading the block would.
 */
static bool
is_cached(Relation rel, ForkNumber forknum, BlockNumber blkno)
{
	BufferTag	tag;
	uint32		hash;
	LWLock	   *lock;
	int			bufid;
	bool		valid = false;

	bun_init_buffer_tag(&tag, rel, forknum, blkno);
	hash = BufTableHashCode(&tag);
	lock = BufMappingPartitionLock(hash);

	LWLockAcquire(lock, LW_SHARED);
	bufid = BufTableLookup(&tag, hash);
	if (bufid >= 0)
	{
		BufferDesc *desc = GetBufferDescriptor(bufid);

		/* In the table but not valid: another backend is reading it in. */
		valid = (pg_atomic_read_u32(&desc->state) & BM_VALID) != 0;
	}
	LWLockRelease(lock);

	return valid;
}

/*
 * Does the visibility map say that there is nothing dead in this heap block?
 *
 * "*vmbuffer" holds the pin on a map page from one call to the next.  A page
 * of the map that is not cached stays so: reading it would mean to wait, and
 * core might even initialize it.
 */
static bool
is_all_visible(Relation heap, BlockNumber blkno, Buffer *vmbuffer)
{
	if (!RelationUsesLocalBuffers(heap) &&
		!visibilitymap_pin_ok(blkno, *vmbuffer) &&
		!is_cached(heap, VISIBILITYMAP_FORKNUM,
				   blkno / BUN_HEAP_BLOCKS_PER_VM_PAGE))
		return false;

	return VM_ALL_VISIBLE(heap, blkno, vmbuffer);
}

/*
 * Ask the table AM about the entries sorted[first .. first + ntids - 1], all
 * of one heap block.
 *
 * One call per block keeps the decision when to stop here, and stays within
 * the documented contract: a bottom-up caller may list any TIDs.  The space
 * asked for is more than a page has, so that the table AM does not stop half
 * way.  It shrinks its copy of the array, but leaves all entries in place.
 */
static void
visit_run(Relation heap, const TM_IndexDeleteOp *delstate, int first, int ntids,
		  Findings *findings)
{
	TM_IndexDeleteOp op = *delstate;
	TransactionId horizon;
	int			freed = 0;

	if (ntids == 0)
		return;

	op.bottomupfreespace = BLCKSZ;
	op.deltids = &sorted[first];
	op.ndeltids = ntids;
	horizon = bun_heap_routine->index_delete_tuples(heap, &op);

	for (int i = first; i < first + ntids; i++)
	{
		TM_IndexStatus *status = &delstate->status[sorted[i].id];

		if (status->knowndeletable)
		{
			freed++;
			findings->freespace += status->freespace;
		}
	}
	findings->examined += ntids;
	findings->freed += freed;

	if (freed > 0 && TransactionIdIsValid(horizon) &&
		(!TransactionIdIsValid(findings->horizon) ||
		 TransactionIdFollows(horizon, findings->horizon)))
		findings->horizon = horizon;
}

/*
 * Which of the entries sorted[first .. first + ntids - 1], none of which may
 * go, is the most likely to be dead all the same?
 */
static ItemPointer
pick_sample(const TM_IndexDeleteOp *delstate, int first, int ntids)
{
	for (int i = first; i < first + ntids; i++)
	{
		if (delstate->status[sorted[i].id].promising)
			return &sorted[i].tid;
	}
	return &sorted[first].tid;
}

/*
 * How long has the pass held the leaf page?
 */
static double
elapsed_seconds(instr_time start)
{
	instr_time	elapsed;

	INSTR_TIME_SET_CURRENT(elapsed);
	INSTR_TIME_SUBTRACT(elapsed, start);
	return INSTR_TIME_GET_DOUBLE(elapsed);
}
