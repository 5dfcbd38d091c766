"""Running jobs in one process: contexts, threads, timeouts, failures. Promises 14 to 19 and 24 of the life cycle."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pillion import Backoff, JobCancelled, JobFailed, Jobs, ResultTimeout, inject

WAIT = 10.0  # seconds; a bound, not an expectation
AT_ONCE = Backoff(base=0.0)


async def until(event: threading.Event) -> None:
    """Await a thread's event without blocking the loop, within `WAIT`."""
    async with asyncio.timeout(WAIT):
        while not event.is_set():
            await asyncio.sleep(0.001)


async def test_async_and_def_tasks_return_their_results(url: str) -> None:
    jobs = Jobs(url)

    @jobs.task
    async def double(x: int) -> int:
        return 2 * x

    @jobs.task
    def half(x: int) -> float:
        return x / 2

    async with jobs.worker():
        assert await (await double.enqueue(4)).result(WAIT) == 8
        assert await (await half.enqueue(3)).result(WAIT) == 1.5


async def test_p16_nothing_of_a_job_runs_on_the_apps_loop_unless_its_task_says_so(url: str) -> None:
    jobs = Jobs(url)

    @jobs.task
    async def own() -> str:
        return threading.current_thread().name

    @jobs.task(loop="app")
    async def app() -> str:
        return threading.current_thread().name

    @jobs.task
    def plain() -> str:
        return threading.current_thread().name

    async with jobs.worker():
        assert (await (await own.enqueue()).result(WAIT)).startswith("pillion-loop-")
        assert await (await app.enqueue()).result(WAIT) == threading.current_thread().name
        assert (await (await plain.enqueue()).result(WAIT)).startswith("pillion-job-")


async def test_p16_a_blocking_job_stalls_neither_the_app_nor_its_lease(url: str) -> None:
    jobs = Jobs(url, lease=1)
    began, end = threading.Event(), threading.Event()

    @jobs.task
    async def block() -> str:
        began.set()
        assert end.wait(WAIT)
        return "done"

    async with jobs.worker():
        job = await block.enqueue()
        await until(began)
        turns = 0
        deadline = time.monotonic() + 2.5  # longer than the lease
        while time.monotonic() < deadline:
            await asyncio.sleep(0.01)
            turns += 1
        assert turns > 50
        end.set()
        assert await job.result(WAIT) == "done"
        await job.refresh()
        assert (job.attempts, job.losses) == (1, 0)


async def test_p17_each_job_runs_in_a_clean_context(url: str) -> None:
    jobs = Jobs(url)
    secret: contextvars.ContextVar[str] = contextvars.ContextVar("secret", default="clean")

    @jobs.task
    async def look() -> str:
        seen, _ = secret.get(), secret.set("left behind")
        return seen

    @jobs.task
    def look_in_thread() -> str:
        seen, _ = secret.get(), secret.set("left behind")
        return seen

    secret.set("of the request")
    async with jobs.worker():
        for task in (look, look, look_in_thread, look_in_thread):
            assert await (await task.enqueue()).result(WAIT) == "clean"


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, asyncio.CancelledError, ValueError])
@pytest.mark.parametrize("kind", ["async", "def"])
async def test_p19_whatever_a_job_raises_is_a_failure_of_that_job_alone(
    url: str, error: type[BaseException], kind: str
) -> None:
    jobs = Jobs(url, max_attempts=1)

    @jobs.task
    async def awaits() -> None:
        raise error("as it pleases")

    @jobs.task
    def blocks() -> None:
        raise error("as it pleases")

    @jobs.task
    async def fine() -> int:
        return 1

    async with jobs.worker():
        job = await (awaits if kind == "async" else blocks).enqueue()
        with pytest.raises(JobFailed) as caught:
            await job.result(WAIT)
        assert caught.value.error_type is not None
        assert error.__name__ in caught.value.error_type
        assert await (await fine.enqueue()).result(WAIT) == 1


async def test_p19_a_loop_that_foreign_code_leaves_is_entered_again(url: str) -> None:
    jobs = Jobs(url)

    def leave() -> None:
        raise SystemExit(3)

    @jobs.task
    async def saboteur() -> None:
        asyncio.get_running_loop().call_soon(leave)

    @jobs.task
    async def fine() -> int:
        return 1

    async with jobs.worker():
        await (await saboteur.enqueue()).result(WAIT)
        assert await (await fine.enqueue()).result(WAIT) == 1


