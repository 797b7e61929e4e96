/*-------------------------------------------------------------------------
 *
 * shared.c
 *		Slots in shared memory: what is known of an index belongs to the index.
 *
 * A fixed number of slots, found by (database, index) when a backend first
 * touches an index, and used by their address from then on.  The array of keys
 * is protected by anchor->lock, which insertions do not take after that; what is
 * in a slot, by nothing (see BunSlot).
 *
 * Where they are.  A library in shared_preload_libraries asks for main shared
 * memory.  Otherwise the first backend that needs them makes a dynamic shared
 * memory segment that stays until the server stops, and only the anchor, a few
 * bytes that tell where it is, goes to the main segment, whose spare is small.
 * The anchor's name carries a version and the size of a slot, so that backends
 * with different builds of this library, as there are while it is being
 * upgraded, each have slots of their own.
 *
 * What goes wrong here must not fail an insertion.  Then, as when all slots are
 * taken, an index has a slot in the backend's own memory (state.c), and the
 * server log one line more.
 *
 * Whose they are.  A slot belongs to its index until somebody finds that the
 * index or its database is gone for good; see give_up_if_gone().  Slots are
 * looked through when VACUUM processes an index of this access method, and when
 * one is wanted and none is free.  Backends that remember a slot notice by its
 * generation.  (object_access_hook would tell of drops at once, and make every
 * function call of every query a little slower: a prepared look-up by 0.7 %.)
 *
 * Portions Copyright (c) 2026, bunbtree developers
 *
 * IDENTIFICATION
 *		src/shared.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "bunbtree.h"

#include "access/genam.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "storage/dsm.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

/* To be changed whenever the meaning of anything in shared memory changes. */
#define STATE_NAME "bunbtree state 1"

/* As long as a name in shared memory's own index may be, SHMEM_INDEX_KEYSIZE */
#define STATE_NAME_SIZE 48

/* When all slots are taken, do not look for forgotten ones more often. */
#define SWEEP_INTERVAL_MS 60000

/*
 * Whose slot?  Both InvalidOid: nobody's.
 */
typedef struct SlotKey
{
	Oid			dbid;
	Oid			indexid;
} SlotKey;

typedef struct Anchor
{
	LWLock		lock;			/* for the keys */
	int			tranche;		/* of the lock; fixed */
	int			nslots;			/* fixed once there are slots */
	char	   *preloaded;		/* slots in main shared memory, or NULL */
	dsm_handle	handle;			/* segment with the slots, if any; written
								 * under AddinShmemInitLock */
	pg_atomic_flag reported;	/* "no room" has been logged */
	pg_atomic_uint64 next_sweep;	/* a TimestampTz */
} Anchor;

/* Where things are, as seen from this backend.  NULL: not attached. */
static Anchor *anchor = NULL;
static SlotKey *keys;			/* anchor->nslots of them */
static BunSlot *slots;			/* likewise */

/* No second try: it would log a line for each statement. */
static bool attach_failed = false;

/*
 * How many slots main shared memory was asked for, if preloaded.  The setting
 * may have changed when the memory is made again after a crash.
 */
static int	requested_slots = 0;

static shmem_request_hook_type prev_shmem_request_hook;
static shmem_startup_hook_type prev_shmem_startup_hook;

static void request_memory(void);
static void startup(void);
static Anchor *find_anchor(void);
static Size slots_size(int nslots);
static void use_slots(Anchor *found, char *memory);
static void init_slots(void);
static bool attach(void);
static void attach_or_fail(void);
static BunSlot *find_slot(Oid dbid, Oid indexid);
static BunSlot *take_slot(Oid indexid);
static bool give_up_if_gone(const SlotKey *key);
static bool has_row(Oid catalogid, Oid oidindexid, AttrNumber column, Oid oid);
static void give_up(const SlotKey *key);

/*
 * Called once, when the library is loaded.
 */
void
bun_shared_init(void)
{
	if (process_shared_preload_libraries_in_progress)
	{
		prev_shmem_request_hook = shmem_request_hook;
		shmem_request_hook = request_memory;
		prev_shmem_startup_hook = shmem_startup_hook;
		shmem_startup_hook = startup;
	}
}

/*
 * shmem_request_hook, if preloaded.
 */
static void
request_memory(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();

	requested_slots = bun_guc_max_indexes;
	RequestAddinShmemSpace(add_size(CACHELINEALIGN(sizeof(Anchor)),
									slots_size(requested_slots)));
}

