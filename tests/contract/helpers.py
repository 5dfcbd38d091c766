"""Shared by the tests of the SQLite store."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from pillion.clock import SystemClock
from pillion.store.sqlite.store import SqliteStore

ROOT = Path(__file__).resolve().parents[2]


def sqlite_store(path: Path, **options: object) -> SqliteStore:
    """A store on the file `path`."""
    return SqliteStore(f"sqlite:///{path}", clock=SystemClock(), **options)  # type: ignore[arg-type]


PRELUDE = """
import asyncio, os, sys, time
from pillion.clock import SystemClock
from pillion.model import *
from pillion.store.sqlite.store import SqliteStore

path, name = sys.argv[1], sys.argv[2]

def store():
    return SqliteStore(f"sqlite:///{path}", clock=SystemClock())

def info(lease=15.0):
    return WorkerInfo(id=name, host="h", boot="b", pid=os.getpid(), links=1, lease_us=int(lease * 1e6), tasks=[],
                      queues=["default"])

def job(id, **options):
    return NewJob(id=id, task="t", **options)

def done(claim):
    return Settlement(seq=claim.seq, ticket=claim.ticket, outcome="succeeded", state="succeeded")

"""


def start(code: str, path: Path, name: str = "w") -> subprocess.Popen[str]:
    """A process of its own that runs `code` after the prelude."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "core")}
    command = [sys.executable, "-W", "error", "-c", PRELUDE + textwrap.dedent(code), str(path), name]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )


def finish(processes: list[subprocess.Popen[str]], timeout: float = 50.0) -> list[str]:
    """Wait for all; what each printed. Fails if one did."""
    outputs = [process.communicate(timeout=timeout)[0] for process in processes]
    for process, output in zip(processes, outputs, strict=True):
        assert process.returncode == 0, output
    return outputs
