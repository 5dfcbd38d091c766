"""What the log says of jobs, in the words of their users."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence

from pillion import failure
from pillion.model import FINAL, Held, Settlement
from pillion.worker.attempt import Attempt

log = logging.getLogger("pillion")
_NAMED = 3  # tasks that a line names


def tell_failure(attempt: Attempt, settlement: Settlement) -> None:
    """An attempt failed: the whole traceback if that was the last one."""
    told = failure.read(settlement.error or "")
    job, task = attempt.claim.id, attempt.task.name
    if settlement.state in FINAL:
        text = f"{told.traceback.rstrip()}\n{told.note}" if told.note else told.traceback.rstrip()
        log.error("job %s of %s failed: %s: %s\n%s", job, task, told.type, told.message, text)
    else:
        again = settlement.delay_us / 1e6
        log.warning("job %s of %s raised %s: %s; it tries again in %.1f s", job, task, told.type, told.message, again)


def tell_outcomes(batch: Sequence[tuple[Settlement, str]]) -> None:
    """At DEBUG, how each job ended."""
    if log.isEnabledFor(logging.DEBUG):
        for settlement, job in batch:
            log.debug("job %s: %s", job, settlement.outcome)


def tell_rescued(held: Sequence[Held]) -> None:
    """Jobs of a process that died were moved."""
    counts = Counter(job.task for job in held)
    tasks = ", ".join(f"{count} of {task}" for task, count in counts.most_common(_NAMED))
    more = len(counts) - _NAMED
    if more > 0:
        tasks += f" and {more} other tasks"
    jobs = "1 job was" if len(held) == 1 else f"{len(held)} jobs were"
    log.warning("a process is gone that was running jobs; %s put back to run again: %s", jobs, tasks)
