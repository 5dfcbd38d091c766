"""Sharing out free slots before an exchange."""

from pillion.model import Claim, Want
from pillion.policy.claims import more_expected, share


def total(wants: list[Want]) -> int:
    return sum(want.slots for want in wants)


def test_the_sum_never_exceeds_what_is_free() -> None:
    for free in range(12):
        for turn in range(5):
            wants = share({"async": free}, ("a", "b", "c"), {}, turn=turn, suspect=bool(turn % 2))
            assert total(wants) == free


def test_one_free_slot_visits_every_queue() -> None:
    visited = {share({"async": 1}, ("a", "b", "c"), {}, turn=turn, suspect=False)[0].queue for turn in range(3)}
    assert visited == {"a", "b", "c"}


def test_a_queue_with_a_limit_leaves_its_slots_to_others() -> None:
    wants = share({"async": 10}, ("reports", "default"), {"reports": 2}, turn=0, suspect=False)
    assert {want.queue: want.slots for want in wants} == {"reports": 2, "default": 8}


def test_a_full_queue_is_not_asked_for() -> None:
    assert share({"async": 3}, ("reports",), {"reports": 0}, turn=0, suspect=False) == []


def test_a_limit_counts_over_all_kinds() -> None:
    wants = share({"async": 5, "thread": 5}, ("reports",), {"reports": 6}, turn=0, suspect=False)
    assert total(wants) == 6


def test_at_most_one_suspect_is_asked_for_and_it_takes_an_ordinary_slot() -> None:
    wants = share({"async": 4, "thread": 4}, ("a", "b"), {}, turn=3, suspect=True)
    assert [want.slots for want in wants if want.suspect] == [1]
    assert total(wants) == 8


def test_more_is_expected_only_after_a_want_was_filled() -> None:
    want = [Want("a", "async", False, 2)]
    one = Claim(1, 1, "j", "t", "a", "async", False, False, 1, 0, 0, 0, "{}", None)
    assert not more_expected(want, [], [])
    assert not more_expected(want, [one], [])
    assert more_expected(want, [one, one], [])
    assert not more_expected([], [], [])
