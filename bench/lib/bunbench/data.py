"""Single measurements, and their CSV file."""

import csv
from collections import defaultdict

FIELDS = ("workload", "run", "arm", "phase", "object", "metric", "value")
SAMPLE_FIELDS = ("workload", "run", "arm", "phase", "index", "seconds", "blocks")


class Data:
    """Measurements by (workload, arm, phase, object, metric), then run.

    Sizes are metric "blocks" of an index or table, with the phase after which
    they were taken, or "before", or "fresh" (after REINDEX).
    """

    def __init__(self):
        self.values = defaultdict(dict)
        self.samples = []
        self.failures = []

    def add(self, workload, run, arm, phase, thing, metric, value):
        self.values[workload, arm, phase, thing, metric][run] = float(value)

    def forget(self, workload, run, arm):
        """Drop what an attempt that failed has left."""
        for key, runs in self.values.items():
            if key[:2] == (workload, arm):
                runs.pop(run, None)
        self.samples = [s for s in self.samples
                        if (s[0], s[1], s[2]) != (workload, run, arm)]

    def joined(self, later):
        """With the measurements of a later pass, which replace those of the same
        workload, run and arm."""
        again = {(key[0], run, key[1]) for key, runs in later.values.items()
                 for run in runs}
        for attempt in again:
            self.forget(*attempt)
        for key, runs in later.values.items():
            self.values[key] = dict(sorted((self.values[key] | runs).items()))
        self.samples += later.samples
        return self

    def runs(self, workload, arm, phase, thing, metric):
        return self.values.get((workload, arm, phase, thing, metric), {})

    def list(self, workload, arm, phase, thing, metric):
        return list(self.runs(workload, arm, phase, thing, metric).values())

    def things(self, workload, metric, phase=None):
        """(phase, object) pairs that have a metric, in order of appearance."""
        found = {}
        for (w, _, p, thing, m), runs in self.values.items():
            if w == workload and m == metric and runs and phase in (None, p):
                found[p, thing] = None
        return list(found)

    # -- files --

    def write(self, directory):
        with (directory / "measurements.csv").open("w", newline="") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(FIELDS)
            for (workload, arm, *rest), runs in self.values.items():
                for run, value in runs.items():
                    writer.writerow([workload, run, arm, *rest, f"{value:.10g}"])
        with (directory / "samples.csv").open("w", newline="") as out:
            writer = csv.writer(out, lineterminator="\n")
            writer.writerow(SAMPLE_FIELDS)
            for sample in self.samples:
                writer.writerow([*sample[:5], f"{sample[5]:.3f}", sample[6]])

    @classmethod
    def read(cls, directory):
        data = cls()
        with (directory / "measurements.csv").open(newline="") as lines:
            for row in csv.DictReader(lines):
                data.add(row["workload"], int(row["run"]), row["arm"],
                         row["phase"], row["object"], row["metric"], row["value"])
        with (directory / "samples.csv").open(newline="") as lines:
            for row in csv.DictReader(lines):
                data.samples.append(
                    (row["workload"], int(row["run"]), row["arm"], row["phase"],
                     row["index"], float(row["seconds"]), int(row["blocks"])))
        return data
