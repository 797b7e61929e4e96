"""Runners of workloads that take more than phases of pgbench."""

import contextlib
import re
import shutil
import subprocess
import threading
import time
from dataclasses import replace

from .engine import DATABASE, run_phase, run_phases, sampled
from .model import script_file
from .server import Cluster, Failure, command

# --- queue -------------------------------------------------------------------

# Row versions that readers keep alive, as a share of the table.
KEPT = 0.005
TRIAL_SECONDS = 2


def run_queue(m):
    """Three pgbench; how long a snapshot has to last is found by a trial."""
    if "hold" not in m.shared:
        m.set_up()
        m.shared["hold"] = KEPT * m.rows / trial(m)
        m.recreate()
    m.variables["hold"] = f"{m.shared['hold']:.4f}"

    m.set_up()
    m.query("CHECKPOINT")
    m.sizes("before")
    for table in m.workload.tables:
        m.add("before", table, "rows", m.value(f"SELECT count(*) FROM {table}"))
    before = database_size(m)
    phase, = m.workload.phases
    with sampled(m) as position:
        position["phase"] = phase.name
        run_phase(m, phase)
    m.add("before", "database", "MB", before)
    m.add(phase.name, "database", "MB", database_size(m))
    rate = sum(m.measured(phase.name, load.name, "tps")
               for load in phase.loads if not load.background)
    m.add(phase.name, "readers", "snapshot seconds", m.shared["hold"])
    m.add(phase.name, "readers", "versions kept, % of rows",
          100 * rate * m.shared["hold"] / m.rows)
    m.check()
    m.fresh()


def trial(m):
    """Transactions per second of all writers, without readers."""
    running = [m.start_load(replace(load, seconds=None, transactions=None),
                            seconds=TRIAL_SECONDS)
               for load in m.workload.phases[0].loads if not load.background]
    return sum(pgbench.finish()[2] for pgbench in running)


def database_size(m):
    return int(m.value(f"SELECT pg_database_size('{DATABASE}')")) / 1048576


# --- reads that write --------------------------------------------------------

def run_mixed(m):
    """After each phase of reads, what they have logged about the indexes."""
    m.set_up()
    m.query("CHECKPOINT")
    m.sizes("before")
    with sampled(m) as position:
        for phase in m.workload.phases:
            position["phase"] = phase.name
            # So that the first change of every page is logged in full.
            m.query("CHECKPOINT")
            since = m.wal_position()
            run_phase(m, phase)
            if phase.name == "reads":
                records = index_records(m, since)
                m.add(phase.name, "", "index WAL records", len(records))
                m.add(phase.name, "", "index WAL bytes", sum(records))
    m.check()
    m.fresh()


def index_records(m, since):
    """Lengths of the WAL records that touch an index under test."""
    files = {m.value(f"SELECT regexp_replace(pg_relation_filepath('{index}'), '^.*/', '')")
             for index in m.workload.indexes}
    # So that all of it is in a file.
    m.query("SELECT pg_switch_wal()")
    upto = m.value("SELECT pg_current_wal_flush_lsn()")
    out = command([m.cluster.bindir / "pg_waldump", "-p", m.cluster.data / "pg_wal",
                   "-s", since, "-e", upto])
    lengths = []
    for line in out.splitlines():
        total = re.search(r"len \(rec/tot\):\s*\d+/\s*(\d+)", line)
        if total and set(re.findall(r"rel \d+/\d+/(\d+)", line)) & files:
            lengths.append(int(total.group(1)))
    return lengths


# --- gates -------------------------------------------------------------------

def run_gate(m):
    """Wall-clock as for all, and instructions, which repeat, once."""
    run_phases(m)
    if m.run == 1 and m.size != "quick":
        m.recreate()
        m.rows = m.workload.scale.quick
        m.set_up()
        script = m.workload.phases[0].loads[0].script
        m.disconnect()
        m.cluster.stop()
        try:
            full, idle = (instructions(m, script, rows) for rows in (m.rows, 1))
        finally:
            m.cluster.start()
            m.connect()
        m.add(m.workload.phases[0].name, script, "instructions", full - idle)


