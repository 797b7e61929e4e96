"""What the benchmarks are held to.

A requirement looks at the measurements of its workload and returns verdicts; no
outcome is written down anywhere.
"""

from dataclasses import dataclass

from . import stats

MET, MISSED, OPEN = "met", "**not met**", "open"


@dataclass(frozen=True)
class Verdict:
    """subject: which index or script; state: MET, MISSED, or OPEN if it cannot
    be told, which "measured" explains."""

    subject: str
    requirement: str
    measured: str
    state: str


def percent(share):
    return f"{100 * share:+.1f} %"


def show_ratio(ratio):
    text = f"{ratio.median:.3f}"
    if ratio.low is not None:
        text += f" ({ratio.low:.3f}–{ratio.high:.3f})"
    if ratio.p is not None:
        text += f", p = {ratio.p:.3f}"
    return text


def final_phase(workload):
    return workload.phases[-1].name if workload.phases else "after"


def growths(data, workload, arm, index, start="before", end=None):
    """Growth of an index as a share, of each run."""
    before = data.runs(workload.name, arm, start, index, "blocks")
    after = data.runs(workload.name, arm, end or final_phase(workload), index, "blocks")
    return {run: after[run] / before[run] - 1 for run in after if before.get(run)}


def growth(*arguments):
    """Median growth, or None."""
    grown = growths(*arguments)
    return stats.median(grown.values()) if grown else None


def growth_per_transaction(data, workload, arm, index):
    """Median growth by one transaction of the last phase, or None."""
    done = {}
    for phase, load in data.things(workload.name, "transactions", final_phase(workload)):
        for run, count in data.runs(workload.name, arm, phase, load, "transactions").items():
            done[run] = done.get(run, 0) + count
    grown = [share / done[run]
             for run, share in growths(data, workload, arm, index).items() if done.get(run)]
    return stats.median(grown) if grown else None


class Requirement:
    def judge(self, data, workload):
        raise NotImplementedError


@dataclass(frozen=True)
class RatioAtMost(Requirement):
    """A cost relative to another arm (default btree)."""

    metric: str
    limit: float
    base: str = "btree"
    arm: str = "auto"
    # Also met if the difference is not significant.
    or_noise: bool = False

    def judge(self, data, workload):
        wanted = f"{self.metric} at most {self.limit:.2f} of {self.base}'s"
        if self.or_noise:
            wanted += ", or p > 0.05"
        for phase, thing in data.things(workload.name, self.metric):
            ratio = stats.ratio(
                data.runs(workload.name, self.arm, phase, thing, self.metric),
                data.runs(workload.name, self.base, phase, thing, self.metric))
            if ratio is None:
                continue
            fine = ratio.median <= self.limit
            if self.or_noise and not fine:
                fine = None if ratio.p is None else ratio.p > 0.05
            yield Verdict(subject(workload, phase, thing), wanted,
                          show_ratio(ratio), state(fine))


@dataclass(frozen=True)
class RatioAtLeast(Requirement):
    """A speed relative to another arm (default btree), of one load or of all."""

    metric: str
    limit: float
    load: str = ""
    # Missed only if the difference is significant.
    or_noise: bool = False
    base: str = "btree"

    def judge(self, data, workload):
        wanted = f"{self.metric} at least {self.limit:.2f} of {self.base}'s"
        if self.or_noise:
            wanted += ", or p > 0.05"
        for phase, thing in data.things(workload.name, self.metric):
            if self.load not in ("", thing):
                continue
            ratio = stats.ratio(
                data.runs(workload.name, "auto", phase, thing, self.metric),
                data.runs(workload.name, self.base, phase, thing, self.metric))
            if ratio is None:
                continue
            fine = ratio.median >= self.limit
            if self.or_noise and not fine:
                fine = None if ratio.p is None else ratio.p > 0.05
            yield Verdict(subject(workload, phase, thing), wanted,
                          show_ratio(ratio), state(fine))


@dataclass(frozen=True)
class GrowthShare(Requirement):
    """Growth at most a share of btree's, for indexes that btree lets grow by
    more than "floor"; those named, or all.

    per_transaction: of a load bounded by time, else the faster arm has more to
    grow by.
    """

    share: float
    floor: float = 0.30
    indexes: tuple[str, ...] = ()
    start: str = "before"
    end: str = ""
    per_transaction: bool = False

    def judge(self, data, workload):
        for index in self.indexes or workload.indexes:
            base = growth(data, workload, "btree", index, self.start, self.end)
            ours = growth(data, workload, "auto", index, self.start, self.end)
            wanted = f"growth at most {self.share:.2f} of btree's"
            if self.floor > 0:
                wanted += f" where that is over {100 * self.floor:.0f} %"
            if base is None or ours is None:
                continue
            measured = f"{percent(ours)}, btree {percent(base)}"
            if base <= self.floor and self.floor > 0:
                yield Verdict(index, wanted, measured, OPEN)
                continue
            if self.per_transaction:
                base = growth_per_transaction(data, workload, "btree", index)
                ours = growth_per_transaction(data, workload, "auto", index)
                wanted += ", per transaction"
                if base > 0:
                    measured += f"; per transaction {ours / base:.2f}"
            yield Verdict(index, wanted, measured,
                          state(ours <= self.share * max(base, 0)))


