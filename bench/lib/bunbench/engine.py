"""Measure: one workload on one arm, in a database of its own."""

import contextlib
import json
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from . import stats
from .data import Data
from .model import ARMS, Arm, Workload, script_file
from .server import Cluster, Failure, Pgbench, Session

DATABASE = "bench"

# Settings that all workloads have.  Checkpoints come when we ask for them.  No
# fsync: a disk adds noise to all arms, and takes most of the time of a small
# measurement; how much each has to write is told by its WAL.
SETTINGS = {
    "shared_buffers": "512MB",
    "max_wal_size": "16GB",
    "checkpoint_timeout": "35min",
    "synchronous_commit": "off",
    "fsync": "off",
    "autovacuum": "off",
}

SAMPLE_INTERVAL = 0.2
WAIT_SAMPLE_INTERVAL = 0.02

# Loads bounded by time are this much shorter or longer.
SECONDS_FACTOR = {"quick": 0.15, "default": 1, "full": 6}

HOLDS = {
    "snapshot": "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1",
    "xid": "BEGIN; SELECT pg_current_xact_id()",
}

# Highest value ever, where all other counters are sums.
NOT_A_SUM = {"longest_pass"}

SIZES = """SELECT n, pg_relation_size(n::regclass) /
	current_setting('block_size')::int FROM unnest('{%s}'::text[]) n"""

WAITS = """SELECT coalesce(wait_event_type || ':' || wait_event, 'running'), count(*)
FROM pg_stat_activity
WHERE backend_type = 'client backend' AND state = 'active'
	AND pid <> pg_backend_pid()
GROUP BY 1"""


class Sampler(threading.Thread):
    """Query again and again over a connection of its own."""

    def __init__(self, cluster, sql, interval, note):
        super().__init__(daemon=True)
        self.session = cluster.session(DATABASE)
        self.sql, self.interval, self.note = sql, interval, note
        self.ended = threading.Event()
        self.error = None

    def run(self):
        try:
            while not self.ended.wait(self.interval):
                self.note(self.session.query(self.sql))
        except Failure as failure:
            self.error = failure

    def stop(self):
        self.ended.set()
        self.join()
        self.session.close()
        if self.error:
            raise self.error


