"""What one `Jobs` has open in this process: the store, and a scope for every event loop that uses it.

Everything here is tied to the pid that opened it; a forked child gets a fresh `Process`.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from pillion.client import Client
from pillion.errors import ConfigurationError
from pillion.resource import CLOSE_TIMEOUT, LoopResources
from pillion.store.base import Hint, Link, Store
from pillion.waits import Waits

log = logging.getLogger("pillion")
T = TypeVar("T")
_CLOSE = 5.0  # seconds that closing the client thread may take


class Scope:
    """One event loop's client and resources."""

    def __init__(self, loop: asyncio.AbstractEventLoop, client: Client) -> None:
        self.loop = loop
        self.client = client
        self.resources = LoopResources()
        self.users = 0  # contexts (lifespan, worker, client) that close the scope themselves
        self._listener: asyncio.Task[None] | None = None
        self._keeper: AsyncIterator[None] | None = None
        self._keeping: asyncio.Task[None] | None = None

    async def listen(self, on_hint: Callable[[Hint], None]) -> None:
        """Follow the store's hints on this loop; once is enough."""
        if self._listener is None:
            link = await self.client.link()
            self._listener = self.loop.create_task(_follow(link, on_hint), name="pillion-hints")

    async def keep(self, close: Callable[[Scope], Coroutine[Any, Any, None]]) -> None:
        """Close with a loop that is not ours: an async generator is closed by `loop.shutdown_asyncgens`."""
        if self._keeper is None:

            async def keeper() -> AsyncIterator[None]:
                try:
                    yield
                finally:
                    await close(self)

            self._keeper = keeper()
            await anext(self._keeper)

    def keep_soon(self, close: Callable[[Scope], Coroutine[Any, Any, None]]) -> None:
        """`keep`, from a plain function on the loop."""
        if self._keeper is None and self._keeping is None:
            self._keeping = self.loop.create_task(self.keep(close), name="pillion-keeper")

    async def aclose(self, within: float = CLOSE_TIMEOUT) -> None:
        """Close resources in reverse order, in `within` seconds all together, then the link."""
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.wait([self._listener], timeout=1.0)
            self._listener = None
        await self.resources.aclose(within)
        await self.client.aclose()


async def _follow(link: Link, on_hint: Callable[[Hint], None]) -> None:
    async for hint in link.hints():
        on_hint(hint)


class Process:
    """The open parts of one `Jobs`, by pid. Thread-safe."""

    def __init__(self, build: Callable[[], Store]) -> None:
        self.pid = os.getpid()
        self.waits = Waits()
        self.looked_for_workers = False  # whether it was asked once if anybody runs the jobs stored here
        self._build = build
        self._lock = threading.Lock()
        self._store: Store | None = None
        self._scopes: dict[asyncio.AbstractEventLoop, Scope] = {}
        self._holds = 0  # a running worker holds the store open
        self._blocking: BlockingLoop | None = None
        self._at_exit = False  # closing at the interpreter's exit is arranged
        self._calls = 0  # that wait for the blocking loop

    @property
    def store(self) -> Store:
        """The store object, built at first use. Building opens nothing."""
        with self._lock:
            if self._store is None:
                self._store = self._build()
            return self._store

    def hold(self) -> None:
        """Keep the store open until `unhold`."""
        with self._lock:
            self._holds += 1

    async def unhold(self) -> None:
        """Let the store be closed when nothing else uses it."""
        with self._lock:
            self._holds -= 1
        await self._close_if_unused()

    def scope_of(self, loop: asyncio.AbstractEventLoop) -> Scope | None:
        """The loop's scope if it has one."""
        return self._scopes.get(loop)

    def scope(self) -> Scope:
        """The running loop's scope, made at first use. Nothing is opened yet."""
        loop = asyncio.get_running_loop()
        scope = self._scopes.get(loop)
        if scope is None:
            with self._lock:
                self._forget_closed_loops()
                scope = self._scopes.setdefault(loop, Scope(loop, Client(self._connect, loop)))
        return scope

    async def borrowed(self) -> Scope:
        """The running loop's scope, kept until that loop ends unless a context of ours closes it earlier."""
        scope = self.scope()
        if scope.users == 0:
            await scope.keep(self.close_scope)
        return scope

    async def close_scope(self, scope: Scope, within: float = CLOSE_TIMEOUT) -> None:
        """Close what one loop has open, its resources within so many seconds; with the last one the store closes."""
        with self._lock:
            if self._scopes.get(scope.loop) is scope:
                del self._scopes[scope.loop]
        await scope.aclose(within)
        await self._close_if_unused()

    def _forget_closed_loops(self) -> None:
        """Loops that were closed without ending their generators left their scopes behind. Under the lock."""
        for stale in [loop for loop in self._scopes if loop.is_closed()]:
            del self._scopes[stale]

    async def _connect(self) -> Link:
        store = self.store
        await store.open()
        return await store.link()

    async def _close_if_unused(self) -> None:
        with self._lock:
            self._forget_closed_loops()
            blocking = self._blocking
            alone = set(self._scopes) <= ({blocking.loop} if blocking else set())
            if self._holds or self._calls or not alone:
                return
            # Taken out in the same step: whoever comes from now on opens anew.
            self._blocking = None
            store, self._store = self._store, None
        if blocking is not None:
            await blocking.aclose(self)
        if store is not None:
            await store.aclose()

    # -- from def code -------------------------------------------------------------------------------------

    def run_blocking(self, work: Callable[[], Coroutine[Any, Any, T]], *, timeout: float | None, instead: str) -> T:
        """Run `work` on the client thread and wait. Raises on a running loop, which it would block."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise ConfigurationError(f"this would block the event loop it is called on: use {instead}")
        with self._lock:
            if self._blocking is None:
                self._blocking = BlockingLoop()
                if not self._at_exit:
                    self._at_exit = True
                    atexit.register(self._close_at_exit)
            blocking = self._blocking
            self._calls += 1
        try:
            return asyncio.run_coroutine_threadsafe(work(), blocking.loop).result(timeout)
        finally:
            with self._lock:
                self._calls -= 1

    def _close_at_exit(self) -> None:
        if self.pid != os.getpid():
            return
        with self._lock:
            blocking, self._blocking = self._blocking, None
        if blocking is not None:
            with suppress(Exception):
                blocking.close(self)


class BlockingLoop:
    """The loop of the client thread, for `enqueue_sync` and friends."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="pillion-client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    async def aclose(self, process: Process) -> None:
        """Close the loop's scope and end the thread; from another loop, bounded."""
        future = asyncio.run_coroutine_threadsafe(self._close_scope(process), self.loop)
        with suppress(Exception):
            await asyncio.wait_for(asyncio.wrap_future(future), _CLOSE)
        self._stop()

    def close(self, process: Process) -> None:
        """The same, blocking: at the interpreter's exit."""
        with suppress(Exception):
            asyncio.run_coroutine_threadsafe(self._close_scope(process), self.loop).result(_CLOSE)
        self._stop()

    async def _close_scope(self, process: Process) -> None:
        scope = process.scope_of(self.loop)
        if scope is not None:
            await process.close_scope(scope)

    def _leave(self) -> None:
        for task in asyncio.all_tasks(self.loop):  # nobody is to wait for an answer that never comes
            task.cancel()
        self.loop.call_soon(self.loop.stop)

    def _stop(self) -> None:
        self.loop.call_soon_threadsafe(self._leave)
        self._thread.join(1.0)
        if not self._thread.is_alive():
            self.loop.close()
