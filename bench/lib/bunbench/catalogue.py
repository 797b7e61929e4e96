"""The workloads: scale, loads, and what is required of each.

The texts stand in the head comments of bench/workloads/*.sql; bench/README.md says
how to add one.
"""

from . import compaction, special
from .model import COMPACT, NOTHING, REINDEX, WAYS, Load, Phase, Scale, Workload
from .requirements import (Between, CountAtMost, FigureAtMost, GrowthAtMost, GrowthShare,
                           GrowthsWithin, RatioAtLeast, RatioAtMost, SizeAtMost, Zero)

MAILING_LISTS = "Workloads of the mailing lists"
CHURN = "Churn"
MATRIX = "Where btree gets no hint"
FIELD = "Field reports"
GATE = "Gate against regressions"
LATENCY = "Latency and contention"
POLICY = "Policy"
COMPACTION = "Compaction"
SCALE = "Large tables"
STANDBY = "Standby"

GROUPS = (MAILING_LISTS, CHURN, MATRIX, FIELD, GATE, LATENCY, POLICY,
          COMPACTION, SCALE, STANDBY)

# Requirements that many share.
STAYS_SMALL = GrowthShare(1 / 3)
AS_FAST = RatioAtLeast("tps", 0.97)

# Loads of functions that do 20 rows a call.
BATCH = 1 / 20

AUTOVACUUM = {"autovacuum": "on", "autovacuum_naptime": "1s"}


def plain(name, group, indexes, scale, *loads, requires=(STAYS_SMALL, AS_FAST), **more):
    """One phase, called "load"; without loads, <name>.pgbench once over all rows."""
    loads = loads or (Load(name, per_row=BATCH),)
    return Workload(name, group, scale, indexes=indexes, requires=requires,
                    phases=(Phase("load", loads),), **more)


# --- mailing lists -----------------------------------------------------------

def bulk_update(name, note="", hold=None, quick=False):
    return Workload(
        name, MAILING_LISTS, Scale(30_000, 400_000, 5_000_000),
        setup="bulk_update", note=note, quick=quick,
        indexes=("t1_c1", "t1_c2", "t1_c3"),
        phases=(Phase("update", (Load("bulk_update", transactions=1),), hold=hold),),
        requires=(RatioAtMost("seconds", 0.90),
                  RatioAtMost("seconds", 1.02, base="off"),
                  CountAtMost("passes", 40)))


def mixed(name, limit, note):
    """Reads have a limit of pages that they clean up; -1 is the default."""
    options = "" if limit < 0 else f"-c bunbtree.scan_cleanup_limit={limit}"
    requires = (SizeAtMost(1.0), RatioAtLeast("tps", 1.0, or_noise=True))
    if limit == 0:
        requires += (Zero("index WAL bytes", "reads",
                          "reads write no WAL about the indexes (bytes)"),)
    return Workload(
        name, MAILING_LISTS, Scale(5_000, 50_000, 500_000), setup="mixed", note=note,
        indexes=("accounts_aid", "accounts_abalance"),
        phases=(Phase("mix", (Load("mixed", per_row=0.3, clients=2),), options=options),
                Phase("writes", (Load("mixed_write", per_row=0.2),)),
                Phase("reads", (Load("mixed_read", per_row=0.5),), options=options)),
        settings={"wal_log_hints": "on"}, runner=special.run_mixed,
        needs_setting="" if limit < 0 else "bunbtree.scan_cleanup_limit",
        requires=requires)


MAILING_LIST_WORKLOADS = (
    bulk_update("bulk_update", quick=True),
    bulk_update("bulk_update_snapshot", "Another session holds a snapshot.",
                hold="snapshot"),
    bulk_update("bulk_update_xid",
                "Another session has an open transaction with an xid.", hold="xid"),
    plain("queue", MAILING_LISTS,
          ("accounts_pkey", "accounts_fiver", "accounts_tenner", "accounts_score",
           "accounts_mtime"),
          Scale(20_000, 200_000, 10_000_000),
          Load("queue_update", seconds=20, clients=2, role="update"),
          Load("queue_move", seconds=20, role="queue"),
          Load("queue_read", background=True, role="readers"),
          tables=("accounts",), runner=special.run_queue, quick=True,
          requires=(
              GrowthShare(0.5, floor=0, indexes=("accounts_tenner", "accounts_score"),
                          per_transaction=True),
              GrowthShare(1.0, floor=0, indexes=("accounts_fiver", "accounts_pkey",
                                                 "accounts_mtime"),
                          per_transaction=True),
              GrowthAtMost(0.35, ("accounts_fiver", "accounts_tenner",
                                  "accounts_score")),
              RatioAtLeast("tps", 1.0, load="update"),
              RatioAtLeast("tps", 1.0, load="queue"))),
    mixed("mixed", -1, ""),
    mixed("mixed_limit_4", 4, "A read-only statement cleans at most 4 pages."),
    mixed("mixed_limit_0", 0, "Read-only statements clean nothing."),
)


