"""Cancel: at once what has not started, by a wish what runs."""

from __future__ import annotations

from collections.abc import Callable

from pillion.model import Claim, Settlement
from pillion.testing.contract.rig import Rig, failure, job, later, release, retry, success


class TestCancel:
    async def test_what_has_not_started_is_cancelled_at_once(self, rig: Rig) -> None:
        await rig.enqueue(job("a"), job("b", delay_us=60_000_000))
        client = await rig.client()
        assert await client.cancel(["a", "b", "unheard of"], None) == {"a": "cancelled", "b": "cancelled"}
        assert (await rig.row("a")).finished_us is not None
        assert await (await rig.worker("w")).claim() == []
        rig.advance(61)
        assert await client.promote(10) == 0

    async def test_what_runs_is_wished_for(self, rig: Rig) -> None:
        await rig.enqueue(job("a"), job("b"))
        seat, other = await rig.worker("w"), await rig.worker("other")
        first, _ = await seat.claim()
        assert await (await rig.client()).cancel(["a"], None) == {"a": "running"}
        assert (await rig.row("a")).cancel
        assert (await seat.beat()).cancels == [first.seq]
        assert (await other.beat()).cancels == []

    async def test_a_wish_turns_waiting_again_into_cancelled(self, rig: Rig) -> None:
        seat, client = await rig.worker("w"), await rig.client()
        ways: list[Callable[[Claim], Settlement]] = [release, retry, later]
        for again in ways:
            (answer,) = await rig.enqueue(job(f"j{seat.number}"))
            (claim,) = await seat.claim()
            await client.cancel([answer.id], None)
            answered = await seat.exchange([again(claim)])
            assert answered.claims == []
            row = await rig.row(answer.id)
            assert row.state == "cancelled"
            assert row.finished_us is not None
        assert (await seat.beat()).cancels == []

    async def test_a_job_that_ends_first_keeps_its_end(self, rig: Rig) -> None:
        await rig.enqueue(job("a"), job("b"))
        seat, client = await rig.worker("w"), await rig.client()
        first, second = await seat.claim()
        await client.cancel(["a", "b"], None)
        await seat.settle(success(first, result="1"), failure(second))
        assert await client.cancel(["a", "b"], None) == {"a": "succeeded", "b": "failed"}
        assert (await rig.row("a")).result == "1"

    async def test_the_worker_settles_it_as_cancelled(self, rig: Rig) -> None:
        await rig.enqueue(job("a", key="k"))
        seat = await rig.worker("w")
        (claim,) = await seat.claim()
        await (await rig.client()).cancel(["a"], None)
        settled = failure(claim, outcome="cancelled", state="cancelled", failures=0, error=None)
        assert await seat.settle(settled) == []
        row = await rig.row("a")
        assert (row.state, [attempt.outcome for attempt in row.history]) == ("cancelled", ["cancelled"])
        assert (await rig.enqueue(job("b", key="k")))[0].created

    async def test_it_frees_the_key(self, rig: Rig) -> None:
        await rig.enqueue(job("a", key="k"))
        await (await rig.client()).cancel(["a"], None)
        assert (await rig.enqueue(job("b", key="k")))[0].created

    async def test_it_is_idempotent(self, rig: Rig) -> None:
        await rig.enqueue(job("a"), job("b"))
        client, seat = await rig.client(), await rig.worker("w")
        await seat.claim(1)
        for _ in range(2):
            assert await client.cancel(["a", "b"], None) == {"a": "running", "b": "cancelled"}

    async def test_never_running_after_cancelled(self, rig: Rig) -> None:
        await rig.enqueue(*(job(f"j{n}") for n in range(20)))
        seat = await rig.worker("w", await rig.another_store())
        client = await rig.client(await rig.another_store())
        claimed: set[str] = set()
        for n in range(20):
            told = (await client.cancel([f"j{n}"], None))[f"j{n}"]
            claimed |= {claim.id for claim in await seat.claim(1)}
            assert (f"j{n}" in claimed) == (told == "running")

    async def test_cancelled_jobs_are_kept_as_long_as_said(self, rig: Rig) -> None:
        await rig.enqueue(job("pending"), job("running"), job("for ever"))
        client, seat = await rig.client(), await rig.worker("w")
        await client.cancel(["pending"], 10_000_000)
        await client.cancel(["for ever"], None)
        (claim,) = await seat.claim()
        await client.cancel(["running"], 10_000_000)
        await seat.settle(release(claim))
        assert await client.prune(10) == 0
        rig.advance(11)
        assert await client.prune(10) == 2
        assert await client.states(["pending", "running", "for ever"]) == {"for ever": "cancelled"}