@dataclass
class Measurement:
    """One run of one workload on one arm."""

    cluster: Cluster
    workload: Workload
    arm: Arm
    run: int
    rows: int
    size: str
    data: Data
    scratch: Path
    # What measurements of the same workload tell each other.
    shared: dict
    # pgbench variables, on top of the workload's.
    variables: dict = field(default_factory=dict)
    session: Session = None

    def add(self, phase, thing, metric, value):
        self.data.add(self.workload.name, self.run, self.arm.name,
                      phase, thing, metric, value)

    # -- the whole of it --

    def measure(self):
        self.cluster.configure(SETTINGS | self.workload.settings)
        self.recreate()
        try:
            (self.workload.runner or run_phases)(self)
        finally:
            self.disconnect()
            # If the server is gone that has been reported already.
            with contextlib.suppress(Failure):
                self.cluster.psql("postgres",
                                  f"DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")

    def recreate(self):
        """Start with a new database."""
        self.disconnect()
        self.cluster.psql("postgres", f"""
            DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE);
            CREATE DATABASE {DATABASE} TEMPLATE bench_template""")
        self.connect()

    def connect(self):
        self.session = self.cluster.session(DATABASE)

    def disconnect(self):
        if self.session:
            self.session.close()
            self.session = None

    def set_up(self, database=DATABASE):
        self.cluster.psql(
            database, file=self.workload.setup_file,
            variables={"rows": self.rows, "am": self.arm.am,
                       "with": self.arm.options, **self.workload.variables})

    # -- what there is to read --

    def measured(self, phase, thing, metric):
        """What this measurement has added before."""
        return self.data.runs(self.workload.name, self.arm.name, phase, thing,
                              metric)[self.run]

    def query(self, sql):
        return self.session.query(sql)

    def value(self, sql):
        (value,), = self.query(sql)
        return value

    def sizes(self, phase, relations=None):
        names = relations or (*self.workload.indexes, *self.workload.tables)
        if names:
            for name, blocks in self.query(SIZES % ",".join(names)):
                self.add(phase, name, "blocks", blocks)

    def counters(self):
        """Counters of every bunbtree index, if the server has the view."""
        if self.arm.am != "bunbtree" or not self.has_view():
            return {}
        return {index: numbers(json.loads(row)) for index, row in self.query(
            "SELECT indexrelname, row_to_json(s) FROM pg_stat_bunbtree s")}

    def has_view(self):
        return self.value("SELECT to_regclass('pg_stat_bunbtree') IS NOT NULL") == "t"

    def add_counters(self, phase, before, after):
        for index in self.workload.indexes:
            for name, value in after.get(index, {}).items():
                if name not in NOT_A_SUM:
                    value -= before.get(index, {}).get(name, 0)
                self.add(phase, index, name, value)

    def wal_position(self):
        return self.value("SELECT pg_current_wal_insert_lsn()")

    def add_wal(self, phase, since):
        self.add(phase, "", "wal_bytes", self.value(
            f"SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '{since}')"))

    # -- what there is to check --

    def check(self, session=None, indexes=None):
        """No row lost; every index in order, with an entry for every row."""
        session = session or self.session
        intact = self.workload.intact
        if intact and session.query(
                f"SELECT ({intact.replace(':rows', str(self.rows))})") != [["t"]]:
            raise Failure(f"rows are missing: {intact}")
        for index in indexes or self.workload.indexes:
            if self.arm.am == "bunbtree":
                session.query(f"SELECT bunbtree_check('{index}', true, true)")
            else:
                session.query(f"SELECT bt_index_parent_check('{index}', true, false)")

    def fresh(self):
        """Sizes that a build from scratch gives."""
        for index in self.workload.indexes:
            self.query(f"REINDEX INDEX {index}")
        self.sizes("fresh", self.workload.indexes)

    # -- load --

    def seconds(self, seconds):
        # A second may be over before all clients have connected.
        return max(2, round(seconds * SECONDS_FACTOR[self.size]))

    def start_load(self, load, options="", seconds=None):
        transactions = load.transactions
        if load.per_row is not None:
            transactions = max(1, round(self.rows * load.per_row / load.clients))
        if load.background:
            transactions, seconds = None, 86400
        elif load.seconds is not None:
            seconds = self.seconds(load.seconds)
        return Pgbench(
            self.cluster, DATABASE, script_file(load.script),
            clients=load.clients, transactions=transactions, seconds=seconds,
            rate=load.rate, protocol=load.protocol, options=options,
            reconnect=load.reconnect,
            log_prefix=self.scratch / f"log.{load.name}" if load.latency else None,
            variables={"rows": self.rows, "clients": load.clients, "i": 0,
                       **self.workload.variables, **self.variables})

    def run_loads(self, phase):
        """Run the loads of a phase to their end and note what they achieved."""
        running = []
        try:
            for load in phase.loads:
                running.append((load, self.start_load(load, phase.options)))
            for load, pgbench in running:
                if not load.background:
                    done, failed, tps = pgbench.finish()
                    self.add(phase.name, load.name, "transactions", done)
                    self.add(phase.name, load.name, "failed", failed)
                    if done == 1:
                        self.add(phase.name, load.name, "seconds", 1 / tps)
                    else:
                        self.add(phase.name, load.name, "tps", tps)
                    if load.latency:
                        self.add_latencies(phase, load, pgbench.latencies())
        finally:
            for load, pgbench in running:
                if pgbench.process.poll() is None:
                    pgbench.terminate()

    def add_latencies(self, phase, load, milliseconds):
        ordered = sorted(milliseconds)
        for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1)):
            at = min(len(ordered) - 1, int(share * len(ordered)))
            self.add(phase.name, load.name, f"latency {name}", ordered[at])


def numbers(row):
    return {name: value for name, value in row.items()
            if isinstance(value, (int, float)) and not isinstance(value, bool)
            and not name.endswith("relid")}


@contextlib.contextmanager
def held(cluster, what):
    """Another session that holds a snapshot or a transaction id."""
    if not what:
        yield
        return
    with cluster.session(DATABASE) as session:
        session.query(HOLDS[what])
        yield
        session.query("COMMIT")


@contextlib.contextmanager
def sampled(m):
    """Note sizes over time, and wait events if the workload asks for them."""
    started = time.monotonic()
    position = {"phase": ""}
    counts = {}

    def note_sizes(rows):
        now = time.monotonic() - started
        for index, blocks in rows:
            m.data.samples.append((m.workload.name, m.run, m.arm.name,
                                   position["phase"], index, now, int(blocks)))

    def note_waits(rows):
        for event, count in rows:
            counts[event] = counts.get(event, 0) + int(count)

    samplers = [Sampler(m.cluster, SIZES % ",".join(m.workload.indexes),
                        SAMPLE_INTERVAL, note_sizes)]
    if m.workload.waits:
        samplers.append(Sampler(m.cluster, WAITS, WAIT_SAMPLE_INTERVAL, note_waits))
    note_sizes(m.query(samplers[0].sql))
    for sampler in samplers:
        sampler.start()
    try:
        yield position
    finally:
        for sampler in samplers:
            sampler.stop()
    note_sizes(m.query(samplers[0].sql))
    for event, count in counts.items():
        m.add(position["phase"], event, "share of samples",
              count / sum(counts.values()))


