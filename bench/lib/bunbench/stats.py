"""Statistics of a few repeated runs.

Arms are interleaved, so a ratio is taken within a run, where the machine was in
about the same state; the figure quoted is the median of these ratios.

numpy and scipy are loaded where they are used: listing workloads needs neither.
"""

import statistics
from dataclasses import dataclass

CONFIDENCE = 0.95
RESAMPLES = 10000
SEED = 20210120

# With fewer values a side no Mann-Whitney test can come below p = 0.05.
FEWEST_FOR_TEST = 4


@dataclass(frozen=True)
class Ratio:
    """Of an arm to the base: median over the runs, confidence interval, and p of
    the two arms having the same distribution.  What takes more runs is None."""

    median: float
    low: float | None
    high: float | None
    p: float | None
    n: int


def median(values):
    return float(statistics.median(values))


def spread(values):
    """Smallest and largest."""
    return float(min(values)), float(max(values))


def interval(values):
    """Bootstrap percentile interval of the median.  With five values it spans
    all of them, which covers the true median in 94 % of cases."""
    import numpy

    values = numpy.asarray(list(values), dtype=float)
    if len(values) < 3:
        return None, None
    if numpy.ptp(values) == 0:
        return float(values[0]), float(values[0])
    picks = numpy.random.default_rng(SEED).integers(
        0, len(values), (RESAMPLES, len(values)))
    medians = numpy.median(values[picks], axis=1)
    tail = (1 - CONFIDENCE) / 2
    low, high = numpy.quantile(medians, [tail, 1 - tail])
    return float(low), float(high)


def p_value(one, other):
    """Two-sided Mann-Whitney U test."""
    one, other = list(one), list(other)
    if min(len(one), len(other)) < FEWEST_FOR_TEST:
        return None
    if len(set(one + other)) == 1:
        return 1.0
    from scipy.stats import mannwhitneyu

    return float(mannwhitneyu(one, other, alternative="two-sided").pvalue)


def ratio(arm, base):
    """Compare two arms, each a dictionary of values by run."""
    shared = [run for run in arm if base.get(run)]
    if not shared:
        return None
    ratios = [arm[run] / base[run] for run in shared]
    low, high = interval(ratios)
    return Ratio(median(ratios), low, high,
                 p_value([arm[r] for r in shared], [base[r] for r in shared]),
                 len(shared))
