/*-------------------------------------------------------------------------
 *
 * merge.c
 *		Sparse neighbours among the leaf pages of a btree, and their merger.
 *
 * A run are leaf pages P1 ... Pn under one parent, each the right sibling of the
 * one before, whose entries fit into one page.  Pn gets them all.  It has to be
 * the last, because in nbtree the key space of a deleted page goes to its right
 * sibling.  P1 ... Pn-1 become half-dead, and nbtree's own page deletion does the
 * rest: since their first stage is done, it just unlinks them.
 *
 * Why this is safe is in src/README, "Compaction".  In short: the caller of
 * bun_merge() has AccessExclusiveLock on the index, so that no scan stands between
 * two of the pages, and one WAL record, made of page images, holds the pages, so
 * that neither a crash nor a standby sees some of them without the others.
 *
 * Runs with the same parent share a record, a "batch", as far as it has room: the
 * parent's image is most of what a record has besides the merged pages.
 *
 * No key is compared: pages are found by links, and entries stay in order.  (But
 * nbtree searches for the right sibling of a half-dead page that a crash has left,
 * if that is empty, to delete it, too.)
 *
 * Portions Copyright (c) 2026, bunbtree developers
 *
 * IDENTIFICATION
 *		src/merge.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "bunbtree.h"

#include "access/xloginsert.h"
#include "catalog/pg_control.h"
#include "miscadmin.h"
#include "storage/indexfsm.h"
#include "storage/predicate.h"

/* Leaf pages that a slice looks at, to merge so many. */
#define LOOK_AHEAD(max_pages)	(2 * (int64) (max_pages))

/* What a leaf page is to us. */
typedef struct Leaf
{
	BlockNumber prev;
	bool		half_dead;
	bool		mergeable;		/* live, and its split complete */
	int			nentries;
	Size		entries;		/* bytes of these, with line pointers */
	Size		high_key;		/* likewise; 0 on the rightmost page */
	Size		space;			/* bytes that there are for both */
} Leaf;

/* Leaf pages to be merged. */
typedef struct Run
{
	BlockNumber half_dead;		/* or just a page to be unlinked */
	BlockNumber parent;
	OffsetNumber offset;		/* of the first page's pivot tuple there */
	int			nleaves;
	bool		cut;			/* as long as the caller wanted it at most */
	BlockNumber leaves[BUN_MAX_RUN];
} Run;

/* Runs that one WAL record merges, from left to right under one parent. */
typedef struct Batch
{
	int			nruns;
	int			nleaves;		/* of all runs */
	Run			runs[BUN_MAX_RUN / 2];
} Batch;

static void look_at_leaf(Relation index, BlockNumber blkno,
						 BufferAccessStrategy strategy, Leaf *leaf);
static bool copy_parent(Relation index, BunCursor *cursor, Page copy);
static bool copy_if_parent(Relation index, BlockNumber blkno, Page copy);
static BlockNumber child_at(Page parent, OffsetNumber offset);
static bool follows(Relation index, Page parent, OffsetNumber offset,
					const Leaf *leaf, BlockNumber *half_dead);
static bool has_room(Size entries, const Leaf *leaf, double fill);
static BunSearch find_run(Relation index, BunCursor *cursor, double fill,
						  int max_leaves, int64 *budget, Run *run);
static bool joins(const Batch *batch, const Run *run);
static void add_to_batch(Batch *batch, const Run *run, BunCursor *cursor);
static int	merge_batch(Relation index, BunCursor *cursor, Batch *batch,
						BunMerger *merger);
static void check_distinct(Relation index, const Batch *batch);
static void check_run(Relation index, Page parent, const Buffer *leaves,
					  const Run *run);
static void skip_run(BunCursor *cursor, const Run *run);
static void log_images(const Buffer *buffers, int n);
static void start_image(Page image, Page page);
static void merged_image(Page image, const Buffer *leaves, int n);
static void half_dead_image(Page image, Page page);
static void parent_image(Page image, Page page, const Batch *batch);
static void set_index(BunMerger *merger, Relation index, Relation heap);
static void forget_deleted(BunMerger *merger);
static int	unlink_half_dead(Relation index, BunMerger *merger,
							 BlockNumber blkno);

