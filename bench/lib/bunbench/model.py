"""What a workload is: the vocabulary of catalogue.py."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "workloads"


@dataclass(frozen=True)
class Arm:
    """What the indexes under test are: psql variables "am" and "with"."""

    name: str
    am: str
    bottomup: str | None = None

    @property
    def options(self):
        return f"WITH (bottomup = {self.bottomup})" if self.bottomup else ""


ARMS = (
    Arm("btree", "btree"),
    Arm("off", "bunbtree", "off"),
    Arm("hinted", "bunbtree", "hinted"),
    Arm("auto", "bunbtree", "auto"),
)


# Ways to deal with a sparse index, which are the phases of such a workload.  To read
# it is none: it tells what a session does to clients by needing a CPU as compaction
# does, but no lock.
NOTHING, READ, COMPACT, REINDEX = WAYS = ("nothing", "read", "compact", "reindex")


@dataclass(frozen=True)
class Scale:
    """How much is done: rows at --quick, by default and at --full, and the
    length of loads that are bounded by time."""

    quick: int
    default: int
    full: int

    def rows(self, size):
        return getattr(self, size)


@dataclass(frozen=True)
class Load:
    """One pgbench: a script of bench/workloads.

    "per_row" transactions for each row of the table (all clients together), or
    exactly "transactions", or "seconds" by default scale.  A background load
    goes on until the others of its phase have ended.
    """

    script: str
    per_row: float | None = None
    transactions: int | None = None
    seconds: float | None = None
    clients: int = 1
    rate: int | None = None
    latency: bool = False
    background: bool = False
    # A new connection for each transaction.
    reconnect: bool = False
    protocol: str = "prepared"
    role: str = ""

    @property
    def name(self):
        return self.role or self.script


@dataclass(frozen=True)
class Phase:
    """Loads that run at the same time.  Index sizes are taken after each phase.

    hold: "snapshot" or "xid", what another session keeps for the whole phase.
    skip_unless: a server setting without which the phase makes no sense.
    """

    name: str
    loads: tuple[Load, ...]
    hold: str | None = None
    options: str = ""


@dataclass(frozen=True)
class Workload:
    """One row of the catalogue.  "setup" is bench/workloads/<setup>.sql, whose
    head comment says what the workload shows and where it comes from."""

    name: str
    group: str
    scale: Scale
    phases: tuple[Phase, ...] = ()
    indexes: tuple[str, ...] = ()
    requires: tuple = ()
    setup: str = ""
    # Tables whose size is of interest, too.
    tables: tuple[str, ...] = ()
    # Further psql and pgbench variables.
    variables: dict = field(default_factory=dict)
    # Server settings, on top of those that all have.
    settings: dict = field(default_factory=dict)
    # A setting that the server must know, else the workload is left out.
    needs_setting: str = ""
    # A query that returns true if no row was lost.
    intact: str = ""
    # Sample wait events of the load's backends.
    waits: bool = False
    # Part of --quick.
    quick: bool = False
    # Also count instructions, by valgrind.
    counts_instructions: bool = False
    # Instead of the phases.
    runner: Callable | None = None
    # Arms that make a difference.
    arms: tuple[str, ...] = tuple(arm.name for arm in ARMS)
    # How often the ways are gone, if the phases are ways.
    rounds: int = 0
    # What differs from the text in the setup file's head.
    note: str = ""

    @property
    def setup_file(self):
        return SCRIPTS / f"{self.setup or self.name}.sql"

    def describe(self):
        """Title and paragraphs of the head comment of the setup file."""
        return head_comment(self.setup_file)


def script_file(script):
    return SCRIPTS / f"{script}.pgbench"


def head_comment(path):
    """The comment at the top of an SQL file, as a list of paragraphs."""
    lines = []
    for line in path.read_text().splitlines():
        found = re.fullmatch(r"--(?: (.*))?", line)
        if not found:
            break
        lines.append(found.group(1) or "")
    paragraphs = re.split(r"\n\s*\n", "\n".join(lines).strip())
    return [" ".join(p.split()) for p in paragraphs if p.strip()]
