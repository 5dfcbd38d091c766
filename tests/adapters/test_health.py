"""Health over a real store in memory, with time passed in."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from adapters.asgi import WAIT
from pillion.errors import StoreAway
from pillion.host import boot_id
from pillion.ids import new_id
from pillion.model import NewJob, Report, WorkerInfo
from pillion.store import open_store
from pillion.store.base import Link
from pillion.web.facts import Here
from pillion.web.health import DETAIL_BOUND, FRESH, Health, Origin, detail, live, ready
from pillion.web.watch import PATIENCE

ORIGIN = Origin(source="one", kind="memory", durability="full")
ONLY_ENQUEUES = Here(entered=True, wanted=False)


class Rig:
    """A store, a clock that a test moves, and the health over both."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.now = 1_000.0
        self.away = False
        self.hung: asyncio.Event | None = None
        self.questions = 0
        self.health = Health(lambda: ONLY_ENQUEUES, lambda: ORIGIN, lambda: self.now)

    async def connect(self) -> Link:
        self.questions += 1
        if self.away:
            raise StoreAway("cut off")
        if self.hung is not None:
            await self.hung.wait()
        return self.link

    async def enqueue(self, queue: str = "default", task: str = "double") -> None:
        await self.link.enqueue([NewJob(id=new_id(), task=task, queue=queue)])

    async def look(self) -> bool:
        """Ask the store, however fresh the sample is."""
        self.now += FRESH + 0.01
        return await self.health.reaches_store(WAIT)


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    store = open_store("memory://")
    await store.open()
    made = Rig(await store.link())
    try:
        yield made
    finally:
        await store.aclose()


@asynccontextmanager
async def watching(rig: Rig) -> AsyncIterator[None]:
    async with rig.health.watching(rig.connect):
        assert await rig.health.reaches_store(WAIT)
        yield


def waiting_warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


async def test_jobs_that_wait_for_nobody_are_told_to_the_log_once(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    await rig.enqueue("reports")
    async with watching(rig):
        assert waiting_warnings(caplog) == []
        rig.now += PATIENCE
        assert await rig.look()
        rig.now += PATIENCE
        assert await rig.look()
        (text,) = waiting_warnings(caplog)
        assert text.startswith("queue 'reports' has no consumer: 1 job waits, the oldest for 0 s; is a process")


async def test_a_worker_that_serves_them_ends_the_matter(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    await rig.enqueue()
    async with watching(rig):
        await rig.link.join(
            WorkerInfo(
                id="w1",
                host="h",
                boot=boot_id(),
                pid=1,
                links=1,
                lease_us=15_000_000,
                tasks=["double"],
                queues=["default"],
            )
        )
        await rig.link.beat("w1", Report())
        rig.now += PATIENCE
        assert await rig.look()
        rig.now += PATIENCE
        assert await rig.look()
    assert waiting_warnings(caplog) == []


async def test_the_document_renews_an_old_sample_and_shares_a_fresh_one(rig: Rig) -> None:
    async with watching(rig):
        await detail([rig.health])
        before = rig.questions
        await rig.enqueue()
        told = json.loads((await detail([rig.health])).body)
        assert rig.questions == before
        assert told["checks"]["queues"] == []
        rig.now += FRESH + 0.01
        answers = await asyncio.gather(*(detail([rig.health]) for _ in range(20)))
        assert rig.questions == before + 1, "one question for all who look"
        assert {json.loads(answer.body)["checks"]["queues"][0]["queued"] for answer in answers} == {1}


async def test_a_store_that_is_away_fails_only_where_it_is_asked_for(rig: Rig) -> None:
    async with watching(rig):
        rig.away = True
        rig.now += 10
        answer = await detail([rig.health])
        assert answer.status == 503
        assert json.loads(answer.body)["checks"]["store"][0]["answers"] is False
        assert (await ready([rig.health])).status == 200
        assert (await ready([rig.health], store=True)).status == 503
        assert live().status == 200
        rig.away = False
        assert (await ready([rig.health], store=True)).status == 200
        assert (await detail([rig.health])).status == 200


async def test_a_stuck_store_is_asked_once_and_holds_nobody_up(rig: Rig) -> None:
    async with watching(rig):
        rig.hung = asyncio.Event()
        rig.now += 10
        before = rig.questions
        async with asyncio.timeout(WAIT):
            assert (await detail([rig.health])).status == 503
        async with asyncio.timeout(50 * DETAIL_BOUND / 5):  # known by now: nobody waits any more
            for _ in range(50):
                assert (await detail([rig.health])).status == 503
        assert not await rig.health.reaches_store(0.01)
        assert rig.questions == before + 1
        rig.hung.set()
        assert await rig.health.reaches_store(WAIT)
        assert (await detail([rig.health])).status == 200


async def test_what_nobody_watches_asks_nothing(rig: Rig) -> None:
    assert not await rig.health.reaches_store(0.01)
    assert (await detail([rig.health])).status == 200
    assert rig.questions == 0
