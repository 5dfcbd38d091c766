"""Sees loops that stand still and threads that outstay their timeout, and names the task."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pillion.worker.supervisor import Duty

if TYPE_CHECKING:
    from pillion.worker.loop import JobLoop
    from pillion.worker.pulse import Pulse

log = logging.getLogger("pillion")
_EVERY: Final = 0.25  # seconds
_STALL: Final = 1.0  # seconds without a turn that are worth a warning


class Watchdog:
    """Asks every busy job loop for a turn and measures how long it takes."""

    def __init__(self, pulse: Pulse) -> None:
        self._runtime = pulse.runtime
        self._stalled: dict[int, str] = {}  # loop index -> the task that holds it
        self._asked: dict[int, float] = {}  # loop index -> since when an answer is awaited
        self.longest: dict[str, float] = {}  # task -> its longest stall, in seconds; for health
        self.stalled_at = 0.0  # monotonic; when a loop was last seen to stand still; 0: never

    def lag(self, loop: JobLoop) -> float:
        """Seconds that `loop` has owed an answer; 0 when it answers."""
        asked = self._asked.get(loop.index)
        return 0.0 if asked is None or loop.seen_at >= asked else time.monotonic() - asked

    async def run(self, duty: Duty) -> None:
        while True:
            now = time.monotonic()
            for loop in self._runtime.loops:
                self._look(loop, now)
            for attempt in self._runtime.running():
                if attempt.thread and attempt.since and attempt.stop is None:
                    timeout = self._runtime.runner.timeout(attempt)
                    if timeout is not None and now - attempt.since > timeout:
                        attempt.stop = "timeout"
                        log.warning(
                            "job %s of %s timed out after %g s and still runs: a thread cannot be stopped; "
                            "it keeps its slot until it ends",
                            attempt.claim.id,
                            attempt.task.name,
                            timeout,
                        )
            duty.error = None
            await asyncio.sleep(_EVERY)

    def _look(self, loop: JobLoop, now: float) -> None:
        asked = self._asked.get(loop.index)
        if asked is not None and loop.seen_at < asked:
            stall = now - asked
            loop.tell_idle(False)  # it cannot look when it is woken: let siblings be woken instead
            if stall >= _STALL:
                self._stall(loop, stall)
            return
        if loop.index in self._stalled:
            name = self._stalled.pop(loop.index)
            log.warning("job loop %d goes on after %s", loop.index, name)
        self._asked.pop(loop.index, None)
        if (loop.running or not loop.idle) and loop.loop is not None and loop.alive:
            self._asked[loop.index] = now
            with suppress(RuntimeError):
                loop.loop.call_soon_threadsafe(loop.turn)

    def _stall(self, loop: JobLoop, stall: float) -> None:
        self.stalled_at = time.monotonic()
        name = self._stalled.get(loop.index) or _holder(loop)
        if loop.index not in self._stalled:
            self._stalled[loop.index] = name
            log.warning(
                "%s has held job loop %d for %.1f s: other async jobs there wait for it (requests do not); make it a "
                "plain def task, or await instead of blocking",
                name,
                loop.index,
                stall,
            )
        if len(self.longest) < 100 or name in self.longest:
            self.longest[name] = max(self.longest.get(name, 0.0), stall)


def _holder(loop: JobLoop) -> str:
    """The task whose code holds the loop, as well as it can be told from another thread."""
    try:
        current = asyncio.current_task(loop.loop)
    except RuntimeError:
        current = None
    attempts = [attempt for attempt in list(loop.running) if not attempt.thread]
    for attempt in attempts:
        if attempt.coroutine is current and current is not None:
            return f"task {attempt.task.name}"
    for attempt in attempts:
        if attempt.coroutine is None:
            return f"task {attempt.task.name}"
    return "some code of a job"
