"""Starting: the store may be away, or be another version's; whatever fails leaves nothing open. Promise 22."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path

import pytest

from pillion import Jobs, StoreAway, WrongSchema

WAIT = 10.0  # seconds; a bound, not an expectation


def ours() -> set[str]:
    """The names of our threads that live now."""
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("pillion-")}


async def test_p22_a_store_of_another_version_fails_the_start_with_what_to_do(url: str) -> None:
    jobs = Jobs(url)
    async with jobs.client():
        await jobs.get("makes the schema")
    connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    connection.execute("UPDATE meta SET v = '999'")
    connection.close()
    with pytest.raises(WrongSchema, match="999"):
        async with jobs_of(url).worker():
            pytest.fail("it started")
    assert ours() == set()


def jobs_of(url: str, **settings: bool) -> Jobs:
    jobs = Jobs(url, **settings)  # type: ignore[arg-type]

    @jobs.task(name="one")
    async def one() -> int:
        return 1

    return jobs


async def test_p22_a_required_store_that_is_away_fails_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pillion.worker.runtime._INSISTS", 0.3)
    with pytest.raises(StoreAway, match="require_store=True"):
        async with jobs_of(f"sqlite:///{tmp_path}/missing/jobs.db", require_store=True).worker():
            pytest.fail("it started")
    assert ours() == set()


async def test_p22_a_store_that_comes_later_is_taken_up_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pillion.worker.runtime._WAITS", 0.1)
    folder = tmp_path / "later"
    jobs = jobs_of(f"sqlite:///{folder}/jobs.db")
    async with jobs.worker():
        folder.mkdir()
        job = await jobs._tasks["one"].enqueue()
        assert await job.result(WAIT) == 1
    assert ours() == set()


async def test_a_start_that_is_cancelled_leaves_nothing_open(tmp_path: Path) -> None:
    jobs = jobs_of(f"sqlite:///{tmp_path}/missing/jobs.db", require_store=True)

    async def run() -> None:
        async with jobs.worker():
            pytest.fail("it started")

    task = asyncio.create_task(run())
    async with asyncio.timeout(WAIT):
        while "pillion-pulse" not in ours():
            await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ours() == set()
