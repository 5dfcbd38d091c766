"""`run="worker"`: a real worker in the lifespan, on the store of the override."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pillion import ConfigurationError, Jobs, NotStarted
from pillion.testing import ManualClock


@contextmanager
def serving(jobs: Jobs) -> Iterator[None]:
    """A server in a thread of its own, as TestClient has it."""
    started, leave = threading.Event(), threading.Event()

    async def serve() -> None:
        async with jobs.worker():
            started.set()
            await asyncio.to_thread(leave.wait)

    server = threading.Thread(target=asyncio.run, args=(serve(),), name="server")
    server.start()
    assert started.wait(10)
    try:
        yield
    finally:
        leave.set()
        server.join(10)


def test_wait_idle_waits_for_the_worker(jobs: Jobs) -> None:
    threads: set[str] = set()

    @jobs.task
    async def child() -> None:
        threads.add(threading.current_thread().name)

    @jobs.task
    def parent() -> None:
        threads.add(threading.current_thread().name)
        child.enqueue_sync()

    with jobs.testing.override(run="worker") as testing, serving(jobs):
        for _ in range(5):
            parent.enqueue_sync()
        ended = testing.wait_idle()
    assert [job.state for job in ended] == ["succeeded"] * 10
    assert "pillion-loop-0" in threads
    assert any(name.startswith("pillion-job-") for name in threads)


async def test_async_tests_wait_likewise(jobs: Jobs) -> None:
    @jobs.task
    async def note() -> None: ...

    async with jobs.testing.override(run="worker") as testing, jobs.worker():
        job = await note.enqueue()
        assert await testing.run_until_idle() == [job]


@pytest.mark.parametrize("clock", [None, ManualClock()], ids=["running", "standing"])
def test_retries_and_delays_need_no_sleep(jobs: Jobs, clock: ManualClock | None) -> None:
    @jobs.task(max_attempts=4)
    async def fail() -> None:
        raise ValueError

    @jobs.task
    async def note() -> None: ...

    with jobs.testing.override(run="worker", clock=clock) as testing, serving(jobs):
        fail.enqueue_sync()
        note.options(delay=3600).enqueue_sync()
        [failing] = testing.wait_idle()
        assert (failing.state, failing.failures) == ("scheduled", 1)
        testing.clock.advance(3601)
        failing, later = testing.wait_idle()
        assert (failing.failures, later.state) == (2, "succeeded")
        [failing] = testing.wait_idle(advance=True)
        assert (failing.failures, failing.state) == (4, "failed")


def test_without_a_lifespan_the_wait_says_what_to_enter(jobs: Jobs) -> None:
    @jobs.task(name="note")
    async def note() -> None: ...

    with jobs.testing.override(run="worker") as testing:
        assert testing.wait_idle() == []
        note.enqueue_sync()
        with pytest.raises(NotStarted, match=r"note 1 queued, and no worker runs in this process: enter the lifespan"):
            testing.wait_idle()


def test_a_wait_that_runs_out_tells_what_still_waits(jobs: Jobs) -> None:
    go = threading.Event()

    @jobs.task(name="slow")
    def slow() -> None:
        go.wait(10)

    with jobs.testing.override(run="worker") as testing, serving(jobs):
        for _ in range(9):  # one more than there are threads
            slow.enqueue_sync()
        try:
            with pytest.raises(TimeoutError, match=r"slow .*queued"):
                testing.wait_idle(timeout=0)
        finally:
            go.set()
        assert [job.state for job in testing.wait_idle()] == ["succeeded"] * 9


def test_a_process_that_only_enqueues_in_production_works_in_the_test(jobs: Jobs) -> None:
    jobs = Jobs(jobs.settings.url, worker=False)
    assert not jobs.settings.worker
    with jobs.testing.override(run="worker"):
        assert jobs.settings.worker
    assert not jobs.settings.worker


def test_errors_cannot_come_out_of_a_worker(jobs: Jobs) -> None:
    with (
        pytest.raises(ConfigurationError, match="raise_errors"),
        jobs.testing.override(run="worker", raise_errors=True),
    ):
        pass
