"""Workers and enqueues without a web server: signals, forks, and processes that end when they have nothing to do."""

from __future__ import annotations

import signal
import sqlite3
import time
from contextlib import closing

import pytest

from servers.harness import GRACE, Running, Site, until

pytestmark = [pytest.mark.servers, pytest.mark.timeout(60)]

SLACK = 1.0  # seconds for a busy machine to notice that a process has gone


def _worker(site: Site, how: str, **settings: object) -> Running:
    script = site.script("work.py", how, **settings)
    until(lambda: [entry for entry in site.ledger.of("up") if entry.pid == script.pid], "the worker is up")
    return script


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_script_drains_to_the_end_and_then_dies_by_the_signal(site: Site, number: signal.Signals) -> None:
    script = _worker(site, "default")
    given = site.enqueue("nap", 5, "nap", seconds=1.5) | site.enqueue("nap_def", 3, "nap_def", seconds=1.5)
    site.ledger.await_all("start", list(given))
    script.signal(number)
    assert script.await_exit() == -number
    assert set(site.ledger.runs("end", given).values()) == {1}
    assert site.ledger.said("^draining")
    assert site.ledger.said("^drained")
    assert {job.state for job in site.jobs(list(given.values()))} == {"succeeded"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_scripts_drain_is_bounded(site: Site, number: signal.Signals) -> None:
    script = _worker(site, "default", drain_timeout=1)
    given = site.enqueue("nap", 5, "nap", seconds=60) | site.enqueue("nap_def", 3, "nap_def", seconds=60)
    site.ledger.await_all("start", list(given))
    sent = script.signal(number)
    assert script.await_exit() == -number
    assert time.monotonic() - sent < 1 + GRACE + SLACK
    again = _worker(site, "default")  # it takes the threads' jobs back, free of charge
    site.ledger.await_all("start", list(given))
    until(lambda: all(job.attempts == 2 for job in site.jobs(list(given.values()))), "second attempts")
    jobs = site.jobs(list(given.values()))
    assert {(job.failures, job.losses, job.releases) for job in jobs} == {(0, 0, 1)}
    again.end()


@pytest.mark.parametrize("how", ["own", "loop"])
def test_a_scripts_own_handler_is_called_and_the_drain_starts_beside_it(site: Site, how: str) -> None:
    script = _worker(site, how)
    given = site.enqueue("nap", 5, "nap", seconds=1)
    site.ledger.await_all("start", list(given))
    script.signal(signal.SIGTERM)
    assert script.await_exit() == 0
    assert len(site.ledger.of("handled")) == 1
    (down,) = site.ledger.of("down")
    assert down.more["same_handlers"]
    assert set(site.ledger.runs("end", given).values()) == {1}


def test_a_handler_that_a_script_installs_later_is_left_alone(site: Site) -> None:
    script = _worker(site, "late")
    given = site.enqueue("nap", 5, "nap", seconds=1)
    site.ledger.await_all("start", list(given))
    script.signal(signal.SIGTERM)
    assert script.await_exit() == 0
    assert len(site.ledger.of("handled")) == 1
    (down,) = site.ledger.of("down")
    assert down.more["same_handlers"], "our exit removed a handler that was not ours"
    assert set(site.ledger.runs("end", given).values()) == {1}


def test_an_ignored_signal_stays_ignored(site: Site) -> None:
    script = _worker(site, "ignore")
    given = site.enqueue("nap", 3, "before", seconds=0.5)
    site.ledger.await_all("start", list(given))
    script.signal(signal.SIGTERM)
    site.ledger.await_all("end", list(given))
    given = site.enqueue("nap", 3, "after", seconds=0)
    site.ledger.await_all("end", list(given))
    assert not site.ledger.said("^draining")
    script.signal(signal.SIGINT)
    script.await_exit()


@pytest.mark.parametrize("how", ["sync", "async", "two loops", "half", "entered"])
def test_a_process_that_closes_nothing_still_ends(site: Site, how: str) -> None:
    """Seen elsewhere: one connection was left unclosed and its thread kept the interpreter alive, all work done."""
    script = site.script("forget.py", how, drain_timeout=1)
    script.await_output("done")
    done = time.monotonic()
    code = script.await_exit(15)
    # A worker that is left by an exception drains, and one whose job cannot be stopped waits for it that long.
    assert time.monotonic() - done < 2.0 + SLACK
    assert code == (1 if how == "half" else 0)


def test_a_process_forked_after_the_first_enqueue_opens_its_own(site: Site) -> None:
    """Seen elsewhere: a handle that was opened before the fork was shared, and data or locks went wrong."""
    script = site.script("forks.py")
    given = ["before", "after"] + [f"child{child}-{number}" for child in range(4) for number in range(250)]
    site.ledger.await_all("end", given, 40)
    (site.folder / "stop").touch()
    assert script.await_exit() == 0
    assert "failed: 0" in script.output()
    assert "Traceback" not in script.output()
    assert set(site.ledger.runs("start", given).values()) == {1}
    pids = {entry.pid for entry in site.ledger.of("start")}
    assert script.pid not in pids
    assert len(pids) == 4
    assert len({entry.ref for entry in site.ledger.of("given")}) == 3


def test_a_job_claimed_by_a_process_that_died_before_it_knew_runs_once(site: Site) -> None:
    """Seen elsewhere: the job was off the queue before anyone owned it, and gone when the process was."""
    given = site.enqueue("nap", 3, "claimed", seconds=0)
    script = site.script("die_after_claim.py")
    assert script.await_exit() == -signal.SIGKILL
    assert [entry.more["running"] for entry in site.ledger.of("died")] == [3]
    assert not site.ledger.of("start")
    again = _worker(site, "default")
    site.ledger.await_all("end", list(given))
    jobs = site.await_states(list(given.values()), "succeeded")
    assert set(site.ledger.runs("start", given).values()) == {1}
    assert {(job.attempts, job.losses) for job in jobs} == {(2, 1)}
    again.end()


def test_eight_processes_race_to_create_the_database_twenty_times(site: Site) -> None:
    """Seen elsewhere: on an empty database some workers failed with "table already exists", which stops the server."""
    script = site.script("many.py", 8, 20, 4, 8)
    assert script.await_exit(55) == 0, script.output()[-2000:]
    assert script.output().endswith("failed: 0\n")
    assert "Traceback" not in script.output()
    refs = [f"r{turn}-p{child}-{number}" for turn in range(20) for child in range(8) for number in range(4)]
    assert set(site.ledger.runs("start", refs).values()) == {1}
    for turn in range(20):
        with closing(sqlite3.connect(site.folder / f"race-{turn}.db")) as database:
            assert database.execute("SELECT count(*) FROM meta WHERE k = 'version'").fetchone() == (1,)


def test_eight_server_processes_start_together_on_an_empty_database(site: Site) -> None:
    server = site.server(workers=8)
    given = server.enqueue("quick", 100)
    site.ledger.await_all("end", list(given))
    assert set(site.ledger.runs("start", given).values()) == {1}
    assert "failed to start" not in server.output()
