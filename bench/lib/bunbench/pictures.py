"""SVG pictures for the report."""

import matplotlib
import numpy

matplotlib.use("svg")
# The same measurements make the same file.
matplotlib.rcParams.update({
    "svg.hashsalt": "bunbtree", "font.size": 10, "axes.spines.top": False,
    "axes.spines.right": False, "axes.grid": True, "grid.color": "#dddddd",
    "grid.linewidth": 0.6, "axes.axisbelow": True, "legend.frameon": False})

from matplotlib import pyplot  # noqa: E402

from . import stats  # noqa: E402
from .model import ARMS  # noqa: E402
from .requirements import growth  # noqa: E402

# Told apart by the colour-blind, and by brightness in print.
COLOURS = {"btree": "#d55e00", "off": "#999999", "hinted": "#56b4e9", "auto": "#0072b2"}
STYLES = {"btree": "-", "off": ":", "hinted": "--", "auto": "-"}
LABELS = {"btree": "btree", "off": "bunbtree off", "hinted": "bunbtree hinted",
          "auto": "bunbtree"}
MB = 8192 / 1048576


def save(figure, path):
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None},
                   bbox_inches="tight")
    pyplot.close(figure)


def curves(data, workload, index, arm):
    """Seconds and blocks of each run."""
    runs = {}
    for name, run, of_arm, _, of_index, seconds, blocks in data.samples:
        if (name, of_arm, of_index) == (workload.name, arm, index):
            runs.setdefault(run, []).append((seconds, blocks))
    return [tuple(zip(*points)) for points in runs.values() if len(points) > 1]


def size_over_time(data, workload, path, arms=None):
    """Median over the runs, and their range as a band; one panel an index.
    Returns False if there is nothing to show."""
    arms = arms or [arm.name for arm in ARMS]
    found = {(index, arm): curves(data, workload, index, arm)
             for index in workload.indexes for arm in arms}
    indexes = [i for i in workload.indexes if any(found[i, arm] for arm in arms)]
    if not indexes:
        return False

    columns = min(len(indexes), 3)
    rows = -(-len(indexes) // columns)
    figure, axes = pyplot.subplots(rows, columns, squeeze=False,
                                   figsize=(max(4.2 * columns, 5.5), 3 * rows))
    for place, axis in enumerate(axes.flat):
        if place >= len(indexes):
            axis.set_visible(False)
            continue
        index = indexes[place]
        for arm in arms:
            draw_curve(axis, found[index, arm], arm)
        axis.set_title(index, loc="left")
        axis.set_ylim(bottom=0)
        axis.set_xlim(left=0)
        axis.set_xlabel("seconds")
        axis.set_ylabel("MB")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncol=len(arms),
                  bbox_to_anchor=(0.5, 1.0))
    figure.tight_layout()
    save(figure, path)
    return True


def draw_curve(axis, runs, arm):
    if not runs:
        return
    # As far as all runs go.
    seconds = numpy.linspace(max(run[0][0] for run in runs),
                             min(run[0][-1] for run in runs), 200)
    sizes = numpy.array([numpy.interp(seconds, *run) for run in runs]) * MB
    axis.plot(seconds, numpy.median(sizes, axis=0), label=LABELS[arm],
              color=COLOURS[arm], linestyle=STYLES[arm],
              linewidth=2.2 if arm in ("btree", "auto") else 1.4)
    if len(runs) > 1:
        axis.fill_between(seconds, sizes.min(axis=0), sizes.max(axis=0),
                          color=COLOURS[arm], alpha=0.15, linewidth=0)


def growth_overview(data, workloads, path):
    """How much each index grew, btree and auto."""
    rows = []
    for workload in workloads:
        for index in workload.indexes:
            base = growth(data, workload, "btree", index)
            ours = growth(data, workload, "auto", index)
            if base is not None and ours is not None:
                name = workload.name
                if len(workload.indexes) > 1:
                    name += f", {index}"
                rows.append((name, 1 + base, 1 + ours))
    if not rows:
        return False
    rows.reverse()
    figure, axis = pyplot.subplots(figsize=(8, 0.9 + 0.26 * len(rows)))
    for place, (_, base, ours) in enumerate(rows):
        axis.plot([ours, base], [place, place], color="#bbbbbb", linewidth=1.5, zorder=1)
        axis.scatter([base], [place], color=COLOURS["btree"], s=34, zorder=2,
                     label=LABELS["btree"] if place == 0 else None)
        axis.scatter([ours], [place], color=COLOURS["auto"], s=34, zorder=3, marker="D",
                     label=LABELS["auto"] if place == 0 else None)
    axis.set_yticks(range(len(rows)), [row[0] for row in rows])
    axis.set_ylim(-0.6, len(rows) - 0.4)
    axis.set_xscale("log")
    ticks = [1, 1.5, 2, 3, 5, 10, 20, 50, 100, 200, 500, 1000]
    highest = max(max(row[1:]) for row in rows)
    axis.set_xticks([t for t in ticks if t <= 1.3 * highest] or [1])
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}×")
    axis.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    axis.set_xlabel("size after, in sizes before (logarithmic)")
    axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=2)
    save(figure, path)
    return True


def ratio_overview(data, workloads, path):
    """Throughput of auto relative to btree's, with intervals."""
    rows = []
    for workload in workloads:
        arms = [(metric, *arms, thing) for metric, arms in
                (("tps", ("auto", "btree")), ("seconds", ("btree", "auto")))
                for thing in data.things(workload.name, metric)]
        for metric, one, other, (phase, load) in arms:
            ratio = stats.ratio(
                data.runs(workload.name, one, phase, load, metric),
                data.runs(workload.name, other, phase, load, metric))
            if ratio is None:
                continue
            name = workload.name
            if len(workload.phases) > 1:
                name += f", {phase}"
            if any(len(p.loads) > 1 for p in workload.phases if p.name == phase):
                name += f", {load}"
            rows.append((name, ratio))
    if not rows:
        return False
    rows.reverse()
    figure, axis = pyplot.subplots(figsize=(8, 0.9 + 0.26 * len(rows)))
    axis.axvline(1, color=COLOURS["btree"], linewidth=1.5)
    for place, (_, ratio) in enumerate(rows):
        if ratio.low is not None:
            axis.plot([ratio.low, ratio.high], [place, place],
                      color=COLOURS["auto"], linewidth=1.8)
        axis.scatter([ratio.median], [place], color=COLOURS["auto"], s=30, zorder=3,
                     marker="D")
    axis.set_yticks(range(len(rows)), [row[0] for row in rows])
    axis.set_ylim(-0.6, len(rows) - 0.4)
    axis.set_xlabel("throughput, btree = 1 (median and 95 % interval; right is faster)")
    save(figure, path)
    return True
