"""The database is taken away, or refuses to be written, under a running server."""

from __future__ import annotations

import resource
import time

import pytest

from servers.harness import Site, until

pytestmark = [pytest.mark.servers, pytest.mark.chaos, pytest.mark.timeout(90)]


def test_outcomes_wait_while_nothing_can_be_written_and_are_recorded_once(site: Site) -> None:
    """A full disk, in effect. Jobs end meanwhile; the server lives; afterwards each has its one outcome."""
    server = site.server()
    # The write-ahead log is past the limit below from now on, the jobs' own lines are not.
    site.enqueue("unheard_of", 1000, "x" * 1000)
    assert (site.folder / "jobs.db-wal").stat().st_size > 1024 * 1024
    given = server.enqueue("nap", 20, seconds=2) | server.enqueue("nap_def", 4, seconds=2)
    site.ledger.await_all("start", list(given))
    limits = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (128 * 1024, limits[1]))
    try:
        site.ledger.await_all("end", list(given))
        time.sleep(1)
        assert server.get("/ping").status_code == 200
        assert server.get("/jobs/health/live").status_code == 200
        assert {job.state for job in site.jobs(list(given.values()))} == {"running"}, "the outcomes could be written"
        # It fails once the lease has lapsed; until then it warns.
        until(lambda: server.get("/jobs/health").json()["checks"]["worker"][0]["status"] != "pass", "a warning", 10)
    finally:
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, limits)
    jobs = site.await_states(list(given.values()), "succeeded")
    assert set(site.ledger.runs("start", given).values()) == {1}
    assert {(job.attempts, job.failures, job.losses) for job in jobs} == {(1, 0, 0)}
    until(lambda: server.get("/jobs/health").json()["checks"]["worker"][0]["status"] == "pass", "health recovers")
    site.ledger.await_all("end", list(server.enqueue("quick", 5, "afterwards")))


def test_a_database_that_was_deleted_is_made_anew_and_used(site: Site) -> None:
    """Somebody cleans up during development. What was in it is gone; the processes are not."""
    server = site.server(workers=2)
    site.ledger.await_all("end", list(server.enqueue("quick", 20, "before")))
    for file in site.folder.glob("jobs.db*"):
        file.unlink()
    time.sleep(2.5)  # beats notice, once a second
    given = server.enqueue("nap", 40, "after", seconds=0.2)
    site.ledger.await_all("end", list(given))
    jobs = site.await_states(list(given.values()), "succeeded")
    assert set(site.ledger.runs("start", given).values()) == {1}
    assert {job.attempts for job in jobs} == {1}