/*
 * What the metapage says: the format, the root's level, and how many deleted
 * pages the last VACUUM has left.  False if the index has no root yet.
 */
bool
bun_read_meta(Relation index, BTMetaPageData *meta)
{
	Buffer		buf = _bt_getbuf(index, BTREE_METAPAGE, BT_READ);

	*meta = *BTPageGetMeta(BufferGetPage(buf));
	_bt_relbuf(index, buf);
	return meta->btm_root != P_NONE;
}

/*
 * Look at a leaf page, which need not be one: then it is not mergeable.
 */
static void
look_at_leaf(Relation index, BlockNumber blkno, BufferAccessStrategy strategy,
			 Leaf *leaf)
{
	Buffer		buf = ReadBufferExtended(index, MAIN_FORKNUM, blkno, RBM_NORMAL,
										 strategy);
	Page		page;
	BTPageOpaque opaque;

	_bt_lockbuf(index, buf, BT_READ);
	_bt_checkpage(index, buf);
	page = BufferGetPage(buf);
	opaque = BTPageGetOpaque(page);

	memset(leaf, 0, sizeof(Leaf));
	leaf->prev = opaque->btpo_prev;
	leaf->half_dead = P_ISLEAF(opaque) && P_ISHALFDEAD(opaque);
	leaf->mergeable = P_ISLEAF(opaque) && !P_IGNORE(opaque) &&
		!P_INCOMPLETE_SPLIT(opaque);
	if (leaf->mergeable)
	{
		/* nbtree leaves no holes between the tuples */
		leaf->space = ((PageHeader) page)->pd_special - SizeOfPageHeaderData;
		leaf->nentries = (int) PageGetMaxOffsetNumber(page) + 1 -
			P_FIRSTDATAKEY(opaque);
		if (!P_RIGHTMOST(opaque))
			leaf->high_key = sizeof(ItemIdData) +
				MAXALIGN(ItemIdGetLength(PageGetItemId(page, P_HIKEY)));
		leaf->entries = leaf->space - PageGetExactFreeSpace(page) -
			leaf->high_key;
	}
	_bt_relbuf(index, buf);
}

/*
 * Copy the level-1 page at the cursor, which has one child at least.  False if
 * there is no level 1.
 *
 * Pages split and are deleted between slices, and REINDEX may have made another
 * file, so the cursor is a hint only.  If there is no level-1 page where it
 * points to, we start anew from the left: it takes somebody who deletes such
 * pages to get us there again.
 */
static bool
copy_parent(Relation index, BunCursor *cursor, Page copy)
{
	BTMetaPageData meta;
	Buffer		buf;

	if (cursor->file != bun_file_number(index) ||
		cursor->blkno >= RelationGetNumberOfBlocks(index) ||
		!copy_if_parent(index, cursor->blkno, copy))
	{
		if (!bun_read_meta(index, &meta) || meta.btm_level == 0)
			return false;
		buf = bun_bt_get_endpoint(index, 1, false);
		cursor->file = bun_file_number(index);
		cursor->blkno = BufferGetBlockNumber(buf);
		cursor->offset = InvalidOffsetNumber;
		cursor->passed = 0;
		memcpy(copy, BufferGetPage(buf), BLCKSZ);
		_bt_relbuf(index, buf);
	}

	/* Callers go through the children, and look for interrupts there. */
	if (PageGetMaxOffsetNumber(copy) < P_FIRSTDATAKEY(BTPageGetOpaque(copy)))
		ereport(ERROR,
				(errcode(ERRCODE_INDEX_CORRUPTED),
				 errmsg("block %u of index \"%s\" has no downlinks",
						cursor->blkno, RelationGetRelationName(index)),
				 errhint("Please REINDEX it.")));
	return true;
}

/*
 * Copy a page, if it is one of level 1.
 */
