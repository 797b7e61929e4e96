"""Tests of what bench/run computes; make test runs them."""

import json
import re
import tempfile
import unittest
import xml.dom.minidom
from pathlib import Path

from bunbench import __main__ as program
from bunbench import environment, report, stats
from bunbench.catalogue import GROUPS, WORKLOADS
from bunbench.data import Data
from bunbench.model import ARMS, SCRIPTS, Load, Phase, Scale, Workload, script_file
from bunbench.requirements import (MET, MISSED, OPEN, Between, CountAtMost, FigureAtMost,
                                   GrowthAtMost, GrowthShare, GrowthsWithin, RatioAtLeast,
                                   RatioAtMost, SizeAtMost, Zero, judge_all)
from bunbench.server import Failure

LOAD = (Phase("load", (Load("churn_fifo", per_row=1),)),)


def made_up(requirement):
    return Workload("made_up", "Churn", Scale(1, 1, 1), phases=LOAD, indexes=("k",),
                    requires=(requirement,), setup="churn_fifo")


def measured(metric, thing="k", phase="load", **arms):
    """Data with one value a run, for each arm given."""
    data = Data()
    add(data, metric, thing, phase, **arms)
    return data


def add(data, metric, thing, phase, **arms):
    for arm, values in arms.items():
        for run, value in enumerate(values, 1):
            data.add("made_up", run, arm, phase, thing, metric, value)


def grown(before, **after):
    data = measured("blocks", phase="before", **{arm: [before] for arm in after})
    add(data, "blocks", "k", "load", **{arm: [size] for arm, size in after.items()})
    return data


def state(data, requirement):
    verdict, = judge_all(data, made_up(requirement))
    return verdict.state


class Statistics(unittest.TestCase):
    def test_ratio_is_taken_within_runs(self):
        # The machine became twice as slow, for both.
        ratio = stats.ratio({1: 90, 2: 45, 3: 30}, {1: 100, 2: 50, 3: 25})
        self.assertAlmostEqual(ratio.median, 0.9)
        self.assertEqual(ratio.n, 3)

    def test_ratio_needs_both_arms(self):
        self.assertIsNone(stats.ratio({1: 5}, {2: 5}))
        self.assertEqual(stats.ratio({1: 5, 2: 6}, {2: 3}).median, 2)

    def test_interval_of_five_spans_all(self):
        self.assertEqual(stats.interval([3, 1, 2, 5, 4]), (1, 5))

    def test_interval_of_many_is_narrower(self):
        low, high = stats.interval(range(101))
        self.assertTrue(30 < low < 50 < high < 70, (low, high))

    def test_interval_takes_three(self):
        self.assertEqual(stats.interval([1, 2]), (None, None))
        self.assertEqual(stats.interval([2, 2, 2]), (2, 2))

    def test_p_value_of_separate_samples(self):
        # Of the 252 ways to choose five of ten, two are as extreme.
        self.assertAlmostEqual(stats.p_value([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]), 2 / 252)

    def test_p_value_of_equal_samples(self):
        self.assertEqual(stats.p_value([1, 1, 1, 1], [1, 1, 1, 1]), 1)

    def test_p_value_takes_four(self):
        self.assertIsNone(stats.p_value([1, 2, 3], [4, 5, 6]))


