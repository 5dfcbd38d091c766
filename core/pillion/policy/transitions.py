"""What becomes of a job when an attempt ends. Every rule of the life cycle stands here, once.

Three counters only grow: failures (exceptions), losses (the worker died) and releases (handed back, free
of charge). `max_attempts` bounds failures alone. Losses have a cap that is the same for every task, so that
any worker can rescue any job.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pillion.model import Claim, Held, Rescue, Settlement
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
        return Settlement(
            seq=claim.seq,
            ticket=claim.ticket,
            outcome="failed",
            state="failed",
            failures=1,
            suspect=claim.suspect,
            keyed=claim.keyed,
            error=error,
            keep_us=retention.keep_us("failed"),
        )
    delay = backoff.delay_us(failures, random)
    return Settlement(
        seq=claim.seq,
        ticket=claim.ticket,
        outcome="retried",
        state="scheduled" if delay else "queued",
        delay_us=delay,
        failures=1,
        suspect=claim.suspect,
        keyed=claim.keyed,
        error=error,
        keep_us=retention.keep_us("cancelled"),  # used only if a cancel wish overrides the retry
    )


def cancelled(claim: Claim, retention: Retention) -> Settlement:
    """The job was cancelled while it ran, and its code has ended."""
    return Settlement(
        seq=claim.seq,
        ticket=claim.ticket,
        outcome="cancelled",
        state="cancelled",
        keyed=claim.keyed,
        suspect=claim.suspect,
        keep_us=retention.keep_us("cancelled"),
    )


def released(claim: Claim, retention: Retention) -> Settlement:
    """Handed back free of charge: a drain, or a claim that was never started."""
    return Settlement(
        seq=claim.seq,
        ticket=claim.ticket,
        outcome="released",
        state="queued",
        releases=1,
        suspect=claim.suspect,
        keyed=claim.keyed,
        keep_us=retention.keep_us("cancelled"),
    )


def rescued(held: Held, error: str, retention: Retention) -> Rescue:
    """The worker of a running job is gone. `error` is the failure text used when the loss cap is reached.

    What a leaving worker held is a release however its process ended, so a deploy never costs an attempt.
    """
    if held.leaving:
        settlement = Settlement(
            seq=held.seq,
            ticket=held.ticket,
            outcome="released",
            state="queued",
            releases=1,
            suspect=held.losses >= SUSPECT_FROM,
            keyed=held.keyed,
            keep_us=retention.keep_us("cancelled"),
        )
        return Rescue(held.worker, held.link, settlement)
    losses = held.losses + 1
    over = losses >= LOSS_CAP
    delay = 0 if losses < SUSPECT_FROM or over else _LOSS_DELAY_US
    settlement = Settlement(
        seq=held.seq,
        ticket=held.ticket,
        outcome="lost",
        state="failed" if over else "scheduled" if delay else "queued",
        delay_us=delay,
        losses=1,
        suspect=losses >= SUSPECT_FROM,
        keyed=held.keyed,
        error=error if over else None,
        keep_us=retention.keep_us("failed" if over else "cancelled"),
    )
    return Rescue(held.worker, held.link, settlement)


def refused(settlement: Settlement, error: str, retention: Retention) -> Settlement:
    """The store does not take this outcome: the job is recorded as failed instead, so that it ends at all."""
    return Settlement(
        seq=settlement.seq,
        ticket=settlement.ticket,
        outcome="failed",
        state="failed",
        failures=1,
        keyed=settlement.keyed,
        error=error,
        keep_us=retention.keep_us("failed"),
    )
