"""Rescue the jobs of dead workers, in two steps: condemn the worker, then read and decide with a fresh view.

In one step a claim in flight would stay behind. The sweep belongs to no one: every worker does it, and each
decision is fenced, so that two sweeps of the same jobs do no harm.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pillion import failure
from pillion.model import Held
from pillion.policy import transitions
from pillion.policy.transitions import LOSS_CAP
from pillion.worker import certificate
from pillion.worker.logbook import tell_rescued
from pillion.worker.supervisor import Duty

if TYPE_CHECKING:
    from pillion.worker.pulse import Pulse

log = logging.getLogger("pillion")
_BATCH: Final = 200  # jobs a step; nothing may hold the pulse's link for long
_PROBE_EVERY: Final = 0.2  # seconds between looks at the siblings' certificates


class Sweep:
    """Woken by the beat's orders, by a freed certificate, and once at the start."""

    def __init__(self, pulse: Pulse) -> None:
        self._pulse = pulse
        self._wake = asyncio.Event()
        self._lapsed: set[str] = set()

    def soon(self) -> None:
        """Look for orphans at once."""
        self._wake.set()

    def lapsed(self, workers: Sequence[str]) -> None:
        """These workers' leases have lapsed; none: only look for orphans."""
        self._lapsed.update(workers)
        self._wake.set()

    async def run(self, duty: Duty) -> None:
        if duty.error is not None:
            self._wake.set()  # what failed is to be done
        while True:
            await self._wake.wait()
            self._wake.clear()
            identity = self._pulse.runtime.identity
            while self._lapsed and identity is not None:
                worker = self._lapsed.pop()
                if await self._pulse.link.condemn(worker, identity.id):
                    log.warning("a worker has not been heard of for its lease; its jobs run again elsewhere")
            await self.rescue()
            duty.error = None

    async def rescue(self) -> int:
        """Decide what becomes of every orphan. How many were moved."""
        link, retention = self._pulse.link, self._pulse.runtime.runner.retention
        moved = 0
        while held := await link.orphans(_BATCH):
            written = await link.rescue([transitions.rescued(job, _loss(job), retention) for job in held])
            if written:  # else a sibling was faster
                tell_rescued(held)
                self._pulse.runtime.rescued(written)
                moved += written
            if len(held) < _BATCH or not written:
                break
        return moved


class Siblings:
    """Watches the certificates of this host's workers: proof of death needs no wait."""

    def __init__(self, pulse: Pulse) -> None:
        self._pulse = pulse

    async def run(self, duty: Duty) -> None:
        runtime = self._pulse.runtime
        while True:
            folder = runtime.process.store.host_folder
            if folder is None or not runtime.settings.certificates or not certificate.supported():
                await asyncio.sleep(60)
                continue
            own = runtime.identity.id if runtime.identity else ""
            workers = [worker for worker in certificate.workers_of(folder) if worker != own]
            for worker in workers:
                if worker not in runtime.own_ids and certificate.owner_is_gone(folder, worker):
                    began = time.monotonic()
                    if await self._pulse.link.condemn(worker, None):
                        await self._pulse.sweep.rescue()
                        log.debug("took over from %s in %.3f s", worker, time.monotonic() - began)
                    certificate.discard(folder, worker)
            duty.error = None
            await asyncio.sleep(_PROBE_EVERY)


def _loss(held: Held) -> str:
    return failure.text(
        "WorkerLost",
        f"{LOSS_CAP} processes died while they ran this job; it was given up so that it takes no more of them down",
    )
