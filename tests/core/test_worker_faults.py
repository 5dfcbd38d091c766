"""Faults that were found once, each with its kind: what they had in common must not come back."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time
from typing import Any

import pytest

from pillion import Backoff, Draining, JobFailed, Jobs

WAIT = 10.0  # seconds; a bound, not an expectation


async def until(event: threading.Event) -> None:
    """Await a thread's event without blocking the loop, within `WAIT`."""
    async with asyncio.timeout(WAIT):
        while not event.is_set():
            await asyncio.sleep(0.001)


@pytest.mark.timeout(120)
async def test_far_away_jobs_however_many_do_not_hold_up_a_near_one(url: str) -> None:
    jobs = Jobs(url, durability="relaxed")

    @jobs.task
    async def one() -> int:
        return 1

    async with jobs.worker():
        runtime = jobs._lifecycle.runtime
        assert runtime is not None
        for second in range(30_000):
            runtime.scheduled_in((86_400 + second) * 1_000_000)
        assert await (await one.options(delay=0.2).enqueue()).result(WAIT) == 1


async def test_the_same_far_instant_is_remembered_once(url: str) -> None:
    jobs = Jobs(url)
    async with jobs.worker():
        runtime = jobs._lifecycle.runtime
        assert runtime is not None
        timers = runtime.pulse.timers
        for _ in range(1000):
            runtime.pulse.call(timers.due_in, 86_400.0)
        done = threading.Event()
        runtime.pulse.call(done.set)
        await until(done)
        assert len(timers._due) < 300  # as many as milliseconds went by


async def test_with_all_async_jobs_on_the_apps_loop_each_starts_at_once(url: str) -> None:
    jobs = Jobs(url, loop="app", poll_interval=60)

    @jobs.task
    async def where() -> str:
        return threading.current_thread().name

    async with jobs.worker():
        for _ in range(5):
            began = time.monotonic()
            assert await (await where.enqueue()).result(WAIT) == threading.current_thread().name
            assert time.monotonic() - began < 5  # not the poll interval


async def test_a_task_registered_after_the_start_runs_too(url: str) -> None:
    jobs = Jobs(url)
    async with jobs.worker():

        @jobs.task
        def late() -> int:
            return 1

        assert await (await late.enqueue()).result(WAIT) == 1


@pytest.mark.parametrize("wrapped", [False, True], ids=["plain", "in a task group"])
async def test_p8_a_job_whose_wait_the_drain_ended_is_a_release_and_no_failure(url: str, wrapped: bool) -> None:
    jobs = Jobs(url, drain_timeout=3, concurrency=1, max_attempts=1)
    waits = threading.Event()

    @jobs.task
    async def child() -> int:
        return 1

    @jobs.task
    async def parent() -> int:
        job = await child.enqueue()
        waits.set()
        if not wrapped:
            return await job.result()
        async with asyncio.TaskGroup() as group:
            waiting = group.create_task(job.result())
        return waiting.result()

    async with jobs.worker():
        job = await parent.enqueue()
        await until(waits)
        await asyncio.sleep(0.05)
    async with jobs.worker():
        await job.refresh()
        assert (job.failures, job.losses, job.releases) == (0, 0, 1)


async def test_p13_a_wait_that_begins_during_the_drain_ends_at_once_too(url: str) -> None:
    jobs = Jobs(url)

    @jobs.task
    async def one() -> int:
        return 1

    async with jobs.worker():
        jobs.begin_drain()
        job = await one.enqueue()
        async with asyncio.timeout(WAIT):
            with pytest.raises(Draining):
                await job.result()
    async with jobs.worker():
        assert await job.result(WAIT) == 1


async def test_p14_a_lost_run_in_a_thread_and_the_next_run_of_its_job_are_told_apart(url: str) -> None:
    """A process that was declared dead runs the same job again while the first run's thread goes on."""
    jobs = Jobs(url, threads=2)
    ends: list[threading.Event] = []

    @jobs.task
    def stuck() -> int:
        end = threading.Event()
        ends.append(end)
        assert end.wait(WAIT)
        return len(ends)

    async with jobs.worker():
        runtime = jobs._lifecycle.runtime
        assert runtime is not None
        job = await stuck.enqueue()
        await _until(lambda: len(ends) == 1)
        first = runtime.identity
        assert first is not None
        scope = await jobs._grounds[-1].process().borrowed()
        assert await (await scope.client.link()).condemn(first.id, None)  # as a sibling with proof would
        await _until(lambda: len(ends) == 2)
        assert len(runtime.running()) == 2
        ends[0].set()  # the first run ends: its bookkeeping, and only its own, goes
        await _until(lambda: len(runtime.running()) == 1)
        (attempt,) = runtime.running()
        assert attempt.worker != first.id
        for loop in runtime.loops:
            loop._compare_at = 0.0
            loop.nudge()
        await asyncio.sleep(0.1)
        assert len(ends) == 2  # no third run beside the second
        ends[1].set()
        assert await job.result(WAIT) == 2


async def _until(holds: Any) -> None:
    async with asyncio.timeout(WAIT):
        while not holds():
            await asyncio.sleep(0.001)


async def test_whatever_goes_wrong_in_deciding_about_a_failure_the_job_ends(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Backoff):
        def delay_us(self, failures: int, random: Any) -> int:
            raise ZeroDivisionError("in the user's own backoff")

    jobs = Jobs(url, backoff=Broken())

    @jobs.task
    async def boom() -> None:
        raise ValueError("as it pleases")

    async with jobs.worker():
        job = await boom.enqueue()
        with caplog.at_level(logging.ERROR, "pillion"), pytest.raises(JobFailed, match="as it pleases"):
            await job.result(WAIT)
    assert "could not be decided" in caplog.text