static bool
copy_if_parent(Relation index, BlockNumber blkno, Page copy)
{
	Buffer		buf = _bt_getbuf(index, blkno, BT_READ);
	BTPageOpaque opaque = BTPageGetOpaque(BufferGetPage(buf));
	bool		result;

	result = !P_ISMETA(opaque) && !P_ISLEAF(opaque) && !P_IGNORE(opaque) &&
		opaque->btpo_level == 1;
	if (result)
		memcpy(copy, BufferGetPage(buf), BLCKSZ);
	_bt_relbuf(index, buf);
	return result;
}

/*
 * The child that a level-1 page has there.
 */
static BlockNumber
child_at(Page parent, OffsetNumber offset)
{
	return BTreeTupleGetDownLink((IndexTuple)
								 PageGetItem(parent,
											 PageGetItemId(parent, offset)));
}

/*
 * Is the leaf page at "offset" the right sibling of the one before it there?
 *
 * What is between them has no downlink.  It may be half-dead: a crash, or a
 * cancelled VACUUM, has left it, and "*half_dead" tells where it is.  That is
 * looked for left of a parent's first child, too.
 */
static bool
follows(Relation index, Page parent, OffsetNumber offset, const Leaf *leaf,
		BlockNumber *half_dead)
{
	BTPageOpaque opaque = BTPageGetOpaque(parent);

	*half_dead = InvalidBlockNumber;
	if (offset > P_FIRSTDATAKEY(opaque) &&
		child_at(parent, OffsetNumberPrev(offset)) == leaf->prev)
		return true;

	if (leaf->mergeable && leaf->prev != P_NONE)
	{
		Leaf		sibling;

		look_at_leaf(index, leaf->prev, NULL, &sibling);
		if (sibling.half_dead)
			*half_dead = leaf->prev;
	}
	return false;
}

/*
 * Should a run that has "entries" bytes so far go on with this page?
 *
 * Pages are merged as a whole, so what is aimed at is rarely met.  Never going
 * beyond "fill" would leave merged pages below it by half of a sparse page, on
 * average; so we go beyond if that is the smaller error, but leave half of the
 * room above "fill" to insertions.
 */
static bool
has_room(Size entries, const Leaf *leaf, double fill)
{
	Size		with = entries + leaf->entries + leaf->high_key;
	double		target = fill * leaf->space;

	return with <= target ||
		(with <= (target + leaf->space) / 2 && with - target < target - entries);
}

/*
 * Find the next run from the cursor on, and leave the cursor at its beginning.
 *
 * "fill" is the share of a page that entries and high key of the merged page are
 * to take, "max_leaves" how many pages a run may have.  "*budget" is for how many
 * leaf pages we may look at, so that a caller with a strong lock does not go
 * through regions where there is nothing to do.
 *
 * The caller has AccessShareLock on the index at least.  With no more than that
 * a run is a hint; with AccessExclusiveLock it stays true.
 */