# --- churn -------------------------------------------------------------------

def churn(name, script, note="", settings=None, quick=False):
    return plain(name, CHURN, ("churn_k",), Scale(10_000, 100_000, 1_000_000),
                 Load(script, per_row=BATCH), setup=script, note=note,
                 settings=settings or {}, quick=quick,
                 intact="SELECT count(*) = :rows FROM churn")


CHURN_WORKLOADS = (
    churn("churn_fifo", "churn_fifo", quick=True),
    churn("churn_random", "churn_random", quick=True),
    churn("churn_fifo_autovacuum", "churn_fifo", "With autovacuum.", AUTOVACUUM),
    churn("churn_random_autovacuum", "churn_random", "With autovacuum.", AUTOVACUUM),
)


# --- no-hint matrix ----------------------------------------------------------

def case(letter, table, *indexes, **more):
    return plain(f"matrix_{letter}", MATRIX, indexes, Scale(5_000, 80_000, 1_000_000),
                 intact=f"SELECT count(*) = :rows FROM {table}", **more)


MATRIX_WORKLOADS = (
    case("a", "entry", "entry_account"),
    case("b", "item", "item_label", "item_code", quick=True),
    case("c", "job", "job_run_at", "job_status", quick=True),
    case("d", "customer", "customer_token", "customer_region", quick=True),
    Workload(
        "matrix_e", MATRIX, Scale(5_000, 50_000, 500_000),
        indexes=("publisher.device_serial", "publisher.device_site",
                 "subscriber.device_serial", "subscriber.device_site"),
        phases=(Phase("load", (Load("matrix_e", per_row=BATCH),)),),
        settings={"wal_level": "logical"}, runner=special.run_subscriber,
        intact="SELECT count(*) = :rows FROM device",
        requires=(STAYS_SMALL, AS_FAST, RatioAtMost("seconds", 1 / 0.97))),
    case("f", "account", "account_email"),
    case("g", "member", "member_email"),
    case("h", "player", "player_rank"),
    plain("matrix_i", MATRIX, ("task_open",), Scale(5_000, 80_000, 1_000_000),
          intact="SELECT count(*) = 2 * :rows FROM task"),
)


# --- field notes -------------------------------------------------------------

FIELD_WORKLOADS = (
    Workload(
        "note_01", FIELD, Scale(4_000, 40_000, 1_000_000), indexes=("job_fetch",),
        phases=(Phase("queue", (Load("note_01", per_row=BATCH),)),
                Phase("fetch", (Load("note_01_fetch", transactions=300),))),
        requires=(STAYS_SMALL, AS_FAST), quick=True),
    plain("note_02", FIELD, ("job_id", "job_name", "job_state"), Scale(10_000, 100_000, 1_000_000),
          Load("note_02", per_row=1 / 1000),
          requires=(STAYS_SMALL, SizeAtMost(3.0, fresh=True), AS_FAST)),
    Workload(
        "note_06", FIELD, Scale(1_000, 6_000, 14_312),
        indexes=("cursor_position_position",),
        phases=(Phase("held", (Load("note_06", per_row=1),), hold="snapshot"),
                Phase("released", (Load("note_06", per_row=4),))),
        requires=(GrowthShare(1 / 3, start="held", end="released"), AS_FAST)),
    plain("note_07", FIELD, ("job_run_at",), Scale(5_000, 80_000, 1_000_000),
          intact="SELECT count(*) = :rows FROM job"),
    plain("note_10", FIELD, ("reference_name", "reference_name_dump"),
          Scale(8_000, 80_000, 1_000_000), Load("note_10", per_row=1 / 40),
          intact="SELECT count(*) = :rows FROM reference", quick=True),
    Workload(
        "note_12", FIELD, Scale(5_000, 50_000, 1_000_000), indexes=("message_id",),
        phases=(Phase("insert", (Load("note_12_insert", per_row=BATCH),)),
                Phase("replace", (Load("note_12_replace", per_row=2 * BATCH),))),
        intact="SELECT count(*) = 2 * :rows FROM message",
        requires=(GrowthShare(1 / 3, start="insert", end="replace"), AS_FAST)),
    Workload(
        "note_13", FIELD, Scale(5_000, 50_000, 1_000_000), indexes=("event_tenant",),
        phases=(Phase("insert", (Load("note_13_insert", per_row=BATCH),)),
                Phase("replace", (Load("note_13_replace", per_row=2 * BATCH),))),
        intact="SELECT count(*) = 2 * :rows FROM event",
        requires=(GrowthShare(1 / 3, start="insert", end="replace"), AS_FAST)),
)


