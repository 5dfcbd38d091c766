"""What the pulse does now and then: due jobs, retention, task names."""

from __future__ import annotations

from pillion.testing.contract.rig import Rig, failure, job, success


class TestPromote:
    async def test_due_jobs_are_queued_earliest_first_and_bounded(self, rig: Rig) -> None:
        await rig.enqueue(*(job(f"j{n}", delay_us=(10 - n) * 1_000_000) for n in range(10)))
        client = await rig.client()
        assert await client.promote(100) == 0
        rig.advance(6.5)
        assert await client.promote(4) == 4
        states = await client.states([f"j{n}" for n in range(10)])
        assert sorted(name for name, state in states.items() if state == "queued") == ["j6", "j7", "j8", "j9"]
        assert await client.promote(100) == 2
        assert await client.promote(100) == 0

    async def test_a_promoted_job_is_claimed(self, rig: Rig) -> None:
        await rig.enqueue(job("a", delay_us=1_000_000))
        seat = await rig.worker("w")
        rig.advance(2)
        await seat.pulse.promote(1)
        assert [claim.id for claim in await seat.claim()] == ["a"]


class TestPrune:
    async def test_what_need_not_be_kept_goes_in_bounded_steps(self, rig: Rig) -> None:
        await rig.enqueue(*(job(f"j{n}") for n in range(10)), job("kept"), job("pending"))
        seat = await rig.worker("w")
        claims = await seat.claim(11)
        *short, kept = claims
        await seat.settle(*(success(claim, keep_us=5_000_000) for claim in short), failure(kept, keep_us=None))
        assert await seat.pulse.prune(100) == 0
        rig.advance(6)
        assert await seat.pulse.prune(4) == 4
        assert await seat.pulse.prune(100) == 6
        assert await seat.pulse.prune(100) == 0
        names = [*(f"j{n}" for n in range(10)), "kept", "pending"]
        assert await (await rig.client()).states(names) == {"kept": "failed", "pending": "queued"}
        rig.advance(366 * 86_400)
        assert await seat.pulse.prune(100) == 0

    async def test_history_goes_with_its_job(self, rig: Rig) -> None:
        await rig.enqueue(job("a"))
        seat = await rig.worker("w")
        await seat.settle(failure((await seat.claim())[0], keep_us=0))
        rig.advance(1)
        assert await seat.pulse.prune(1) == 1
        assert (await rig.enqueue(job("a")))[0].created
        assert (await rig.row("a")).history == []

    async def test_long_dead_workers_are_forgotten(self, rig: Rig) -> None:
        await rig.worker("old")
        seat = await rig.worker("w")
        await seat.pulse.condemn("old", None)
        await seat.pulse.prune(10)
        assert {row.id for row in await seat.pulse.workers()} == {"old", "w"}
        rig.advance(2 * 86_400)
        assert (await seat.beat()).prunable
        await seat.pulse.prune(10)
        assert {row.id for row in await seat.pulse.workers()} == {"w"}
        assert not (await seat.beat()).prunable


class TestTaskNames:
    async def test_names_add_up(self, rig: Rig) -> None:
        one, two = await rig.client(await rig.another_store()), await rig.client(await rig.another_store())
        assert sorted(await one.tasks(["b", "a"])) == ["a", "b"]
        assert sorted(await two.tasks(["c", "a"])) == ["a", "b", "c"]
        assert sorted(await one.tasks([])) == ["a", "b", "c"]
