"""`uvicorn --reload` in development."""

from __future__ import annotations

import shutil
import time

import httpx
import pytest

from servers.harness import APPS, GRACE, Site, alive, until

pytestmark = [pytest.mark.servers, pytest.mark.timeout(60)]


def test_reload_is_not_held_up_by_running_jobs_and_leaves_no_process_behind(site: Site) -> None:
    """Seen elsewhere: with a thread or a long job alive the old process never ended, and the port stayed taken."""
    code = site.folder / "code"
    shutil.copytree(APPS, code)
    limit = 2
    server = site.server("--reload", "--reload-dir", str(code), app_dir=code, drain_timeout=limit)
    given = server.enqueue("nap", 2, seconds=60) | server.enqueue("nap_def", 2, seconds=60)
    site.ledger.await_all("start", list(given))
    (old,) = server.pids()
    (code / "ledger.py").touch()
    until(lambda: "Reloading" in server.output(), "the reloader notices")
    noticed = time.monotonic()

    def answered_by_a_new_one() -> bool:
        try:
            return server.get("/ping", timeout=1).json()["pid"] != old
        except httpx.HTTPError:
            return False

    until(answered_by_a_new_one, "an answer of the new code's process")
    assert time.monotonic() - noticed < limit + GRACE + 3  # and the start of a process on a busy machine
    assert not alive(old)
    until(lambda: all(job.attempts == 2 for job in site.jobs(list(given.values()))), "the jobs run again")
    assert {(job.failures, job.losses, job.releases) for job in site.jobs(list(given.values()))} == {(0, 0, 1)}
