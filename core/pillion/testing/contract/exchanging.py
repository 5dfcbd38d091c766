"""The exchange: what it claims, how it settles, how it is numbered, how it is fenced."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pillion.errors import StoreData
from pillion.model import Claim, Rescue, Settlement, Want
from pillion.testing.contract.rig import LEASE, Rig, failure, job, later, lost, raises, release, retry, success


class TestClaims:
    async def test_order_is_priority_then_first_in(self, rig: Rig) -> None:
        await rig.enqueue(job("a"), job("b", priority=1), job("c", priority=-1), job("d", priority=1), job("e"))
        seat = await rig.worker("w")
        assert [claim.id for claim in await seat.claim(3)] == ["b", "d", "a"]
        assert [claim.id for claim in await seat.claim(3)] == ["e", "c"]

    async def test_wants_are_apart(self, rig: Rig) -> None:
        await rig.enqueue(
            *(job(f"a{n}") for n in range(3)), *(job(f"t{n}", kind="thread") for n in range(3)),
            *(job(f"q{n}", queue="q") for n in range(3)),
        )  # fmt: skip
        seat = await rig.worker("w")
        answer = await seat.link.exchange(
            1,
            [],
            [Want("q", "async", False, 2), Want("default", "thread", False, 1), Want("default", "async", True, 9)],
        )
        assert [claim.id for claim in answer.claims] == ["q0", "q1", "t0"]

    async def test_wants_of_one_sort_add_up(self, rig: Rig) -> None:
        await rig.enqueue(*(job(f"j{n}") for n in range(5)))
        seat = await rig.worker("w")
        answer = await seat.link.exchange(1, [], [Want("default", "async", False, n) for n in (2, 0, 1)])
        assert [claim.id for claim in answer.claims] == ["j0", "j1", "j2"]

    async def test_a_claim_carries_its_ticket_and_counters(self, rig: Rig) -> None:
        await rig.enqueue(job("a"))
        seat = await rig.worker("w")
        (first,) = await seat.claim()
        assert (first.ticket, first.attempt, first.failures, first.losses, first.releases) == (1, 1, 0, 0, 0)
        assert (first.suspect, first.keyed, first.queue, first.kind) == (False, False, "default", "async")
        await seat.settle(retry(first))
        (second,) = await seat.claim()
        assert (second.seq, second.ticket, second.attempt, second.failures) == (first.seq, 3, 2, 1)

    async def test_only_limits_to_task_names(self, rig: Rig) -> None:
        await rig.enqueue(job("a", task="x"), job("b", task="y"), job("c", task="z"), job("d", task="y"))
        seat = await rig.worker("w")
        assert [claim.id for claim in await seat.claim(only=["y", "z", "unheard of"])] == ["b", "c", "d"]
        assert await seat.claim(only=[]) == []
        assert [claim.id for claim in await seat.claim()] == ["a"]

    async def test_each_job_goes_to_one_claimer(self, rig: Rig) -> None:
        await rig.enqueue(*(job(f"j{n}") for n in range(60)))
        seats = [await rig.worker(f"w{n}", await rig.another_store()) for n in range(4)]
        found = await asyncio.gather(*(seat.claim(7) for _ in range(3) for seat in seats))
        ids = [claim.id for claims in found for claim in claims]
        assert len(ids) == len(set(ids)) == 60

    async def test_nothing_there_brings_nothing(self, rig: Rig) -> None:
        seat = await rig.worker("w")
        answer = await seat.exchange()
        assert (answer.standing, answer.claims, answer.refused, answer.due_in_us) == ("alive", [], [], None)

    async def test_due_in_tells_of_the_next_scheduled_job(self, rig: Rig) -> None:
        await rig.enqueue(job("a", delay_us=60_000_000))
        seat = await rig.worker("w")
        due_in = (await seat.exchange()).due_in_us
        assert due_in is not None
        assert 0 < due_in <= 60_000_000

    async def test_no_claims_without_a_lease(self, rig: Rig) -> None:
        await rig.enqueue(job("a"))
        seat = await rig.worker("w")
        rig.advance(LEASE + 0.1)
        assert (await seat.exchange()).standing == "lapsed"
        await seat.beat()
        assert [claim.id for claim in await seat.claim()] == ["a"]

    async def test_no_claims_for_an_unregistered_worker(self, rig: Rig) -> None:
        await rig.enqueue(job("a"))
        link = await rig.store.link("stranger", 0)
        answer = await link.exchange(1, [], [Want("default", "async", False, 1)])
        assert (answer.standing, answer.claims) == ("dead", [])
        await link.aclose()

    async def test_suspects_are_claimed_as_such(self, rig: Rig) -> None:
        await rig.enqueue(job("a"))
        seat = await rig.worker("w")
        (claim,) = await seat.claim()
        await seat.settle(retry(claim, suspect=True))
        assert await seat.claim() == []
        (again,) = await seat.claim(suspect=True)
        assert again.suspect


class TestSettlements:
    async def test_success(self, rig: Rig) -> None:
        await rig.enqueue(job("a"), job("b"))
        seat = await rig.worker("w")
        first, second = await seat.claim()
        assert await seat.settle(success(first, result='"done é"'), success(second)) == []
        row = await rig.row("a")
        assert (row.state, row.result, row.error, row.worker, row.attempt) == ("succeeded", '"done é"', None, "w", 1)
        assert row.started_us is not None
        assert row.finished_us is not None
        assert row.history == []
        assert (await rig.row("b")).result is None

    async def test_failure_keeps_its_error_and_history(self, rig: Rig) -> None:
        await rig.enqueue(job("a"))
        seat = await rig.worker("w")
        (claim,) = await seat.claim()
        await seat.settle(failure(claim, error='{"type":"X"}'))
        row = await rig.row("a")
        assert (row.state, row.error, row.failures) == ("failed", '{"type":"X"}', 1)
        (attempt,) = row.history
        assert (attempt.number, attempt.worker, attempt.outcome, attempt.error) == (1, "w", "failed", '{"type":"X"}')
        assert attempt.started_us <= attempt.ended_us

    async def test_retry_at_once_precedes_the_claims(self, rig: Rig) -> None:
        await rig.enqueue(job("a"))
        seat = await rig.worker("w")
        (claim,) = await seat.claim()
        answer = await seat.exchange([retry(claim)])
        assert [(again.id, again.attempt) for again in answer.claims] == [("a", 2)]

    async def test_retry_later(self, rig: Rig) -> None:
        await rig.enqueue(job("a"))
        seat = await rig.worker("w")
        (claim,) = await seat.claim()
        answer = await seat.exchange([retry(claim, 30.0)])
        assert answer.claims == []
        row = await rig.row("a")
        assert (row.state, row.failures, row.error, row.worker, row.finished_us) == (
            "scheduled",
            1,
            '"boom"',
            None,
            None,
        )
        rig.advance(31)
        await seat.beat()
        assert await seat.pulse.promote(10) == 1
        (again,) = await seat.claim()
        await seat.settle(success(again))
        row = await rig.row("a")
        assert (row.state, row.error, [attempt.outcome for attempt in row.history]) == ("succeeded", None, ["retried"])

    async def test_counters_only_grow(self, rig: Rig) -> None:
        await rig.enqueue(job("a"))
        seat = await rig.worker("w")
        for again in (retry, release, release):
            (claim,) = await seat.claim()
            await seat.settle(again(claim))
        row = await rig.row("a")
        assert (row.attempt, row.failures, row.losses, row.releases) == (3, 1, 0, 2)
        assert [attempt.outcome for attempt in row.history] == ["retried", "released", "released"]

    async def test_history_is_bounded(self, rig: Rig) -> None:
        await rig.enqueue(job("a"))
        seat = await rig.worker("w")
        (claim,) = await seat.claim()
        for _ in range(60):
            (claim,) = (await seat.exchange([release(claim)])).claims
        history = (await rig.row("a")).history
        assert 10 <= len(history) <= 50
        assert history[-1].number == 60

    async def test_all_sorts_at_once(self, rig: Rig) -> None:
        await rig.enqueue(*(job(f"j{n:03}", key=f"k{n}" if n % 5 == 0 else None) for n in range(400)))
        seat = await rig.worker("w")
        claims = await seat.claim(400)
        ends: list[Callable[[Claim], Settlement]] = [success, failure, retry, release, later]
        assert await seat.settle(*(ends[n % 5](claim) for n, claim in enumerate(claims))) == []
        states = await (await rig.client()).states([claim.id for claim in claims])
        expected = ["succeeded", "failed", "queued", "queued", "scheduled"]
        assert [states[claim.id] for claim in claims] == [expected[n % 5] for n in range(400)]

    async def test_data_that_cannot_be_stored_is_refused_whole(self, rig: Rig) -> None:
        await rig.enqueue(job("a"), job("b"))
        seat = await rig.worker("w")
        first, second = await seat.claim()
        with raises(StoreData):
            await seat.settle(success(first), success(second, result='"\ud800"'))
        assert await rig.state("a") == "running"
        assert await seat.settle(success(first), success(second)) == []

    async def test_a_culprit_spoils_nobody_elses_call(self, rig: Rig) -> None:
        seats = [await rig.worker(f"w{n}") for n in range(6)]
        await rig.enqueue(*(job(f"j{n}") for n in range(6)))
        claims = [(await seat.claim(1))[0] for seat in seats]
        client = await rig.client()
        calls = [
            *(seat.settle(success(claim, failures=1 << 70 if n == 3 else 0))
              for n, (seat, claim) in enumerate(zip(seats, claims, strict=True))),
            client.enqueue([job("good")]),
            client.enqueue([job("bad", priority=1 << 70)]),
        ]  # fmt: skip
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [isinstance(answer, StoreData) for answer in answers] == [n in (3, 7) for n in range(8)]
        states = await client.states(["good", "bad", *(f"j{n}" for n in range(6))])
        assert states.pop("j3") == "running"
        assert states.pop("good") == "queued"
        assert list(states.values()) == ["succeeded"] * 5


class TestNumbers:
    async def test_a_repeat_brings_the_same_claims_and_writes_nothing(self, rig: Rig) -> None:
        await rig.enqueue(*(job(f"j{n}") for n in range(4)))
        seat = await rig.worker("w")
        done = await seat.claim(1)
        seat.number += 1
        want = [Want("default", "async", False, 2)]
        first = await seat.link.exchange(seat.number, [success(done[0])], want)
        again = await seat.link.exchange(seat.number, [success(done[0])], want)
        assert first.claims == again.claims
        assert again.refused == []
        assert await rig.state("j3") == "queued"

    async def test_a_repeat_through_another_link_object(self, rig: Rig) -> None:
        await rig.enqueue(job("a"), job("b"))
        seat = await rig.worker("w")
        claims = await seat.claim(1)
        link = await (await rig.another_store()).link("w", 0)
        assert (await link.exchange(1, [], [Want("default", "async", False, 1)])).claims == claims
        await link.aclose()

    async def test_a_repeat_leaves_out_what_was_taken_away(self, rig: Rig) -> None:
        await rig.enqueue(job("a"), job("b"))
        seat = await rig.worker("w")
        claims = await seat.claim(2)
        judge = await rig.worker("judge")
        (decision,) = [Rescue("w", 0, release(claim)) for claim in claims if claim.id == "a"]
        assert await judge.pulse.rescue([decision]) == 1
        again = await seat.link.exchange(1, [], [Want("default", "async", False, 2)])
        assert [claim.id for claim in again.claims] == ["b"]

    async def test_a_lower_number_is_refused(self, rig: Rig) -> None:
        await rig.enqueue(*(job(f"j{n}") for n in range(4)))
        seat = await rig.worker("w")
        (first,) = await seat.claim(1)
        await seat.claim(1)
        with raises(StoreData):
            await seat.link.exchange(1, [success(first)], [Want("default", "async", False, 1)])
        assert await rig.state("j0") == "running"
        assert await rig.state("j2") == "queued"

    async def test_links_count_apart(self, rig: Rig) -> None:
        await rig.enqueue(job("a"), job("b"))
        one, two = await rig.worker("one"), await rig.worker("two")
        assert len(await one.claim(1)) == len(await two.claim(1)) == 1
        assert one.number == two.number == 1


class TestFence:
    async def test_a_second_settlement_is_refused(self, rig: Rig) -> None:
        await rig.enqueue(job("a"), job("b"))
        seat = await rig.worker("w")
        first, second = await seat.claim()
        assert await seat.settle(success(first, result="1")) == []
        assert await seat.settle(failure(first), success(second)) == [first.seq]
        assert (await rig.row("a")).result == "1"
        assert await rig.state("b") == "succeeded"

    async def test_an_old_ticket_is_refused(self, rig: Rig) -> None:
        await rig.enqueue(job("a"))
        seat = await rig.worker("w")
        (old,) = await seat.claim()
        (new,) = (await seat.exchange([release(old)])).claims
        assert new.ticket != old.ticket
        assert await seat.settle(success(old)) == [old.seq]
        assert await seat.settle(success(new)) == []

    async def test_a_strangers_ticket_is_refused(self, rig: Rig) -> None:
        await rig.enqueue(job("a"))
        one, two = await rig.worker("one"), await rig.worker("two")
        (claim,) = await one.claim()
        assert await two.settle(success(claim)) == [claim.seq]
        assert await rig.state("a") == "running"

    async def test_after_a_rescue_the_first_owner_is_refused(self, rig: Rig) -> None:
        await rig.enqueue(job("a"))
        one, two = await rig.worker("one"), await rig.worker("two")
        (claim,) = await one.claim()
        await two.pulse.condemn("one", None)
        (held,) = await two.pulse.orphans(10)
        assert await two.pulse.rescue([lost(held)]) == 1
        (again,) = await two.claim()
        assert await one.settle(success(claim)) == [claim.seq]
        assert await two.settle(success(again)) == []

    async def test_a_condemned_worker_may_settle_while_nobody_has_rescued(self, rig: Rig) -> None:
        await rig.enqueue(job("a"), job("b"))
        one, two = await rig.worker("one"), await rig.worker("two")
        claims = await one.claim(1)
        await two.pulse.condemn("one", None)
        (held,) = await two.pulse.orphans(10)
        answer = await one.exchange([success(claims[0])])
        assert (answer.standing, answer.claims, answer.refused) == ("dead", [], [])
        assert await two.pulse.rescue([lost(held)]) == 0
        assert await rig.state("a") == "succeeded"

    async def test_a_lapsed_worker_may_settle(self, rig: Rig) -> None:
        await rig.enqueue(job("a"), job("b"))
        seat = await rig.worker("w")
        (claim,) = await seat.claim(1)
        rig.advance(LEASE * 3)
        answer = await seat.exchange([success(claim)])
        assert (answer.standing, answer.claims, answer.refused) == ("lapsed", [], [])
        assert await rig.state("a") == "succeeded"