/*
 * shmem_startup_hook, if preloaded: make the slots.  Also called after a crash,
 * when nothing of the old memory is left.
 */
static void
startup(void)
{
	Anchor	   *found;
	bool		exists;

	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	found = find_anchor();
	if (found->nslots == 0)
		found->nslots = requested_slots;
	found->preloaded = ShmemInitStruct(STATE_NAME " slots",
									   slots_size(found->nslots), &exists);
	use_slots(found, found->preloaded);
	if (!exists)
		init_slots();
	LWLockRelease(AddinShmemInitLock);
}

/*
 * The anchor, made if need be.  The caller holds AddinShmemInitLock.
 */
static Anchor *
find_anchor(void)
{
	char		name[STATE_NAME_SIZE];
	Anchor	   *found;
	bool		exists;

	snprintf(name, sizeof(name), "%s, %zu", STATE_NAME, sizeof(BunSlot));
	found = ShmemInitStruct(name, sizeof(Anchor), &exists);
	if (!exists)
	{
		found->tranche = LWLockNewTrancheId();
		LWLockInitialize(&found->lock, found->tranche);
		found->nslots = 0;
		found->preloaded = NULL;
		found->handle = DSM_HANDLE_INVALID;
		pg_atomic_init_flag(&found->reported);
		pg_atomic_init_u64(&found->next_sweep, 0);
	}
	LWLockRegisterTranche(found->tranche, "bunbtree");
	return found;
}

/*
 * Keys first, slots behind them.
 */
static Size
slots_size(int nslots)
{
	return add_size(CACHELINEALIGN(mul_size(nslots, sizeof(SlotKey))),
					mul_size(nslots, sizeof(BunSlot)));
}

/*
 * From now on this backend uses the slots in this memory.
 */
static void
use_slots(Anchor *found, char *memory)
{
	keys = (SlotKey *) memory;
	slots = (BunSlot *)
		(memory + CACHELINEALIGN(found->nslots * sizeof(SlotKey)));
	anchor = found;
}

/*
 * All slots are free.
 */
static void
init_slots(void)
{
	memset(keys, 0, anchor->nslots * sizeof(SlotKey));
	for (int i = 0; i < anchor->nslots; i++)
		pg_atomic_init_u32(&slots[i].generation, 0);
}

/*
 * Find the slots, or make them if there are none yet.  False if that is not
 * possible: memory is short, most likely.
 *
 * Any error is swallowed, and only logged.  Without a subtransaction that is
 * safe because we know what can be left behind: the one lock that is taken
 * here, as the code that is called holds no other where it raises errors, and
 * no resource owner is told about the segment.
 */
static bool
attach(void)
{
	MemoryContext oldcontext = CurrentMemoryContext;
	ResourceOwner oldowner = CurrentResourceOwner;
	ErrorData  *volatile error = NULL;

	if (likely(anchor != NULL))
		return true;
	if (attach_failed)
		return false;

	CurrentResourceOwner = NULL;
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	PG_TRY();
	{
		attach_or_fail();
	}
	PG_CATCH();
	{
		/* ereport() has forgotten that a lock holds off interrupts. */
		HOLD_INTERRUPTS();
		MemoryContextSwitchTo(oldcontext);
		error = CopyErrorData();
		FlushErrorState();
		attach_failed = true;
	}
	PG_END_TRY();
	LWLockRelease(AddinShmemInitLock);
	CurrentResourceOwner = oldowner;

	/* Not before: a client may want to see it, and be slow. */
	if (error != NULL)
	{
		ereport(LOG,
				(errcode(error->sqlerrcode),
				 errmsg("bunbtree indexes have no shared state in this session"),
				 errdetail_internal("%s", error->message)));
		FreeErrorData(error);
	}

	return anchor != NULL;
}

static void
attach_or_fail(void)
{
	Anchor	   *found = find_anchor();
	dsm_segment *segment;

	if (found->preloaded != NULL)
		use_slots(found, found->preloaded);
	else if (found->handle != DSM_HANDLE_INVALID)
	{
		segment = dsm_attach(found->handle);
		if (segment == NULL)
			elog(ERROR, "could not attach to dynamic shared memory segment %u",
				 found->handle);
		use_slots(found, dsm_segment_address(segment));
	}
	else
	{
		found->nslots = bun_guc_max_indexes;
		segment = dsm_create(slots_size(found->nslots), 0);
		dsm_pin_segment(segment);
		use_slots(found, dsm_segment_address(segment));
		init_slots();
		found->handle = dsm_segment_handle(segment);
	}
}

