"""Health of one `Jobs` in this process, answered from memory; a stuck store holds nobody up."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from pillion.model import QueueRow, WorkerRow
from pillion.store.base import Link
from pillion.web import verdict
from pillion.web.document import View, document
from pillion.web.facts import Here, Sample, StoreFacts
from pillion.web.watch import CAP, Patience, Watch

log = logging.getLogger("pillion")

MEDIA_TYPE: Final = "application/health+json"
FRESH: Final = 2.0  # seconds for which a sample serves
DETAIL_BOUND: Final = 0.5  # seconds that the document waits for a fresh one, unless the store is known to be slow
READY_BOUND: Final = 1.0  # seconds that readiness waits for the store, where it is asked to


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer, of `MEDIA_TYPE`."""

    status: int
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What a `Jobs` knows of its own store without asking it."""

    source: object  # equal for those that share a store and namespace
    kind: str
    durability: str
    warnings: Sequence[str] = ()


class Health:
    """Facts, the last sample of the store, and who keeps it fresh. `here` and `origin` are read at each answer."""

    def __init__(
        self,
        here: Callable[[], Here],
        origin: Callable[[], Origin],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.here = here
        self._origin = origin
        self._clock = clock
        self._sample: Sample | None = None
        self._unanswered = False
        self._patience = Patience()
        self._watches: dict[asyncio.AbstractEventLoop, Watch] = {}

    @asynccontextmanager
    async def watching(self, link: Callable[[], Awaitable[Link]]) -> AsyncGenerator[None]:
        """Keep the sample fresh from the running loop while the context is open."""
        loop = asyncio.get_running_loop()
        watch = self._watches.get(loop)
        if watch is None:
            watch = self._watches[loop] = Watch(self, link)
        watch.users += 1
        try:
            yield
        finally:
            watch.users -= 1
            if not watch.users:
                del self._watches[loop]
                await watch.aclose()

    # -- for the watch ---------------------------------------------------------------------------------------

    def took(self, workers: Sequence[WorkerRow], queues: Sequence[QueueRow], cap: int) -> None:
        """A sample came in. Jobs that wait for nobody are told to the log."""
        now = self._clock()
        self._sample = sample = Sample(taken=now, workers=workers, queues=queues, cap=cap)
        self._unanswered = False
        for gap in self._patience.outlasted(now, verdict.gaps(sample)):
            log.warning("%s; is a process that serves it running, and does it import the task?", verdict.told(gap))

    def missed(self) -> None:
        """The store did not answer, or is late."""
        self._unanswered = True

    def age(self) -> float | None:
        """Of the sample."""
        return None if self._sample is None else self._clock() - self._sample.taken

    # -- for requests ----------------------------------------------------------------------------------------

    async def freshen(self) -> None:
        """Renew an old sample, within `DETAIL_BOUND`. A store that is slow already is left to the background."""
        sample = self._sample
        if self._unanswered or (sample and sample.cap >= CAP and self._clock() - sample.taken <= FRESH):
            return
        watch = self._watches.get(asyncio.get_running_loop())
        if watch is not None:
            await watch.ask(CAP, DETAIL_BOUND)

    def view(self) -> View:
        """What is known now. Asks nobody."""
        age = self.age()
        origin = self._origin()
        return View(
            origin.source,
            self.here(),
            StoreFacts(
                kind=origin.kind,
                durability=origin.durability,
                answered=age,
                unanswered=self._unanswered,
                warnings=origin.warnings,
            ),
            self._sample,
            None if age is None else round(age, 3),
        )

    async def reaches_store(self, bound: float) -> bool:
        """Ask the store, or take an answer of this second. False if none came within `bound` seconds."""
        age = self.age()
        if age is not None and age <= 1.0 and not self._unanswered:
            return True
        watch = self._watches.get(asyncio.get_running_loop())
        return watch is not None and await watch.ask(CAP, bound)


def live() -> Answer:
    """This process turns: whoever reads this has the proof. The store has no say."""
    return Answer(200, _encode({"status": "pass"}))


async def ready(healths: Sequence[Health], *, store: bool = False) -> Answer:
    """Whether this process should be sent requests: started and not draining.

    With `store`, only if that answers too; else an outage of the store takes no process out.
    """
    reasons = {reason for health in healths if (reason := verdict.not_ready(health.here())) is not None}
    if store and not reasons:
        reached = await asyncio.gather(*(health.reaches_store(READY_BOUND) for health in healths))
        if not all(reached):
            reasons.add("the store does not answer")
    if reasons:
        return Answer(503, _encode({"status": "fail", "notes": sorted(reasons)}))
    return Answer(200, _encode({"status": "pass"}))


async def detail(healths: Sequence[Health]) -> Answer:
    """The document: 200 for pass and warn, 503 for fail."""
    await asyncio.gather(*(health.freshen() for health in healths))
    told = document([health.view() for health in healths])
    return Answer(503 if told["status"] == "fail" else 200, _encode(told))


def _encode(told: dict[str, Any]) -> bytes:
    return msgspec.json.encode(told)