static BunSearch
find_run(Relation index, BunCursor *cursor, double fill, int max_leaves,
		 int64 *budget, Run *run)
{
	Page		parent = palloc(BLCKSZ);
	BunSearch	result = BUN_SEARCH_END;

	max_leaves = Min(max_leaves, BUN_MAX_RUN);

	while (copy_parent(index, cursor, parent))
	{
		BTPageOpaque opaque = BTPageGetOpaque(parent);
		OffsetNumber maxoff = PageGetMaxOffsetNumber(parent);
		Size		entries = 0;
		int			nentries = 0;

		cursor->offset = Max(cursor->offset, P_FIRSTDATAKEY(opaque));
		run->parent = cursor->blkno;
		run->half_dead = InvalidBlockNumber;
		run->nleaves = 0;
		run->cut = false;

		for (OffsetNumber offset = cursor->offset; offset <= maxoff; offset++)
		{
			BlockNumber child = child_at(parent, offset);
			BlockNumber half_dead;
			Leaf		leaf;
			bool		adjacent;

			CHECK_FOR_INTERRUPTS();
			if ((*budget)-- <= 0)
			{
				result = BUN_SEARCH_BUDGET;
				goto done;
			}

			look_at_leaf(index, child, NULL, &leaf);
			adjacent = follows(index, parent, offset, &leaf, &half_dead);

			/*
			 * The run goes on if this page belongs to it, ends before it
			 * otherwise.  Without entries it is none: unlinking the last page
			 * but one, _bt_pagedel() would go on to delete Pn, too, which is
			 * VACUUM's business.
			 */
			if (run->nleaves > 0 && adjacent && leaf.mergeable &&
				run->nleaves < max_leaves &&
				has_room(entries, &leaf, fill))
			{
				run->leaves[run->nleaves++] = child;
				run->cut = run->nleaves == max_leaves;
				entries += leaf.entries;
				nentries += leaf.nentries;
				continue;
			}
			if (run->nleaves > 1 && nentries > 0)
				break;

			/* It may be the first page of another one. */
			cursor->passed += offset - cursor->offset;
			cursor->offset = offset;
			run->nleaves = 0;
			run->cut = false;
			if (BlockNumberIsValid(half_dead))
			{
				run->half_dead = half_dead;
				result = BUN_SEARCH_FOUND;
				goto done;
			}
			if (leaf.mergeable)
			{
				run->leaves[run->nleaves++] = child;
				entries = leaf.entries;
				nentries = leaf.nentries;
			}
		}

		if (run->nleaves > 1 && nentries > 0)
		{
			run->offset = cursor->offset;
			result = BUN_SEARCH_FOUND;
			break;
		}

		/* Nothing more under this parent. */
		cursor->passed += maxoff + 1 - Min(cursor->offset, maxoff + 1);
		if (P_RIGHTMOST(opaque))
			break;
		cursor->blkno = opaque->btpo_next;
		cursor->offset = InvalidOffsetNumber;
	}

done:
	pfree(parent);
	return result;
}

/*
 * Look for what bun_merge() would merge, and leave the cursor at its beginning.
 *
 * All pages of a slice are read, so that they are in shared buffers, and mapped,
 * when it has its strong lock: on a machine where a page fault takes longer than
 * the merger of a page, they would be most of its time.
 *
 * The caller has AccessShareLock on the index.
 */
BunSearch
bun_find_slice(Relation index, BunCursor *cursor, double fill, int max_pages,
			   int64 *budget)
{
	Run			run;
	BunSearch	result;
	BunCursor	ahead;
	int64		reach = LOOK_AHEAD(max_pages);
	int			pages = 0;

	result = find_run(index, cursor, fill, max_pages, budget, &run);
	if (result != BUN_SEARCH_FOUND)
		return result;

	ahead = *cursor;
	do
	{
		pages += Max(run.nleaves, 1);
		skip_run(&ahead, &run);
	} while (pages < max_pages &&
			 find_run(index, &ahead, fill, max_pages, &reach,
					  &run) == BUN_SEARCH_FOUND);
	return result;
}

/*
 * Move a cursor on behind a run.
 */
static void
skip_run(BunCursor *cursor, const Run *run)
{
	int			done = Max(run->nleaves, 1);

	/* A run as long as it may be could go on: then Pn begins the next one. */
	if (run->cut)
		done--;
	cursor->offset += done;
	cursor->passed += done;
}

/*
 * Merge what there is to merge from the cursor on, "max_pages" leaf pages at most,
 * and move the cursor on.  Returns how many pages were deleted.
 *
 * The caller has AccessExclusiveLock on the index, whose table is "heap".  nbtree
 * leaks memory in this, so the caller has a context to be reset.
 */
int
bun_merge(Relation index, Relation heap, BunCursor *cursor, double fill,
		  int max_pages, BunMerger *merger)
{
	Batch		batch = {0};
	int64		budget = LOOK_AHEAD(max_pages);
	int			pages = 0;
	int			deleted = 0;
	Run			run;

	set_index(merger, index, heap);
	while (pages < max_pages &&
		   find_run(index, cursor, fill, max_pages, &budget,
					&run) == BUN_SEARCH_FOUND &&
		   pages + run.nleaves <= max_pages)
	{
		pages += Max(run.nleaves, 1);
		if (!joins(&batch, &run))
			deleted += merge_batch(index, cursor, &batch, merger);

		if (BlockNumberIsValid(run.half_dead))
		{
			int			unlinked = unlink_half_dead(index, merger, run.half_dead);

			if (unlinked == 0)	/* corrupt; nbtree has logged it */
				skip_run(cursor, &run);
			deleted += unlinked;
			continue;
		}

		/* Pivot tuples left of it may be gone by now. */
		run.offset = cursor->offset;
		add_to_batch(&batch, &run, cursor);

		/* The next run may begin with this one's last page as it will be. */
		if (run.cut)
			deleted += merge_batch(index, cursor, &batch, merger);
	}
	return deleted + merge_batch(index, cursor, &batch, merger);
}