class Requirements(unittest.TestCase):
    def test_growth_share(self):
        self.assertEqual(state(grown(100, btree=200, auto=133), GrowthShare(1 / 3)), MET)
        self.assertEqual(state(grown(100, btree=200, auto=134), GrowthShare(1 / 3)), MISSED)

    def test_growth_share_is_open_if_btree_hardly_grows(self):
        self.assertEqual(state(grown(100, btree=120, auto=120), GrowthShare(1 / 3)), OPEN)
        self.assertEqual(state(grown(100, btree=120, auto=120),
                               GrowthShare(1 / 3, floor=0)), MISSED)

    def test_growth_share_per_transaction(self):
        wanted = GrowthShare(1.0, floor=0, per_transaction=True)
        for count, expected in ((200, MET), (199, MISSED)):
            data = grown(100, btree=110, auto=120)
            add(data, "transactions", "churn", "load", btree=[100], auto=[count])
            self.assertEqual(state(data, wanted), expected)

    def test_growth_limit(self):
        self.assertEqual(state(grown(100, auto=134), GrowthAtMost(0.35)), MET)
        self.assertEqual(state(grown(100, auto=136), GrowthAtMost(0.35)), MISSED)

    def test_growths_within(self):
        wanted = GrowthsWithin(0.03, ("k", "other"))
        for size, expected in ((112, MET), (114, MISSED)):
            data = grown(100, auto=110)
            add(data, "blocks", "other", "before", auto=[100])
            add(data, "blocks", "other", "load", auto=[size])
            self.assertEqual(state(data, wanted), expected)

    def test_size(self):
        data = grown(100, btree=200, auto=200)
        self.assertEqual(state(data, SizeAtMost(1.0)), MET)
        add(data, "blocks", "k", "fresh", auto=[60])
        self.assertEqual(state(data, SizeAtMost(3.0, fresh=True)), MISSED)

    def test_cost(self):
        data = measured("seconds", btree=[10, 10], auto=[9, 10], off=[8, 8])
        self.assertEqual(state(data, RatioAtMost("seconds", 0.95)), MET)
        self.assertEqual(state(data, RatioAtMost("seconds", 0.90)), MISSED)
        self.assertEqual(state(data, RatioAtMost("seconds", 1.02, base="off")), MISSED)

    def test_speed(self):
        data = measured("tps", btree=[100] * 3, auto=[98] * 3)
        self.assertEqual(state(data, RatioAtLeast("tps", 0.97)), MET)
        self.assertEqual(state(data, RatioAtLeast("tps", 0.99)), MISSED)

    def test_noise_excuses_only_if_it_can_be_told(self):
        few = measured("tps", btree=[100] * 3, auto=[90] * 3)
        noisy = measured("tps", btree=[100, 80, 120, 90], auto=[85, 110, 95, 75])
        slower = measured("tps", btree=[100, 101, 102, 103], auto=[90, 91, 92, 93])
        wanted = RatioAtLeast("tps", 1.0, or_noise=True)
        self.assertEqual(state(few, wanted), OPEN)
        self.assertEqual(state(noisy, wanted), MET)
        self.assertEqual(state(slower, wanted), MISSED)

    def test_count(self):
        wanted = CountAtMost("passes", 40)
        self.assertEqual(state(measured("passes", auto=[40, 3]), wanted), MET)
        self.assertEqual(state(measured("passes", auto=[3, 41]), wanted), MISSED)

    def test_figure_relative_to_another(self):
        data = measured("WAL", phase="reindex", auto=[100, 200, 100])
        add(data, "WAL", "k", "compact", auto=[120, 240, 130])
        figures = ("compact", "k", "WAL"), ("reindex", "k", "WAL")
        self.assertEqual(state(data, Between(*figures, 1.2, "")), MET)
        self.assertEqual(state(data, Between(*figures, 1.19, "")), MISSED)
        self.assertEqual(state(data, Between(*figures, 1.2, "", least=True)), MET)
        self.assertEqual(state(data, Between(*figures, 1.21, "", least=True)), MISSED)

    def test_figure(self):
        data = measured("hold", phase="compact", auto=[1, 2, 9])
        self.assertEqual(state(data, FigureAtMost(("compact", "k", "hold"), 2, "")), MET)
        self.assertEqual(state(data, FigureAtMost(("compact", "k", "hold"), 1.9, "")), MISSED)

    def test_zero(self):
        wanted = Zero("bytes", "load", "none")
        self.assertEqual(state(measured("bytes", auto=[0, 0]), wanted), MET)
        self.assertEqual(state(measured("bytes", auto=[0, 1]), wanted), MISSED)


class Catalogue(unittest.TestCase):
    def test_names_are_unique(self):
        names = [w.name for w in WORKLOADS]
        self.assertEqual(len(names), len(set(names)))

    def test_some_are_chosen(self):
        def names(*options):
            return [w.name for w in program.chosen(program.parser().parse_args(["measure", *options]))]

        every = [w.name for w in WORKLOADS]
        self.assertEqual(names(), every)
        self.assertEqual(names("--workload", "note_0?", "--workload", "queue"),
                         [n for n in every if n.startswith("note_0") or n == "queue"])
        self.assertEqual(names("--except", "compact_*", "--except", "queue"),
                         [n for n in every if not n.startswith("compact_") and n != "queue"])
        self.assertLess(len(names("--quick")), len(every))
        for wrong in (("--except", "*"), ("--workload", "nonsense"), ("--except", "nonsense")):
            with self.assertRaises(SystemExit):
                names(*wrong)

    def test_every_script_exists_and_is_used(self):
        used = set()
        for workload in WORKLOADS:
            used.add(workload.setup_file)
            used |= {script_file(load.script)
                     for phase in workload.phases for load in phase.loads}
        self.assertEqual(used, set(SCRIPTS.iterdir()))

    def test_every_workload_says_where_it_comes_from(self):
        for workload in WORKLOADS:
            with self.subTest(workload.name):
                self.assertIn(workload.group, GROUPS)
                self.assertTrue(any(p.startswith("From: ") for p in workload.describe()))

    def test_every_load_ends(self):
        for workload in WORKLOADS:
            for phase in workload.phases:
                with self.subTest(workload.name, phase=phase.name):
                    self.assertTrue(any(not load.background for load in phase.loads))
                    for load in phase.loads:
                        limits = (load.per_row, load.transactions, load.seconds)
                        self.assertEqual(sum(l is not None for l in limits),
                                         0 if load.background else 1)