def instructions(m, script, rows):
    """Instructions of a stand-alone backend that runs a script's statement.  Those
    for one row go by the name of idle: a script has to do everything once even
    then (load the library, plan), so that it is not counted as work."""
    # A statement ends with an empty line (-j).
    statement = script_file(script).read_text().replace(":rows", str(rows)) + "\n"
    out = m.scratch / "callgrind"
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}",
         m.cluster.bindir / "postgres", "--single", "-j", "-c", "jit=off",
         "-D", m.cluster.data, DATABASE],
        input=statement, text=True, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    found = re.findall(r"^(?:totals|summary): (\d+)", out.read_text(), re.MULTILINE) \
        if out.exists() else []
    out.unlink(missing_ok=True)
    if done.returncode != 0 or not found or re.search("(ERROR|FATAL|PANIC):", done.stdout):
        raise Failure("postgres --single under valgrind failed:\n" + done.stdout[-2000:])
    return int(found[-1])


# --- replication -------------------------------------------------------------

SUBSCRIBER = "bench_subscriber"
SLOT = "bench_slot"
CATCH_UP_SECONDS = 300


def run_subscriber(m):
    """Two databases of one server; the slot is made by hand, because CREATE
    SUBSCRIPTION would wait for itself."""
    phase, = m.workload.phases
    m.cluster.psql("postgres", f"""
        DROP DATABASE IF EXISTS {SUBSCRIBER} WITH (FORCE);
        CREATE DATABASE {SUBSCRIBER} TEMPLATE bench_template""")
    try:
        m.set_up()
        m.set_up(SUBSCRIBER)
        m.query("CREATE PUBLICATION bench FOR TABLE device")
        m.query(f"SELECT pg_create_logical_replication_slot('{SLOT}', 'pgoutput')")
        with m.cluster.session(SUBSCRIBER) as subscriber:
            subscriber.query(
                f"CREATE SUBSCRIPTION bench CONNECTION 'dbname={DATABASE} "
                f"host={m.cluster.socket} port={m.cluster.port}' PUBLICATION bench "
                f"WITH (create_slot = false, slot_name = {SLOT}, copy_data = false)")
            m.query("CHECKPOINT")
            try:
                replicate(m, phase, subscriber)
            finally:
                subscriber.query("ALTER SUBSCRIPTION bench DISABLE")
                subscriber.query("ALTER SUBSCRIPTION bench SET (slot_name = NONE)")
                subscriber.query("DROP SUBSCRIPTION bench")
    finally:
        with contextlib.suppress(Failure):
            m.cluster.psql("postgres", f"DROP DATABASE {SUBSCRIBER} WITH (FORCE)")


def replicate(m, phase, subscriber):
    both = (("publisher", m.session), ("subscriber", subscriber))
    indexes = sorted({index.split(".")[1] for index in m.workload.indexes})

    def sizes(when):
        for name, session in both:
            for index in indexes:
                (blocks,), = session.query(
                    f"SELECT pg_relation_size('{index}') "
                    "/ current_setting('block_size')::int")
                m.add(when, f"{name}.{index}", "blocks", blocks)

    sizes("before")
    started = time.monotonic()
    m.run_loads(phase)
    catch_up(m)
    m.add(phase.name, "apply", "seconds", time.monotonic() - started)
    sizes(phase.name)
    for name, session in both:
        m.check(session, indexes)
        for index in indexes:
            session.query(f"REINDEX INDEX {index}")
    sizes("fresh")
    digest = "SELECT count(*), sum(hashtext(device::text)::bigint) FROM device"
    if m.session.query(digest) != subscriber.query(digest):
        raise Failure("publisher and subscriber differ")


def catch_up(m):
    upto = m.wal_position()
    for _ in range(CATCH_UP_SECONDS * 20):
        if m.value(f"SELECT coalesce(max(confirmed_flush_lsn) >= '{upto}', false) "
                   f"FROM pg_replication_slots WHERE slot_name = '{SLOT}'") == "t":
            return
        time.sleep(0.05)
    raise Failure("the subscriber does not catch up")


READ_SLOWLY = """SELECT count(*), pg_sleep(0.2) FROM churn
WHERE k < '01000000-0000-0000-0000-000000000000'"""


