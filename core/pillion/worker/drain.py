"""Stop claiming, let jobs end, hand back the rest, leave. Starts at the signal; always bounded."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pillion.announce import announce

if TYPE_CHECKING:
    from pillion.worker.attempt import Attempt
    from pillion.worker.runtime import Runtime

GRACE: Final = 2.0  # seconds beyond the drain timeout within which everything is over
_ACKNOWLEDGE: Final = 0.25  # seconds for the job loops to take note; a blocked one cannot start a job anyway
_CANCEL: Final = 1.0  # seconds that cancelled coroutines have to clean up
_HAND_IN: Final = 0.4  # seconds for the last outcomes to reach the store
_STEP: Final = 0.01  # seconds between looks at what still runs


class Drain:
    """The one drain of a worker. `begin` is safe from any thread and as often as one likes."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = threading.Lock()
        self.began = 0.0  # monotonic; 0: not yet
        self.done = threading.Event()
        self._hurried = False
        self._task: asyncio.Task[None] | None = None

    def begin(self, reason: str) -> None:
        """Start draining unless it has started."""
        with self._lock:
            if self.began:
                return
            self.began = time.monotonic()
        self._runtime.draining = True
        self._runtime.runner.draining = True
        self._runtime.pulse.call(self._start, reason)
        if not self._runtime.pulse.alive:  # it never came up: there is nobody to drain, and nothing to wait for
            self.done.set()

    def hurry(self) -> None:
        """Wait for jobs no longer: hand back at once what can be stopped. From any thread; nothing is lost by it."""
        self._hurried = True

    def wait(self) -> None:
        """Block until the drain is over; bounded by its own limit."""
        self.done.wait(self._runtime.settings.drain_timeout + GRACE)

    def _start(self, reason: str) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(reason), name="pillion-drain")

    async def _run(self, reason: str) -> None:
        runtime = self._runtime
        try:
            runtime.pulse.beat.soon()
            await self._acknowledged()
            limit = runtime.settings.drain_timeout
            count = len(runtime.running())
            announce(f"draining ({reason}): no new jobs start; {count} running, up to {limit:g} s to end")
            runtime.process.waits.drain()
            for loop in runtime.loops:
                loop.signal()
            await self._until(lambda: self._hurried or not runtime.running(), self.began + limit)
            handed_back = await self._cancel_rest()
            await self._until(lambda: not any(loop.pending for loop in runtime.loops), time.monotonic() + _HAND_IN)
            await asyncio.sleep(0)
            self._tell(handed_back)
        finally:
            self.done.set()

    async def _acknowledged(self) -> None:
        """Every loop has passed between two callbacks since the flag was set: whatever started, started before."""
        loops = [loop.loop for loop in self._runtime.loops if loop.alive]
        waiting: list[threading.Event] = []
        for loop in (*loops, self._runtime.app_loop):
            with suppress(RuntimeError):  # closed
                if loop is not None:
                    event = threading.Event()
                    loop.call_soon_threadsafe(event.set)
                    waiting.append(event)
        await self._until(lambda: all(event.is_set() for event in waiting), time.monotonic() + _ACKNOWLEDGE)

    async def _cancel_rest(self) -> int:
        rest = [attempt for attempt in self._runtime.running() if not attempt.thread]
        deadline = time.monotonic() + _CANCEL
        asked: set[str] = set()
        while rest and time.monotonic() < deadline:
            for attempt in rest:  # asked again if it swallowed the first cancellation
                asked.add(attempt.claim.id)
                attempt.ask_soon("drain")
            await self._until(lambda: not _coroutines(self._runtime.running()), min(deadline, time.monotonic() + 0.3))
            rest = _coroutines(self._runtime.running())
        return len(asked) - len(rest)

    async def _until(self, holds: Callable[[], bool], deadline: float) -> None:
        while not holds() and time.monotonic() < deadline:
            await asyncio.sleep(_STEP)

    def _tell(self, handed_back: int) -> None:
        left = self._runtime.running()
        text = f"drained in {time.monotonic() - self.began:.2f} s"
        if handed_back:
            text += f"; {handed_back} jobs put back: they run again, and no attempt is counted"
        if left:
            names = ", ".join(sorted({attempt.task.name for attempt in left})[:3])
            text += f"; {len(left)} cannot be stopped ({names}): put back when this process ends, unless they end first"
        announce(text)


def _coroutines(attempts: list[Attempt]) -> list[Attempt]:
    return [attempt for attempt in attempts if not attempt.thread]
