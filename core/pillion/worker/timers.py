"""Scheduled jobs become queued on time: a heap of due instants, refreshed by the beat."""

from __future__ import annotations

import asyncio
import heapq
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pillion.worker.supervisor import Duty

if TYPE_CHECKING:
    from pillion.worker.pulse import Pulse

_BATCH: Final = 500  # jobs made queued in one step
_REMEMBERED: Final = 10_000  # instants; the beat brings back what is forgotten
_AFTER: Final = 2  # milliseconds after the due instant, so that the store agrees that it has come


class Timers:
    """Wakes at the next due instant."""

    def __init__(self, pulse: Pulse) -> None:
        self._pulse = pulse
        self._due: list[int] = []  # a heap of milliseconds, each once
        self._known: set[int] = set()
        self._wake = asyncio.Event()

    def due_in(self, seconds: float) -> None:
        """A job is due in `seconds`; on the pulse's loop."""
        at = int((time.monotonic() + max(seconds, 0.0)) * 1000) + _AFTER
        if at in self._known:
            return
        if not self._due or at < self._due[0]:
            self._wake.set()
        heapq.heappush(self._due, at)
        self._known.add(at)
        if len(self._due) > _REMEMBERED:
            self._due = sorted(self._due)[: _REMEMBERED // 2]  # the later ones are forgotten; the beat brings them back
            self._known = set(self._due)

    async def run(self, duty: Duty) -> None:
        if duty.error is not None:
            self.due_in(0)  # what failed is to be done
        while True:
            timeout = None if not self._due else max(self._due[0] / 1000 - time.monotonic(), 0.0)
            if timeout is None or timeout > 0:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), timeout)
                self._wake.clear()
                if self._due and self._due[0] > time.monotonic() * 1000:
                    continue
            now = time.monotonic() * 1000
            while self._due and self._due[0] <= now:
                self._known.discard(heapq.heappop(self._due))
            moved = await self._pulse.link.promote(_BATCH)
            duty.error = None
            if moved:
                self._pulse.runtime.nudge()
            if moved >= _BATCH:
                self.due_in(0)
