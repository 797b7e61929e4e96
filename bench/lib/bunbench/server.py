"""A private cluster, and the client programs that talk to it.

Everything lives below a scratch directory that belongs to bench/run, which
removes it and whatever server still runs in there, however this process ends.
"""

import os
import re
import subprocess
from pathlib import Path


class Failure(Exception):
    """Something that makes a measurement void; the text is for the report."""


def command(arguments, **options):
    """Run a program and return its standard output."""
    if "input" not in options:
        options["stdin"] = subprocess.DEVNULL
    done = subprocess.run([str(a) for a in arguments], text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          **options)
    if done.returncode != 0:
        name = Path(str(arguments[0])).name
        tail = (done.stderr or done.stdout).strip().splitlines()[-10:]
        raise Failure(f"{name} failed: " + "\n".join(tail))
    return done.stdout


def write_conf(path, settings):
    path.write_text("".join(f"{name} = '{value}'\n"
                            for name, value in settings.items()))


class Session:
    """A psql that stays connected."""

    MARK = "-- done --"

    def __init__(self, cluster, database):
        self.process = subprocess.Popen(
            cluster.psql_command(database), text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT)

    def query(self, sql):
        """Rows of a statement, each a list of strings."""
        try:
            self.process.stdin.write(f"{sql};\n\\echo {self.MARK}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Failure("psql is gone") from None
        lines = []
        for line in self.process.stdout:
            line = line.rstrip("\n")
            if line == self.MARK:
                return [row.split("\t") for row in lines]
            lines.append(line)
        raise Failure("psql ended: " + "\n".join(lines))

    def close(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.stdout.close()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Cluster:
    """A cluster whose postgresql.conf includes bench.conf, see bench/run."""

    def __init__(self, bindir, data, socket, port=5432):
        self.bindir = Path(bindir)
        self.data = Path(data)
        self.socket = socket
        self.port = port
        self.settings = None

    # -- server --

    def pg_ctl(self, *arguments):
        # A server inherits what pg_ctl has, and would keep a pipe open.
        done = subprocess.run(
            [str(self.bindir / "pg_ctl"), "-D", str(self.data), "-w", "-s",
             "-t", "300", *arguments], check=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if done.returncode != 0:
            log = Path(f"{self.data}.log")
            tail = (log.read_text(errors="replace").splitlines()[-10:]
                    if log.exists() else [])
            raise Failure(f"pg_ctl {arguments[-1]} failed:\n" + "\n".join(tail))

    def start(self):
        self.pg_ctl("-l", f"{self.data}.log", "start")

    def stop(self):
        self.pg_ctl("-m", "fast", "stop")

    def configure(self, settings):
        """Run with these settings, starting or restarting if necessary."""
        if settings == self.settings:
            return
        if self.settings is not None:
            self.settings = None
            self.stop()
        write_conf(self.data / "bench.conf", settings)
        self.start()
        self.settings = settings

    # -- clients --

    def connection(self):
        return ["-h", self.socket, "-p", str(self.port)]

    def psql_command(self, database):
        return [str(self.bindir / "psql"), "-X", "-q", "-A", "-t", "-F", "\t",
                "-v", "ON_ERROR_STOP=1", *self.connection(), "-d", database]

    def psql(self, database, sql=None, file=None, variables=None):
        """Run a statement or a file; rows as lists of strings."""
        arguments = self.psql_command(database)
        for name, value in (variables or {}).items():
            arguments += ["-v", f"{name}={value}"]
        if file is None:
            out = command(arguments + ["-f", "-"], input=sql)
        else:
            out = command(arguments + ["-f", file])
        return [line.split("\t") for line in out.splitlines()]

    def value(self, database, sql):
        """The single value of a query."""
        rows = self.psql(database, sql)
        if len(rows) != 1 or len(rows[0]) != 1:
            raise Failure(f"not a single value: {sql}")
        return rows[0][0]

    def session(self, database):
        return Session(self, database)


class Pgbench:
    """A pgbench process in the background."""

    def __init__(self, cluster, database, script, *, clients=1, transactions=None,
                 seconds=None, rate=None, protocol="prepared", variables=None,
                 log_prefix=None, options=None, reconnect=False):
        arguments = [str(cluster.bindir / "pgbench"), *cluster.connection(),
                     "-n", "-M", protocol, "-c", str(clients),
                     "-j", str(min(clients, 2)), "--random-seed=20210120",
                     "-f", str(script)]
        if transactions is not None:
            arguments += ["-t", str(transactions)]
        if seconds is not None:
            arguments += ["-T", str(seconds)]
        if rate is not None:
            arguments += ["-R", str(rate)]
        if reconnect:
            arguments.append("-C")
        if log_prefix is not None:
            arguments += ["-l", f"--log-prefix={log_prefix}"]
        for name, value in (variables or {}).items():
            arguments += ["-D", f"{name}={value}"]
        environment = None
        if options:
            environment = {**os.environ, "PGOPTIONS": options}
        self.log_prefix = log_prefix
        self.process = subprocess.Popen(
            arguments + [database], text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)

    def terminate(self):
        self.process.terminate()
        self.process.communicate()

    def finish(self):
        """Wait for its end: transactions processed, failed, and per second."""
        out, errors = self.process.communicate()
        if self.process.returncode != 0:
            raise Failure("pgbench failed: " +
                          "\n".join(errors.strip().splitlines()[-5:]))
        done = _number(r"transactions actually processed: (\d+)", out)
        failed = _number(r"number of failed transactions: (\d+)", out)
        tps = _number(r"tps = ([0-9.]+)", out)
        if not (done or failed):
            raise Failure("pgbench processed no transaction:\n" + out)
        return done, failed or 0, tps

    def latencies(self, between=None):
        """Milliseconds of every transaction, by the logs of all threads; or only of
        those that were running at some moment between two times."""
        first, last = between or (0, float("inf"))
        path = Path(self.log_prefix)
        found = []
        logs = list(path.parent.glob(path.name + ".*"))
        if not logs:
            raise Failure("pgbench wrote no log")
        for log in logs:
            with log.open() as lines:
                for line in lines:
                    _, _, took, _, seconds, rest, *_ = map(int, line.split())
                    ended = seconds + rest / 1e6
                    if ended >= first and ended - took / 1e6 <= last:
                        found.append(took / 1000)
            log.unlink()
        return found


def _number(pattern, text):
    found = re.search(pattern, text)
    return float(found.group(1)) if found else None
