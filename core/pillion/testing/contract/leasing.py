"""Workers: joining, leaving, beats and the streak."""

from __future__ import annotations

from pillion.testing.contract.rig import LEASE, Rig, job, success


class TestMembership:
    async def test_join_is_idempotent(self, rig: Rig) -> None:
        await rig.enqueue(job("a"), job("b"))
        seat = await rig.worker("w")
        (claim,) = await seat.claim(1)
        again = await rig.worker("w")
        assert [held.seq for held in await again.link.held()] == [claim.seq]
        assert len(await seat.claim(1)) == 1
        assert len(await seat.pulse.workers()) == 1

    async def test_a_dead_worker_cannot_join_again(self, rig: Rig) -> None:
        await rig.enqueue(job("a"))
        seat, other = await rig.worker("w"), await rig.worker("other")
        await other.pulse.condemn("w", None)
        again = await rig.worker("w")
        assert (await again.exchange()).standing == "dead"
        assert (await seat.beat()).standing == "dead"

    async def test_leave_takes_a_worker_that_runs_nothing(self, rig: Rig) -> None:
        await rig.enqueue(job("a"), job("b"))
        seat = await rig.worker("w")
        (claim,) = await seat.claim(1)
        assert not await seat.pulse.leave("w")
        assert (await seat.beat()).standing == "alive"
        await seat.settle(success(claim))
        assert await seat.pulse.leave("w")
        assert await seat.pulse.workers() == []
        assert (await seat.beat()).standing == "dead"
        assert (await seat.exchange()).standing == "dead"

    async def test_leave_is_idempotent(self, rig: Rig) -> None:
        seat = await rig.worker("w")
        assert await seat.pulse.leave("w")
        assert await seat.pulse.leave("w")

    async def test_workers_are_listed(self, rig: Rig) -> None:
        seat = await rig.worker("w", tasks=["a.b", "c.d"])
        await seat.beat(leaving=True)
        rig.advance(2)
        (row,) = await seat.pulse.workers()
        assert (row.id, row.host, row.pid, row.leaving, row.dead) == ("w", "host", 7, True, False)
        assert (row.tasks, row.queues) == (["a.b", "c.d"], ["default"])
        assert 2_000_000 <= row.beat_age_us < 10_000_000


class TestBeat:
    async def test_it_renews_the_lease(self, rig: Rig) -> None:
        await rig.enqueue(job("a"))
        seat = await rig.worker("w")
        for _ in range(3):
            rig.advance(LEASE * 0.8)
            assert (await seat.beat()).standing == "alive"
        assert (await seat.exchange()).standing == "alive"

    async def test_only_beats_renew(self, rig: Rig) -> None:
        seat = await rig.worker("w")
        rig.advance(LEASE * 0.8)
        assert (await seat.exchange()).standing == "alive"
        rig.advance(LEASE * 0.3)
        assert (await seat.exchange()).standing == "lapsed"

    async def test_a_lapsed_worker_revives_and_keeps_its_jobs(self, rig: Rig) -> None:
        await rig.enqueue(job("a"))
        seat = await rig.worker("w")
        (claim,) = await seat.claim()
        rig.advance(LEASE * 5)
        assert (await seat.exchange()).standing == "lapsed"
        assert (await seat.beat()).standing == "alive"
        assert await seat.link.held() == [claim]
        assert await seat.settle(success(claim)) == []

    async def test_an_unknown_worker_is_told_dead(self, rig: Rig) -> None:
        seat = await rig.worker("w")
        seat.id = "stranger"
        assert (await seat.beat()).standing == "dead"

    async def test_leaving_is_sticky(self, rig: Rig) -> None:
        seat = await rig.worker("w")
        await seat.beat(leaving=True)
        await seat.beat()
        assert (await seat.pulse.workers())[0].leaving

    async def test_orders_tell_what_there_is_to_do(self, rig: Rig) -> None:
        seat = await rig.worker("w")
        orders = await seat.beat()
        assert (orders.cancels, orders.lapsed, orders.orphaned) == ([], [], False)
        assert (orders.ready, orders.prunable, orders.due_in_us, orders.tasks) == (False, False, None, 0)
        await rig.enqueue(job("a"), job("b", delay_us=30_000_000))
        await seat.pulse.tasks(["x", "y"])
        orders = await seat.beat()
        assert orders.ready
        assert orders.tasks == 2
        assert orders.due_in_us is not None
        assert 0 < orders.due_in_us <= 30_000_000
        rig.advance(31)
        orders = await seat.beat()
        assert orders.due_in_us == 0
        await seat.settle(success((await seat.claim())[0], keep_us=1_000_000))
        assert not (await seat.beat()).prunable
        rig.advance(2)
        assert (await seat.beat()).prunable

    async def test_only_a_full_streak_is_told_of_the_lapsed(self, rig: Rig) -> None:
        await rig.worker("silent")
        rig.advance(LEASE + 1)
        fresh = await rig.worker("fresh")
        assert (await fresh.beat_on(LEASE * 0.9)).lapsed == []
        assert (await fresh.beat_on(LEASE * 0.2)).lapsed == ["silent"]

    async def test_a_gap_starts_the_streak_again(self, rig: Rig) -> None:
        seat = await rig.worker("w")
        await rig.worker("silent")
        assert (await seat.beat_on(LEASE * 1.2)).lapsed == ["silent"]
        rig.advance(LEASE * 0.5)
        assert (await seat.beat()).lapsed == []
        assert (await seat.beat_on(LEASE * 0.9)).lapsed == []
        assert (await seat.beat_on(LEASE * 0.2)).lapsed == ["silent"]

    async def test_an_outage_for_all_condemns_nobody(self, rig: Rig) -> None:
        seats = [await rig.worker(f"w{n}") for n in range(3)]
        for seat in seats:
            await seat.beat()
        rig.advance(LEASE * 10)
        for seat in seats:
            orders = await seat.beat()
            assert (orders.standing, orders.lapsed) == ("alive", [])

    async def test_nobody_lapses_for_itself(self, rig: Rig) -> None:
        seat = await rig.worker("w")
        orders = await seat.beat_on(LEASE * 3)
        assert (orders.standing, orders.lapsed) == ("alive", [])
