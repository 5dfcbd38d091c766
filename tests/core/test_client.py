"""Enqueue ends within its deadline and says which it is: promises 21 and 23."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from pathlib import Path

import pytest

from pillion import EnqueueUnknown, Jobs, PillionError, StoreUnavailable
from pillion import client as client_module

WAIT = 10.0  # seconds; a bound, not an expectation


@pytest.fixture
def short_deadline(monkeypatch: pytest.MonkeyPatch) -> float:
    monkeypatch.setattr(client_module, "DEADLINE", 0.3)
    return 0.3


def _jobs(url: str) -> tuple[Jobs, list[str]]:
    jobs = Jobs(url)
    runs: list[str] = []

    @jobs.task(name="note")
    async def note(text: str) -> str:
        runs.append(text)
        return text

    return jobs, runs


async def test_p23_an_unreachable_store_is_told_within_the_deadline_and_nothing_was_stored(
    tmp_path: Path, short_deadline: float
) -> None:
    folder = tmp_path / "not yet"
    jobs, _ = _jobs(f"sqlite:///{folder}/jobs.db")
    task = jobs._tasks["note"]
    with pytest.raises(StoreUnavailable, match=r"nothing was stored"):
        async with asyncio.timeout(WAIT):
            await task.enqueue("lost")
    folder.mkdir()
    async with jobs.worker():
        assert await (await task.enqueue("found")).result(WAIT) == "found"


async def test_p23_a_store_that_does_not_answer_is_told_as_unknown_and_ensure_settles_it(
    url: str, short_deadline: float
) -> None:
    jobs, runs = _jobs(url)
    task = jobs._tasks["note"]
    async with jobs.client():
        await task.options(delay=3600).enqueue("schema")
        blocker = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        try:
            with pytest.raises(EnqueueUnknown, match=r"await error\.job\.ensure\(\)") as caught:
                async with asyncio.timeout(WAIT):
                    await task.enqueue("slow")
        finally:
            blocker.execute("ROLLBACK")
            blocker.close()
        job = caught.value.job
        assert job is not None
        client_module.DEADLINE = 5.0
        for _ in range(3):  # any number of times, under the same id
            await job.ensure()
    async with jobs.worker():
        assert await job.result(WAIT) == "slow"
    assert runs == ["slow"]


async def test_p23_ensure_repeats_all_jobs_of_the_call_that_was_not_answered(url: str, short_deadline: float) -> None:
    jobs, runs = _jobs(url)
    task = jobs._tasks["note"]
    async with jobs.client():
        await task.options(delay=3600).enqueue("schema")
        blocker = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        try:
            with pytest.raises(EnqueueUnknown) as caught:
                await jobs.enqueue_many(task.bind(str(number)) for number in range(100))
        finally:
            blocker.execute("ROLLBACK")
            blocker.close()
        client_module.DEADLINE = 5.0
        assert caught.value.job is not None
        await caught.value.job.ensure()
    async with jobs.worker():
        await task.enqueue("last")
        async with asyncio.timeout(WAIT):
            while "last" not in runs:
                await asyncio.sleep(0.01)
    assert sorted(runs[:-1], key=int) == sorted(map(str, range(100)), key=int)


async def test_ensure_gives_the_holder_of_a_key_that_was_taken_meanwhile(url: str) -> None:
    jobs, _ = _jobs(url)
    once = jobs._tasks["note"].options(unique_key="one")
    async with jobs.client():
        holder = await once.enqueue("first")
        bound = once.bind("second")
        job = type(holder)(jobs._desk, bound.new.id, "note", new=bound.new)
        await job.ensure()
        assert (job.id, job.created) == (holder.id, False)


async def test_ensure_refuses_once_the_id_may_be_forgotten(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, _ = _jobs(url)
    async with jobs.client():
        job = await jobs._tasks["note"].enqueue("old")
        job.id = "0" * 10 + job.id[10:]
        assert job._new is not None
        job._new = type(job._new)(id=job.id, task=job._new.task)
        with pytest.raises(PillionError, match="older than ten minutes"):
            await job.ensure()


async def test_a_cancelled_caller_never_cancels_its_group(url: str) -> None:
    jobs, _ = _jobs(url)
    task = jobs._tasks["note"]
    async with jobs.client():
        calls = [asyncio.ensure_future(task.enqueue(str(number))) for number in range(20)]
        await asyncio.sleep(0)  # all are gathered, and some are sent
        calls[0].cancel()
        calls[7].cancel()
        done = await asyncio.gather(*calls, return_exceptions=True)
        jobs_made = [job for job in done if not isinstance(job, BaseException)]
        assert len(jobs_made) >= 18
        for job in jobs_made:
            assert (await job.refresh()).state == "queued"


async def test_p21_only_the_culprits_caller_sees_that_its_data_is_refused(url: str) -> None:
    jobs, _ = _jobs(url)
    task = jobs._tasks["note"]
    async with jobs.client():
        scope = await jobs._grounds[-1].process().borrowed()
        good, bad = task.bind("good"), task.bind("bad")
        spoiled = type(bad.new)(id=bad.new.id, task="note", args="nul \0 inside")
        answers = await asyncio.gather(
            scope.client.enqueue([good.new]), scope.client.enqueue([spoiled]), return_exceptions=True
        )
        assert isinstance(answers[1], PillionError)
        assert not isinstance(answers[0], BaseException)
        assert answers[0][0].created


async def test_the_same_id_is_stored_once(url: str) -> None:
    jobs, _ = _jobs(url)
    async with jobs.client():
        bound = jobs._tasks["note"].bind("twice")
        first, second = (await jobs.enqueue_many([bound]))[0], (await jobs.enqueue_many([bound]))[0]
        assert (first.created, second.created) == (True, False)
        assert first.id == second.id


async def test_a_taken_unique_key_gives_the_handle_of_its_holder_until_that_has_ended(url: str) -> None:
    jobs, _ = _jobs(url)
    once = jobs._tasks["note"].options(unique_key="receipt:7")
    async with jobs.worker():
        first = await once.enqueue("a")
        await first.result(WAIT)
        again = await once.enqueue("b")
        assert again.created
        assert again.id != first.id
        await again.result(WAIT)
    async with jobs.client():
        holder = await once.enqueue("c")
        blocked = await once.enqueue("d")
        assert (blocked.id, blocked.created) == (holder.id, False)


def test_p25_a_forked_child_opens_its_own(url: str) -> None:
    jobs, _ = _jobs(url)
    task = jobs._tasks["note"]
    assert task.enqueue_sync("parent").id
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write, task.enqueue_sync("child").id.encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        child_id = pipe.read()
    os.waitpid(pid, 0)

    async def look() -> str:
        async with jobs.client():
            job = await jobs.get(child_id)
            assert job is not None
            return job.state

    assert asyncio.run(look()) == "queued"


async def test_storing_jobs_that_nobody_runs_is_told_once(url: str, caplog: pytest.LogCaptureFixture) -> None:
    jobs, _ = _jobs(url)
    for _ in range(2):
        await jobs._tasks["note"].enqueue("waits")
    assert caplog.text.count("no process runs jobs of sqlite:///") == 1


async def test_storing_jobs_for_a_worker_elsewhere_is_not_remarked_upon(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    jobs, _ = _jobs(url)
    other, _ = _jobs(url)
    async with other.worker():
        await jobs._tasks["note"].enqueue("runs there")
    assert "no process runs jobs" not in caplog.text
