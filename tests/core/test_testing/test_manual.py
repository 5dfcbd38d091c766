"""`run="manual"`: jobs stay queued until the test runs them, one at a time, in a fixed order."""

from __future__ import annotations

import asyncio
import threading

import pytest

from pillion import ConfigurationError, Jobs
from pillion.errors import PillionError
from pillion.testing import idle


class Mistake(Exception):
    pass


async def test_nothing_runs_until_it_is_asked_for(jobs: Jobs) -> None:
    ran: list[int] = []

    @jobs.task
    async def note(n: int) -> None:
        ran.append(n)

    async with jobs.testing.override(run="manual") as testing:
        job = await note.enqueue(1)
        assert (job.state, ran) == ("queued", [])
        assert await testing.run_until_idle() == [job]
        assert ran == [1]
        assert (await job.refresh()).state == "succeeded"


async def test_a_lifespan_starts_no_worker(jobs: Jobs) -> None:
    @jobs.task
    async def note() -> None: ...

    async with jobs.testing.override(run="manual") as testing, jobs.worker():
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("pillion-loop")]
        job = await note.enqueue()
        assert await testing.run_until_idle() == [job]


def test_def_tests_run_jobs_with_wait_idle(jobs: Jobs) -> None:
    @jobs.task
    async def double(n: int) -> int:
        return 2 * n

    with jobs.testing.override(run="manual") as testing:
        jobs_ = [double.enqueue_sync(n) for n in range(3)]
        ended = testing.wait_idle()
        assert ended == jobs_
        assert [job.state for job in ended] == ["succeeded"] * 3


async def test_wait_idle_refuses_to_block_a_running_loop(jobs: Jobs) -> None:
    async with jobs.testing.override(run="manual") as testing:
        with pytest.raises(ConfigurationError, match=r"await testing\.run_until_idle"):
            testing.wait_idle()


async def test_order_is_priority_then_enqueue_over_all_kinds_and_queues(jobs: Jobs) -> None:
    jobs = Jobs(jobs.settings.url, queues=("default", "reports"))
    ran: list[str] = []

    @jobs.task
    async def one(name: str) -> None:
        ran.append(name)

    @jobs.task
    def two(name: str) -> None:
        ran.append(name)

    @jobs.task(loop="app")
    async def three(name: str) -> None:
        ran.append(name)

    async with jobs.testing.override(run="manual") as testing:
        await two.enqueue("a")
        await one.enqueue("b")
        await one.options(queue="reports").enqueue("c")
        await three.enqueue("d")
        await two.options(queue="reports").enqueue("e")
        await one.options(priority=5).enqueue("first")
        await two.enqueue("f")
        await one.options(priority=-1).enqueue("last")
        await one.enqueue("g")
        await testing.run_until_idle()
    assert ran == ["first", "a", "b", "c", "d", "e", "f", "g", "last"]


async def test_jobs_run_one_at_a_time(jobs: Jobs) -> None:
    steps: list[str] = []

    @jobs.task
    async def step(name: str) -> None:
        for part in "12":
            steps.append(name + part)
            await asyncio.sleep(0)

    async with jobs.testing.override(run="manual") as testing:
        await jobs.enqueue_many(step.bind(name) for name in "abc")
        await testing.run_until_idle()
    assert steps == ["a1", "a2", "b1", "b2", "c1", "c2"]


async def test_jobs_that_jobs_enqueue_run_too(jobs: Jobs) -> None:
    @jobs.task
    async def countdown(n: int) -> None:
        if n:
            await countdown.enqueue(n - 1)

    async with jobs.testing.override(run="manual") as testing:
        await countdown.enqueue(3)
        ended = await testing.run_until_idle()
    assert [job.state for job in ended] == ["succeeded"] * 4


async def test_a_job_may_wait_for_the_result_of_another(jobs: Jobs) -> None:
    @jobs.task
    async def child(n: int) -> int:
        return n

    @jobs.task
    async def parent() -> int:
        return await (await child.enqueue(7)).result(timeout=5)

    async with jobs.testing.override(run="manual") as testing:
        job = await parent.enqueue()
        await testing.run_until_idle()
        assert await job.result(timeout=0) == 7


async def test_a_cancelled_job_does_not_run(jobs: Jobs) -> None:
    ran: list[str] = []

    @jobs.task
    async def note(name: str) -> None:
        ran.append(name)

    async with jobs.testing.override(run="manual") as testing:
        job = await note.enqueue("a")
        await note.enqueue("b")
        assert await job.cancel()
        assert [job.state for job in await testing.run_until_idle()] == ["cancelled", "succeeded"]
    assert ran == ["b"]


