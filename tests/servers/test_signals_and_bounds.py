"""Signals after a fork, and the drain's bound while the store is locked: promises 12, 13 and 25."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import time

import pytest

from servers.harness import GRACE, Site, alive, until


def test_p25_a_signal_ends_a_forked_child_that_runs_a_worker_of_its_own(site: Site) -> None:
    parent = site.script("fork_with_worker.py")
    told = parent.await_output(" up")
    found = re.search(r"child (\d+) up", told or parent.output())
    assert found is not None
    child = int(found[1])
    os.kill(child, signal.SIGTERM)
    until(lambda: not alive(child) or _is_zombie(child), "the child's end", 1 + GRACE + 5)
    parent.signal(signal.SIGTERM)
    parent.await_exit(1 + GRACE + 5)


def _is_zombie(pid: int) -> bool:
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.timeout(90)
def test_p13_the_drain_keeps_its_bound_while_another_program_holds_the_database(site: Site) -> None:
    server = site.server(drain_timeout=1)
    blocker = sqlite3.connect(site.folder / "jobs.db", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    try:
        asked = time.monotonic()
        server.signal(signal.SIGTERM)
        server.await_exit(30)
        took = time.monotonic() - asked
    finally:
        blocker.close()
    assert took < 1 + GRACE + 0.7  # what the interpreter's own end takes on a busy machine
