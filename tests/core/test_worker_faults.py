"""Faults that were found once, each with its kind: what they had in common must not come back."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sqlite3
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pillion import Backoff, ConfigurationError, Draining, JobFailed, Jobs, PillionError

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


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"backoff": 3}, r"backoff takes a Backoff, e\.g\. backoff=Backoff\(base=3\)"),
        ({"retention": 5}, "retention takes a Retention"),
        ({"namespace": "x;drop"}, "namespace is up to 40 letters"),
    ],
)
def test_a_setting_of_the_wrong_sort_is_refused_at_construction(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        Jobs("memory://", **wrong)


def test_an_unknown_option_of_a_task_is_refused_by_its_name() -> None:
    jobs = Jobs("memory://")
    with pytest.raises(ConfigurationError, match="no option 'max_attempt'; did you mean 'max_attempts'"):
        jobs.task(max_attempt=3)  # type: ignore[call-overload]


async def test_slips_that_show_only_later_are_told_at_start(
    url: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PILLION_CONCURENCY", "3")
    jobs = Jobs(url)

    @jobs.task(queue="reports", name="report")
    async def report() -> None: ...

    async with jobs.worker():
        pass
    assert "PILLION_CONCURENCY is set but is no setting; PILLION_CONCURRENCY is one" in caplog.text
    assert "report ('reports')" in caplog.text


@pytest.mark.parametrize(
    "settings",
    [{"concurrency": 1}, {"concurrency": 1, "queues": ("other", "default")}, {"queues": {"default": 1}}],
    ids=["one slot", "more queues than slots", "a queue limited to one"],
)
async def test_p10_an_idle_process_is_woken_however_few_slots_it_has(url: str, settings: dict[str, Any]) -> None:
    jobs = Jobs(url, poll_interval=30, **settings)

    @jobs.task
    async def one() -> int:
        return 1

    async with jobs.worker():
        began = time.monotonic()
        for _ in range(10):
            assert await (await one.enqueue()).result(WAIT) == 1
        assert time.monotonic() - began < 4  # by polls and beats alone it would be more than 6


async def test_p10_a_sibling_that_serves_another_queue_is_woken_beside_an_idle_worker_of_ones_own(url: str) -> None:
    mine, other = Jobs(url, poll_interval=30), Jobs(url, poll_interval=30, queues=("reports",))

    async def report() -> int:
        return 1

    enqueued = mine.task(name="report", queue="reports")(report)
    other.task(name="report", queue="reports")(report)
    async with mine.worker(), other.worker():
        began = time.monotonic()
        for _ in range(10):
            assert await (await enqueued.enqueue()).result(WAIT) == 1
        assert time.monotonic() - began < 4


def test_p23_enqueue_sync_ends_while_other_loops_of_the_process_come_and_go(url: str) -> None:
    jobs = Jobs(url, durability="relaxed")

    @jobs.task
    async def one() -> int:
        return 1

    enough = threading.Event()
    stored: list[str] = []

    def keep_storing() -> None:
        while not enough.is_set():
            stored.append(one.enqueue_sync().id)

    thread = threading.Thread(target=keep_storing)
    thread.start()

    async def once() -> str:
        return (await one.enqueue()).id

    for _ in range(30):
        assert asyncio.run(once())
    enough.set()
    thread.join(WAIT)
    assert not thread.is_alive()
    assert stored

    async def count() -> int:
        async with jobs.client():
            return sum([await jobs.get(job_id) is not None for job_id in stored])

    assert asyncio.run(count()) == len(stored)


async def test_p23_an_enqueue_in_flight_when_its_client_closes_ends_too(url: str) -> None:
    jobs = Jobs(url)

    @jobs.task
    async def one() -> int:
        return 1

    async with jobs.client():
        await one.enqueue()
    blocker = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    try:
        async with jobs.client():
            call = asyncio.ensure_future(one.enqueue())
            await asyncio.sleep(0.05)
        with pytest.raises(PillionError):
            await asyncio.wait_for(call, WAIT)
    finally:
        blocker.close()


async def test_a_process_without_a_worker_notices_that_the_file_was_replaced(url: str) -> None:
    jobs = Jobs(url, worker=False)
    path = Path(url.removeprefix("sqlite:///"))

    @jobs.task
    async def one() -> int:
        return 1

    async with jobs.client():
        await one.enqueue()
        for file in path.parent.glob("jobs.db*"):
            file.unlink()
        job = await one.enqueue()
    async with jobs.client():
        assert await jobs.get(job.id) is not None


async def test_p7_namespaces_of_one_file_keep_their_certificates_apart(url: str) -> None:
    first, second = Jobs(url, namespace="first"), Jobs(url, namespace="second")
    async with first.worker(), second.worker():
        folders = {jobs._grounds[-1].process().store.host_folder for jobs in (first, second)}
    assert len(folders) == 2


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


async def test_more_queues_than_a_store_can_be_asked_for_at_once_take_turns(url: str) -> None:
    queues = [f"q{number}" for number in range(300)]
    jobs = Jobs(url, queues=queues, concurrency=300)

    @jobs.task(queue="q299")
    async def one() -> int:
        return 1

    async with jobs.worker():
        assert await (await one.enqueue()).result(WAIT) == 1


@pytest.mark.parametrize("wrong", [{"base": float("inf")}, {"cap": float("inf")}, {"factor": float("nan")}])
def test_a_backoff_that_no_store_could_keep_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match="Backoff needs"):
        Backoff(**wrong)


def test_a_backoff_that_overflows_is_its_cap() -> None:
    assert Backoff(factor=1e10, jitter=0.0).delay_us(60, lambda: 0.0) == 3_600_000_000


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


async def test_a_second_entry_takes_over_when_the_first_ones_start_is_cancelled(url: str) -> None:
    jobs = Jobs(url)

    @jobs.task
    async def one() -> int:
        return 1

    async def enter() -> int:
        async with jobs.worker():
            return await (await one.enqueue()).result(WAIT)

    first = asyncio.create_task(enter())
    await asyncio.sleep(0)
    second = asyncio.create_task(enter())
    await asyncio.sleep(0)
    first.cancel()
    assert await asyncio.wait_for(second, WAIT) == 1
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_p13_slow_resources_of_the_app_share_what_is_left_of_the_drains_time(url: str) -> None:
    jobs = Jobs(url, drain_timeout=0)

    async def slow() -> AsyncIterator[int]:
        yield 1
        await asyncio.sleep(60)

    resources = [jobs.resource(slow) for _ in range(3)]
    async with jobs.worker():
        for resource in resources:
            await resource()
        asked = time.monotonic()
    assert time.monotonic() - asked < 2 + 1.5  # each is told to stop, and given a moment more


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