class Reader(threading.Thread):
    """Reads on a standby.  Not pgbench, because a conflict may cost the whole
    connection, and with it a client of pgbench."""

    def __init__(self, standby):
        super().__init__(daemon=True)
        self.standby = standby
        self.done = self.cancelled = 0
        self.ended = threading.Event()

    def run(self):
        while not self.ended.is_set():
            with self.standby.session(DATABASE) as session:
                try:
                    while not self.ended.is_set():
                        session.query(READ_SLOWLY)
                        self.done += 1
                except Failure:
                    self.cancelled += 1

    def stop(self):
        self.ended.set()
        self.join()


def run_standby(m):
    """A physical replica that exists for this measurement only."""
    phase, = m.workload.phases
    m.set_up()
    m.query("CHECKPOINT")
    m.sizes("before")
    data = m.cluster.data.with_name("standby")
    shutil.rmtree(data, ignore_errors=True)
    command([m.cluster.bindir / "pg_basebackup", "-D", data, "-R", "-X", "stream",
             "-c", "fast", "--no-sync", *m.cluster.connection()])
    standby = Cluster(m.cluster.bindir, data, m.cluster.socket, m.cluster.port + 1)
    standby.configure(m.cluster.settings | {
        "port": standby.port, "max_standby_streaming_delay": "300ms"})
    readers = [Reader(standby) for _ in range(2)]
    try:
        for reader in readers:
            reader.start()
        with sampled(m) as position:
            position["phase"] = phase.name
            run_phase(m, phase)
        for reader in readers:
            reader.stop()
        done = sum(reader.done for reader in readers)
        cancelled = sum(reader.cancelled for reader in readers)
        m.add(phase.name, "standby", "queries", done + cancelled)
        m.add(phase.name, "standby", "share cancelled", cancelled / (done + cancelled))
        m.add(phase.name, "standby", "confl_snapshot", standby.value(
            DATABASE, "SELECT confl_snapshot FROM pg_stat_database_conflicts "
            f"WHERE datname = '{DATABASE}'"))
    finally:
        for reader in readers:
            reader.ended.set()
        standby.pg_ctl("-m", "immediate", "stop")
        shutil.rmtree(data, ignore_errors=True)
    m.check()
    m.fresh()


# --- a heap that is not cached -----------------------------------------------

READ = """SELECT heap_blks_read, idx_scan
FROM pg_statio_user_tables JOIN pg_stat_user_tables USING (relid)
WHERE pg_statio_user_tables.relname = 'others'"""

CACHED = """SELECT count(*), coalesce(avg(usagecount), 0) FROM pg_buffercache
WHERE relfilenode = pg_relation_filenode('%s') AND reldatabase =
	(SELECT oid FROM pg_database WHERE datname = current_database())"""


def run_heap(m):
    phase, = m.workload.phases
    m.set_up()
    m.query("CHECKPOINT")
    m.sizes("before")
    # All of the small table is cached when it starts.
    m.query("SELECT count(filler) FROM others")
    m.query("SELECT pg_stat_force_next_flush()")
    before = [int(n) for n in m.query(READ)[0]]
    with sampled(m) as position:
        position["phase"] = phase.name
        run_phase(m, phase)
    wait_for_others(m)
    read, requests = (int(n) - b for n, b in zip(m.query(READ)[0], before))
    m.add(phase.name, "others", "requests", requests)
    m.add(phase.name, "others", "blocks read a request", read / requests)
    for relation in ("others", "big"):
        (cached, usage), = m.query(CACHED % relation)
        m.add(phase.name, relation, "blocks cached", cached)
        m.add(phase.name, relation, "mean usage count", usage)
    m.check()
    m.fresh()


def wait_for_others(m):
    """Statistics are complete when the backends that made them are gone."""
    for _ in range(200):
        if m.value("SELECT count(*) FROM pg_stat_activity WHERE datname = "
                   "current_database() AND pid <> pg_backend_pid() "
                   "AND backend_type = 'client backend'") == "0":
            return
        time.sleep(0.05)
    raise Failure("backends do not end")
