"""Faults that were found once, around the worker: waking, closing, settings. Each kind must not come back."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pillion import Backoff, ConfigurationError, Jobs, PillionError

WAIT = 10.0  # seconds; a bound, not an expectation


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
