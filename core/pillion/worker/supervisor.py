"""Inner tasks never die in silence: strong reference, restart with capped jittered backoff, state in health."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from pillion.errors import StoreAway, StoreContended

log = logging.getLogger("pillion")
_FIRST_PAUSE = 0.05  # seconds
_LAST_PAUSE = 2.0


@dataclass(slots=True)
class Duty:
    """The state of one supervised task, for health."""

    name: str
    restarts: int = 0
    error: str | None = None  # the last one since it last worked


class Supervisor:
    """Runs duties of one loop until `stop`."""

    def __init__(self) -> None:
        self.duties: dict[str, Duty] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False

    def start(self, name: str, run: Callable[[Duty], Awaitable[None]]) -> None:
        """Run `run` for ever; one that ends or raises is started again."""
        duty = self.duties[name] = Duty(name)
        task = asyncio.get_running_loop().create_task(self._keep(duty, run), name=f"pillion-{name}")
        self._tasks.add(task)

    async def _keep(self, duty: Duty, run: Callable[[Duty], Awaitable[None]]) -> None:
        pause = _FIRST_PAUSE
        while True:
            before = duty.restarts
            try:
                await run(duty)
                duty.error = "ended unexpectedly"
            except asyncio.CancelledError:
                if self._stopping:
                    raise
                log.error("%s was cancelled by somebody else; starting it again", duty.name)
                duty.error = "was cancelled"
            except (StoreAway, StoreContended) as error:
                if duty.error is None:
                    pause = _FIRST_PAUSE  # it worked in between
                    log.warning("upkeep (%s): the store cannot be used now (%s); trying again", duty.name, error)
                duty.error = str(error)
            except Exception as error:
                log.exception("%s failed; starting it again", duty.name)
                duty.error = f"{type(error).__name__}: {error}"
            duty.restarts = before + 1
            await asyncio.sleep(pause * (0.5 + random.random()))
            pause = min(pause * 2, _LAST_PAUSE)

    async def stop(self) -> None:
        """Cancel all duties and wait for them, two seconds at most."""
        self._stopping = True
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=2.0)
        self._tasks.clear()