# --- gate --------------------------------------------------------------------

def gate(name, scale, setup="", indexes=("gate_k",), quick=False, script="", **more):
    load = Load(script or name, transactions=1, protocol="simple")
    return Workload(
        name, GATE, scale, setup=setup, indexes=indexes, quick=quick,
        phases=(Phase("load", (load,)),), runner=special.run_gate,
        counts_instructions=True,
        requires=(RatioAtMost("instructions", 1.01),
                  RatioAtMost("seconds", 1.02, or_noise=True)), **more)


def planning(indexes):
    return gate(f"gate_plan_{indexes}", Scale(300, 4_000, 20_000), setup="gate_plan",
                script="gate_plan", variables={"indexes": indexes}, indexes=(),
                note=f"Number of indexes: {indexes}.")


INSERTIONS = Scale(20_000, 300_000, 5_000_000)
SELECTIONS = Scale(5_000, 100_000, 1_000_000)

GATE_WORKLOADS = (
    gate("gate_append", INSERTIONS, quick=True),
    gate("gate_uuid", INSERTIONS, quick=True),
    gate("gate_copy", INSERTIONS),
    gate("gate_few", INSERTIONS),
    gate("gate_point", SELECTIONS, quick=True),
    gate("gate_range", SELECTIONS),
    planning(1),
    planning(5),
    planning(20),
)


# --- latency and contention --------------------------------------------------

P99 = RatioAtMost("latency p99", 1.10)

LATENCY_WORKLOADS = (
    plain("latency_churn", LATENCY, ("churn_k",), Scale(10_000, 100_000, 1_000_000),
          Load("latency_churn", seconds=6, rate=500, latency=True, role="insert"),
          Load("churn_random", background=True, role="churn"),
          requires=(P99,), quick=True),
    plain("latency_leaf", LATENCY, ("leaf_k",), Scale(200, 200, 200),
          Load("leaf_update", seconds=4, clients=2, latency=True),
          requires=(P99,)),
    plain("latency_contention", LATENCY, ("leaf_k",), Scale(2_000, 2_000, 2_000),
          Load("leaf_update", seconds=4, clients=32, latency=True),
          requires=(P99,), waits=True),
)


# --- policy ------------------------------------------------------------------

def update(name, clients, seconds, **more):
    return Load("policy_update", seconds=seconds, clients=clients, role=name, **more)


POLICY_WORKLOADS = (
    Workload(
        "policy_connections", POLICY, Scale(10_000, 200_000, 1_000_000),
        indexes=("one_k", "many_k"),
        phases=(Phase("one", (Load("policy_one", transactions=50, protocol="simple"),)),
                Phase("many", (Load("policy_many", transactions=50, protocol="simple",
                                    reconnect=True),))),
        requires=(GrowthsWithin(0.03, ("one_k", "many_k")),),
        intact="SELECT count(*) = :rows FROM many"),
    Workload(
        "policy_held", POLICY, Scale(10_000, 100_000, 1_000_000),
        indexes=("held_a", "held_b"),
        phases=(Phase("held", (update("updates", 2, 8),), hold="snapshot"),
                Phase("released", (Load("policy_update_all", transactions=1),))),
        requires=(RatioAtLeast("tps", 0.99, base="off"), RatioAtLeast("tps", 1.0),
                  SizeAtMost(1.0))),
    Workload(
        "policy_release", POLICY, Scale(10_000, 100_000, 1_000_000),
        setup="policy_held", indexes=("held_a", "held_b"),
        note="16 clients, before, while, and from the moment that the snapshot is "
             "released.",
        phases=(Phase("before", (update("updates", 16, 4, latency=True),)),
                Phase("held", (update("updates", 16, 8, latency=True),), hold="snapshot"),
                Phase("released", (update("updates", 16, 4, latency=True),))),
        requires=(P99, SizeAtMost(1.0))),
)


