"""`capture()`: what was enqueued in a block, with its arguments as the job gets them."""

from __future__ import annotations

import doctest
import subprocess
import sys
import threading
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import pillion.testing
from pillion import Jobs, NotStarted, inject
from pillion.handle import Enqueue
from pillion.testing import front


@dataclass
class Order:
    number: int


def session() -> str:
    return "session"


async def test_arguments_and_options_are_told(jobs: Jobs) -> None:
    @jobs.task
    async def send(order: Order, *extra: str, copies: int = 1, session: str = inject(session)) -> None: ...

    at = datetime(2030, 5, 1, 12, tzinfo=UTC)
    with jobs.testing.capture(store=False) as enqueued:
        first = await send.enqueue(Order(1))
        await send.options(delay=60, priority=3, queue="mail", unique_key="order:2").enqueue(Order(2), "a", copies=2)
        await send.options(at=at).enqueue(order=Order(3))
    assert [job.arguments for job in enqueued] == [
        {"order": Order(1)},
        {"order": Order(2), "extra": ("a",), "copies": 2},
        {"order": Order(3)},
    ]
    assert enqueued[0].id == first.id
    assert enqueued[0].task is send
    assert (enqueued[0].queue, enqueued[0].priority, enqueued[0].unique_key) == ("default", 0, None)
    assert (enqueued[0].delay, enqueued[0].at) == (None, None)
    assert (enqueued[1].queue, enqueued[1].priority, enqueued[1].unique_key) == ("mail", 3, "order:2")
    assert enqueued[1].delay == timedelta(seconds=60)
    assert enqueued[2].at == at


async def test_it_lists_all_ways_to_enqueue_and_filters_by_task(jobs: Jobs) -> None:
    @jobs.task
    async def one(n: int) -> None: ...

    @jobs.task
    def two(n: int) -> None: ...

    def elsewhere() -> None:
        two.enqueue_sync(3)

    with jobs.testing.override(run="manual"), jobs.testing.capture() as enqueued:
        await one.enqueue(0)
        await jobs.enqueue_many(one.bind(n) for n in (1, 2))
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        await Enqueue()(two, 4)
    assert [job.arguments["n"] for job in enqueued] == [0, 1, 2, 3, 4]
    assert [job.arguments["n"] for job in enqueued.of(two)] == [3, 4]
    assert enqueued.of(one) == enqueued[:3]


async def test_after_the_block_nothing_is_added(jobs: Jobs) -> None:
    @jobs.task
    async def note() -> None: ...

    async with jobs.testing.override(run="manual"):
        with jobs.testing.capture() as enqueued:
            assert enqueued == []
            await note.enqueue()
        await note.enqueue()
    assert len(enqueued) == 1


async def test_jobs_are_stored_and_run_unless_told_otherwise(jobs: Jobs) -> None:
    ran: list[str] = []

    @jobs.task
    async def child() -> None:
        ran.append("child")

    @jobs.task
    async def parent() -> None:
        ran.append("parent")
        await child.enqueue()

    async with jobs.testing.override() as testing:
        with testing.capture() as enqueued:
            assert (await parent.enqueue()).state == "succeeded"
        assert [job.task for job in enqueued] == [parent, child]
        assert ran == ["parent", "child"]
        with testing.capture(store=False) as enqueued:
            job = await parent.enqueue()
        assert [job.task for job in enqueued] == [parent]
        assert ran == ["parent", "child"]
        assert await jobs.get(job.id) is None


async def test_captures_nest(jobs: Jobs) -> None:
    @jobs.task
    async def note() -> None: ...

    with jobs.testing.override(run="manual"), jobs.testing.capture() as outer:
        await note.enqueue()
        with jobs.testing.capture() as inner:
            await note.enqueue()
    assert (len(outer), len(inner)) == (2, 1)


async def test_a_second_enqueue_of_a_held_key_is_no_new_job(jobs: Jobs) -> None:
    @jobs.task
    async def note() -> None: ...

    async with jobs.testing.override(run="manual") as testing:
        with testing.capture() as enqueued:
            await note.options(unique_key="one").enqueue()
            await note.options(unique_key="one").enqueue()
    assert len(enqueued) == 1


async def test_without_a_store_neither_lifespan_nor_override_is_needed(jobs: Jobs) -> None:
    @jobs.task
    async def note() -> None: ...

    with jobs.testing.capture(store=False) as enqueued:
        await Enqueue()(note)
    assert len(enqueued) == 1
    with jobs.testing.capture(), pytest.raises(NotStarted):
        await Enqueue()(note)


def test_the_examples_in_the_docs_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for module in (pillion.testing, front):
        failed, tried = doctest.testmod(module)
        assert (failed, tried > 0) == (0, True)
    assert list(tmp_path.iterdir()) == []


def test_importing_the_helpers_needs_no_test_framework() -> None:
    code = "import sys, pillion.testing; print(sorted({'pytest', '_pytest', 'unittest'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
