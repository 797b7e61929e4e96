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
 * that frees nothing.  It is read and written while a leaf page is locked,
 * therefore it does arithmetic and nothing else.
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

/*
 * Forget everything but the prior, the yield to expect where nothing is known.
 */
void
bun_yield_reset(BunYieldMap *map)
{
	map->shift = 0;
	map->highest = 0;
	map->passes = 0;
	for (int i = 0; i < BUN_YIELD_BUCKETS; i++)
		map->bucket[i] = map->prior;
}

/*
 * Bucket of a heap block.  When the heap has outgrown the map, neighbouring
 * buckets merge until the block fits in.
 */
static inline float *
bucket_of(BunYieldMap *map, BlockNumber blkno)
{
	while (unlikely((blkno >> map->shift) >= BUN_YIELD_BUCKETS))
	{
		for (int i = 0; i < BUN_YIELD_BUCKETS / 2; i++)
			map->bucket[i] = (map->bucket[2 * i] +
							  map->bucket[2 * i + 1]) / 2;
		for (int i = BUN_YIELD_BUCKETS / 2; i < BUN_YIELD_BUCKETS; i++)
			map->bucket[i] = map->prior;
		map->shift++;
	}
	return &map->bucket[blkno >> map->shift];
}

/*
 * Share of a leaf page's entries for this heap block that a visit is
 * expected to free.
 */
float
bun_yield_expect(BunYieldMap *map, BlockNumber blkno)
{
	map->highest = Max(map->highest, blkno);
	return *bucket_of(map, blkno);
}

/*
 * A visit to a heap block freed "freed" of "examined" entries.
 */
void
bun_yield_learn(BunYieldMap *map, BlockNumber blkno, int examined, int freed)
{
	float	   *bucket = bucket_of(map, blkno);

	*bucket += ((float) freed - *bucket * examined) / (examined + INERTIA);
}

/*
 * A pass is over.
 */
void
bun_yield_drift(BunYieldMap *map)
{
	if (++map->passes < DRIFT_PASSES)
		return;
	map->passes = 0;
	for (int i = 0; i < BUN_YIELD_BUCKETS; i++)
		map->bucket[i] += (map->prior - map->bucket[i]) * DRIFT;
}