/*
 * May this run be merged together with those of the batch?
 */
static bool
joins(const Batch *batch, const Run *run)
{
	return batch->nruns == 0 ||
		(!BlockNumberIsValid(run->half_dead) &&
		 run->parent == batch->runs[0].parent &&
		 batch->nleaves + run->nleaves <= BUN_MAX_RUN);
}

/*
 * Add a run to the batch, and move the cursor on behind it.
 */
static void
add_to_batch(Batch *batch, const Run *run, BunCursor *cursor)
{
	batch->runs[batch->nruns++] = *run;
	batch->nleaves += run->nleaves;
	skip_run(cursor, run);
}

/*
 * Merge the runs of a batch, which is empty then.  Returns how many pages were
 * deleted.
 */
static int
merge_batch(Relation index, BunCursor *cursor, Batch *batch, BunMerger *merger)
{
	const int	n = batch->nleaves;
	const int	nruns = batch->nruns;
	Buffer		buffers[BUN_MAX_RUN + 1];	/* leaf pages, then the parent */
	int			first = 0;		/* leaf page of a run */
	int			deleted = 0;

	if (nruns == 0)
		return 0;

	check_distinct(index, batch);

	/* nbtree's order: from left to right, then up */
	for (int r = 0; r < nruns; r++)
	{
		for (int i = 0; i < batch->runs[r].nleaves; i++)
			buffers[first++] = _bt_getbuf(index, batch->runs[r].leaves[i], BT_WRITE);
	}
	Assert(first == n);
	buffers[n] = _bt_getbuf(index, batch->runs[0].parent, BT_WRITE);

	first = 0;
	for (int r = 0; r < nruns; r++)
	{
		const Run *run = &batch->runs[r];
		int			last = first + run->nleaves - 1;

		check_run(index, BufferGetPage(buffers[n]), &buffers[first], run);
		for (int i = first; i < last; i++)
			half_dead_image(merger->images[i].data, BufferGetPage(buffers[i]));
		merged_image(merger->images[last].data, &buffers[first], run->nleaves);
		first = last + 1;
	}
	parent_image(merger->images[n].data, BufferGetPage(buffers[n]), batch);

	if (RelationNeedsWAL(index))
		XLogEnsureRecordSpace(n, 0);

	/*
	 * Who has read a page of a run in a serializable transaction has read
	 * part of what is Pn now, gaps included.  Without this, write skew goes
	 * undetected.  From here on nothing can fail.
	 */
	for (int r = 0; r < nruns; r++)
	{
		const Run *run = &batch->runs[r];

		for (int i = 0; i < run->nleaves - 1; i++)
			PredicateLockPageCombine(index, run->leaves[i],
									 run->leaves[run->nleaves - 1]);
	}

	START_CRIT_SECTION();
	for (int i = 0; i <= n; i++)
	{
		memcpy(BufferGetPage(buffers[i]), merger->images[i].data, BLCKSZ);
		MarkBufferDirty(buffers[i]);
	}
	if (RelationNeedsWAL(index))
		log_images(buffers, n + 1);
	END_CRIT_SECTION();

	for (int i = 0; i <= n; i++)
		_bt_relbuf(index, buffers[i]);

	/*
	 * The tree is complete already: searches step over half-dead pages.  If
	 * we do not get to the end, they remain for the next slice, or VACUUM.
	 */
	for (int r = 0; r < nruns; r++)
	{
		const Run *run = &batch->runs[r];

		for (int i = 0; i < run->nleaves - 1; i++)
			deleted += unlink_half_dead(index, merger, run->leaves[i]);
	}

	/* If it is under the same parent still, pivots left of it have gone. */
	if (cursor->blkno == batch->runs[0].parent)
		cursor->offset -= n - nruns;
	batch->nruns = batch->nleaves = 0;
	return deleted;
}

