/*-------------------------------------------------------------------------
 *
 * yield.c
 *		Yield map: in which part of the heap do passes find dead rows?
 *
 * A leaf page points to more heap blocks than a pass may visit, so it has to
 * choose.  TID order chooses badly: with random keys and random deletions it
 * visits the same old blocks of every leaf page and leaves the rest alone.
 * So each index remembers, for 64 ranges of equally many heap blocks, a
 * moving average of "entries freed per entry examined".
 *
 * The map is advice and nothing more: a wrong value costs a visit to a block
 * that frees nothing.  All backends share it, so that each finds what any has
 * learned, without a lock: an update that gets lost, or meets a map that is just
 * being widened, leaves a wrong value and nothing worse.  It is read and written
 * while a leaf page is locked, therefore it does arithmetic and nothing else.
 *
 * Portions Copyright (c) 2026, bunbtree developers
 *
 * IDENTIFICATION
 *		src/yield.c
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "bunbtree.h"

/*
 * A visit moves its bucket by examined / (examined + INERTIA).  One entry
 * moves it by a ninth; a block of which the leaf page holds eight entries
 * tells as much as all that was known before.
 */
#define INERTIA 8.0f

/*
 * Every DRIFT_PASSES passes, each bucket goes DRIFT of the way back to the
 * prior, so that a range that once had nothing is tried again.
 */
#define DRIFT_PASSES	16
#define DRIFT			0.0625f

static inline float
get(pg_atomic_uint32 *value)
{
	union
	{
		uint32		bits;
		float		yield;
	}			u;

	u.bits = pg_atomic_read_u32(value);
	return u.yield;
}

static inline void
set(pg_atomic_uint32 *value, float yield)
{
	union
	{
		uint32		bits;
		float		yield;
	}			u;

	u.yield = yield;
	pg_atomic_write_u32(value, u.bits);
}

/*
 * A map in new memory.
 */
void
bun_yield_init(BunYieldMap *map)
{
	pg_atomic_init_u32(&map->shift, 0);
	pg_atomic_init_u32(&map->highest, 0);
	pg_atomic_init_u32(&map->passes, 0);
	pg_atomic_init_u32(&map->prior, 0);
	for (int i = 0; i < BUN_YIELD_BUCKETS; i++)
		pg_atomic_init_u32(&map->bucket[i], 0);
}

/*
 * The yield to expect where nothing is known.
 */
void
bun_yield_set_prior(BunYieldMap *map, float prior)
{
	set(&map->prior, prior);
}

/*
 * Forget everything but the prior.
 */
void
bun_yield_reset(BunYieldMap *map)
{
	float		prior = get(&map->prior);

	pg_atomic_write_u32(&map->shift, 0);
	pg_atomic_write_u32(&map->highest, 0);
	pg_atomic_write_u32(&map->passes, 0);
	for (int i = 0; i < BUN_YIELD_BUCKETS; i++)
		set(&map->bucket[i], prior);
}

/*
 * The heap has outgrown the map: neighbouring buckets merge.  If others find
 * that at the same time, one of them does it, and all go on with what is there.
 */
static void
widen(BunYieldMap *map, uint32 shift)
{
	float		prior = get(&map->prior);

	if (!pg_atomic_compare_exchange_u32(&map->shift, &shift, shift + 1))
		return;
	for (int i = 0; i < BUN_YIELD_BUCKETS / 2; i++)
		set(&map->bucket[i],
			(get(&map->bucket[2 * i]) + get(&map->bucket[2 * i + 1])) / 2);
	for (int i = BUN_YIELD_BUCKETS / 2; i < BUN_YIELD_BUCKETS; i++)
		set(&map->bucket[i], prior);
}

/*
 * Bucket of a heap block.
 */
static inline pg_atomic_uint32 *
bucket_of(BunYieldMap *map, BlockNumber blkno)
{
	uint32		shift;

	while (unlikely((blkno >> (shift = pg_atomic_read_u32(&map->shift))) >=
					BUN_YIELD_BUCKETS))
		widen(map, shift);
	return &map->bucket[blkno >> shift];
}

/*
 * Share of a leaf page's entries for this heap block that a visit is
 * expected to free.
 */
float
bun_yield_expect(BunYieldMap *map, BlockNumber blkno)
{
	if (unlikely(blkno > pg_atomic_read_u32(&map->highest)))
		pg_atomic_write_u32(&map->highest, blkno);
	return get(bucket_of(map, blkno));
}

/*
 * A visit to a heap block freed "freed" of "examined" entries.
 */
void
bun_yield_learn(BunYieldMap *map, BlockNumber blkno, int examined, int freed)
{
	pg_atomic_uint32 *bucket = bucket_of(map, blkno);
	float		yield = get(bucket);

	set(bucket,
		yield + ((float) freed - yield * examined) / (examined + INERTIA));
}

/*
 * A pass is over.
 */
void
bun_yield_drift(BunYieldMap *map)
{
	float		prior;

	if (pg_atomic_add_fetch_u32(&map->passes, 1) % DRIFT_PASSES != 0)
		return;
	prior = get(&map->prior);
	for (int i = 0; i < BUN_YIELD_BUCKETS; i++)
	{
		float		yield = get(&map->bucket[i]);

		set(&map->bucket[i], yield + (prior - yield) * DRIFT);
	}
}
