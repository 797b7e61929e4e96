"""On what it was measured.  Nothing that names the machine."""

import json
import os
import platform
import re
from datetime import datetime, timezone
from pathlib import Path

from .server import Failure

# What differs between two runs that belong together.
OF_A_RUN = ("date", "command", "failures")

# Set by every private cluster, and only about where it lives.
BORING = ("config_file", "data_directory", "hba_file", "ident_file",
          "unix_socket_directories", "listen_addresses", "port", "log_filename",
          "log_directory", "external_pid_file", "DateStyle", "TimeZone",
          "default_text_search_config", "lc_messages", "lc_monetary", "lc_numeric",
          "lc_time", "log_timezone")


def describe(cluster, arguments, commit):
    settings = cluster.psql("postgres", """
        SELECT name, current_setting(name) FROM pg_settings
        WHERE source NOT IN ('default', 'client', 'override', 'session')
        ORDER BY name""")
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "commit": commit,
        "command": " ".join(["bench/run", *arguments]),
        "server": cluster.value("postgres", "SELECT version()"),
        "assertions": cluster.value("postgres", "SHOW debug_assertions") == "on",
        "checksums": cluster.value("postgres", "SHOW data_checksums"),
        "settings": {name: value for name, value in settings
                     if name not in BORING},
        "machine": {
            "architecture": platform.machine(),
            "kernel": f"{platform.system()} {platform.release()}",
            "processor": processor(),
            "cpus": os.cpu_count(),
            "memory_mb": memory(),
        },
    }


def read(directory):
    return json.loads((directory / "environment.json").read_text())


def must_equal(facts, earlier):
    """Fail unless an earlier run was on the same server and machine."""
    for name, value in read(earlier).items():
        if name not in OF_A_RUN and facts[name] != value:
            raise Failure(f"the earlier run had another {name}: {value}")


def add(facts, earlier):
    """Put an earlier run in front."""
    before = read(earlier)
    facts["command"] = f"{before['command']}; {facts['command']}"
    facts["failures"] = before["failures"] + facts["failures"]


def processor():
    return first(r"model name\s*:\s*(.*)", "/proc/cpuinfo") or platform.processor()


def memory():
    kilobytes = first(r"MemTotal:\s*(\d+)", "/proc/meminfo")
    return int(kilobytes) // 1024 if kilobytes else None


def first(pattern, file):
    try:
        found = re.search(pattern, Path(file).read_text())
    except OSError:
        return None
    return found.group(1).strip() if found else None
