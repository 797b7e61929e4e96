"""The report: Markdown and pictures, computed from what was measured."""

from . import environment as environments
from . import pictures, stats
from .catalogue import GROUPS, WORKLOADS
from .data import Data
from .model import ARMS
from .requirements import MET, MISSED, OPEN, final_phase, judge_all, percent

# Metrics that compare arms; the unit, and how to print a value.
SPEED = {"tps": ("transactions/s", "{:,.1f}"), "seconds": ("s", "{:.3f}"),
         "latency p50": ("ms", "{:.3f}"), "latency p99": ("ms", "{:.3f}"),
         "latency max": ("ms", "{:.1f}"), "instructions": ("", "{:,.0f}")}

NOT_COUNTERS = {*SPEED, "blocks", "rows", "transactions"}


def write(directory):
    """Make report.md and its pictures from the files in a directory."""
    data = Data.read(directory)
    environment = environments.read(directory)
    measured = [w for w in WORKLOADS if any(key[0] == w.name and runs
                                            for key, runs in data.values.items())]
    lines = head(environment, data)
    lines += requirements(data, measured)
    lines += overview(data, measured, directory)
    for group in GROUPS:
        chosen = [w for w in measured if w.group == group]
        if chosen:
            lines += [f"## {group}", ""]
        for workload in chosen:
            lines += one(data, workload, directory)
    (directory / "report.md").write_text("\n".join(lines) + "\n")


def table(header, rows, left=1):
    """A table whose first columns are text, the others numbers."""
    if not rows:
        return []
    marks = ["---"] * left + ["---:"] * (len(header) - left)
    return [row_of(header), row_of(marks), *map(row_of, rows), ""]


def row_of(cells):
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def head(environment, data):
    machine = environment["machine"]
    runs = max((run for runs in data.values.values() for run in runs), default=0)
    memory = machine["memory_mb"]
    lines = [
        "# bunbtree against btree",
        "",
        f"`{environment['command']}`, commit {environment['commit']}, "
        f"{environment['date']}.",
        "",
        f"* server: {environment['server']}"
        + (", **with assertions: times mean nothing**"
           if environment["assertions"] else ""),
        f"* machine: {machine['processor']}, {machine['cpus']} CPUs, "
        f"{memory or '?'} MB of memory, {machine['kernel']}",
        "* settings: " + ", ".join(f"`{name} = {value}`" for name, value
                                   in environment["settings"].items()),
        "* single measurements: `measurements.csv`, `samples.csv`; settings and "
        "machine: `environment.json`",
        "",
        "Every workload runs on a plain btree (`btree`) and on bunbtree with "
        "`bottomup` set to `off` (never looks for dead entries), `hinted` (only where "
        "btree would) and `auto` (the default), in turn, in a fresh database each "
        f"time, {runs} run(s). A ratio is to btree's value in the same run; medians of "
        "these ratios are shown, in parentheses a 95 % bootstrap interval of the median "
        f"(from 3 runs), and p of a Mann-Whitney test (from {stats.FEWEST_FOR_TEST}). "
        "Sizes are blocks of 8 kB; \"fresh\" is the size after REINDEX. amcheck has "
        "verified every index after every run.",
        "",
    ]
    if environment["failures"]:
        lines += ["**Without a result:**", ""]
        for workload, run, arm, why in environment["failures"]:
            where = f"{workload}, run {run}, {arm}" if run else workload
            lines.append(f"* {where}: {' '.join(why.split())}")
        lines.append("")
    return lines


def requirements(data, measured):
    rows = []
    counts = {MET: 0, MISSED: 0, OPEN: 0}
    for workload in measured:
        for verdict in judge_all(data, workload):
            counts[verdict.state] += 1
            rows.append([f"[{workload.name}](#{workload.name})", verdict.subject,
                         verdict.requirement, verdict.measured, verdict.state])
    if not rows:
        return []
    return [
        "## Requirements", "",
        f"{counts[MET]} met, {counts[MISSED]} not met, {counts[OPEN]} open: a limit "
        "on growth is open where btree itself grows no more than the share given, a "
        "limit that noise may exceed is open below "
        f"{stats.FEWEST_FOR_TEST} runs.", "",
        *table(["workload", "", "requirement (bunbtree auto)", "measured", ""],
               rows, left=5)]


def overview(data, measured, directory):
    lines = []
    if pictures.growth_overview(data, measured, directory / "growth.svg"):
        lines += ["## Growth", "", "![growth of every index](growth.svg)", ""]
    if pictures.ratio_overview(data, measured, directory / "throughput.svg"):
        lines += ["## Throughput", "",
                  "![throughput of every workload](throughput.svg)", ""]
    return lines