def run_phases(m):
    """What most workloads do."""
    m.set_up()
    m.query("CHECKPOINT")
    m.sizes("before")
    with sampled(m) as position:
        for phase in m.workload.phases:
            position["phase"] = phase.name
            run_phase(m, phase)
    m.check()
    m.fresh()


def run_phase(m, phase):
    counters = m.counters()
    since = m.wal_position()
    with held(m.cluster, phase.hold):
        m.run_loads(phase)
        m.add_wal(phase.name, since)
        m.sizes(phase.name)
    m.add_counters(phase.name, counters, m.counters())


# --- a whole pass ------------------------------------------------------------

def make_template(cluster):
    """The database that every measurement starts from."""
    cluster.configure(SETTINGS)
    cluster.psql("postgres", "CREATE DATABASE bench_template")
    cluster.psql("bench_template",
                 "CREATE EXTENSION bunbtree; CREATE EXTENSION amcheck")
    cluster.psql("bench_template",
                 file=Path(__file__).resolve().parent.parent / "functions.sql")


def knows_setting(cluster, name):
    # The settings of the library are known once it is loaded.
    return cluster.psql(
        "bench_template",
        f"LOAD 'bunbtree'; SELECT current_setting('{name}', true) IS NOT NULL") == [["t"]]


def pass_over(cluster, workloads, runs, size, rows, scratch, progress):
    """Run everything; failures are noted and the rest goes on."""
    data = Data()
    make_template(cluster)
    workloads, left_out = usable(cluster, workloads)
    for workload, why in left_out:
        data.failures.append((workload.name, "", "", why))
        progress.say(f"{workload.name} left out: {why}")
    plan = [(run, workload, arm)
            for run in range(1, runs + 1)
            for workload in workloads
            for arm in rotated(run) if arm.name in workload.arms]
    progress.plan(plan)
    shared = {workload.name: {} for workload in workloads}
    for run, workload, arm in plan:
        m = Measurement(cluster, workload, arm, run,
                        rows or workload.scale.rows(size), size, data, scratch,
                        shared[workload.name])
        with progress.step(run, workload, arm):
            try:
                m.measure()
            except Failure as failure:
                data.forget(workload.name, run, arm.name)
                data.failures.append((workload.name, run, arm.name, str(failure)))
                progress.say(f"FAILED: {workload.name}, {arm.name}: {failure}")
    return data


def rotated(run):
    """So that no arm always comes after the same other, or first."""
    at = (run - 1) % len(ARMS)
    return ARMS[at:] + ARMS[:at]


def usable(cluster, workloads):
    use, left_out = [], []
    for workload in workloads:
        setting = workload.needs_setting
        if setting and not knows_setting(cluster, setting):
            left_out.append((workload, f"the server has no setting {setting}"))
        else:
            use.append(workload)
    return use, left_out


class Progress:
    """Lines for whoever waits."""

    def __init__(self, runs, out):
        self.runs = runs
        self.out = out
        self.left = []
        self.total = 0
        self.taken = {}

    def say(self, text):
        print(f"==> {text}", file=self.out, flush=True)

    def plan(self, plan):
        self.left = [workload.name for _, workload, _ in plan]
        self.total = len(plan)

    @contextlib.contextmanager
    def step(self, run, workload, arm):
        done = self.total - len(self.left)
        started = time.monotonic()
        self.say(f"[{done + 1}/{self.total}] {workload.name}, run {run} of "
                 f"{self.runs}: {arm.name}{self.estimate()}")
        yield
        self.taken.setdefault(workload.name, []).append(time.monotonic() - started)
        self.left.pop(0)

    def estimate(self):
        """Time left: what the workload has taken so far, else what others have."""
        if not self.taken:
            return ""
        known = {name: stats.median(taken) for name, taken in self.taken.items()}
        other = sum(known.values()) / len(known)
        seconds = sum(known.get(name, other) for name in self.left)
        if seconds < 90:
            return f", about {seconds:.0f} s left"
        return f", about {seconds / 60:.0f} min left"
