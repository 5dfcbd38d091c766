"""Hints, and the hook between steps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from pillion.store.base import Hint
from pillion.testing.contract.rig import Rig, job, retry, success

WAIT = 5.0  # s, for a hint that must come


async def heard(hints: AsyncIterator[Hint], wanted: Hint) -> None:
    """Wait for a hint of this sort."""

    async def listen() -> None:
        async for hint in hints:
            if hint == wanted:
                return
        raise AssertionError("the hints ended")

    await asyncio.wait_for(listen(), WAIT)


class TestHints:
    async def test_an_enqueue_wakes_an_idle_worker(self, rig: Rig) -> None:
        seat = await rig.worker("w")
        hints = seat.link.hints()
        listening = asyncio.ensure_future(heard(hints, "ready"))
        await asyncio.sleep(0)
        seat.link.idle(True)
        await rig.enqueue(job("a"))
        await listening
        assert [claim.id for claim in await seat.claim()] == ["a"]
        await seat.link.aclose()

    async def test_promote_and_retry_wake_too(self, rig: Rig) -> None:
        await rig.enqueue(job("a", delay_us=1_000_000), job("b"))
        seat, other = await rig.worker("w"), await rig.worker("other")
        (claim,) = await other.claim()
        rig.advance(2)
        listening = asyncio.ensure_future(heard(seat.link.hints(), "ready"))
        await asyncio.sleep(0)
        seat.link.idle(True)
        await other.pulse.promote(1)
        await listening
        listening = asyncio.ensure_future(heard(seat.link.hints(), "ready"))
        await asyncio.sleep(0)
        await other.settle(retry(claim))
        await listening
        await seat.link.aclose()

    async def test_an_end_wakes_who_waits(self, rig: Rig) -> None:
        await rig.enqueue(job("a"))
        seat = await rig.worker("w")
        client = await rig.client()
        listening = asyncio.ensure_future(heard(client.hints(), "ended"))
        await asyncio.sleep(0)
        client.waiting(True)
        await seat.settle(success((await seat.claim())[0]))
        await listening

    async def test_closing_the_link_ends_the_iteration(self, rig: Rig) -> None:
        link = await rig.store.link()

        async def listen() -> list[Hint]:
            return [hint async for hint in link.hints()]

        listening = asyncio.ensure_future(listen())
        await asyncio.sleep(0)
        await link.aclose()
        await asyncio.wait_for(listening, WAIT)
        await link.aclose()


class TestCheckpoints:
    async def test_it_is_awaited_on_both_sides(self, rig: Rig) -> None:
        names: list[str] = []

        async def note(name: str) -> None:
            names.append(name)

        seat = await rig.worker("w")
        rig.store.checkpoint = note
        await seat.exchange()
        await seat.beat()
        rig.store.checkpoint = None
        await seat.exchange()
        assert names == ["exchange.before", "exchange.after", "beat.before", "beat.after"]

    async def test_time_travels_by_the_offset_alone(self, rig: Rig) -> None:
        await rig.enqueue(job("a", delay_us=3_600_000_000))
        client = await rig.client()
        assert await client.promote(1) == 0
        rig.store.offset_us += 3_601_000_000
        assert await client.promote(1) == 1
        rig.store.offset_us -= 3_601_000_000
