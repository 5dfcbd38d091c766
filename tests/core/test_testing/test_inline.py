"""`run="inline"`: each enqueue runs its job to the first outcome, the whole way through codec, store and retries."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

from pillion import ArgumentError, JobFailed, Jobs, inject
from pillion.testing import ManualClock


@dataclass
class Point:
    x: int
    y: int


class Mistake(Exception):
    pass


async def test_the_job_has_run_when_enqueue_returns(jobs: Jobs) -> None:
    @jobs.task
    async def norm(point: Point, tags: tuple[str, ...]) -> tuple[int, str, str]:
        return abs(point.x) + abs(point.y), type(point).__name__, type(tags).__name__

    async with jobs.testing.override():
        job = await norm.enqueue(Point(3, -4), ("a",))
        assert job.state == "succeeded"
        assert job.attempts == 1
        assert await job.result(timeout=0) == (7, "Point", "tuple")


async def test_arguments_are_refused_as_in_production(jobs: Jobs) -> None:
    @jobs.task
    async def send(to: int) -> None: ...

    async with jobs.testing.override():
        with pytest.raises(ArgumentError, match="to"):
            await send.enqueue("seven")  # type: ignore[arg-type]


async def test_what_the_caller_changes_afterwards_does_not_reach_the_job(jobs: Jobs) -> None:
    seen: list[list[int]] = []

    @jobs.task
    async def keep(values: list[int]) -> None:
        seen.append(values)
        values.append(0)

    async with jobs.testing.override():
        mine = [1]
        await keep.enqueue(mine)
    assert mine == [1]
    assert seen == [[1, 0]]


def test_def_code_gets_its_outcome_from_enqueue_sync(jobs: Jobs) -> None:
    @jobs.task
    def double(n: int) -> int:
        return 2 * n

    with jobs.testing.override():
        assert double.enqueue_sync(4).state == "succeeded"


async def test_injected_values_are_opened_and_closed_around_the_job(jobs: Jobs) -> None:
    steps: list[str] = []

    @jobs.resource
    async def client() -> AsyncIterator[str]:
        steps.append("open client")
        yield "client"
        steps.append("close client")

    async def session() -> AsyncIterator[str]:
        steps.append("open session")
        yield "session"
        steps.append("close session")

    @jobs.task
    async def first(client: str = inject(client), session: str = inject(session)) -> None:
        steps.append(f"{client} {session}")

    @jobs.task
    def second(client: str = inject(client), session: str = inject(session)) -> None:
        steps.append(f"{client} {session} {threading.current_thread() is threading.main_thread()}")

    async with jobs.testing.override():
        await first.enqueue()
        await second.enqueue()
    assert steps == [
        *("open client", "open session", "client session", "close session"),
        *("open session", "client session False", "close session", "close client"),
    ]


async def test_what_the_job_raises_is_told_by_the_handle(jobs: Jobs) -> None:
    @jobs.task(max_attempts=1)
    async def fail() -> None:
        raise Mistake("no such order")

    async with jobs.testing.override():
        job = await fail.enqueue()
        assert job.state == "failed"
        assert job.error is not None
        assert job.error.message == "no such order"
        with pytest.raises(JobFailed, match="no such order"):
            await job.result()


async def test_what_the_job_raises_is_in_the_log_with_its_traceback(
    jobs: Jobs, caplog: pytest.LogCaptureFixture
) -> None:
    @jobs.task
    async def fail() -> None:
        raise Mistake("no such order")

    async with jobs.testing.override():
        await fail.enqueue()
    (record,) = (record for record in caplog.records if record.levelno >= logging.WARNING)
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], Mistake)


@pytest.mark.parametrize("kind", ["async", "def"])
def test_raise_errors_lets_the_original_exception_out(jobs: Jobs, kind: str) -> None:
    @jobs.task(name="async")
    async def fail() -> None:
        raise Mistake("no such order")

    @jobs.task(name="def")
    def fail_too() -> None:
        raise Mistake("no such order")

    with jobs.testing.override(raise_errors=True) as testing:
        with pytest.raises(Mistake, match="no such order") as caught:
            (fail if kind == "async" else fail_too).enqueue_sync()
        [job] = testing.wait_idle()
    assert job.state == "scheduled"
    assert f"job {job.id} of {kind}" in caught.value.__notes__[0]


async def test_raise_errors_runs_the_other_jobs_first(jobs: Jobs) -> None:
    ran: list[int] = []

    @jobs.task(max_attempts=1)
    async def odd(n: int) -> None:
        ran.append(n)
        if n % 2:
            raise Mistake(str(n))

    async with jobs.testing.override(raise_errors=True) as testing:
        with pytest.raises(Mistake, match="1") as caught:
            await jobs.enqueue_many(odd.bind(n) for n in range(4))
        assert [job.state for job in await testing.run_until_idle()] == ["succeeded", "failed"] * 2
    assert ran == [0, 1, 2, 3]
    assert "1 more raised" in caught.value.__notes__[0]


async def test_a_job_that_raises_cancelled_error_does_not_cancel_its_enqueuer(jobs: Jobs) -> None:
    @jobs.task
    async def fail() -> None:
        raise asyncio.CancelledError

    async with jobs.testing.override(raise_errors=True):
        with pytest.raises(JobFailed, match="CancelledError"):
            await fail.enqueue()


async def test_jobs_that_jobs_enqueue_run_inside_them(jobs: Jobs) -> None:
    steps: list[str] = []

    @jobs.task
    async def child(n: int) -> int:
        steps.append(f"child {n}")
        return n

    @jobs.task
    def parent(n: int) -> None:
        steps.append(f"parent {n}")
        child.enqueue_sync(n)
        steps.append(f"parent {n} ends")

    @jobs.task
    async def grandparent() -> int:
        await parent.enqueue(1)
        return await (await child.enqueue(2)).result(timeout=0)

    async with jobs.testing.override():
        job = await grandparent.enqueue()
        assert await job.result() == 2
    assert steps == ["parent 1", "child 1", "parent 1 ends", "child 2"]


async def test_a_def_job_that_enqueues_a_def_job_does_not_lack_a_thread(jobs: Jobs) -> None:
    @jobs.task
    def countdown(n: int) -> int:
        return 1 + countdown.enqueue_sync(n - 1).attempts if n else 0

    async with jobs.testing.override():
        assert (await countdown.enqueue(12)).state == "succeeded"


async def test_concurrent_enqueues_run_concurrently(jobs: Jobs) -> None:
    both = asyncio.Barrier(2)

    @jobs.task
    async def meet() -> None:
        await both.wait()

    async with jobs.testing.override():
        first, second = await asyncio.gather(meet.enqueue(), meet.enqueue())
    assert [first.state, second.state] == ["succeeded", "succeeded"]


def test_threads_enqueue_side_by_side(jobs: Jobs) -> None:
    @jobs.task
    async def square(n: int) -> int:
        return n * n

    states: list[str] = []

    def enqueue(n: int) -> None:
        states.append(asyncio.run(once(n)) if n % 2 else square.enqueue_sync(n).state)

    async def once(n: int) -> str:
        return (await square.enqueue(n)).state

    with jobs.testing.override():
        threads = [threading.Thread(target=enqueue, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert states == ["succeeded"] * 8


async def test_a_delayed_job_waits_for_the_clock(jobs: Jobs) -> None:
    ran: list[str] = []

    @jobs.task
    async def remind(what: str) -> None:
        ran.append(what)

    async with jobs.testing.override() as testing:
        later = await remind.options(delay=60).enqueue("tea")
        at = datetime.now(UTC) + timedelta(hours=1)
        much_later = await remind.options(at=at).enqueue("lunch")
        past = await remind.options(at=datetime(2020, 1, 1, tzinfo=UTC)).enqueue("late")
        assert [later.state, much_later.state, past.state] == ["scheduled", "scheduled", "succeeded"]
        testing.clock.advance(59)
        await testing.run_until_idle()
        assert ran == ["late"]
        testing.clock.advance(1)
        await testing.run_until_idle()
        assert ran == ["late", "tea"]
        testing.clock.advance(3600)
        await testing.run_until_idle()
        assert ran == ["late", "tea", "lunch"]


async def test_retries_wait_for_the_clock(jobs: Jobs) -> None:
    @jobs.task(max_attempts=3)
    async def fail() -> None:
        raise Mistake

    clock = ManualClock()
    async with jobs.testing.override(clock=clock) as testing:
        assert testing.clock is clock
        job = await fail.enqueue()
        assert (job.state, job.failures) == ("scheduled", 1)
        assert job.due is not None
        assert job.created_at is not None
        clock.advance((job.due - job.created_at).total_seconds())
        [job] = await testing.run_until_idle()
        assert (job.state, job.failures) == ("scheduled", 2)
        [job] = await testing.run_until_idle(advance=True)
        assert (job.state, job.failures) == ("failed", 3)
        assert [attempt.outcome for attempt in job.history] == ["retried", "retried", "failed"]


async def test_a_unique_key_is_free_again_once_the_job_ran(jobs: Jobs) -> None:
    @jobs.task
    async def sync(n: int) -> None: ...

    async with jobs.testing.override():
        held = await sync.options(unique_key="one", delay=5).enqueue(1)
        refused = await sync.options(unique_key="one").enqueue(2)
        assert (refused.id, refused.created) == (held.id, False)
        first = await sync.options(unique_key="two").enqueue(1)
        second = await sync.options(unique_key="two").enqueue(2)
        assert first != second
        assert second.created


async def test_a_job_in_a_queue_that_is_not_served_stays_queued(jobs: Jobs, caplog: pytest.LogCaptureFixture) -> None:
    @jobs.task(queue="reports")
    async def report() -> None: ...

    async with jobs.testing.override() as testing:
        assert (await report.enqueue()).state == "queued"
        assert await testing.run_until_idle() == []
    assert "'reports': only 'default' are served here" in caplog.text


async def test_a_running_job_can_be_cancelled(jobs: Jobs) -> None:
    begun = asyncio.Event()

    @jobs.task
    async def wait_for_ever() -> None:
        begun.set()
        await asyncio.Event().wait()

    async with jobs.testing.override() as testing:
        with testing.capture() as enqueued:
            enqueue = asyncio.create_task(wait_for_ever.enqueue())
            await begun.wait()
        job = await jobs.get(enqueued[0].id)
        assert job is not None
        assert job.state == "running"
        assert not await job.cancel()
        assert (await enqueue).state == "cancelled"


async def test_a_caller_that_gives_up_does_not_stop_the_job(jobs: Jobs) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    @jobs.task
    async def slow() -> None:
        begun.set()
        await go.wait()

    async with jobs.testing.override() as testing:
        enqueue = asyncio.create_task(slow.enqueue())
        await begun.wait()
        enqueue.cancel()
        with pytest.raises(asyncio.CancelledError):
            await enqueue
        with pytest.raises(TimeoutError, match=r"slow 1 running"):
            await testing.run_until_idle(timeout=0)
        go.set()
        [job] = await testing.run_until_idle()
        assert job.state == "succeeded"


async def test_a_job_may_run_out_of_time(jobs: Jobs) -> None:
    @jobs.task(timeout=0.01, max_attempts=1)
    async def wait_for_ever() -> None:
        await asyncio.Event().wait()

    async with jobs.testing.override():
        job = await wait_for_ever.enqueue()
        assert job.error is not None
        assert job.error.type == "TimeoutError"
