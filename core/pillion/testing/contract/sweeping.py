"""The two steps of a sweep, and what may come between them."""

from __future__ import annotations

from pillion.model import Rescue, Settlement
from pillion.testing.contract.rig import LEASE, Rig, Seat, job, lost, release, success


async def entitled(rig: Rig, name: str) -> Seat:
    """A worker with an unbroken streak of a full lease."""
    seat = await rig.worker(name, await rig.another_store())
    await seat.beat_on(LEASE * 1.2)
    return seat


class TestCondemn:
    async def test_by_lease_it_takes_a_lapsed_one(self, rig: Rig) -> None:
        victim = await rig.worker("victim")
        judge = await entitled(rig, "judge")
        await victim.beat()
        assert not await judge.pulse.condemn("victim", "judge")
        assert (await victim.beat()).standing == "alive"
        await judge.beat_on(LEASE * 1.2)
        assert await judge.pulse.condemn("victim", "judge")
        assert (await victim.beat()).standing == "dead"

    async def test_by_lease_it_takes_a_full_streak(self, rig: Rig) -> None:
        await rig.worker("victim")
        rig.advance(LEASE * 2)
        judge = await rig.worker("judge")
        await judge.beat()
        assert not await judge.pulse.condemn("victim", "judge")
        await judge.beat_on(LEASE * 1.2)
        assert await judge.pulse.condemn("victim", "judge")

    async def test_by_lease_the_judge_must_live(self, rig: Rig) -> None:
        await rig.worker("victim")
        judge = await entitled(rig, "judge")
        rig.advance(LEASE * 1.5)
        assert not await judge.pulse.condemn("victim", "judge")
        assert not await judge.pulse.condemn("victim", "nobody")
        assert not await judge.pulse.condemn("judge", "judge")

    async def test_proof_of_death_needs_no_lease(self, rig: Rig) -> None:
        victim = await rig.worker("victim")
        judge = await rig.worker("judge")
        assert await judge.pulse.condemn("victim", None)
        assert (await victim.beat()).standing == "dead"

    async def test_it_is_final_and_idempotent(self, rig: Rig) -> None:
        await rig.enqueue(job("a"))
        victim, judge = await rig.worker("victim"), await rig.worker("judge")
        assert await judge.pulse.condemn("victim", None)
        assert await judge.pulse.condemn("victim", None)
        assert await judge.pulse.condemn("victim", "judge")
        answer = await victim.exchange()
        assert (answer.standing, answer.claims) == ("dead", [])
        (row,) = [row for row in await judge.pulse.workers() if row.id == "victim"]
        assert row.dead

    async def test_a_dead_worker_is_not_told_of_again(self, rig: Rig) -> None:
        await rig.worker("victim")
        judge = await entitled(rig, "judge")
        assert (await judge.beat()).lapsed == ["victim"]
        await judge.pulse.condemn("victim", "judge")
        assert (await judge.beat()).lapsed == []


