"""Processes die, freeze and are told to go, at random, while jobs come and go: none is lost."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable

import pytest

from servers.harness import Site, alive

pytestmark = [pytest.mark.servers, pytest.mark.chaos, pytest.mark.timeout(150)]


def test_no_job_is_lost_in_a_storm(site: Site, tell: Callable[[str], None]) -> None:
    seed = random.randrange(1_000_000)
    chance = random.Random(seed)
    server = site.server("--timeout-worker-healthcheck", "30", workers=4, lease=2, drain_timeout=0.5)
    given: dict[str, str] = {}
    blows = 0
    deadline = time.monotonic() + 10
    frozen: dict[int, float] = {}
    while time.monotonic() < deadline:
        wave = len(given)
        given |= site.enqueue("nap", 20, f"wave-{wave}", seconds=chance.uniform(0, 0.4))
        given |= site.enqueue("nap_def", 5, f"def-{wave}", seconds=chance.uniform(0, 0.4))
        living = [pid for pid in server.pids() if alive(pid) and pid not in frozen]
        if len(living) > 1:
            pid = chance.choice(living)
            number = chance.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
            os.kill(pid, number)
            blows += 1
            if number == signal.SIGSTOP:
                frozen[pid] = time.monotonic() + chance.uniform(0.5, 4)
        for pid, until in list(frozen.items()):
            if time.monotonic() > until:
                os.kill(pid, signal.SIGCONT)
                del frozen[pid]
        time.sleep(chance.uniform(0.2, 0.8))
    for pid in frozen:
        os.kill(pid, signal.SIGCONT)

    jobs = dict(zip(given, site.await_states(list(given.values()), "succeeded", "failed", within=60), strict=True))
    starts, ends = site.ledger.runs("start", given), site.ledger.runs("end", given)
    again = sum(count > 1 for count in starts.values())
    tell(f"storm (seed {seed}): {blows} blows, {len(given)} jobs, {again} of them started more than once, none lost")
    for ref, job in jobs.items():
        told = f"seed {seed}: {ref} {job.state}, {starts[ref]} starts, {ends[ref]} ends, {job.history}"
        assert job.failures == 0, told
        assert job.state == "succeeded" or job.losses == 3, told  # given up at the cap, whoever was to blame
        assert job.attempts == job.losses + job.releases + (job.state == "succeeded"), told
        assert starts[ref] <= job.attempts, told
        assert ends[ref] >= (job.state == "succeeded"), told
    assert sum(job.state == "failed" for job in jobs.values()) <= len(jobs) / 50