/*
 * In a corrupt index the same page may have come up twice.  To lock it twice would
 * be to wait for ourselves, for ever.
 */
static void
check_distinct(Relation index, const Batch *batch)
{
	BlockNumber blocks[BUN_MAX_RUN + 1];
	int			n = 0;

	blocks[n++] = batch->runs[0].parent;
	for (int r = 0; r < batch->nruns; r++)
	{
		for (int i = 0; i < batch->runs[r].nleaves; i++)
		{
			BlockNumber block = batch->runs[r].leaves[i];

			for (int j = 0; j < n; j++)
			{
				if (blocks[j] == block)
					ereport(ERROR,
							(errcode(ERRCODE_INDEX_CORRUPTED),
							 errmsg("block %u of index \"%s\" is linked to twice",
									block, RelationGetRelationName(index)),
							 errhint("Please REINDEX it.")));
			}
			blocks[n++] = block;
		}
	}
}

/*
 * Nobody can have changed these pages since we looked.  But nothing of what is to
 * be done to them can be undone, so look again.
 */
static void
check_run(Relation index, Page parent, const Buffer *leaves, const Run *run)
{
	for (int i = 0; i < run->nleaves; i++)
	{
		BTPageOpaque opaque = BTPageGetOpaque(BufferGetPage(leaves[i]));

		if (run->offset + i > (int) PageGetMaxOffsetNumber(parent) ||
			child_at(parent, run->offset + i) != run->leaves[i] ||
			!P_ISLEAF(opaque) || P_IGNORE(opaque) || P_INCOMPLETE_SPLIT(opaque) ||
			(i < run->nleaves - 1 && opaque->btpo_next != run->leaves[i + 1]) ||
			(i > 0 && opaque->btpo_prev != run->leaves[i - 1]))
			ereport(ERROR,
					(errcode(ERRCODE_INDEX_CORRUPTED),
					 errmsg("block %u of index \"%s\" is not what its parent and siblings say",
							run->leaves[i], RelationGetRelationName(index)),
					 errhint("Please REINDEX it.")));
	}
}

/*
 * All in one record, whose redo is core's own and needs no library.  The images
 * are forced, or full_page_writes = off would leave them out.
 */
static void
log_images(const Buffer *buffers, int n)
{
	XLogRecPtr	recptr;

	XLogBeginInsert();
	for (int i = 0; i < n; i++)
		XLogRegisterBuffer(i, buffers[i], REGBUF_FORCE_IMAGE | REGBUF_STANDARD);
	recptr = XLogInsert(RM_XLOG_ID, XLOG_FPI);
	for (int i = 0; i < n; i++)
		PageSetLSN(BufferGetPage(buffers[i]), recptr);
}

/*
 * Begin the image of what a page will be, with nothing but links and flags.
 */
static void
start_image(Page image, Page page)
{
	PageInit(image, BLCKSZ, PageGetSpecialSize(page));
	memcpy(PageGetSpecialPointer(image), PageGetSpecialPointer(page),
		   PageGetSpecialSize(page));
	PageSetLSN(image, PageGetLSN(page));
}

/*
 * What Pn will be: the entries of all pages, its own links and high key.
 *
 * Entries marked LP_DEAD are kept, without the mark.  To drop them we would have
 * to tell standbys up to which transaction their rows are visible to nobody.
 */