/*
 * The slot of an index of this database, taken if it has none; NULL if there is
 * no room.  "*taken" tells whether this call took it: it is all zeroes then, but
 * for its generation.
 *
 * The caller holds a lock on the index, at least RowExclusiveLock.  Takes
 * anchor->lock, and if all slots are taken AccessShareLock on some other indexes
 * and databases, conditionally.
 */
BunSlot *
bun_slot_attach(Oid indexid, bool *taken)
{
	BunSlot    *slot;

	*taken = false;
	if (!attach())
		return NULL;

	LWLockAcquire(&anchor->lock, LW_SHARED);
	slot = find_slot(MyDatabaseId, indexid);
	LWLockRelease(&anchor->lock);
	if (slot != NULL)
		return slot;

	slot = take_slot(indexid);
	if (slot == NULL &&
		GetCurrentTimestamp() >=
		(TimestampTz) pg_atomic_read_u64(&anchor->next_sweep))
	{
		if (!bun_slots_sweep())
			pg_atomic_write_u64(&anchor->next_sweep,
								TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
															SWEEP_INTERVAL_MS));
		slot = take_slot(indexid);
	}
	if (slot != NULL)
		*taken = true;
	else if (pg_atomic_test_set_flag(&anchor->reported))
		ereport(LOG,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("more bunbtree indexes are in use than have room in shared memory"),
				 errdetail("There is room for %d. Sessions have to keep what they learn of other indexes to themselves.",
						   anchor->nslots),
				 errhint("You might need to increase bunbtree.max_indexes and restart the server.")));
	return slot;
}

/*
 * The slot with this key, or NULL.  The caller holds anchor->lock.
 */
static BunSlot *
find_slot(Oid dbid, Oid indexid)
{
	for (int i = 0; i < anchor->nslots; i++)
	{
		if (keys[i].indexid == indexid && keys[i].dbid == dbid)
			return &slots[i];
	}
	return NULL;
}

/*
 * Take a free slot for an index of this database.  NULL if there is none.
 */
static BunSlot *
take_slot(Oid indexid)
{
	BunSlot    *slot;

	LWLockAcquire(&anchor->lock, LW_EXCLUSIVE);
	slot = find_slot(MyDatabaseId, indexid);
	if (slot == NULL)
	{
		slot = find_slot(InvalidOid, InvalidOid);
		if (slot != NULL)
		{
			SlotKey    *key = &keys[slot - slots];

			bun_slot_init(slot, pg_atomic_read_u32(&slot->generation));
			key->dbid = MyDatabaseId;
			key->indexid = indexid;
		}
	}
	LWLockRelease(&anchor->lock);
	return slot;
}

/*
 * Make a slot one of which nothing is known yet.
 */
void
bun_slot_init(BunSlot *slot, uint32 generation)
{
	pg_atomic_init_u32(&slot->generation, generation);
	pg_atomic_init_u32(&slot->heapfile, InvalidOid);
	pg_atomic_init_u32(&slot->evidence, BUN_NONE);
	pg_atomic_init_u64(&slot->ticks, 0);
	pg_atomic_init_u64(&slot->next_look, 0);
	pg_atomic_init_u64(&slot->blocker, 0);
	bun_yield_init(&slot->yield);
	for (int kind = 0; kind < BUN_NKINDS; kind++)
	{
		pg_atomic_init_u64(&slot->backoff[kind], 0);
		for (int i = 0; i < BUN_NCOUNTERS; i++)
			pg_atomic_init_u64(&slot->counters[kind][i], 0);
	}
	pg_atomic_init_u64(&slot->longest_pass, 0);
	pg_atomic_init_u64(&slot->last_pass, 0);
	pg_atomic_init_u64(&slot->compact_runs, 0);
	pg_atomic_init_u64(&slot->leaves_merged, 0);
	pg_atomic_init_u64(&slot->last_compact, 0);
	pg_atomic_init_u64(&slot->stats_reset, GetCurrentTimestamp());
}

/*
 * Or is it in the backend's own memory?
 */
bool
bun_slot_is_shared(const BunSlot *slot)
{
	return anchor != NULL && slot >= slots && slot < slots + anchor->nslots;
}

