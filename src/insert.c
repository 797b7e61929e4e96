#include "postgres.h"

#include "bunbtree.h"

bool
bun_insert(Relation index, Datum *values, bool *isnull,
		   ItemPointer heap_tid, Relation heap,
		   IndexUniqueCheck checkUnique, bool indexUnchanged,
		   struct IndexInfo *indexInfo)
{
	volatile bool result;
	BunPresented entry;

	bun_present(&entry, index);
	PG_TRY();
	{
		result = bun_nbtree_routine()->aminsert(index, values, isnull, heap_tid, heap,
												checkUnique, indexUnchanged, indexInfo);
	}
	PG_FINALLY();
	{
		bun_unpresent(&entry);
	}
	PG_END_TRY();
	return result;
}