static void
merged_image(Page image, const Buffer *leaves, int n)
{
	Page		page = BufferGetPage(leaves[n - 1]);
	BTPageOpaque opaque;
	OffsetNumber next = P_HIKEY;

	start_image(image, page);
	opaque = BTPageGetOpaque(image);
	opaque->btpo_flags &= ~(BTP_HAS_GARBAGE | BTP_SPLIT_END);
	opaque->btpo_cycleid = 0;

	for (int i = 0; i < n; i++)
	{
		Page		source = BufferGetPage(leaves[i]);
		OffsetNumber offset = P_FIRSTDATAKEY(BTPageGetOpaque(source));
		OffsetNumber maxoff = PageGetMaxOffsetNumber(source);

		/* Pn's high key goes first, even if there are no entries before. */
		if (i == 0 && !P_RIGHTMOST(opaque))
		{
			ItemId		itemid = PageGetItemId(page, P_HIKEY);

			if (PageAddItem(image, PageGetItem(page, itemid),
							ItemIdGetLength(itemid), next++,
							false, false) == InvalidOffsetNumber)
				elog(ERROR, "could not add the high key to a merged page");
		}
		for (; offset <= maxoff; offset++)
		{
			ItemId		itemid = PageGetItemId(source, offset);

			if (PageAddItem(image, PageGetItem(source, itemid),
							ItemIdGetLength(itemid), next++,
							false, false) == InvalidOffsetNumber)
				elog(ERROR, "entries do not fit into a merged page");
		}
	}
}

/*
 * What nbtree's redo of the first stage of a page deletion would make of a page:
 * the links stay, and instead of a high key there is a tuple that says that no
 * page above is to be deleted with it.
 */
static void
half_dead_image(Page image, Page page)
{
	BTPageOpaque opaque;
	IndexTupleData dummy = {0};

	start_image(image, page);
	opaque = BTPageGetOpaque(image);
	opaque->btpo_flags = BTP_LEAF | BTP_HALF_DEAD;
	opaque->btpo_cycleid = 0;

	dummy.t_info = sizeof(IndexTupleData);
	BTreeTupleSetTopParent(&dummy, InvalidBlockNumber);
	if (PageAddItem(image, (Item) &dummy, sizeof(IndexTupleData), P_HIKEY,
					false, false) == InvalidOffsetNumber)
		elog(ERROR, "could not add the dummy high key to a half-dead page");
}

/*
 * What the parent will be.  The first pivot tuple of a run is the lower bound of
 * its key space, so that one stays, and leads to Pn.
 */
static void
parent_image(Page image, Page page, const Batch *batch)
{
	OffsetNumber others[BUN_MAX_RUN];
	int			nothers = 0;

	memcpy(image, page, BLCKSZ);
	for (int r = 0; r < batch->nruns; r++)
	{
		const Run *run = &batch->runs[r];

		BTreeTupleSetDownLink((IndexTuple)
							  PageGetItem(image, PageGetItemId(image, run->offset)),
							  run->leaves[run->nleaves - 1]);
		for (int i = 1; i < run->nleaves; i++)
			others[nothers++] = run->offset + i;
	}
	PageIndexMultiDelete(image, others, nothers);
}

/*
 * Prepare a merger, in the memory context that it is to be in.
 */
void
bun_start_merger(BunMerger *merger)
{
	/* Zeroed, so that no page of it is missing when the lock is held. */
	memset(merger, 0, sizeof(BunMerger));
	merger->vacuum.info = &merger->info;
	merger->vacuum.stats = &merger->stats;
	_bt_pendingfsm_init(NULL, &merger->vacuum, false);
}

/*
 * Tell a merger what relations it is about.  Deleted pages that it remembers are
 * nothing to another file.
 */
static void
set_index(BunMerger *merger, Relation index, Relation heap)
{
	merger->info.index = index;
	bun_set_heaprel(&merger->info, heap);
	if (merger->file != bun_file_number(index))
		forget_deleted(merger);
	merger->file = bun_file_number(index);
}

static void
forget_deleted(BunMerger *merger)
{
	merger->vacuum.npendingpages = 0;
	merger->stats.pages_newly_deleted = 0;
}

/*
 * Let insertions have the pages that have been deleted, as far as no transaction
 * can have a link to them any more; the others wait for a VACUUM.  To be called
 * once, at the end.
 *
 * The caller has AccessShareLock on the index.  It may not be what it was: a new
 * file, or that of a temporary table that each commit empties.  The free space
 * map is a hint, whoever takes a page from it looks whether it is deleted, but it
 * must not go beyond the end.
 */
