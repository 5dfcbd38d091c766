"""The policy of health: from facts to findings. Pure functions; a process fails only for what is wrong with itself."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from pillion.model import WorkerRow
from pillion.web.facts import Finding, Gap, Here, Level, Sample, StoreFacts, WorkerFacts

AWAY_AFTER: Final = 3.0  # seconds without any answer of a store that gives trouble
STALL: Final = 1.0  # seconds that a job loop is held
STALL_RECENT: Final = 60.0  # seconds for which a stall is worth a warning
_SHOWN: Final = 20  # findings of a kind; more are counted


def overall(findings: Iterable[Finding]) -> Level:
    """The worst of them."""
    levels = {finding.level for finding in findings}
    return "fail" if "fail" in levels else "warn" if "warn" in levels else "pass"


def not_ready(here: Here) -> str | None:
    """Why this process should be sent no requests; None: it should. The store has no say in it."""
    if not here.entered:
        return "the lifespan did not run in this process"
    if not here.wanted:
        return None
    if here.worker is None:
        return "no worker runs in this process"
    if here.worker.state in ("draining", "drained"):
        return "this process is draining"
    return None if here.joined else "the worker is starting: the store was not reached yet"


def of_worker(here: Here) -> list[Finding]:
    """This process's worker: its threads, its lease, its drain, what holds it up."""
    if not here.entered:
        return [Finding("fail", "worker", "the lifespan did not run in this process")]
    if not here.wanted:
        return []
    worker = here.worker
    if worker is None:
        return [Finding("fail", "worker", "no worker runs in this process")]
    if worker.state in ("draining", "drained"):
        return [Finding("warn", "worker", "this process is draining: it starts no more jobs")]
    if here.wrong_schema:
        return [Finding("fail", "worker", "the store's schema is of another version: no jobs run here")]
    findings = [*_threads(here, worker), *_lease(here, worker), *_stalls(worker)]
    if worker.state == "starting" and not findings:
        findings.append(Finding("warn", "worker", "the worker is starting"))
    if here.certificate_wanted and here.joined and not worker.certificate:
        findings.append(
            Finding("warn", "worker", "a crash here is noticed after a full lease only: no lock file could be made")
        )
    return findings


def _threads(here: Here, worker: WorkerFacts) -> Iterable[Finding]:
    if not here.upkeep_alive:
        yield Finding("fail", "worker", "the thread that keeps this process's lease has ended")
    for index, loop in enumerate(worker.loops):
        if not loop.alive:
            yield Finding("fail", "worker", f"job loop {index} has ended: no jobs run on it")
        # With nothing running all slots are free, and an idle loop asks at least once a second.
        elif worker.running == 0 and loop.lag < STALL and loop.last_poll is not None and loop.last_poll > here.lease:
            yield Finding("fail", "worker", f"job loop {index} has not asked for jobs for {loop.last_poll:.0f} s")
    for duty, restarts in list(worker.upkeep.items())[:_SHOWN]:
        yield Finding("warn", "worker", f"{duty} fails and was started again {_times(restarts)}")


def _lease(here: Here, worker: WorkerFacts) -> Iterable[Finding]:
    beat = worker.last_beat
    if beat is None:
        return
    if beat > here.lease:
        yield Finding(
            "fail", "worker", f"no beat for {beat:.0f} s, and the lease is {here.lease:g} s: jobs move elsewhere"
        )
    elif beat > max(here.lease / 2, AWAY_AFTER):
        yield Finding("warn", "worker", f"no beat for {beat:.0f} s of a lease of {here.lease:g} s")


def _stalls(worker: WorkerFacts) -> Iterable[Finding]:
    for index, loop in enumerate(worker.loops):
        if loop.alive and loop.lag >= STALL:
            yield Finding("warn", "worker", f"job loop {index} has been held for {loop.lag:.1f} s by a job that blocks")
            return
    if worker.last_stall is not None and worker.last_stall <= STALL_RECENT and worker.stalls:
        name, longest = max(worker.stalls.items(), key=lambda stall: stall[1])
        yield Finding("warn", "worker", f"job loops were held up; at worst {name} held one for {longest:.1f} s")


def of_store(here: Here, store: StoreFacts) -> list[Finding]:
    """Whether the store answers, and what it warns of itself."""
    findings: list[Finding] = []
    if is_away(here, store):
        findings.append(Finding("fail", "store", "the store does not answer"))
    findings.extend(Finding("warn", "store", in_the_open(text)) for text in list(store.warnings)[:_SHOWN])
    return findings


