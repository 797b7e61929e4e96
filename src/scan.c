/*-------------------------------------------------------------------------
 *
 * scan.c
 *		On how many leaf pages may a scan mark dead entries?
 *
 * When a scan comes upon a row that is dead to everyone, the executor says so in
 * scan->kill_prior_tuple with the next call.  nbtree notes the entry down in
 * so->killedItems, and marks what it has noted, LP_DEAD, as it leaves the leaf
 * page.  Scans skip marked entries, and insertions delete them when the page is
 * full.  But it makes a read write: the page becomes dirty, and with checksums or
 * wal_log_hints the first mark after a checkpoint logs an image of it.
 *
 * bunbtree.scan_cleanup_limit bounds that for those who only read.  We take the
 * executor's word back before nbtree hears it.
 *
 * Portions Copyright (c) 2026, bunbtree developers
 *
 * IDENTIFICATION
 *		src/scan.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "bunbtree.h"

#include "access/relscan.h"
#include "access/xact.h"
#include "storage/lmgr.h"

/*
 * nbtree's so->killedItems, and behind it what we have to know of a scan.
 *
 * nbtree allocates the array when it notes the first entry, if it is not there,
 * and frees it at the end of the scan.  We are always there first.
 */
typedef struct BunKilledItems
{
	int			items[MaxTIDsPerBTreePage]; /* nbtree's; must be first */
	int			pages;			/* leaf pages used up of the limit */
	BlockNumber page;			/* leaf page that "allowed" is about */
	bool		allowed;		/* may entries of it be marked? */
} BunKilledItems;

/*
 * Does the transaction write, in general or to this table?
 *
 * A statement that modifies a table, or locks rows of it, has locked the table
 * accordingly before its scan begins, but gets a transaction ID only when it
 * comes to its first row.  That may be behind any number of dead ones: think of
 * the head of a queue.
 */
static bool
is_writer(Relation heap)
{
	return TransactionIdIsValid(GetTopTransactionIdIfAny()) ||
		CheckRelationLockedByMe(heap, RowShareLock, true);
}

/*
 * The row that the scan has returned last is dead.  If its entry must not be
 * marked, make nbtree believe that it is not.
 *
 * Decided once for each leaf page that the scan comes to.  A page that it comes
 * back to from another counts again.
 */
static pg_noinline void
decide_about_dead(IndexScanDesc scan)
{
	BTScanOpaque so = (BTScanOpaque) scan->opaque;
	BunKilledItems *killed = (BunKilledItems *) so->killedItems;

	if (killed == NULL)
	{
		killed = palloc(sizeof(BunKilledItems));
		killed->pages = 0;
		killed->page = InvalidBlockNumber;
		killed->allowed = false;
		so->killedItems = killed->items;
	}

	if (bun_guc_scan_cleanup_limit < 0)
		return;

	if (killed->page != so->currPos.currPage)
	{
		killed->page = so->currPos.currPage;
		killed->allowed = true;
		if (!is_writer(scan->heapRelation))
		{
			if (killed->pages < bun_guc_scan_cleanup_limit)
				killed->pages++;
			else
				killed->allowed = false;
		}
	}
	scan->kill_prior_tuple = killed->allowed;
}

/*
 * amgettuple: nbtree's.
 *
 * Locks and errors are nbtree's.  Called for every entry of every scan, so it
 * adds one comparison unless there is something to decide.
 */
bool
bun_gettuple(IndexScanDesc scan, ScanDirection dir)
{
	if (unlikely(scan->kill_prior_tuple))
		decide_about_dead(scan);
	return btgettuple(scan, dir);
}
