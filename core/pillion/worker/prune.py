"""Ended jobs go after their retention, in small batches with pauses, so that claims stay fast meanwhile."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from pillion.worker.supervisor import Duty

if TYPE_CHECKING:
    from pillion.worker.pulse import Pulse

_BATCH: Final = 500  # jobs a step
_PAUSE: Final = 0.02  # seconds between steps


class Prune:
    """Woken by the beat when something may go."""

    def __init__(self, pulse: Pulse) -> None:
        self._pulse = pulse
        self._wake = asyncio.Event()

    def soon(self) -> None:
        """Something may go."""
        self._wake.set()

    async def run(self, duty: Duty) -> None:
        if duty.error is not None:
            self._wake.set()  # what failed is to be done
        while True:
            await self._wake.wait()
            self._wake.clear()
            while await self._pulse.link.prune(_BATCH) >= _BATCH:
                await asyncio.sleep(_PAUSE)
            duty.error = None