@dataclass(frozen=True)
class GrowthAtMost(Requirement):
    """An absolute limit."""

    limit: float
    indexes: tuple[str, ...] = ()

    def judge(self, data, workload):
        for index in self.indexes or workload.indexes:
            ours = growth(data, workload, "auto", index)
            if ours is not None:
                yield Verdict(index, f"growth at most {percent(self.limit)}",
                              percent(ours), state(ours <= self.limit))


@dataclass(frozen=True)
class SizeAtMost(Requirement):
    """Final size relative to btree's, or to a fresh build of itself."""

    limit: float
    fresh: bool = False

    def judge(self, data, workload):
        for index in workload.indexes:
            end = final_phase(workload)
            ours = data.runs(workload.name, "auto", end, index, "blocks")
            if self.fresh:
                base = data.runs(workload.name, "auto", "fresh", index, "blocks")
            else:
                base = data.runs(workload.name, "btree", end, index, "blocks")
            ratio = stats.ratio(ours, base)
            if ratio is not None:
                whose = "a fresh build's" if self.fresh else "btree's"
                yield Verdict(index, f"size at most {self.limit:.2f} of {whose}",
                              show_ratio(ratio), state(ratio.median <= self.limit))


@dataclass(frozen=True)
class GrowthsWithin(Requirement):
    """Two indexes that should grow alike."""

    share: float
    indexes: tuple[str, str]

    def judge(self, data, workload):
        first, second = (growth(data, workload, "auto", index)
                         for index in self.indexes)
        if first is not None and second is not None:
            yield Verdict(" and ".join(self.indexes),
                          f"growth differs by at most {100 * self.share:.0f} points",
                          f"{percent(first)}, {percent(second)}",
                          state(abs(first - second) <= self.share))


@dataclass(frozen=True)
class CountAtMost(Requirement):
    """A counter of every index, in every run."""

    metric: str
    limit: int

    def judge(self, data, workload):
        for phase, thing in data.things(workload.name, self.metric):
            found = data.list(workload.name, "auto", phase, thing, self.metric)
            if found:
                yield Verdict(subject(workload, phase, thing),
                              f"{self.metric} at most {self.limit}",
                              f"{max(found):.0f}", state(max(found) <= self.limit))


@dataclass(frozen=True)
class Between(Requirement):
    """A figure relative to another one of the same arm and run, both named by
    (phase, thing, metric); at most the limit, or at least."""

    figure: tuple[str, str, str]
    base: tuple[str, str, str]
    limit: float
    what: str
    least: bool = False
    arm: str = "auto"

    def judge(self, data, workload):
        ratio = stats.ratio(data.runs(workload.name, self.arm, *self.figure),
                            data.runs(workload.name, self.arm, *self.base))
        if ratio is not None:
            fine = ratio.median >= self.limit if self.least else ratio.median <= self.limit
            yield Verdict(self.figure[1], self.what, show_ratio(ratio), state(fine))


@dataclass(frozen=True)
class FigureAtMost(Requirement):
    """A figure (phase, thing, metric): its median over the runs."""

    figure: tuple[str, str, str]
    limit: float
    what: str
    arm: str = "auto"

    def judge(self, data, workload):
        found = data.list(workload.name, self.arm, *self.figure)
        if found:
            low, high = stats.spread(found)
            yield Verdict(self.figure[1], self.what,
                          f"{stats.median(found):.3f} ({low:.3f}–{high:.3f})",
                          state(stats.median(found) <= self.limit))


@dataclass(frozen=True)
class Zero(Requirement):
    """A count that has to be nought in every run."""

    metric: str
    phase: str
    what: str

    def judge(self, data, workload):
        for phase, thing in data.things(workload.name, self.metric, self.phase):
            found = data.list(workload.name, "auto", phase, thing, self.metric)
            if found:
                yield Verdict(subject(workload, phase, thing), self.what,
                              f"{max(found):.0f}", state(max(found) == 0))


def state(fine):
    return OPEN if fine is None else MET if fine else MISSED


def subject(workload, phase, thing):
    if len(workload.phases) > 1 and phase not in thing:
        return f"{phase}: {thing}" if thing else phase
    return thing


def judge_all(data, workload):
    """Verdicts of all requirements of a workload that was measured."""
    for requirement in workload.requires:
        yield from requirement.judge(data, workload)