def one(data, workload, directory):
    title, *paragraphs = workload.describe()
    if workload.rounds:
        tables = [ways]
    else:
        tables = [sizes, speed, others]
    lines = [f"### {workload.name}", "", title]
    if workload.note:
        lines[-1] += f" {workload.note}"
    lines.append("")
    for paragraph in paragraphs:
        lines += [paragraph, ""]
    for make in tables:
        lines += make(data, workload)
    picture = directory / f"{workload.name}.svg"
    if pictures.size_over_time(data, workload, picture):
        lines += [f"![index size over time]({picture.name})", ""]
    return lines


def sizes(data, workload):
    rows = []
    end = final_phase(workload)
    counted = bool(data.things(workload.name, "rows"))
    for relation in (*workload.indexes, *workload.tables):
        for arm in ARMS:
            def blocks(phase, metric="blocks"):
                # pylint: disable=cell-var-from-loop
                found = data.list(workload.name, arm.name, phase, relation, metric)
                return stats.median(found) if found else None

            before, after, fresh = blocks("before"), blocks(end), blocks("fresh")
            if before is None or after is None:
                continue
            row = [relation, arm.name]
            if counted:
                nrows = blocks("before", "rows")
                row.append("" if nrows is None else f"{nrows:,.0f}")
            row += [f"{before:,.0f}", f"{before * pictures.MB:.1f}",
                    f"{after:,.0f}", f"{after * pictures.MB:.1f}",
                    percent(after / before - 1),
                    "" if fresh is None else f"{fresh:,.0f}",
                    "" if fresh is None else f"{after / fresh:.2f}"]
            rows.append(row)
    header = ["relation", "arm", *(["rows"] if counted else []),
              "blocks before", "MB before", "blocks after", "MB after",
              "growth", "fresh", "× fresh"]
    return table(header, rows, left=2)


def speed(data, workload):
    rows = []
    for metric, (unit, form) in SPEED.items():
        for phase, thing in data.things(workload.name, metric):
            base = data.runs(workload.name, "btree", phase, thing, metric)
            for arm in ARMS:
                runs = data.runs(workload.name, arm.name, phase, thing, metric)
                if not runs:
                    continue
                low, high = stats.spread(runs.values())
                row = [what(workload, phase, thing), metric_name(metric, unit), arm.name,
                       form.format(stats.median(runs.values())),
                       f"{form.format(low)}–{form.format(high)}"]
                ratio = stats.ratio(runs, base) if arm.name != "btree" else None
                rows.append(row + ratio_cells(ratio))
    return table(["load", "", "arm", "median", "min–max", "ratio", "95 %", "p"],
                 rows, left=3)


def ways(data, workload):
    """A column for each way and arm; medians."""
    columns = [(phase.name, arm) for arm in workload.arms for phase in workload.phases]
    keys = {}
    for (name, _, phase, thing, metric), runs in data.values.items():
        if name == workload.name and runs:
            # The state before is the same for all ways, up to what VACUUM does.
            way, *before = phase.split(", ")
            keys[thing, metric, bool(before)] = None
    rows = []
    for thing, metric, before in keys:
        cells = []
        for way, arm in columns:
            found = data.list(workload.name, arm, f"{way}, before" if before else way,
                              thing, metric)
            cells.append(f"{stats.median(found):,.6g}" if found else "")
        rows.append([thing, metric + (" before" if before else ""), *cells])
    return table(["", "", *(f"{way}, {arm}" for way, arm in columns)], rows, left=2)


def metric_name(metric, unit):
    if not unit or metric in (unit, "tps"):
        return metric
    return f"{metric}, {unit}"


def ratio_cells(ratio):
    if ratio is None:
        return ["", "", ""]
    return [f"{ratio.median:.3f}",
            "" if ratio.low is None else f"{ratio.low:.3f}–{ratio.high:.3f}",
            "" if ratio.p is None else f"{ratio.p:.3f}"]


def what(workload, phase, thing):
    if len(workload.phases) > 1 and phase:
        return f"{phase}: {thing}" if thing else phase
    return thing


def others(data, workload):
    """All else that was measured: WAL, counters, waits."""
    keys = {}
    for (name, _, phase, thing, metric), runs in data.values.items():
        if name == workload.name and metric not in NOT_COUNTERS and runs:
            keys[phase, thing, metric] = None
    rows = []
    for phase, thing, metric in keys:
        cells = []
        for arm in ARMS:
            found = data.list(workload.name, arm.name, phase, thing, metric)
            cells.append(f"{stats.median(found):,.4g}" if found and
                         stats.median(found) < 100 else
                         f"{stats.median(found):,.0f}" if found else "")
        # A count that nothing ever raised is not worth a line.
        if any(cell not in ("", "0") for cell in cells):
            rows.append([what(workload, phase, thing), metric, *cells])
    if not rows:
        return []
    return ["<details><summary>WAL, counters and the like (medians)</summary>", "",
            *table(["", "", *(arm.name for arm in ARMS)], rows, left=2),
            "</details>", ""]
