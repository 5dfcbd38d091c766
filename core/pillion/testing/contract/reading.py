"""Reads."""

from __future__ import annotations

import asyncio

from pillion.testing.contract.rig import Rig, job, retry, success


class TestReads:
    async def test_get_brings_those_that_exist(self, rig: Rig) -> None:
        await rig.enqueue(job("a"), job("b"))
        client = await rig.client()
        assert {row.id for row in await client.get(["a", "b", "c"])} == {"a", "b"}
        assert await client.get([]) == []

    async def test_states(self, rig: Rig) -> None:
        await rig.enqueue(*(job(f"j{n}") for n in range(3)), job("later", delay_us=60_000_000))
        seat = await rig.worker("w")
        first, _ = await seat.claim(2)
        await seat.settle(success(first))
        client = await rig.client()
        assert await client.states(["j0", "j1", "j2", "later", "none"]) == {
            "j0": "succeeded", "j1": "running", "j2": "queued", "later": "scheduled",
        }  # fmt: skip
        assert await client.states([]) == {}

    async def test_held_is_what_runs_under_the_link(self, rig: Rig) -> None:
        await rig.enqueue(*(job(f"j{n}") for n in range(5)))
        one, two = await rig.worker("one"), await rig.worker("two")
        mine = [*await one.claim(2), *await one.claim(1)]
        await two.claim(1)
        assert await one.link.held() == mine
        await one.settle(success(mine[0]))
        assert await one.link.held() == mine[1:]

    async def test_queues_are_counted_up_to_the_cap(self, rig: Rig) -> None:
        await rig.enqueue(
            *(job(f"a{n}", task="x") for n in range(6)), *(job(f"b{n}", queue="q", task="y") for n in range(3)),
            job("later", queue="q", task="y", delay_us=60_000_000),
        )  # fmt: skip
        seat = await rig.worker("w")
        await seat.claim(2)
        rig.advance(5)
        rows = {(row.queue, row.task): row for row in await seat.pulse.queues(1000)}
        assert set(rows) == {("default", "x"), ("q", "y")}
        default, other = rows["default", "x"], rows["q", "y"]
        assert (default.queued, default.scheduled, default.running) == (4, 0, 2)
        assert (other.queued, other.scheduled, other.running) == (3, 1, 0)
        assert default.oldest_us is not None
        assert 5_000_000 <= default.oldest_us < 60_000_000
        assert {row.queue: row.queued for row in await seat.pulse.queues(2)} == {"default": 2, "q": 2}

    async def test_an_empty_store_has_no_queues(self, rig: Rig) -> None:
        assert await (await rig.client()).queues(10) == []

    async def test_what_one_writes_another_reads(self, rig: Rig) -> None:
        one, two = await rig.client(await rig.another_store()), await rig.client(await rig.another_store())
        await one.enqueue([job("a")])
        assert await two.states(["a"]) == {"a": "queued"}

    async def test_concurrent_tasks_of_a_loop_share_a_link(self, rig: Rig) -> None:
        client = await rig.client()
        await asyncio.gather(
            *(client.enqueue([job(f"j{n}")]) for n in range(50)), *(client.queues(5) for _ in range(5))
        )
        assert len(await client.states([f"j{n}" for n in range(50)])) == 50

    async def test_a_cancelled_caller_undoes_nothing(self, rig: Rig) -> None:
        await rig.enqueue(job("a"))
        seat = await rig.worker("w")
        call = asyncio.ensure_future(seat.exchange())
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])
        # Sent or not, nothing is half done: the number brings the claim, now or again.
        seat.number = 0
        (claim,) = await seat.claim()
        assert claim.ticket == 1
        assert await seat.settle(retry(claim)) == []

    async def test_store_says_who_it_is(self, rig: Rig) -> None:
        assert rig.store.label
        assert all(note.strip() for note in rig.store.notes)