class Report(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.directory = Path(place.name)
        data = Data()
        for arm in ARMS:
            for run in (1, 2, 3):
                size = 110 + run if arm.name == "auto" else 200
                for phase, blocks in (("before", 100), ("load", size), ("fresh", 80)):
                    data.add("churn_fifo", run, arm.name, phase, "churn_k", "blocks", blocks)
                data.add("churn_fifo", run, arm.name, "load", "churn_fifo", "tps", 1000 + run)
                for tick in range(5):
                    data.samples.append(("churn_fifo", run, arm.name, "load", "churn_k",
                                         tick / 2, 100 + tick * (size - 100) // 4))
        self.data = data
        data.write(self.directory)
        (self.directory / "environment.json").write_text(json.dumps({
            "date": "2025-01-01", "commit": "abc", "command": "bench/run",
            "server": "PostgreSQL", "assertions": False, "settings": {},
            "machine": {"processor": "p", "cpus": 1, "memory_mb": 1, "kernel": "k"},
            "failures": [["queue", 1, "btree", "it broke"]]}))

    def test_files_keep_what_was_measured(self):
        again = Data.read(self.directory)
        self.assertEqual(dict(again.values), dict(self.data.values))
        self.assertEqual(again.samples, self.data.samples)

    def test_later_run_joins(self):
        later = Data()
        later.add("churn_fifo", 1, "auto", "load", "churn_fifo", "tps", 7)
        later.add("queue", 1, "auto", "load", "queue", "tps", 8)
        joined = Data.read(self.directory).joined(later)
        self.assertEqual(joined.list("churn_fifo", "auto", "load", "churn_fifo", "tps")[0], 7)
        # The whole measurement is replaced.
        self.assertEqual(joined.list("churn_fifo", "auto", "load", "churn_k", "blocks"),
                         [112, 113])
        self.assertEqual(joined.list("queue", "auto", "load", "queue", "tps"), [8])

    def test_later_run_must_be_alike(self):
        facts = environment.read(self.directory)
        environment.must_equal(facts | {"command": "another"}, self.directory)
        with self.assertRaises(Failure):
            environment.must_equal(facts | {"commit": "another"}, self.directory)

    def test_report(self):
        report.write(self.directory)
        text = (self.directory / "report.md").read_text()
        self.assertIn("2 met, 0 not met, 0 open", text)
        self.assertIn("+12.0 %, btree +100.0 %", text)
        self.assertIn("queue, run 1, btree: it broke", text)
        pictures = re.findall(r"\]\((\S+\.svg)\)", text)
        self.assertEqual(sorted(pictures), ["churn_fifo.svg", "growth.svg", "throughput.svg"])
        for picture in pictures:
            xml.dom.minidom.parse(str(self.directory / picture))

    def test_ways(self):
        for phase, leaves in (("nothing", 90), ("compact, before", 95), ("compact", 20)):
            self.data.add("compact_retention", 1, "auto", phase, "sparse_k", "leaf pages", leaves)
        self.data.write(self.directory)
        report.write(self.directory)
        text = (self.directory / "report.md").read_text()
        self.assertIn("| sparse_k | leaf pages |  |  |  |  | 90 |  | 20 |  |", text)
        self.assertIn("| sparse_k | leaf pages before |  |  |  |  |  |  | 95 |  |", text)

    def test_report_repeats(self):
        report.write(self.directory)
        first = (self.directory / "churn_fifo.svg").read_text()
        report.write(self.directory)
        self.assertEqual((self.directory / "churn_fifo.svg").read_text(), first)


if __name__ == "__main__":
    unittest.main()
