"""The thread that beats, sweeps, times and watches. A blocked job loop loses nothing, since this one goes on.

It beats until the last job's code has ended, after the drain too, until the interpreter is gone.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVarTuple

from pillion.errors import ConfigurationError, StoreAway, StoreContended
from pillion.store.base import Link
from pillion.worker.beat import Beat
from pillion.worker.prune import Prune
from pillion.worker.supervisor import Supervisor
from pillion.worker.sweep import Siblings, Sweep
from pillion.worker.timers import Timers
from pillion.worker.watchdog import Watchdog

if TYPE_CHECKING:
    from pillion.worker.runtime import Runtime

log = logging.getLogger("pillion")
_LONG = 2.0  # seconds between tries at a store
Ts = TypeVarTuple("Ts")


class Pulse:
    """One a worker. Duties share its link and its loop."""

    link: Link

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.supervisor = Supervisor()
        self.opened = threading.Event()  # the store was reached, or can never be
        self.fatal: Exception | None = None  # why the start must fail
        self.away: str | None = None  # why the store has not been reached yet
        self.loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._lingers = False
        self._thread = threading.Thread(target=self._run_thread, name="pillion-pulse", daemon=True)

    def start(self) -> None:
        """Build the duties and start the thread."""
        self.timers = Timers(self)
        self.sweep = Sweep(self)
        self.siblings = Siblings(self)
        self.prune = Prune(self)
        self.watchdog = Watchdog(self)
        self.beat = Beat(self)
        self._thread.start()

    def call(self, function: Callable[[*Ts], object], *args: *Ts) -> None:
        """Run a plain function on the pulse's loop, from any thread."""
        with suppress(RuntimeError):  # closed
            self.loop.call_soon_threadsafe(function, *args)

    @property
    def alive(self) -> bool:
        """False once the thread has ended."""
        return self._thread.is_alive()

    def end(self) -> None:
        """Leave the store in order and end the thread; from any thread, returns at once."""
        self.call(self._end.set)

    def linger(self) -> None:
        """Go on until the code that still runs has ended, then end with the store; from any thread."""
        self._lingers = True
        self.call(self._end.set)

    def _run_thread(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_until_complete(self._serve())
        except Exception as error:
            if self.opened.is_set():
                log.exception("the worker's upkeep ended unexpectedly")
            self.fatal = self.fatal or error
        finally:
            self.opened.set()
            with suppress(Exception):
                self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            asyncio.set_event_loop(None)
            self.loop.close()

    async def _serve(self) -> None:
        await self._open()
        if self.fatal is not None or self._end.is_set():
            return
        start = self.supervisor.start
        start("beat", self.beat.run)
        start("sweep", self.sweep.run)
        start("siblings", self.siblings.run)
        start("timers", self.timers.run)
        start("prune", self.prune.run)
        start("watchdog", self.watchdog.run)
        await self._end.wait()
        if self._lingers:
            await self.runtime.outlive()
        await self.supervisor.stop()
        await self._leave()
        if self._lingers:
            await self.runtime.process.unhold()

    async def _open(self) -> None:
        """Reach the store, for ever if need be; only a wrong schema is fatal."""
        pause = 0.05
        while not self._end.is_set():
            try:
                await self.runtime.process.store.open()
                self.link = await self.runtime.process.store.link()
            except ConfigurationError as error:  # a wrong schema among them
                if not self.runtime.started:
                    self.fatal = error  # trying again is of no use: the start fails with it
                else:
                    # Found later it is no outage and no end either: somebody may put it right while the app serves.
                    if self.away != str(error):
                        log.error("no jobs run in this process: %s", error)
                    self.away = str(error)
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._end.wait(), _LONG)
                    continue
            except (StoreAway, StoreContended) as error:
                if self.away is None and not self.runtime.settings.require_store:
                    log.warning("the store cannot be reached (%s); the app serves without it and tries again", error)
                self.away = str(error)
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._end.wait(), pause * (0.5 + random.random()))
                pause = min(pause * 2, 2.0)
                continue
            if self.away is not None:
                log.warning("the store can be used now")
                self.away = None
            self.opened.set()
            return

    async def _leave(self) -> None:
        identity = self.runtime.identity
        try:
            if identity is not None and not identity.dead:
                async with asyncio.timeout(1.0):
                    if await self.link.leave(identity.id):
                        identity.withdraw()
        except (StoreAway, StoreContended, TimeoutError):
            log.warning("the store could not be told that this process leaves; its siblings will notice by themselves")
        with suppress(StoreAway, StoreContended, TimeoutError):
            async with asyncio.timeout(1.0):
                await self.link.aclose()