/*
 * Call a function for each slot of this database, with anchor->lock held: it may
 * read the slot and store what it finds, and nothing else.
 */
void
bun_for_each_slot(void (*function) (Oid indexid, BunSlot *slot, void *arg),
				  void *arg)
{
	if (!attach())
		return;

	LWLockAcquire(&anchor->lock, LW_SHARED);
	for (int i = 0; i < anchor->nslots; i++)
	{
		if (OidIsValid(keys[i].indexid) && keys[i].dbid == MyDatabaseId)
			function(keys[i].indexid, &slots[i], arg);
	}
	LWLockRelease(&anchor->lock);
}

/*
 * Look for slots whose index or database is gone, and give them up.  Was there
 * any?
 *
 * Takes AccessShareLock on each index of this database that has a slot, for a
 * moment, if it can be had at once.
 */
bool
bun_slots_sweep(void)
{
	bool		result = false;
	int			nslots;
	SlotKey    *copy;

	if (!attach())
		return false;

	nslots = anchor->nslots;
	copy = palloc(nslots * sizeof(SlotKey));
	LWLockAcquire(&anchor->lock, LW_SHARED);
	memcpy(copy, keys, nslots * sizeof(SlotKey));
	LWLockRelease(&anchor->lock);

	for (int i = 0; i < nslots; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (OidIsValid(copy[i].indexid) && give_up_if_gone(&copy[i]))
			result = true;
	}
	pfree(copy);
	return result;
}

/*
 * Give up the slot with this key if its index is gone for good.  Was it?
 *
 * An index of another database counts as gone when its database is.  In ours
 * there may be a transaction still that is making or dropping it; it holds
 * AccessExclusiveLock, so if we can get a lock there is none but our own.
 * Getting it makes us see whatever has been committed before.  Nobody can be
 * inserting into an index that is gone, nor make one of the same OID while we
 * hold the lock.
 */
static bool
give_up_if_gone(const SlotKey *key)
{
	bool		gone;

	if (key->dbid != MyDatabaseId)
	{
		AcceptInvalidationMessages();
		gone = !has_row(DatabaseRelationId, DatabaseOidIndexId,
						Anum_pg_database_oid, key->dbid);
		if (gone)
			give_up(key);
	}
	else
	{
		LOCKTAG		tag;

		/* We may have dropped it ourselves, and roll that back yet. */
		SET_LOCKTAG_RELATION(tag, MyDatabaseId, key->indexid);
		if (bun_lock_held_by_me(&tag, AccessExclusiveLock) ||
			!ConditionalLockRelationOid(key->indexid, AccessShareLock))
			return false;
		gone = bun_index_is_gone(key->indexid);
		if (gone)
			give_up(key);
		UnlockRelationOid(key->indexid, AccessShareLock);
	}
	return gone;
}

/*
 * Is there no index with this OID in this database?
 *
 * Reads pg_class; the caller must be in a transaction.  Nobody may be making or
 * dropping it, or else the answer may be out of date.
 */
bool
bun_index_is_gone(Oid indexid)
{
	return !has_row(RelationRelationId, ClassOidIndexId, Anum_pg_class_oid,
					indexid);
}

/*
 * Has a catalog a row with this OID?
 *
 * A syscache would tell sooner, but remembers a "no" as long as the session
 * lasts, and indexes of temporary tables have ever new OIDs.
 */
static bool
has_row(Oid catalogid, Oid oidindexid, AttrNumber column, Oid oid)
{
	Relation	catalog = table_open(catalogid, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	bool		found;

	ScanKeyInit(&key, column, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(oid));
	scan = systable_beginscan(catalog, oidindexid, true, NULL, 1, &key);
	found = HeapTupleIsValid(systable_getnext(scan));
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return found;
}

/*
 * Give up the slot with this key, if there still is one.
 */
static void
give_up(const SlotKey *key)
{
	BunSlot    *slot;

	LWLockAcquire(&anchor->lock, LW_EXCLUSIVE);
	slot = find_slot(key->dbid, key->indexid);
	if (slot != NULL)
	{
		keys[slot - slots].dbid = InvalidOid;
		keys[slot - slots].indexid = InvalidOid;
		pg_atomic_fetch_add_u32(&slot->generation, 1);
	}
	LWLockRelease(&anchor->lock);
}
