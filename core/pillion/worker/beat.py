"""The beat: one small row, once a second, whatever runs. It renews the lease and brings orders."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pillion.model import Orders, Report
from pillion.worker.identity import Identity
from pillion.worker.supervisor import Duty

if TYPE_CHECKING:
    from pillion.worker.pulse import Pulse

_INTERVAL: Final = 1.0  # seconds; shorter leases beat faster


class Beat:
    """Joins, beats, and goes on under a new id after being declared dead."""

    def __init__(self, pulse: Pulse) -> None:
        self._pulse = pulse
        self._runtime = pulse.runtime
        self.interval = min(_INTERVAL, self._runtime.settings.lease / 5)
        self.last = 0.0  # monotonic instant of the last answered beat; 0: none yet
        self._soon = asyncio.Event()
        self._names = -1  # how many task names the store knew when they were last read

    def soon(self) -> None:
        """Beat at once; on the pulse's loop."""
        self._soon.set()

    async def run(self, duty: Duty) -> None:
        while True:
            runtime = self._runtime
            identity = runtime.identity
            if identity is None or identity.dead:
                identity = await self._join(identity)
            report = Report(leaving=runtime.draining, health=runtime.report())
            orders = await self._pulse.link.beat(identity.id, report)
            duty.error = None
            self.last = time.monotonic()
            await self._obey(identity, orders)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._soon.wait(), self.interval)
            self._soon.clear()

    async def _join(self, buried: Identity | None) -> Identity:
        runtime = self._runtime
        folder = runtime.process.store.host_folder if runtime.settings.certificates else None
        if buried is not None:
            buried.withdraw()
        identity = Identity(folder)
        try:
            await self._pulse.link.join(runtime.describe(identity))
            await self._read_names()
        except BaseException:
            identity.withdraw()
            raise
        runtime.joined(identity)
        self._pulse.sweep.soon()
        return identity

    async def _obey(self, identity: Identity, orders: Orders) -> None:
        runtime = self._runtime
        if orders.standing == "dead":
            runtime.bury(identity)
            self._soon.set()
            return
        for seq in orders.cancels:
            runtime.cancel(seq)
        if orders.tasks != self._names:
            await self._read_names()
        if orders.lapsed or orders.orphaned:
            self._pulse.sweep.lapsed(orders.lapsed)
        if orders.due_in_us is not None:
            self._pulse.timers.due_in(orders.due_in_us / 1e6)
        if orders.prunable:
            self._pulse.prune.soon()
        if orders.ready and not runtime.draining:
            runtime.nudge()

    async def _read_names(self) -> None:
        known = await self._pulse.link.tasks(self._runtime.task_names())
        self._names = len(known)
        self._runtime.only_known(known)
