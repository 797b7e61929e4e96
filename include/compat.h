/*-------------------------------------------------------------------------
 *
 * compat.h
 *		What differs between the supported server versions.
 *
 * The only file that looks at PG_VERSION_NUM.  Everything else is written
 * for the newest server; older ones are made to look like it here.
 *
 * IDENTIFICATION
 *		include/compat.h
 *
 *-------------------------------------------------------------------------
 */
#ifndef BUNBTREE_COMPAT_H
#define BUNBTREE_COMPAT_H

#include "access/reloptions.h"
#include "storage/buf_internals.h"
#include "utils/pgstat_internal.h"
#include "utils/rel.h"

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 190000
#error "bunbtree supports PostgreSQL 15 to 18"
#endif

/*
 * Buffer tags are filled by a macro up to 15 and by a function from 16 on,
 * when relfilenodes became relation locators and file numbers.
 */
#if PG_VERSION_NUM < 160000
#define bun_init_buffer_tag(tag, rel, forknum, blkno) \
	INIT_BUFFERTAG(*(tag), (rel)->rd_node, forknum, blkno)
#define bun_file_number(rel)	((rel)->rd_node.relNode)
typedef Oid RelFileNumber;
#else
#define bun_init_buffer_tag(tag, rel, forknum, blkno) \
	InitBufferTag(tag, &(rel)->rd_locator, forknum, blkno)
#define bun_file_number(rel)	((rel)->rd_locator.relNumber)
#endif

/*
 * The counters of the cumulative statistics system lost their prefixes in
 * 16.  "shared" is what all backends have reported, "pending" what this
 * backend will report later; the latter excludes open transactions.
 */
#if PG_VERSION_NUM < 160000
#define bun_shared_live_tuples(tabentry)	((tabentry)->n_live_tuples)
#define bun_shared_dead_tuples(tabentry)	((tabentry)->n_dead_tuples)
#define bun_pending_live_tuples(tabstat)	((tabstat)->t_counts.t_delta_live_tuples)
#define bun_pending_dead_tuples(tabstat)	((tabstat)->t_counts.t_delta_dead_tuples)
#else
#define bun_shared_live_tuples(tabentry)	((tabentry)->live_tuples)
#define bun_shared_dead_tuples(tabentry)	((tabentry)->dead_tuples)
#define bun_pending_live_tuples(tabstat)	((tabstat)->counts.delta_live_tuples)
#define bun_pending_dead_tuples(tabstat)	((tabstat)->counts.delta_dead_tuples)
#endif

/*
 * PostgreSQL 17 has IndexAmRoutine.amcanbuildparallel, but its parallel
 * workers still insist on the OID of btree.  Up to 16 core itself tests that
 * OID before it plans workers, so there is nothing to switch off.
 */
#if PG_VERSION_NUM >= 170000 && PG_VERSION_NUM < 180000
#define bun_disable_parallel_build(routine) ((routine)->amcanbuildparallel = false)
#else
#define bun_disable_parallel_build(routine) ((void) 0)
#endif

/*
 * Up to 17 the executor raises errors for row comparisons, and for ON CONFLICT
 * with a unique index, if the index's relam is not btree's; REFRESH MATERIALIZED
 * VIEW CONCURRENTLY does not look at such an index.  From 18 on they ask whether
 * the access method can do what they need.
 */
#define BUN_CORE_WANTS_BTREE (PG_VERSION_NUM < 180000)

/*
 * ... and where assertions are enabled, REFRESH has one about it.
 */
#ifdef USE_ASSERT_CHECKING
#define BUN_REFRESH_ASSERTS_BTREE BUN_CORE_WANTS_BTREE
#else
#define BUN_REFRESH_ASSERTS_BTREE false
#endif

/*
 * ExecutorRun() had one more parameter until 18.
 */
#if PG_VERSION_NUM < 180000
#define bun_run_parameters \
	QueryDesc *queryDesc, ScanDirection direction, uint64 count, bool execute_once
#define bun_run_arguments		queryDesc, direction, count, execute_once
#else
#define bun_run_parameters \
	QueryDesc *queryDesc, ScanDirection direction, uint64 count
