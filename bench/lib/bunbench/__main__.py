"""Command line; bench/run calls this when a server is there to use."""

import argparse
import json
import re
import shlex
import sys
from pathlib import Path

SCALES = ("quick", "default", "full")


def positive(text):
    number = int(text)
    if number <= 0:
        raise argparse.ArgumentTypeError(f"not a positive number: {text}")
    return number


def parser():
    parse = argparse.ArgumentParser(prog="bench/run", add_help=False)
    parse.add_argument("action", choices=("list", "components", "measure", "report"))
    parse.add_argument("--quick", dest="size", action="store_const", const="quick")
    parse.add_argument("--full", dest="size", action="store_const", const="full")
    parse.add_argument("--workload", action="append", default=[])
    parse.add_argument("--except", action="append", default=[], dest="without")
    parse.add_argument("--rows", type=positive)
    parse.add_argument("--runs", type=positive)
    # What only bench/run says.
    parse.add_argument("--bindir", type=Path)
    parse.add_argument("--data", type=Path)
    parse.add_argument("--socket")
    parse.add_argument("--output", type=Path)
    parse.add_argument("--earlier", type=Path)
    parse.add_argument("--commit", default="unknown")
    return parse


def chosen(arguments):
    """Workloads: those named, by shell patterns, else all of the scale; save those
    that are not wanted."""
    from fnmatch import fnmatchcase

    from .catalogue import WORKLOADS

    for pattern in arguments.workload + arguments.without:
        if not any(fnmatchcase(w.name, pattern) for w in WORKLOADS):
            sys.exit(f'bench/run: no workload "{pattern}"; see bench/run --list')
    wanted = [w for w in WORKLOADS if w.quick or arguments.size != "quick"]
    if arguments.workload:
        wanted = [w for w in WORKLOADS
                  if any(fnmatchcase(w.name, p) for p in arguments.workload)]
    wanted = [w for w in wanted
              if not any(fnmatchcase(w.name, p) for p in arguments.without)]
    if not wanted:
        sys.exit("bench/run: no workload is left")
    return wanted


def list_workloads():
    from .catalogue import GROUPS, WORKLOADS

    width = max(len(w.name) for w in WORKLOADS)
    for group in GROUPS:
        print(f"\n{group}")
        for workload in WORKLOADS:
            if workload.group == group:
                # The first sentence.
                text = re.match(r".*?[.?](?= |$)", workload.describe()[0]).group()
                if workload.note:
                    text += f" {workload.note}"
                print(f"  {workload.name:{width}}  {'q' if workload.quick else ' '}"
                      f"  {text}")
    print("\nq: part of --quick")


def components(arguments):
    """What else .ci/setup has to install."""
    if arguments.size != "quick" and any(w.counts_instructions
                                         for w in chosen(arguments)):
        print("valgrind")


def measure(arguments):
    from . import engine, environment, report
    from .data import Data
    from .server import Cluster, Failure

    size = arguments.size or "default"
    runs = arguments.runs or (1 if size == "quick" else 5)
    command = ([f"--{size}"] if size != "default" else []) + ["--runs", str(runs)]
    if arguments.rows:
        command += ["--rows", str(arguments.rows)]
    for option, patterns in ("--workload", arguments.workload), ("--except", arguments.without):
        for pattern in patterns:
            command += [option, shlex.quote(pattern)]

    cluster = Cluster(arguments.bindir, arguments.data, arguments.socket)
    scratch = arguments.data.parent / "tmp"
    arguments.output.mkdir()
    try:
        cluster.configure(engine.SETTINGS)
        facts = environment.describe(cluster, command, arguments.commit)
        if arguments.earlier:
            environment.must_equal(facts, arguments.earlier)
        data = engine.pass_over(cluster, chosen(arguments), runs, size,
                                arguments.rows, scratch,
                                engine.Progress(runs, sys.stderr))
        cluster.stop()
    except Failure as failure:
        sys.exit(f"bench/run: {failure}")
    # A workload left out for want of a setting has no run.
    status = 1 if any(run for _, run, _, _ in data.failures) else 0
    facts["failures"] = data.failures
    if arguments.earlier:
        environment.add(facts, arguments.earlier)
        data = Data.read(arguments.earlier).joined(data)
    data.write(arguments.output)
    (arguments.output / "environment.json").write_text(
        json.dumps(facts, indent=2, ensure_ascii=False) + "\n")
    report.write(arguments.output)
    return status


def main():
    arguments = parser().parse_args()
    if arguments.action == "list":
        list_workloads()
    elif arguments.action == "components":
        components(arguments)
    elif arguments.action == "report":
        from . import report
        report.write(arguments.output)
    else:
        return measure(arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