async def test_what_ran_since_the_last_time_is_returned(jobs: Jobs) -> None:
    @jobs.task(max_attempts=2)
    async def note(ok: bool) -> None:
        assert ok

    async with jobs.testing.override(run="manual") as testing:
        later = await note.options(delay=3600).enqueue(True)
        now = await note.enqueue(True)
        failing = await note.enqueue(False)
        dropped = await note.options(delay=1).enqueue(True)
        assert await testing.run_until_idle() == [now, failing]
        assert await testing.run_until_idle() == []
        await dropped.cancel()
        assert await testing.run_until_idle() == [dropped]
        assert await testing.run_until_idle(advance=True) == [later, failing]
        assert await testing.run_until_idle(advance=True) == []


async def test_advance_moves_the_clock_from_one_scheduled_job_to_the_next(jobs: Jobs) -> None:
    moments: list[float] = []

    async with jobs.testing.override(run="manual") as testing:
        start = testing.clock.wall_us()

        @jobs.task
        async def note() -> None:
            moments.append((testing.clock.wall_us() - start) / 1e6)

        for delay in (3600, 60, 0):
            await note.options(delay=delay).enqueue()
        await testing.run_until_idle(advance=True)
    assert moments == [0, 60, 3600]


async def test_errors_stay_in_the_job_or_come_out(jobs: Jobs) -> None:
    @jobs.task(max_attempts=1)
    async def fail(n: int) -> None:
        raise Mistake(n)

    async with jobs.testing.override(run="manual") as testing:
        await fail.enqueue(1)
        [job] = await testing.run_until_idle()
        assert job.error is not None
        assert job.error.type.endswith("Mistake")
    async with jobs.testing.override(run="manual", raise_errors=True) as testing:
        await fail.enqueue(1)
        await fail.enqueue(2)
        with pytest.raises(Mistake, match="1"):
            await testing.run_until_idle()
        assert [job.state for job in await testing.run_until_idle()] == ["failed", "failed"]


async def test_a_job_that_does_not_end_is_named_and_handed_back(jobs: Jobs) -> None:
    begun: list[int] = []

    @jobs.task(name="stuck")
    async def stuck() -> None:
        begun.append(1)
        await asyncio.Event().wait()

    @jobs.task(name="next")
    def other() -> None: ...

    async with jobs.testing.override(run="manual") as testing:
        job = await stuck.enqueue()
        await other.enqueue()
        with pytest.raises(TimeoutError, match=r"next 1 (queued|running).*stuck 1 running|stuck 1 running.*next 1"):
            await testing.run_until_idle(timeout=0)
        await job.refresh()
        assert begun
        assert (job.state, job.releases, job.failures) == ("queued", 1, 0)


async def test_a_test_that_is_cancelled_hands_its_jobs_back(jobs: Jobs) -> None:
    begun = asyncio.Event()

    @jobs.task
    async def stuck() -> None:
        begun.set()
        await asyncio.Event().wait()

    async with jobs.testing.override(run="manual") as testing:
        job = await stuck.enqueue()
        run = asyncio.create_task(testing.run_until_idle())
        await begun.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert (await job.refresh()).state == "queued"


async def test_a_job_that_enqueues_itself_without_end_is_stopped(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle, "_LIMIT", 5)

    @jobs.task
    async def again() -> None:
        await again.enqueue()

    async with jobs.testing.override(run="manual") as testing:
        await again.enqueue()
        with pytest.raises(PillionError, match="without end"):
            await testing.run_until_idle()


def test_jobs_outlive_the_loop_that_enqueued_them(jobs: Jobs) -> None:
    @jobs.task
    async def note() -> str:
        return "done"

    async def enqueue() -> str:
        return (await note.enqueue()).id

    async def look(job_id: str) -> str:
        job = await jobs.get(job_id)
        assert job is not None
        return str(await job.result(timeout=0))

    with jobs.testing.override(run="manual") as testing:
        first, second = asyncio.run(enqueue()), asyncio.run(enqueue())
        assert [job.id for job in testing.wait_idle()] == [first, second]
        assert asyncio.run(look(first)) == "done"


def test_a_file_may_stand_in_too(jobs: Jobs, url: str) -> None:
    @jobs.task
    async def note() -> str:
        return "done"

    with jobs.testing.override(url, run="manual"):
        job = note.enqueue_sync()
    with jobs.testing.override(url, run="manual") as testing:
        assert testing.wait_idle() == []  # not enqueued in this override, but run

        async def look() -> str:
            found = await jobs.get(job.id)
            assert found is not None
            return found.state

        assert asyncio.run(look()) == "succeeded"