void
bun_free_deleted(BunMerger *merger, Relation index, Relation heap)
{
	BlockNumber nblocks = RelationGetNumberOfBlocks(index);

	set_index(merger, index, heap);
	for (int i = 0; i < merger->vacuum.npendingpages; i++)
	{
		if (merger->vacuum.pendingpages[i].target >= nblocks)
		{
			forget_deleted(merger);
			break;
		}
	}
	_bt_pendingfsm_finalize(index, &merger->vacuum);
	if (merger->stats.pages_free > 0)
		IndexFreeSpaceMapVacuum(index);
}

/*
 * Have nbtree unlink a half-dead page, if it still is one: together with a page,
 * _bt_pagedel() deletes its right siblings as far as they are empty.  Returns how
 * many pages it has deleted.
 */
static int
unlink_half_dead(Relation index, BunMerger *merger, BlockNumber blkno)
{
	Buffer		buf = _bt_getbuf(index, blkno, BT_WRITE);
	BTPageOpaque opaque = BTPageGetOpaque(BufferGetPage(buf));
	BlockNumber before = merger->stats.pages_newly_deleted;

	if (!P_ISLEAF(opaque) || !P_ISHALFDEAD(opaque))
	{
		_bt_relbuf(index, buf);
		return 0;
	}

	_bt_pagedel(index, buf, &merger->vacuum);
	return merger->stats.pages_newly_deleted - before;
}

/*
 * Walk over all leaf pages, and count what there is and what compaction would
 * leave.  The caller has AccessShareLock on the index; what others change
 * meanwhile may or may not be seen.  Raises ERRCODE_INDEX_CORRUPTED if right links
 * lead nowhere.
 */
void
bun_survey(Relation index, double fill, BunSurvey *survey)
{
	Page		parent = palloc(BLCKSZ);
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
	BunCursor	cursor = {0};
	BTMetaPageData meta;
	Leaf		leaf;
	BlockNumber nparents = 0;

	memset(survey, 0, sizeof(BunSurvey));
	if (bun_read_meta(index, &meta) && meta.btm_level == 0)
	{
		look_at_leaf(index, meta.btm_root, strategy, &leaf);
		survey->leaves = survey->leaves_after = 1;
		survey->used = leaf.entries + leaf.high_key;
		survey->space = leaf.space;
	}

	while (copy_parent(index, &cursor, parent))
	{
		BTPageOpaque opaque = BTPageGetOpaque(parent);
		Size		entries = 0;
		bool		run = false;

		/* VACUUM may have deleted the page, and then it starts anew. */
		if (cursor.passed == 0)
		{
			memset(survey, 0, sizeof(BunSurvey));
			nparents = 0;
		}
		cursor.passed = 1;
		if (++nparents > RelationGetNumberOfBlocks(index))
			ereport(ERROR,
					(errcode(ERRCODE_INDEX_CORRUPTED),
					 errmsg("right links of index \"%s\" lead from block %u to itself",
							RelationGetRelationName(index), cursor.blkno),
					 errhint("Please REINDEX it.")));

		for (OffsetNumber offset = P_FIRSTDATAKEY(opaque);
			 offset <= PageGetMaxOffsetNumber(parent); offset++)
		{
			BlockNumber half_dead;
			bool		adjacent;

			CHECK_FOR_INTERRUPTS();
			look_at_leaf(index, child_at(parent, offset), strategy, &leaf);
			adjacent = follows(index, parent, offset, &leaf, &half_dead);

			survey->leaves++;
			survey->used += leaf.entries + leaf.high_key;
			survey->space += leaf.space;
			if (run && adjacent && leaf.mergeable &&
				has_room(entries, &leaf, fill))
				entries += leaf.entries;
			else
			{
				survey->leaves_after++;
				entries = leaf.entries;
				run = leaf.mergeable;
			}
		}
		if (P_RIGHTMOST(opaque))
			break;
		cursor.blkno = opaque->btpo_next;
	}

	FreeAccessStrategy(strategy);
	pfree(parent);
}
