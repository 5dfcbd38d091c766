"""What becomes of a job when an attempt ends. Every rule of the life cycle stands here, once.

Three counters only grow: failures (exceptions), losses (the worker died) and releases (handed back, free
of charge). `max_attempts` bounds failures alone. Losses have a cap that is the same for every task, so that
any worker can rescue any job.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pillion.model import Claim, Held, Outcome, Rescue, Settlement, State
from pillion.policy.retention import Retention
from pillion.policy.retry import Backoff

LOSS_CAP: Final = 3  # a job that was lost with this many workers is given up
SUSPECT_FROM: Final = 2  # losses; a process runs one such job at a time
_LOSS_DELAY_US: Final = 2_000_000  # before the run after a second loss


def succeeded(claim: Claim, result: str | None, retention: Retention) -> Settlement:
    """The function returned. A suspect that ends well is cleared by ending."""
    return Settlement(
        seq=claim.seq,
        ticket=claim.ticket,
        outcome="succeeded",
        state="succeeded",
        keyed=claim.keyed,
        result=result,
        keep_us=retention.keep_us("succeeded"),
    )


def failed(
    claim: Claim,
    error: str,
    *,
    max_attempts: int,
    backoff: Backoff,
    random: Callable[[], float],
    retention: Retention,
    final: bool = False,
) -> Settlement:
    """The function raised: again after a backoff, or failed for good. ``final`` forbids another try."""
    failures = claim.failures + 1
    if final or failures >= max_attempts:
        return _ended(claim, "failed", "failed", retention, failures=1, suspect=claim.suspect, error=error)
    delay = backoff.delay_us(failures, random)
    state: State = "scheduled" if delay else "queued"
    return _ended(claim, "retried", state, retention, delay_us=delay, failures=1, suspect=claim.suspect, error=error)


def cancelled(claim: Claim, retention: Retention) -> Settlement:
    """The job was cancelled while it ran, and its code has ended."""
    return _ended(claim, "cancelled", "cancelled", retention, suspect=claim.suspect)


def released(claim: Claim, retention: Retention) -> Settlement:
    """Handed back free of charge: a drain, or a claim that was never started."""
    return _ended(claim, "released", "queued", retention, releases=1, suspect=claim.suspect)


def refused(settlement: Settlement, error: str, retention: Retention) -> Settlement:
    """The store does not take this outcome: the job is recorded as failed instead, so that it ends at all."""
    return _ended(settlement, "failed", "failed", retention, failures=1, error=error)


def rescued(held: Held, error: str, retention: Retention) -> Rescue:
    """The worker of a running job is gone. `error` is the failure text used when the loss cap is reached.

    What a leaving worker held is a release however its process ended, so a deploy never costs an attempt.
    """
    if held.leaving:
        suspect = held.losses >= SUSPECT_FROM
        settlement = _ended(held, "released", "queued", retention, releases=1, suspect=suspect)
        return Rescue(held.worker, held.link, settlement)
    losses = held.losses + 1
    suspect = losses >= SUSPECT_FROM
    if losses >= LOSS_CAP:
        settlement = _ended(held, "lost", "failed", retention, losses=1, suspect=suspect, error=error)
    elif suspect:
        settlement = _ended(held, "lost", "scheduled", retention, delay_us=_LOSS_DELAY_US, losses=1, suspect=True)
    else:
        settlement = _ended(held, "lost", "queued", retention, losses=1)
    return Rescue(held.worker, held.link, settlement)


def _ended(
    job: Claim | Held | Settlement, outcome: Outcome, state: State, retention: Retention, **changes: Any
) -> Settlement:
    """A settlement of `job`. One that lets it wait again says how long to keep it too: a cancel wish may end it."""
    return Settlement(
        seq=job.seq,
        ticket=job.ticket,
        keyed=job.keyed,
        outcome=outcome,
        state=state,
        keep_us=retention.keep_us("failed" if state == "failed" else "cancelled"),
        **changes,
    )
