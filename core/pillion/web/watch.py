"""Asks the store for the fleet and the depths, in the background and for requests that find an old answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol

from pillion.errors import PillionError
from pillion.model import QueueRow, WorkerRow
from pillion.store.base import Link
from pillion.web.facts import Gap

log = logging.getLogger("pillion")

CAP: Final = 10_000  # jobs counted a queue for somebody who looks
CAP_UNWATCHED: Final = 1_000  # … and for the log only
EVERY: Final = 5.0  # seconds between questions that nobody asked for
BOUND: Final = 2.0  # seconds after which their answer is late
PATIENCE: Final = 10.0  # seconds that jobs may wait for nobody before the log says so


class Board(Protocol):
    """Where answers go."""

    def took(self, workers: Sequence[WorkerRow], queues: Sequence[QueueRow], cap: int) -> None: ...
    def missed(self) -> None: ...
    def age(self) -> float | None: ...


class Watch:
    """The questions of the running event loop. At most one is with the store: a stuck store gathers no more."""

    def __init__(self, board: Board, link: Callable[[], Awaitable[Link]]) -> None:
        self.users = 0  # contexts that need it
        self._board = board
        self._link = link
        self._asking: asyncio.Task[bool] | None = None
        self._running = asyncio.create_task(self._run(), name="pillion-health")

    async def _run(self) -> None:
        """Ask for ever, unless somebody else has just asked."""
        while True:
            age = self._board.age()
            if age is None or age >= EVERY:
                await self.ask(CAP_UNWATCHED, BOUND)
            await asyncio.sleep(EVERY)

    async def ask(self, cap: int, bound: float) -> bool:
        """Ask, or join the question that is under way. True if it is answered within `bound` seconds."""
        asking = self._asking
        if asking is None or asking.done():
            asking = self._asking = asyncio.create_task(self._ask(cap), name="pillion-health-question")
        done, _ = await asyncio.wait({asking}, timeout=bound)
        if not done:
            self._board.missed()
            return False
        return not asking.cancelled() and asking.result()

    async def aclose(self) -> None:
        """Ask no more."""
        tasks = {task for task in (self._running, self._asking) if task is not None}
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=1.0)

    async def _ask(self, cap: int) -> bool:
        try:
            link = await self._link()
            workers = await link.workers()
            queues = await link.queues(cap)
        except PillionError:  # away, contended, a wrong schema: others tell the log
            self._board.missed()
            return False
        except Exception:
            log.exception("the store could not be asked for health")
            self._board.missed()
            return False
        self._board.took(workers, queues, cap)
        return True


class Patience:
    """Finds the gaps that last. Each is told once, and again if it was served in between."""

    def __init__(self) -> None:
        self._since: dict[tuple[str, str | None], float] = {}
        self._told: set[tuple[str, str | None]] = set()

    def outlasted(self, now: float, gaps: Sequence[Gap]) -> list[Gap]:
        """Those of `gaps` to tell now: they were there in every sample for `PATIENCE` seconds."""
        keys = {(gap.queue, gap.task) for gap in gaps}
        self._since = {key: self._since.get(key, now) for key in keys}
        self._told &= keys
        lasting = [
            gap
            for gap in gaps
            if (gap.queue, gap.task) not in self._told and now - self._since[gap.queue, gap.task] >= PATIENCE
        ]
        self._told.update((gap.queue, gap.task) for gap in lasting)
        return lasting
