"""Entering and leaving: one worker a process however often the same `Jobs` is entered; the last exit drains."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final

from pillion.process import Process
from pillion.resource import CLOSE_TIMEOUT
from pillion.worker.runtime import Runtime

_STEP: Final = 0.005  # seconds between looks at a worker that another context starts


class Lifecycle:
    """The entered contexts of one `Jobs` in this process."""

    def __init__(self, process: Callable[[], Process], build: Callable[[], Runtime | None]) -> None:
        self._process = process
        self._build = build
        self._entered = 0
        self._pid = 0
        self._starting = False
        self.runtime: Runtime | None = None  # while a worker runs in this process

    @property
    def entered(self) -> int:
        """How many contexts of this process are open; 0 in a forked child that has entered none itself."""
        return self._entered if self._pid == self._process().pid else 0

    @asynccontextmanager
    async def enter(self, *, worker: bool) -> AsyncGenerator[bool]:
        """Open the store for this loop and, unless `worker` is False, run the worker. Yields True at the first."""
        process = self._process()
        first = self.entered == 0
        if first:
            self._entered, self._pid, self.runtime, self._starting = 0, process.pid, None, False
        scope = process.scope()
        scope.users += 1
        self._entered += 1
        within = CLOSE_TIMEOUT
        try:
            if worker:
                await self._ensure_worker()
            yield first
        finally:
            self._entered -= 1
            try:
                if self._entered == 0 and self.runtime is not None:
                    runtime = self.runtime
                    try:
                        await _to_the_end(runtime.stop())
                    finally:
                        self.runtime = None
                        within = runtime.left()
            finally:
                scope.users -= 1
                if scope.users == 0:
                    await _to_the_end(process.close_scope(scope, within))

    async def _ensure_worker(self) -> None:
        """Start the worker, or wait while another context does; if that one fails, this one tries itself."""
        while True:
            if self._starting:
                await asyncio.sleep(_STEP)
                continue
            built = self._build() if self.runtime is None else None
            if built is None:
                return
            self._starting, self.runtime = True, built
            try:
                await built.start()
            except BaseException:
                self.runtime = None
                raise
            finally:
                self._starting = False
            return


async def _to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Run bounded clean-up to its end even if this task is cancelled meanwhile; then the cancellation goes on."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if task.cancelled():
                raise
            cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled
