"""Drain in one process, without signals: promises 12 to 15, 20 and 22. Signals are in tests/servers."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator

import pytest

from pillion import Draining, Jobs, inject
from pillion.jobs import Jobs as CoreJobs

WAIT = 10.0  # seconds; a bound, not an expectation


async def until(event: threading.Event) -> None:
    """Await a thread's event without blocking the loop, within `WAIT`."""
    async with asyncio.timeout(WAIT):
        while not event.is_set():
            await asyncio.sleep(0.001)


def ours() -> set[str]:
    """The names of our threads that live now."""
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("pillion-")}


async def state_of(url: str, job_id: str) -> tuple[str, int, int, int]:
    jobs = Jobs(url)
    async with jobs.client():
        job = await jobs.get(job_id)
        assert job is not None
        return job.state, job.failures, job.losses, job.releases


async def test_p12_short_jobs_end_within_the_drain_and_nothing_new_starts(url: str) -> None:
    jobs = Jobs(url, concurrency=1, drain_timeout=5)
    began, end = threading.Event(), threading.Event()
    runs: list[int] = []

    @jobs.task
    async def job(number: int) -> None:
        runs.append(number)
        began.set()
        while not end.is_set():
            await asyncio.sleep(0.001)

    async with jobs.worker():
        first, second = await job.enqueue(1), await job.enqueue(2)
        await until(began)
        asyncio.get_running_loop().call_later(0.1, end.set)
    assert runs == [1]
    assert await state_of(url, first.id) == ("succeeded", 0, 0, 0)
    assert (await state_of(url, second.id))[0] == "queued"


async def test_p13_a_drain_is_bounded_and_hands_back_async_jobs_free_of_charge(url: str) -> None:
    jobs = Jobs(url, drain_timeout=0.2)
    began, cleaned = threading.Event(), threading.Event()

    @jobs.task
    async def endless() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    async with jobs.worker():
        job = await endless.enqueue()
        await until(began)
        asked = time.monotonic()
    assert time.monotonic() - asked < 0.2 + 2
    assert cleaned.is_set()
    assert await state_of(url, job.id) == ("queued", 0, 0, 1)


async def test_p13_a_job_that_swallows_its_cancellation_once_is_cancelled_again(url: str) -> None:
    jobs = Jobs(url, drain_timeout=0.1)
    began = threading.Event()

    @jobs.task
    async def stubborn() -> None:
        began.set()
        for _ in range(2):
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if _ == 1:
                    raise

    async with jobs.worker():
        job = await stubborn.enqueue()
        await until(began)
        asked = time.monotonic()
    assert time.monotonic() - asked < 0.1 + 2
    assert await state_of(url, job.id) == ("queued", 0, 0, 1)


async def test_p13_a_cancelled_lifespan_drains_to_its_end_all_the_same(url: str) -> None:
    jobs = Jobs(url, drain_timeout=0.2)
    began = threading.Event()

    @jobs.task
    async def endless() -> None:
        began.set()
        await asyncio.Event().wait()

    job_id = ""

    async def lifespan() -> None:
        nonlocal job_id
        async with jobs.worker():
            job_id = (await endless.enqueue()).id
            await asyncio.Event().wait()

    task = asyncio.create_task(lifespan())
    await until(began)
    async with asyncio.timeout(WAIT):
        while not job_id:  # the job may begin before its enqueue has returned
            await asyncio.sleep(0.001)
    task.cancel()
    await asyncio.sleep(0.05)
    task.cancel()  # in mid-drain
    asked = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.monotonic() - asked < 0.2 + 2
    assert ours() == set()
    assert await state_of(url, job_id) == ("queued", 0, 0, 1)


async def test_p13_waits_for_results_end_at_once(url: str) -> None:
    jobs = Jobs(url, drain_timeout=3)
    began, end = threading.Event(), threading.Event()

    @jobs.task
    def slow() -> None:
        began.set()
        assert end.wait(WAIT)

    async with jobs.worker():
        job = await slow.enqueue()
        waiting = asyncio.create_task(job.result())
        await until(began)
        jobs.begin_drain()
        with pytest.raises(Draining):
            await asyncio.wait_for(waiting, 2)
        end.set()


async def test_p14_a_thread_that_outlives_the_drain_keeps_its_job_and_its_lease(url: str) -> None:
    jobs = Jobs(url, drain_timeout=0.1, lease=1)
    began, end = threading.Event(), threading.Event()

    @jobs.task
    def stuck() -> str:
        began.set()
        assert end.wait(WAIT)
        return "late"

    async with jobs.worker():
        job = await stuck.enqueue()
        await until(began)
    try:
        other = Jobs(url, lease=1)
        async with other.worker():
            await asyncio.sleep(2.5)  # more than the lease and another's claim to judge: nobody takes it
        assert (await state_of(url, job.id))[0] == "running"
    finally:
        end.set()
    async with asyncio.timeout(WAIT):
        while (await state_of(url, job.id))[0] != "succeeded":
            await asyncio.sleep(0.01)
    async with asyncio.timeout(WAIT):
        while ours():
            await asyncio.sleep(0.01)


async def test_p15_every_thread_of_ours_is_a_daemon_and_none_is_left_after_the_end(url: str) -> None:
    jobs = Jobs(url, loops=2)

    @jobs.task
    def in_thread() -> bool:
        return threading.current_thread().daemon

    @jobs.task
    async def to_thread() -> bool:
        return await asyncio.to_thread(lambda: threading.current_thread().daemon)

    async with jobs.worker():
        assert await (await in_thread.enqueue()).result(WAIT)
        assert await (await to_thread.enqueue()).result(WAIT)
        assert all(thread.daemon for thread in threading.enumerate() if thread.name.startswith("pillion-"))
    assert ours() == set()


async def test_entering_twice_runs_one_worker_and_the_last_exit_drains(url: str) -> None:
    jobs = Jobs(url)

    @jobs.task
    async def one() -> int:
        return 1

    async with jobs.worker():
        async with jobs.worker():
            assert len([name for name in ours() if name == "pillion-pulse"]) == 1
        assert await (await one.enqueue()).result(WAIT) == 1
    assert ours() == set()


async def test_resources_close_after_the_last_job_and_in_reverse_order(url: str) -> None:
    jobs = Jobs(url, drain_timeout=0.2)
    events: list[str] = []
    began = threading.Event()

    @jobs.resource
    async def engine() -> AsyncIterator[str]:
        events.append("engine opens")
        yield "engine"
        events.append("engine closes")

    @jobs.resource
    async def client(engine: str = inject(engine)) -> AsyncIterator[str]:
        events.append("client opens")
        yield engine + "'s client"
        events.append("client closes")

    @jobs.task
    async def use(client: str = inject(client)) -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            events.append("job ends")

    async with jobs.worker():
        await use.enqueue()
        await until(began)
    assert events == ["engine opens", "client opens", "job ends", "client closes", "engine closes"]


def test_two_loops_and_a_thread_in_a_row_each_work_and_leak_nothing(url: str) -> None:
    jobs = Jobs(url)

    @jobs.task
    async def one() -> int:
        return 1

    async def use() -> int:
        async with jobs.worker():
            return await (await one.enqueue()).result(WAIT)

    async def only_enqueue() -> str:
        return (await one.enqueue()).id

    assert asyncio.run(use()) == 1
    assert asyncio.run(only_enqueue())
    results: list[int] = []
    thread = threading.Thread(target=lambda: results.append(asyncio.run(use())))
    thread.start()
    thread.join(WAIT)
    assert results == [1]
    assert one.enqueue_sync().id
    assert asyncio.run(use()) == 1
    assert ours() == set()


def test_building_opens_nothing(url: str) -> None:
    before = ours()
    CoreJobs(url)
    assert ours() == before
