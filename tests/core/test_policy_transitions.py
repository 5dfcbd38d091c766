"""What becomes of a job: every rule of the life cycle, without a store."""

from datetime import timedelta
from typing import Any

import pytest

from pillion import Backoff, ConfigurationError, Retention
from pillion.model import Claim, Held
from pillion.policy import transitions
from pillion.policy.retention import FLOOR_US

RETENTION = Retention()


def claim(**changes: Any) -> Claim:
    values: dict[str, Any] = {
        "seq": 1, "ticket": 7, "id": "j", "task": "t", "queue": "default", "kind": "async", "suspect": False,
        "keyed": False, "attempt": 1, "failures": 0, "losses": 0, "releases": 0, "args": "{}", "headers": None,
    }  # fmt: skip
    return Claim(**(values | changes))


def held(**changes: Any) -> Held:
    values: dict[str, Any] = {
        "seq": 1, "worker": "w", "link": 0, "ticket": 7, "task": "t", "keyed": False, "failures": 0, "losses": 0,
        "releases": 0, "leaving": False, "cancel": False,
    }  # fmt: skip
    return Held(**(values | changes))


def fail(job: Claim, max_attempts: int = 3, **changes: Any) -> Any:
    return transitions.failed(
        job, "{}", max_attempts=max_attempts, backoff=Backoff(), random=lambda: 0.0, retention=RETENTION, **changes
    )


def test_a_failure_below_max_attempts_is_tried_again_after_the_backoff() -> None:
    settlement = fail(claim(failures=1))
    assert (settlement.state, settlement.outcome, settlement.failures) == ("scheduled", "retried", 1)
    assert settlement.delay_us == 4_000_000


def test_the_last_failure_is_final_and_kept_for_the_failed_retention() -> None:
    settlement = fail(claim(failures=2))
    assert (settlement.state, settlement.keep_us) == ("failed", 30 * 24 * 3600 * 1_000_000)


@pytest.mark.parametrize("counter", ["losses", "releases"])
def test_max_attempts_bounds_failures_alone(counter: str) -> None:
    assert fail(claim(**{counter: 9}), max_attempts=2).state == "scheduled"


def test_a_final_failure_is_not_tried_again() -> None:
    assert fail(claim(), final=True).state == "failed"


def test_a_release_costs_nothing_but_is_counted() -> None:
    settlement = transitions.released(claim(), RETENTION)
    assert (settlement.state, settlement.releases, settlement.failures, settlement.losses) == ("queued", 1, 0, 0)


def test_the_first_loss_is_retried_at_once_and_the_second_later_as_a_suspect() -> None:
    first = transitions.rescued(held(), "{}", RETENTION).settlement
    second = transitions.rescued(held(losses=1), "{}", RETENTION).settlement
    assert (first.state, first.suspect, first.losses) == ("queued", False, 1)
    assert (second.state, second.suspect, second.delay_us > 0) == ("scheduled", True, True)


def test_the_third_loss_fails_the_job_whatever_its_max_attempts() -> None:
    last = transitions.rescued(held(losses=2), '{"type":"WorkerLost"}', RETENTION).settlement
    assert (last.state, last.error) == ("failed", '{"type":"WorkerLost"}')


def test_what_a_leaving_worker_held_is_a_release_however_often_it_was_lost() -> None:
    settlement = transitions.rescued(held(leaving=True, losses=2), "{}", RETENTION).settlement
    assert (settlement.state, settlement.releases, settlement.losses, settlement.suspect) == ("queued", 1, 0, True)


def test_a_rescue_is_fenced_by_what_was_read() -> None:
    rescue = transitions.rescued(held(worker="x", link=3, ticket=99), "{}", RETENTION)
    assert (rescue.worker, rescue.link, rescue.settlement.ticket) == ("x", 3, 99)


def test_an_id_stays_known_for_ten_minutes_whatever_the_retention() -> None:
    assert Retention(succeeded=0).keep_us("succeeded") == FLOOR_US


def test_no_retention_keeps_for_ever() -> None:
    assert Retention(failed=None).keep_us("failed") is None


def test_retention_takes_timedeltas_and_refuses_what_is_no_duration() -> None:
    assert Retention(failed=timedelta(days=7)).keep_us("failed") == 7 * 24 * 3600 * 1_000_000
    with pytest.raises(ConfigurationError, match=r"Retention\(succeeded=…\) takes seconds"):
        Retention(succeeded=-1)