async def test_failures_are_retried_up_to_max_attempts_and_all_are_in_the_history(url: str) -> None:
    jobs = Jobs(url, backoff=AT_ONCE)

    @jobs.task(max_attempts=3)
    async def flaky() -> None:
        raise ValueError("every time")

    async with jobs.worker():
        job = await flaky.enqueue()
        with pytest.raises(JobFailed, match="ValueError: every time"):
            await job.result(WAIT)
        await job.refresh()
        assert (job.state, job.attempts, job.failures, job.losses, job.releases) == ("failed", 3, 3, 0, 0)
        assert [attempt.outcome for attempt in job.history] == ["retried", "retried", "failed"]
        assert all(
            attempt.error and 'raise ValueError("every time")' in attempt.error.traceback for attempt in job.history
        )
        assert all(attempt.started <= attempt.ended for attempt in job.history)
        assert all(attempt.worker for attempt in job.history)


async def test_a_success_after_a_failure_keeps_both_in_the_history(url: str) -> None:
    jobs = Jobs(url, backoff=AT_ONCE)
    runs: list[int] = []

    @jobs.task
    def second_time() -> int:
        runs.append(1)
        if len(runs) == 1:
            raise OSError("first time")
        return len(runs)

    async with jobs.worker():
        job = await second_time.enqueue()
        assert await job.result(WAIT) == 2
        await job.refresh()
        assert [attempt.outcome for attempt in job.history] == ["retried", "succeeded"]


async def test_an_async_job_is_cancelled_at_its_timeout_and_its_cleanup_is_awaited(url: str) -> None:
    jobs = Jobs(url, max_attempts=1)
    cleaned = threading.Event()

    @jobs.task(timeout=0.05)
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            cleaned.set()

    async with jobs.worker():
        job = await slow.enqueue()
        with pytest.raises(JobFailed, match=r"longer than its timeout of 0\.05 s"):
            await job.result(WAIT)
        assert cleaned.is_set()


