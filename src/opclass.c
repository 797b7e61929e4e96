#include "postgres.h"
#include "fmgr.h"
PG_FUNCTION_INFO_V1(bunbtree_mirror_opclasses);
Datum
bunbtree_mirror_opclasses(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(0);
}