#define bun_run_arguments		queryDesc, direction, count
#endif

/*
 * Up to 17 foreign keys need a unique index that is a btree, and a unique index
 * on a partitioned table has to be one.  From 18 on the access method is asked.
 */
#define BUN_FOREIGN_KEYS_NEED_BTREE (PG_VERSION_NUM < 180000)
#define BUN_UNIQUE_PARTITIONED_NEEDS_BTREE (PG_VERSION_NUM < 180000)

/*
 * 16 and 17 apply logical replication by looking up the "equal" strategy of
 * btree and hash, and stop at a primary key or replica identity of another
 * access method.  15 takes any unique index for a btree, 18 asks.
 */
#define BUN_APPLY_NEEDS_BTREE (PG_VERSION_NUM >= 160000 && PG_VERSION_NUM < 180000)

/*
 * Ownership was checked by a function for each kind of object, up to 15.
 */
#if PG_VERSION_NUM < 160000
#define bun_owns_relation(relid, roleid) pg_class_ownercheck(relid, roleid)
#else
#define bun_owns_relation(relid, roleid) \
	object_ownercheck(RelationRelationId, relid, roleid)
#endif

/*
 * The third argument, whether a stronger lock will do, is new in 18.
 */
#if PG_VERSION_NUM < 180000
#define bun_lock_held_by_me(tag, mode) LockHeldByMe(tag, mode)
#else
#define bun_lock_held_by_me(tag, mode) LockHeldByMe(tag, mode, false)
#endif

/*
 * Was this relation created, or given a new file, in the running transaction?
 * The relcache keeps such entries until its end.
 */
#if PG_VERSION_NUM < 160000
#define bun_new_in_transaction(rel) \
	((rel)->rd_createSubid != InvalidSubTransactionId || \
	 (rel)->rd_firstRelfilenodeSubid != InvalidSubTransactionId)
#else
#define bun_new_in_transaction(rel) \
	((rel)->rd_createSubid != InvalidSubTransactionId || \
	 (rel)->rd_firstRelfilelocatorSubid != InvalidSubTransactionId)
#endif

/*
 * Old snapshots had to be looked for at the ends of an index, up to 16.
 */
#if PG_VERSION_NUM < 170000
#define bun_bt_get_endpoint(rel, level, rightmost) \
	_bt_get_endpoint(rel, level, rightmost, NULL)
#else
#define bun_bt_get_endpoint(rel, level, rightmost) \
	_bt_get_endpoint(rel, level, rightmost)
#endif

/*
 * nbtree wants to know the table of an index that it vacuums, since 16.
 */
#if PG_VERSION_NUM < 160000
#define bun_set_heaprel(info, heap) ((void) (heap))
#else
#define bun_set_heaprel(info, heap) ((info)->heaprel = (heap))
#endif

/*
 * May this role run maintenance commands on a table?  The owner may, and since 17
 * who has the privilege for it.
 */
#if PG_VERSION_NUM < 170000
#define bun_may_maintain(relid, roleid) bun_owns_relation(relid, roleid)
#else
#define bun_may_maintain(relid, roleid) \
	(bun_owns_relation(relid, roleid) || \
	 pg_class_aclcheck(relid, roleid, ACL_MAINTAIN) == ACLCHECK_OK)
#endif

/*
 * Status of the i-th backend, from 1 on, in this backend's copy.
 */
#if PG_VERSION_NUM < 160000
#define bun_local_beentry(i) pgstat_fetch_stat_local_beentry(i)
#else
#define bun_local_beentry(i) pgstat_get_local_beentry_by_index(i)
#endif

/*
 * The majors on which compaction has been tested.  It writes nbtree's pages by
 * itself, so it has to know their format, where everything else leaves that to
 * nbtree.
 */
#define BUN_COMPACT_TESTED (PG_VERSION_NUM < 160000 || PG_VERSION_NUM >= 180000)

/*
 * Functions that do not return were marked behind their prototype, until 18
 * put the mark in front.
 */
#if PG_VERSION_NUM < 180000
#define bun_noreturn			__attribute__((noreturn))
#else
#define bun_noreturn			pg_noreturn
#endif

#endif							/* BUNBTREE_COMPAT_H */
