"""Enqueue and unique keys."""

from __future__ import annotations

from collections.abc import Callable

from pillion.errors import StoreData
from pillion.model import Claim, Enqueued, Settlement
from pillion.testing.contract.rig import Rig, failure, job, later, raises, release, retry, success


class TestEnqueue:
    async def test_answers_come_in_order(self, rig: Rig) -> None:
        names = [f"j{n:03}" for n in range(300)]
        assert await rig.enqueue(*map(job, names)) == [Enqueued(name, True) for name in names]
        seat = await rig.worker("w")
        assert [claim.id for claim in await seat.claim(300)] == names

    async def test_nothing_to_store_is_fine(self, rig: Rig) -> None:
        assert await rig.enqueue() == []

    async def test_a_known_id_is_a_success_and_changes_nothing(self, rig: Rig) -> None:
        await rig.enqueue(job("a"), job("b"))
        answers = await rig.enqueue(job("c"), job("a", args='{"n":2}'), job("d"), job("d"))
        assert [(answer.id, answer.created) for answer in answers] == [
            ("c", True), ("a", False), ("d", True), ("d", False),
        ]  # fmt: skip
        assert all(answer.holder is None for answer in answers)
        assert (await rig.row("a")).args == '{"n":1}'

    async def test_a_known_id_stays_known_after_its_end(self, rig: Rig) -> None:
        await rig.enqueue(job("a"))
        seat = await rig.worker("w")
        await seat.settle(success((await seat.claim())[0], keep_us=None))
        assert not (await rig.enqueue(job("a")))[0].created
        assert await rig.state("a") == "succeeded"

    async def test_the_row_holds_what_was_given(self, rig: Rig) -> None:
        text = '{"s":"é\\u0000 🛵 \\" \\n","n":[1,2.5,null]}'
        await rig.enqueue(
            job("a", task="m.f", queue="q", kind="thread", priority=-3, args=text, headers='{"h":"ü"}', key="k:1")
        )
        row = await rig.row("a")
        assert (row.task, row.queue, row.kind, row.priority) == ("m.f", "q", "thread", -3)
        assert (row.args, row.headers, row.key) == (text, '{"h":"ü"}', "k:1")
        assert (row.state, row.attempt, row.worker, row.started_us, row.finished_us) == ("queued", 0, None, None, None)
        seat = await rig.worker("w")
        (claim,) = await seat.claim(queue="q", kind="thread")
        assert (claim.args, claim.headers, claim.task, claim.keyed) == (text, '{"h":"ü"}', "m.f", True)

    async def test_delay_and_due_time(self, rig: Rig) -> None:
        await rig.enqueue(job("now"), job("soon", delay_us=5_000_000))
        row = await rig.row("soon")
        assert row.state == "scheduled"
        assert row.due_us is not None
        assert row.due_us - row.created_us == 5_000_000
        await rig.enqueue(job("at", due_us=row.created_us + 60_000_000), job("past", due_us=row.created_us - 1))
        assert (await rig.row("at")).state == "scheduled"
        assert (await rig.row("at")).due_us == row.created_us + 60_000_000
        assert (await rig.row("past")).state == "queued"

    async def test_due_time_wins_over_delay(self, rig: Rig) -> None:
        await rig.enqueue(job("a", delay_us=5_000_000, due_us=1))
        assert await rig.state("a") == "queued"

    async def test_data_that_cannot_be_stored_is_refused_whole(self, rig: Rig) -> None:
        for bad in ("\0", "\ud800"):
            with raises(StoreData):
                await rig.enqueue(job("good"), job("bad", args=f'"{bad}"'))
            with raises(StoreData):
                await rig.enqueue(job("good"), job("bad", key=bad))
        assert await (await rig.client()).states(["good", "bad"]) == {}

    async def test_a_priority_out_of_range_is_refused(self, rig: Rig) -> None:
        with raises(StoreData):
            await rig.enqueue(job("good"), job("bad", priority=1 << 70))
        assert await (await rig.client()).states(["good", "bad"]) == {}


class TestUniqueKeys:
    async def test_a_taken_key_names_its_holder(self, rig: Rig) -> None:
        assert await rig.enqueue(job("a", key="k"), job("b", key="k"), job("c", key="l"), job("d")) == [
            Enqueued("a", True), Enqueued("b", False, "a"), Enqueued("c", True), Enqueued("d", True),
        ]  # fmt: skip
        assert await rig.enqueue(job("e", key="k")) == [Enqueued("e", False, "a")]
        assert await (await rig.client()).states(["b", "e"]) == {}

    async def test_a_repeat_of_the_holder_is_a_success(self, rig: Rig) -> None:
        await rig.enqueue(job("a", key="k"))
        assert await rig.enqueue(job("a", key="k")) == [Enqueued("a", False)]

    async def test_every_final_state_frees_the_key(self, rig: Rig) -> None:
        seat = await rig.worker("w")
        for end in (success, failure):
            await rig.enqueue(job(f"{end.__name__}1", key="k"))
            (claim,) = await seat.claim()
            assert claim.keyed
            await seat.settle(end(claim))
            assert (await rig.enqueue(job(f"{end.__name__}2", key="k")))[0].created
            await (await rig.client()).cancel([f"{end.__name__}2"], None)
        assert (await rig.enqueue(job("last", key="k")))[0].created

    async def test_waiting_again_keeps_the_key(self, rig: Rig) -> None:
        seat = await rig.worker("w")
        await rig.enqueue(job("a", key="k"))
        ways: list[Callable[[Claim], Settlement]] = [release, retry, later]
        for again in ways:
            (claim,) = await seat.claim()
            await seat.settle(again(claim))
            assert await rig.enqueue(job("b", key="k")) == [Enqueued("b", False, "a")]

    async def test_a_cancelled_retry_frees_the_key(self, rig: Rig) -> None:
        seat = await rig.worker("w")
        await rig.enqueue(job("a", key="k"))
        (claim,) = await seat.claim()
        await (await rig.client()).cancel(["a"], None)
        assert not (await rig.enqueue(job("b", key="k")))[0].created
        await seat.settle(retry(claim))
        assert (await rig.enqueue(job("b", key="k")))[0].created

    async def test_a_late_end_does_not_free_the_next_holders_key(self, rig: Rig) -> None:
        seat = await rig.worker("w")
        await rig.enqueue(job("a", key="k"))
        (claim,) = await seat.claim()
        await seat.settle(success(claim))
        await rig.enqueue(job("b", key="k"))
        assert await seat.settle(success(claim)) == [claim.seq]
        assert await rig.enqueue(job("c", key="k")) == [Enqueued("c", False, "b")]
