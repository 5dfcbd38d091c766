"""Backoff: pure, so its randomness and its counts are passed in."""

import random

import pytest

from pillion import Backoff, ConfigurationError


def test_delay_doubles_up_to_the_cap() -> None:
    backoff = Backoff(base=1.0, factor=2.0, cap=10.0, jitter=0.0)
    delays = [backoff.delay_us(n, lambda: 0.0) / 1e6 for n in range(1, 7)]
    assert delays == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


def test_delay_at_attempt_one_thousand_is_the_cap_without_overflow() -> None:
    assert Backoff(cap=3600.0, jitter=0.0).delay_us(1_000, lambda: 0.5) == 3_600_000_000


def test_a_thousand_jobs_that_failed_together_spread_over_a_fifth_of_the_delay() -> None:
    source = random.Random(7)
    delays = [Backoff(base=10.0).delay_us(1, source.random) for _ in range(1_000)]
    assert max(delays) <= 10_000_000
    assert max(delays) - min(delays) >= 2_000_000


@pytest.mark.parametrize("wrong", [{"base": -1}, {"factor": 0.5}, {"jitter": 2.0}, {"cap": -1}])
def test_what_cannot_work_is_refused_at_construction(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match="Backoff needs"):
        Backoff(**wrong)