def is_away(here: Here, store: StoreFacts) -> bool:
    """True if the store gives trouble and answered nothing for `AWAY_AFTER` seconds: one late answer is no outage."""
    worker = here.worker
    trouble = store.unanswered or here.away
    ages = [store.answered]
    if worker is not None:
        trouble = trouble or "beat" in worker.upkeep or any(loop.trouble for loop in worker.loops)
        ages.append(worker.last_beat)
    known = [age for age in ages if age is not None]
    return trouble and (not known or min(known) > AWAY_AFTER)


def of_fleet(here: Here, sample: Sample | None) -> list[Finding]:
    """All workers on this store."""
    if sample is None:
        return []
    findings: list[Finding] = []
    lapsed = sum(1 for worker in sample.workers if worker.lapsed and not worker.dead)
    if lapsed:
        text = f"{_count(lapsed, 'worker')} gave no sign for longer than a lease; their jobs await rescue"
        findings.append(Finding("warn", "fleet", text))
    if not here.wanted and not any(map(serves, sample.workers)):
        findings.append(Finding("warn", "fleet", "no process runs jobs, and this one is set not to (worker=False)"))
    return findings


def serves(worker: WorkerRow) -> bool:
    """True for one that claims jobs."""
    return not (worker.dead or worker.lapsed or worker.leaving)


def gaps(sample: Sample) -> list[Gap]:
    """Which waiting jobs nobody would take."""
    workers = [worker for worker in sample.workers if serves(worker)]
    queues = {queue for worker in workers for queue in worker.queues}
    pairs = {(queue, task) for worker in workers for queue in worker.queues for task in worker.tasks}
    full = Full(sample)
    found: dict[tuple[str, str | None], Gap] = {}
    for row in sample.queues:
        waiting = row.queued + row.scheduled
        if not waiting or (row.queue, row.task) in pairs:
            continue
        key = (row.queue, row.task if row.queue in queues else None)
        before = found.get(key, Gap(*key, 0, False, None))
        ages = [before.oldest, None if row.oldest_us is None else row.oldest_us / 1e6]
        found[key] = Gap(
            *key,
            before.waiting + waiting,
            before.capped or (row.queued > 0 and full.queued(row.queue)) or (row.scheduled > 0 and full.scheduled),
            max((age for age in ages if age is not None), default=None),
        )
    return list(found.values())


class Full:
    """Which counts of a sample may be short of the truth: the store stops at a cap a queue, or over all queues."""

    def __init__(self, sample: Sample) -> None:
        self._cap = sample.cap
        self._queued: dict[str, int] = {}
        for row in sample.queues:
            self._queued[row.queue] = self._queued.get(row.queue, 0) + row.queued
        self.scheduled = sum(row.scheduled for row in sample.queues) >= sample.cap
        self.running = sum(row.running for row in sample.queues) >= sample.cap

    def queued(self, queue: str) -> bool:
        """True if more may be queued there than was counted."""
        return self._queued.get(queue, 0) >= self._cap


def of_gaps(found: Sequence[Gap]) -> list[Finding]:
    """What nobody serves."""
    findings = [Finding("warn", "queues", told(gap)) for gap in found[:_SHOWN]]
    if len(found) > _SHOWN:
        findings.append(Finding("warn", "queues", f"{len(found) - _SHOWN} more queues and tasks that nobody serves"))
    return findings


def told(gap: Gap) -> str:
    """One sentence."""
    jobs = "1 job waits" if gap.waiting == 1 else f"{gap.waiting:,}{'+' if gap.capped else ''} jobs wait"
    since = "" if gap.oldest is None else f", the oldest for {gap.oldest:.0f} s"
    if gap.task is None:
        return f"queue {gap.queue!r} has no consumer: {jobs}{since}"
    return f"task {gap.task!r} is known to no process that serves queue {gap.queue!r}: {jobs}{since}"


_ADDRESS: Final = re.compile(r"""['"]?(?:[A-Za-z][\w+.-]*:/|(?<![\w.)])[/~]|(?<!\w)[A-Za-z]:\\)[^\s'",;]*['"]?""")


def in_the_open(text: str) -> str:
    """`text` without addresses and paths."""
    return _ADDRESS.sub("…", text)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
