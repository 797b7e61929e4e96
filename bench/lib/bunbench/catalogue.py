"""The workloads: scale, loads, and what is required of each.

The texts stand in the head comments of bench/workloads/*.sql; the requirements
are those that bunbtree was set, see bench/README.md.
"""

from .model import Load, Phase, Scale, Workload
from .requirements import GrowthShare, RatioAtLeast, RatioAtMost

MAILING_LISTS = "Workloads of the mailing lists"
CHURN = "Churn"

GROUPS = (MAILING_LISTS, CHURN)

# Requirements that many share.
STAYS_SMALL = GrowthShare(1 / 3)
AS_FAST = RatioAtLeast("tps", 0.97)

# Loads of functions that do 20 rows a call.
BATCH = 1 / 20


def bulk_update(name, note, hold=None, quick=False):
    return Workload(
        name, MAILING_LISTS, Scale(30_000, 500_000, 5_000_000),
        setup="bulk_update", note=note, quick=quick,
        indexes=("t1_c1", "t1_c2", "t1_c3"),
        phases=(Phase("update", (Load("bulk_update", transactions=1),), hold=hold),),
        requires=(RatioAtMost("seconds", 0.90),
                  RatioAtMost("seconds", 1.02, base="off")))


def churn(name, note="", settings=None, quick=False):
    return Workload(
        name, CHURN, Scale(20_000, 200_000, 2_000_000),
        setup=name.removesuffix("_autovacuum"), note=note, quick=quick,
        indexes=("churn_k",), settings=settings or {},
        phases=(Phase("churn", (Load(name.removesuffix("_autovacuum"),
                                     per_row=BATCH),)),),
        intact="SELECT count(*) = :rows FROM churn",
        requires=(STAYS_SMALL, AS_FAST))


AUTOVACUUM = {"autovacuum": "on", "autovacuum_naptime": "1s"}

WORKLOADS = (
    bulk_update("bulk_update", "", quick=True),
    bulk_update("bulk_update_snapshot", "Another session holds a snapshot.",
                hold="snapshot"),
    bulk_update("bulk_update_xid", "Another session has an open transaction with an "
                "xid.", hold="xid"),

    churn("churn_fifo", quick=True),
    churn("churn_random", quick=True),
    churn("churn_fifo_autovacuum", "With autovacuum.", AUTOVACUUM),
    churn("churn_random_autovacuum", "With autovacuum.", AUTOVACUUM),
)