async def test_p20_a_job_loop_that_foreign_code_cancels_goes_on_and_loses_nothing(url: str) -> None:
    jobs = Jobs(url)

    @jobs.task
    async def vandal() -> None:
        for task in asyncio.all_tasks():
            task.cancel()
        await asyncio.sleep(0)

    @jobs.task
    async def one() -> int:
        return 1

    async with jobs.worker():
        await vandal.enqueue()
        for _ in range(3):
            assert await (await one.enqueue()).result(WAIT) == 1


async def test_p20_no_thread_to_be_had_is_the_trouble_of_that_job_alone(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = Jobs(url, backoff=Backoff(base=0.0))
    starts: list[str] = []
    real = threading.Thread.start

    def start(thread: threading.Thread) -> None:
        if thread.name.startswith("pillion-job"):
            starts.append(thread.name)
            if len(starts) == 1:
                raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(threading.Thread, "start", start)

    @jobs.task
    def plain() -> int:
        return 1

    @jobs.task
    async def one() -> int:
        return 1

    async with jobs.worker():
        job = await plain.enqueue()
        assert await job.result(WAIT) == 1
        assert await (await one.enqueue()).result(WAIT) == 1
        await job.refresh()
        assert job.failures == 1
        runtime = jobs._lifecycle.runtime
        assert runtime is not None
        assert set(runtime.slots.used().values()) == {0}


@pytest.mark.parametrize("group", [False, True], ids=["plain", "group"])
async def test_p8_a_clean_up_that_raises_during_the_drain_costs_no_attempt(url: str, group: bool) -> None:
    jobs = Jobs(url, drain_timeout=0.1, max_attempts=1)
    began = threading.Event()

    async def dirty() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError("while cleaning up")

    @jobs.task
    async def untidy() -> None:
        if not group:
            await dirty()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(dirty())

    async with jobs.worker():
        job = await untidy.enqueue()
        await until(began)
    async with jobs.client():
        await job.refresh()
        assert (job.state, job.failures, job.releases) == ("queued", 0, 1)


async def test_what_ended_on_the_apps_loop_leaves_no_timer_behind(url: str) -> None:
    jobs = Jobs(url)

    @jobs.task(loop="app")
    async def brief() -> None:
        await asyncio.sleep(0)

    async with jobs.worker():
        for job in await jobs.enqueue_many(brief.bind() for _ in range(50)):
            await job.result(WAIT)
        scheduled = getattr(asyncio.get_running_loop(), "_scheduled", [])
        assert sum("timed_out" in repr(handle) and not handle.cancelled() for handle in scheduled) == 0


async def test_p14_a_job_that_waits_for_a_thread_does_not_time_out_before_it_began(url: str) -> None:
    """Rows stored when the task was `async def` bring more claims than there are threads."""
    jobs = Jobs(url, threads=1, max_attempts=1)
    end = threading.Event()
    before = Jobs(url, worker=False)

    @before.task(name="changed")
    async def was_async() -> int:
        return 0

    @jobs.task(name="changed", timeout=0.3)
    def now_def() -> int:
        assert end.wait(WAIT)
        return 1

    async with before.client():
        stored = await before.enqueue_many(was_async.bind() for _ in range(3))
    async with jobs.worker():
        await _until(lambda: len(jobs._lifecycle.runtime.running()) == 3)  # type: ignore[union-attr]
        await asyncio.sleep(0.8)  # more than the timeout and two looks of the watchdog
        end.set()
        for job in stored:
            assert await job.result(WAIT) is not None
            await job.refresh()
            assert (job.state, job.failures) == ("succeeded", 0)


async def test_p19_a_hang_up_that_the_app_handles_itself_drains_nothing(url: str) -> None:
    heard: list[int] = []
    previous = signal.signal(signal.SIGHUP, lambda number, _frame: heard.append(number))
    jobs = Jobs(url)

    @jobs.task
    async def one() -> int:
        return 1

    try:
        async with jobs.worker():
            os.kill(os.getpid(), signal.SIGHUP)
            await _until(lambda: heard)
            assert await (await one.enqueue()).result(WAIT) == 1
    finally:
        signal.signal(signal.SIGHUP, previous)


async def test_what_a_dead_identity_claimed_at_the_last_moment_is_not_run_beside_its_rescuer(url: str) -> None:
    jobs = Jobs(url, poll_interval=0.05)
    starts: list[int] = []

    @jobs.task
    async def note() -> None:
        starts.append(1)

    async with jobs.worker():
        runtime = jobs._lifecycle.runtime
        assert runtime is not None
        store = jobs._grounds[-1].process().store
        first = runtime.identity
        assert first is not None
        caught = asyncio.Event()

        async def hold(name: str) -> None:
            if name == "exchange.after" and not caught.is_set() and await _running(store):
                loop.call_soon_threadsafe(caught.set)
                runtime.bury(first)  # the answer is under way: a sibling has taken this process for dead

        loop = asyncio.get_running_loop()
        store.checkpoint = hold
        try:
            job = await note.enqueue()
            await asyncio.wait_for(caught.wait(), WAIT)
        finally:
            store.checkpoint = None
        scope = await jobs._grounds[-1].process().borrowed()
        assert await (await scope.client.link()).condemn(first.id, None)
        await job.result(WAIT)
    assert starts == [1]


async def _running(store: Any) -> bool:
    checkpoint, store.checkpoint = store.checkpoint, None
    try:
        return any(row.running for row in await (await store.link()).queues(10))
    finally:
        store.checkpoint = checkpoint