class TestRescue:
    async def test_the_whole_way(self, rig: Rig) -> None:
        await rig.enqueue(*(job(f"j{n}") for n in range(5)))
        victim = await rig.worker("victim", await rig.another_store())
        judge = await rig.worker("judge", await rig.another_store())
        claims = await victim.claim(3)
        assert not (await judge.beat()).orphaned
        assert await judge.pulse.orphans(10) == []
        await judge.pulse.condemn("victim", None)
        assert (await judge.beat()).orphaned
        orphans = await judge.pulse.orphans(10)
        assert [held.seq for held in orphans] == [claim.seq for claim in claims]
        assert [held.seq for held in await judge.pulse.orphans(2)] == [claim.seq for claim in claims[:2]]
        first = orphans[0]
        assert (first.worker, first.link, first.ticket, first.task) == ("victim", 0, claims[0].ticket, "app.work")
        assert (first.keyed, first.leaving, first.cancel, first.losses) == (False, False, False, 0)
        assert await judge.pulse.rescue([lost(held) for held in orphans]) == 3
        assert await judge.pulse.rescue([lost(held) for held in orphans]) == 0
        assert await judge.pulse.orphans(10) == []
        assert not (await judge.beat()).orphaned
        row = await rig.row("j0")
        assert (row.state, row.losses, [attempt.outcome for attempt in row.history]) == ("queued", 1, ["lost"])
        assert [claim.id for claim in await judge.claim()] == [f"j{n}" for n in range(5)]

    async def test_a_claim_between_the_steps_is_found(self, rig: Rig) -> None:
        await rig.enqueue(job("a"), job("b"))
        victim = await rig.worker("victim", await rig.another_store())
        judge = await rig.worker("judge", await rig.another_store())
        await victim.claim(1)
        # The last claim that commits before the condemnation belongs to what is rescued ...
        await victim.claim(1)
        await judge.pulse.condemn("victim", None)
        # ... and after it there is none.
        assert await victim.claim(1) == []
        assert len(await judge.pulse.orphans(10)) == 2

    async def test_a_settlement_between_the_steps_wins(self, rig: Rig) -> None:
        await rig.enqueue(job("a"), job("b"))
        victim, judge = await rig.worker("victim"), await rig.worker("judge")
        first, _ = await victim.claim(2)
        await judge.pulse.condemn("victim", None)
        orphans = await judge.pulse.orphans(10)
        await victim.settle(success(first, result="1"))
        assert await judge.pulse.rescue([lost(held) for held in orphans]) == 1
        assert (await rig.row("a")).state == "succeeded"
        assert (await rig.row("b")).state == "queued"

    async def test_a_claim_after_a_release_is_not_touched(self, rig: Rig) -> None:
        await rig.enqueue(job("a"))
        victim, judge, other = await rig.worker("victim"), await rig.worker("judge"), await rig.worker("other")
        (claim,) = await victim.claim()
        await judge.pulse.condemn("victim", None)
        (held,) = await judge.pulse.orphans(10)
        await victim.settle(release(claim))
        (again,) = await other.claim()
        assert await judge.pulse.rescue([lost(held)]) == 0
        assert await other.settle(success(again)) == []

    async def test_two_sweepers_rescue_once(self, rig: Rig) -> None:
        await rig.enqueue(job("a"))
        victim, one, two = await rig.worker("victim"), await rig.worker("one"), await rig.worker("two")
        await victim.claim()
        assert await one.pulse.condemn("victim", None)
        assert await two.pulse.condemn("victim", None)
        seen = [(await seat.pulse.orphans(10))[0] for seat in (one, two)]
        assert [await seat.pulse.rescue([lost(held)]) for seat, held in zip((one, two), seen, strict=True)] == [1, 0]
        assert (await rig.row("a")).losses == 1

    async def test_leaving_shows(self, rig: Rig) -> None:
        await rig.enqueue(job("a"))
        victim, judge = await rig.worker("victim"), await rig.worker("judge")
        await victim.claim()
        await victim.beat(leaving=True)
        await judge.pulse.condemn("victim", None)
        assert [held.leaving for held in await judge.pulse.orphans(10)] == [True]

    async def test_a_cancel_wish_shows_and_is_granted(self, rig: Rig) -> None:
        await rig.enqueue(job("a", key="k"))
        victim, judge = await rig.worker("victim"), await rig.worker("judge")
        await victim.claim()
        await judge.pulse.cancel(["a"], None)
        await judge.pulse.condemn("victim", None)
        (held,) = await judge.pulse.orphans(10)
        assert (held.cancel, held.keyed) == (True, True)
        assert await judge.pulse.rescue([lost(held)]) == 1
        assert await rig.state("a") == "cancelled"
        assert (await rig.enqueue(job("b", key="k")))[0].created

    async def test_a_rescue_may_fail_a_job(self, rig: Rig) -> None:
        await rig.enqueue(job("a", key="k"))
        victim, judge = await rig.worker("victim"), await rig.worker("judge")
        await victim.claim()
        await judge.pulse.condemn("victim", None)
        (held,) = await judge.pulse.orphans(10)
        ended = Settlement(
            seq=held.seq, ticket=held.ticket, outcome="lost", state="failed", losses=1, error='"lost"', keyed=True
        )
        assert await judge.pulse.rescue([Rescue(held.worker, held.link, ended)]) == 1
        row = await rig.row("a")
        assert (row.state, row.error, row.losses) == ("failed", '"lost"', 1)
        assert (await rig.enqueue(job("b", key="k")))[0].created

    async def test_jobs_of_a_vanished_worker_are_orphans(self, rig: Rig) -> None:
        await rig.enqueue(job("a"))
        victim, judge = await rig.worker("victim"), await rig.worker("judge")
        await victim.claim()
        await judge.pulse.condemn("victim", None)
        rig.advance(30 * 86_400)
        await judge.pulse.prune(100)
        assert len(await judge.pulse.orphans(10)) == 1

    async def test_a_living_workers_jobs_are_no_orphans(self, rig: Rig) -> None:
        await rig.enqueue(job("a"))
        await (await rig.worker("one")).claim()
        two = await rig.worker("two")
        rig.advance(LEASE * 4)  # lapsed, but not condemned
        assert await two.pulse.orphans(10) == []
        assert not (await two.beat()).orphaned
