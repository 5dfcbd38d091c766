"""Processes that stand still and come back: a lease decides, and each job has one outcome."""

from __future__ import annotations

import os
import signal
import sqlite3
import time

import pytest

from servers.harness import Site, alive, until

pytestmark = [pytest.mark.servers, pytest.mark.chaos, pytest.mark.timeout(120)]


def test_a_process_frozen_past_its_lease_and_thawed_leaves_each_job_one_outcome(site: Site) -> None:
    """SIGSTOP, then SIGCONT: siblings run its jobs, and what it hands in late is refused."""
    lease = 2
    server = site.server("--timeout-worker-healthcheck", "60", workers=3, lease=lease)
    given = server.enqueue("nap", 30, seconds=4)
    site.ledger.await_all("start", list(given))
    time.sleep(max(0.0, server.started_at + lease + 2 - time.monotonic()))
    victim = max(server.pids(), key=lambda pid: len(site.ledger.running(pid)))
    held = site.ledger.running(victim)
    assert len(held) >= 8
    os.kill(victim, signal.SIGSTOP)
    until(
        lambda: held <= {entry.ref for entry in site.ledger.of("start") if entry.pid != victim},
        "siblings run what the frozen process had",
        6 * lease,
    )
    os.kill(victim, signal.SIGCONT)
    jobs = dict(zip(given, site.await_states(list(given.values()), "succeeded"), strict=True))
    for ref, job in jobs.items():
        expected = ["lost", "succeeded"] if ref in held else ["succeeded"]
        assert [attempt.outcome for attempt in job.history] == expected
        assert (job.failures, job.losses) == (0, len(expected) - 1)
    until(lambda: site.ledger.said("taken for dead", victim), "the thawed process knows that it was taken for dead")

    # It goes on under a new id: with its siblings stopped it takes the next jobs.
    assert alive(victim)
    others = [pid for pid in server.pids() if pid != victim]
    for pid in others:
        os.kill(pid, signal.SIGSTOP)
    try:
        after = site.enqueue("nap", 5, "after", seconds=0)
        site.ledger.await_all("end", list(after))
    finally:
        for pid in others:
            os.kill(pid, signal.SIGCONT)
    assert {entry.pid for entry in site.ledger.of("end", after)} == {victim}


def test_when_all_processes_freeze_together_no_job_runs_twice(site: Site) -> None:
    """A laptop sleeps: every lease lapses at once, and nobody is entitled to declare the others dead."""
    lease = 2
    server = site.server("--timeout-worker-healthcheck", "60", workers=3, lease=lease)
    time.sleep(lease)
    given = server.enqueue("nap", 30, seconds=1.5)
    site.ledger.await_all("start", list(given))
    server.signal_group(signal.SIGSTOP)
    time.sleep(2.5 * lease)
    server.signal_group(signal.SIGCONT)
    site.ledger.await_all("end", list(given))
    jobs = site.await_states(list(given.values()), "succeeded")
    assert set(site.ledger.runs("start", given).values()) == {1}
    assert {(job.attempts, job.losses) for job in jobs} == {(1, 0)}


def test_another_writer_that_holds_the_database_for_long_costs_no_lease(site: Site) -> None:
    """Seen elsewhere: one heartbeat waited 15 s behind another writer, the claim expired under a healthy process."""
    lease = 3
    server = site.server(workers=2, lease=lease)
    time.sleep(lease)
    given = server.enqueue("nap", 16, seconds=5)
    site.ledger.await_all("start", list(given))
    other = sqlite3.connect(site.folder / "jobs.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    time.sleep(lease - 0.5)
    other.execute("ROLLBACK")
    other.close()
    site.ledger.await_all("end", list(given))
    jobs = site.await_states(list(given.values()), "succeeded")
    assert set(site.ledger.runs("start", given).values()) == {1}
    assert {(job.attempts, job.losses, job.failures) for job in jobs} == {(1, 0, 0)}


def test_jobs_that_block_their_loop_or_run_long_keep_their_lease(site: Site) -> None:
    """Seen elsewhere: the renewal shared a loop with a blocking handler, or the visibility time was fixed; a peer
    took the job over and its effects happened twice."""
    lease = 2
    server = site.server(workers=2, lease=lease)
    blocking = server.enqueue("block", 1, seconds=3 * lease)
    long = server.enqueue("nap", 2, seconds=3 * lease) | server.enqueue("nap_def", 2, seconds=3 * lease)
    given = blocking | long
    site.ledger.await_all("end", list(given), 60)
    jobs = site.await_states(list(given.values()), "succeeded")
    assert set(site.ledger.runs("start", given).values()) == {1}
    assert {(job.attempts, job.losses) for job in jobs} == {(1, 0)}