async def test_p14_a_thread_past_its_timeout_keeps_its_slot_until_its_code_has_ended(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = Jobs(url, threads=1, max_attempts=2, backoff=AT_ONCE)
    end = threading.Event()
    runs: list[str] = []

    @jobs.task(timeout=0.05)
    def slow() -> str:
        runs.append("slow")
        assert end.wait(WAIT)
        return "late"

    @jobs.task
    def other() -> None:
        runs.append("other")

    async with jobs.worker():
        with caplog.at_level(logging.WARNING, "pillion"):
            job = await slow.enqueue()
            waiting = await other.enqueue()
            async with asyncio.timeout(WAIT):
                while "timed out after 0.05 s and still runs" not in caplog.text:
                    await asyncio.sleep(0.01)
        assert runs == ["slow"]
        end.set()
        await waiting.result(WAIT)
        assert await job.result(WAIT) == "late"  # what really happened wins over the clock
        assert runs == ["slow", "other"]


async def test_cancelling_a_running_async_job_ends_it_and_says_so(url: str) -> None:
    jobs = Jobs(url)
    began = threading.Event()

    @jobs.task
    async def endless() -> None:
        began.set()
        await asyncio.Event().wait()

    async with jobs.worker():
        job = await endless.enqueue()
        await until(began)
        await job.cancel()
        with pytest.raises(JobCancelled):
            await job.result(WAIT)


async def test_cancelling_a_job_that_has_not_started_is_at_once_and_for_certain(url: str) -> None:
    jobs = Jobs(url)
    runs: list[int] = []

    @jobs.task
    async def never() -> None:
        runs.append(1)

    async with jobs.client():
        queued, scheduled = await never.enqueue(), await never.options(delay=60).enqueue()
        assert await queued.cancel()
        assert await scheduled.cancel()
    async with jobs.worker():
        for job in (queued, scheduled):
            with pytest.raises(JobCancelled):
                await job.result(WAIT)
    assert runs == []


async def test_delays_are_started_on_time(url: str) -> None:
    jobs = Jobs(url, poll_interval=30)

    @jobs.task
    async def now() -> float:
        return time.monotonic()

    async with jobs.worker():
        asked = time.monotonic()
        delays = (0.3, 0.1, 0.2)
        late = [await now.options(delay=delay).enqueue() for delay in delays]
        for job, delay in zip(late, delays, strict=True):
            ran = await job.result(WAIT)
            assert ran - asked >= delay


async def test_results_wait_no_longer_than_their_timeout_and_leave_the_job_alone(url: str) -> None:
    jobs = Jobs(url)
    end = threading.Event()

    @jobs.task
    def slow() -> int:
        assert end.wait(WAIT)
        return 1

    async with jobs.worker():
        job = await slow.enqueue()
        with pytest.raises(ResultTimeout):
            await job.result(0.05)
        end.set()
        assert await job.result(WAIT) == 1


async def test_several_loops_share_the_processs_slots(url: str) -> None:
    jobs = Jobs(url, loops=2, concurrency=4)
    lock = threading.Lock()
    loops: set[str] = set()
    now = peak = 0

    @jobs.task
    async def count() -> None:
        nonlocal now, peak
        with lock:
            now += 1
            peak = max(peak, now)
            loops.add(threading.current_thread().name)
        await asyncio.sleep(0.01)
        with lock:
            now -= 1

    async with jobs.worker():
        for job in await jobs.enqueue_many(count.bind() for _ in range(60)):
            await job.result(WAIT)
    assert loops <= {"pillion-loop-0", "pillion-loop-1"}
    assert peak <= 4


async def test_a_queue_with_a_limit_runs_no_more_at_a_time(url: str) -> None:
    jobs = Jobs(url, queues={"default": None, "reports": 2})
    lock = threading.Lock()
    now = peak = 0

    @jobs.task(queue="reports")
    async def report() -> None:
        nonlocal now, peak
        with lock:
            now += 1
            peak = max(peak, now)
        await asyncio.sleep(0.005)
        with lock:
            now -= 1

    async with jobs.worker():
        for job in await jobs.enqueue_many(report.bind() for _ in range(20)):
            await job.result(WAIT)
    assert peak == 2


async def test_injected_resources_are_one_a_loop_and_closed_after_the_jobs(url: str) -> None:
    jobs = Jobs(url)
    opened: list[str] = []
    closed: list[str] = []

    @jobs.resource
    async def client() -> AsyncIterator[str]:
        name = threading.current_thread().name
        opened.append(name)
        yield name
        closed.append(name)

    @jobs.task
    async def use(client: str = inject(client)) -> str:
        return client

    @jobs.task
    def use_in_thread(client: str = inject(client)) -> str:
        return client

    async with jobs.worker():
        for task in (use, use, use_in_thread):
            assert await (await task.enqueue()).result(WAIT) == "pillion-loop-0"
        assert opened == ["pillion-loop-0"]
        assert closed == []
    assert closed == ["pillion-loop-0"]


async def test_p11_jobs_of_unknown_tasks_are_left_for_others(url: str) -> None:
    old, new = Jobs(url), Jobs(url)

    @new.task(name="added")
    async def added() -> int:
        return 1

    @old.task(name="known")
    async def known() -> int:
        return 2

    @new.task(name="known")
    async def known_too() -> int:
        return 2

    async with new.client():
        unknown = await added.enqueue()
    async with old.worker():
        assert await (await known.enqueue()).result(WAIT) == 2
        await unknown.refresh()
        assert (unknown.state, unknown.attempts) in {("queued", 0), ("queued", 1)}
    async with new.worker():
        assert await unknown.result(WAIT) == 1


async def test_p24_what_is_written_into_the_store_by_hand_is_never_executed(url: str) -> None:
    import pickle
    import sqlite3

    jobs = Jobs(url)

    @jobs.task
    async def echo(text: str) -> str:
        return text

    async with jobs.client():
        job = await echo.enqueue("hello")
    payload = (
        pickle.dumps(ValueError("unpickled")).decode("latin-1").encode("ascii", "replace").decode().replace("\0", "?")
    )
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    connection.execute("UPDATE jobs SET args = ? WHERE id = ?", (payload, job.id))
    connection.commit()
    connection.close()
    async with jobs.worker():
        with pytest.raises(JobFailed) as caught:
            await job.result(WAIT)
    await_type = caught.value.error_type or ""
    assert "ArgumentError" in await_type


async def test_a_def_task_that_returns_a_coroutine_fails_and_says_why(url: str) -> None:
    jobs = Jobs(url, max_attempts=1)

    async def inner() -> int:
        return 1

    @jobs.task
    def outer() -> Any:
        return inner()

    async with jobs.worker():
        with pytest.raises(JobFailed, match="make it `async def`"):
            await (await outer.enqueue()).result(WAIT)


async def test_an_error_of_crossed_loops_fails_at_once_with_the_remedy(url: str) -> None:
    jobs = Jobs(url, max_attempts=5, backoff=AT_ONCE)

    @jobs.task
    async def crossed() -> None:
        raise RuntimeError("got Future <Future pending> attached to a different loop")

    async with jobs.worker():
        job = await crossed.enqueue()
        with pytest.raises(JobFailed):
            await job.result(WAIT)
        await job.refresh()
        assert job.attempts == 1
        assert job.error is not None
        assert "@jobs.resource" in (job.error.note or "")