# --- compaction --------------------------------------------------------------

def sparse(name, rows, rounds=1, seconds=4, requires=(), quick=False):
    """Clients run for so many seconds a round, which has to be longer than the ways
    take.  Few, so that nobody waits for a CPU, which would count as time of a lock."""
    load = Load(name, seconds=seconds, clients=2, rate=500, latency=True)
    return Workload(
        name, COMPACTION, rows, phases=tuple(Phase(way, (load,)) for way in WAYS),
        rounds=rounds, runner=compaction.run_compaction, arms=("btree", "auto"),
        requires=(
            FigureAtMost((COMPACT, compaction.INDEX, "hold p99, ms"), 2.0,
                         "p99 of the lock's hold by a slice at most 2 ms"),
            Between((COMPACT, "clients", "p99, ms"), (NOTHING, "clients", "p99, ms"), 1.10,
                    "p99 of transactions beside compaction at most 1.10 of undisturbed ones"),
            *requires),
        quick=quick)


COMPACTION_WORKLOADS = (
    sparse("compact_retention", Scale(100_000, 3_000_000, 10_000_000), quick=True,
           requires=(
               Between((COMPACT, compaction.INDEX, "density gain"),
                       (REINDEX, compaction.INDEX, "density gain"), 0.95,
                       "gain of density at least 0.95 of REINDEX's", least=True),
               Between((COMPACT, compaction.INDEX, "WAL bytes"),
                       (REINDEX, compaction.INDEX, "WAL bytes"), 1.3,
                       "WAL at most 1.3 of REINDEX's"))),
    sparse("compact_moving", Scale(20_000, 200_000, 2_000_000), rounds=8, seconds=2,
           requires=(
               Between((COMPACT, compaction.INDEX, "file, blocks"),
                       (COMPACT, compaction.INDEX, "blocks fresh"), 2.0,
                       "file with compaction at most 2.0 of a fresh build"),
               Between((COMPACT, compaction.INDEX, "file, blocks"),
                       (COMPACT, compaction.INDEX, "blocks half-way"), 1.05,
                       "file at most 1.05 of what it was half-way"))),
    sparse("compact_drained", Scale(100_000, 500_000, 5_000_000)),
)


# --- scale, standby ----------------------------------------------------------

OTHER_WORKLOADS = (
    plain("scale_hot", SCALE, ("hot_spot_k",), Scale(50_000, 1_000_000, 50_000_000),
          Load("scale_hot", per_row=3 * BATCH / 100),
          intact="SELECT count(*) = :rows FROM hot_spot",
          requires=(GrowthShare(1 / 3, floor=0), AS_FAST)),
    plain("scale_heap", SCALE, ("big_k",), Scale(200_000, 250_000, 250_000),
          Load("scale_heap", per_row=BATCH / 2),
          Load("scale_heap_others", background=True, rate=200),
          settings={"shared_buffers": "16MB"}, runner=special.run_heap,
          intact="SELECT count(*) = :rows FROM big"),
    plain("standby", STANDBY, ("churn_k",), Scale(2_000, 5_000, 5_000),
          Load("churn_fifo", seconds=6, rate=20),
          intact="SELECT count(*) = :rows FROM churn", runner=special.run_standby,
          requires=(AS_FAST,)),
)

WORKLOADS = (*MAILING_LIST_WORKLOADS, *CHURN_WORKLOADS, *MATRIX_WORKLOADS,
             *FIELD_WORKLOADS, *GATE_WORKLOADS, *LATENCY_WORKLOADS, *POLICY_WORKLOADS,
             *COMPACTION_WORKLOADS, *OTHER_WORKLOADS)
