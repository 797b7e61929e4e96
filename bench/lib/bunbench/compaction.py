"""Runner of the compaction workloads: ways to deal with a sparse index.

Each way starts from a database of its own.  In every round the index is made sparse
and its table vacuumed; then the way is gone, while clients go on with short
transactions.  The ways are phases.
"""

import re
import time

from .engine import DATABASE, Sampler
from .model import COMPACT, NOTHING, READ, REINDEX
from .special import database_size

# The way starts when all clients have connected.
WARM_UP_SECONDS = 0.3

# Every page of the index, over and over, with about as much rest as compaction has.
READ_INDEX = """DO $$
DECLARE since timestamptz;
BEGIN
    LOOP
        since := clock_timestamp();
        PERFORM bunbtree_compact_estimate('sparse_k');
        PERFORM pg_sleep(extract(epoch FROM clock_timestamp() - since));
        EXIT WHEN clock_timestamp() > now() + interval '%f s';
    END LOOP;
END $$"""

# A quantile of fewer transactions above it would be the time of one of them.
MIN_ABOVE = 5

DISK_INTERVAL = 0.05
DATABASE_SIZE = f"SELECT pg_database_size('{DATABASE}')"

INDEX = "sparse_k"
TABLE = "sparse"

SLICE = re.compile(r"slice \d+: \d+ leaf pages removed, lock held for ([0-9.]+) ms")
SUMMARY = re.compile(r"Slices: (\d+), refused: (\d+),.* WAL: (\d+) bytes")


def run_compaction(m):
    for phase in m.workload.phases:
        m.recreate()
        go(m, phase)


def go(m, phase):
    way = phase.name
    m.set_up()
    latencies = []
    holds = []
    totals = {"seconds": 0, "slices": 0, "refused": 0, "WAL bytes": 0, "peak disk, MB": 0}
    for number in range(1, m.workload.rounds + 1):
        m.query(f"CALL make_sparse({number}, {m.rows})")
        m.query(f"VACUUM {TABLE}")
        m.query("CHECKPOINT")
        if number == 1:
            add_state(m, f"{way}, before")
        deal(m, phase, totals, latencies, holds)
        if number == (m.workload.rounds + 1) // 2:
            m.add(way, INDEX, "blocks half-way", blocks(m))
    add_state(m, way)
    # What deleted pages are good for: nothing, until VACUUM finds them.
    m.query(f"VACUUM {TABLE}")

    m.add(way, INDEX, "density gain",
          m.measured(way, INDEX, "density, %") - m.measured(f"{way}, before", INDEX, "density, %"))
    m.add(way, "clients", "transactions", len(latencies))
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        if len(latencies) * (1 - share) >= MIN_ABOVE:
            m.add(way, "clients", f"{name}, ms", quantile(latencies, share))
    if latencies:
        m.add(way, "clients", "max, ms", max(latencies))
    m.add(way, INDEX, "seconds a round", totals["seconds"] / m.workload.rounds)
    m.add(way, INDEX, "peak disk, MB", totals["peak disk, MB"])
    if way == COMPACT:
        for name in ("slices", "refused", "WAL bytes"):
            m.add(way, INDEX, name, totals[name])
        if holds:
            m.add(way, INDEX, "hold p99, ms", quantile(holds, 0.99))
            m.add(way, INDEX, "hold max, ms", max(holds))
    m.check(indexes=[INDEX])
    if way == COMPACT:
        # The entries are those that REINDEX would have to write.
        reindex_wal(m)
    m.query(f"REINDEX INDEX {INDEX}")
    m.add(way, INDEX, "blocks fresh", blocks(m))


def deal(m, phase, totals, latencies, holds):
    """One round of a way, beside clients."""
    peak = [0]

    def note(rows):
        peak[0] = max(peak[0], int(rows[0][0]))

    size = database_size(m)
    load, = phase.loads
    pgbench = m.start_load(load, seconds=load.seconds)
    disk = Sampler(m.cluster, DATABASE_SIZE, DISK_INTERVAL, note)
    disk.start()
    try:
        time.sleep(WARM_UP_SECONDS)
        started = time.time()
        if phase.name == COMPACT:
            lines = [" ".join(row) for row in m.query(
                f"CALL bunbtree_compact('{INDEX}', verbose => true)")]
            found = [SUMMARY.search(line) for line in lines]
            summary, = [match for match in found if match]
            for name, value in zip(("slices", "refused", "WAL bytes"), summary.groups()):
                totals[name] += int(value)
            holds += [float(match.group(1)) for match in map(SLICE.search, lines) if match]
        elif phase.name == READ:
            m.query(READ_INDEX % (m.seconds(load.seconds) - 2 * WARM_UP_SECONDS))
        elif phase.name == REINDEX:
            m.query(f"REINDEX INDEX CONCURRENTLY {INDEX}")
        ended = time.time()
        pgbench.finish()
    finally:
        if pgbench.process.poll() is None:
            pgbench.terminate()
        disk.stop()
    if phase.name == NOTHING:
        ended = started + m.seconds(load.seconds) - WARM_UP_SECONDS
    else:
        totals["seconds"] += ended - started
    totals["peak disk, MB"] = max(totals["peak disk, MB"], peak[0] / 1048576 - size)
    latencies += pgbench.latencies(between=(started, ended))


def reindex_wal(m):
    since = m.wal_position()
    m.query(f"REINDEX INDEX CONCURRENTLY {INDEX}")
    m.add(REINDEX, INDEX, "WAL bytes", m.value(
        f"SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '{since}')"))


def blocks(m):
    return int(m.value(f"SELECT pg_relation_size('{INDEX}')"
                       " / current_setting('block_size')::int"))


def add_state(m, phase):
    (leaves, density), = m.query("SELECT leaf_pages, avg_leaf_density "
                                 f"FROM bunbtree_index_info('{INDEX}')")
    m.add(phase, INDEX, "leaf pages", leaves)
    m.add(phase, INDEX, "density, %", density)
    m.add(phase, INDEX, "file, blocks", blocks(m))


def quantile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
