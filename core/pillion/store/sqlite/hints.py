"""Wake-ups inside a process: who listens, on which loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

from pillion.store.base import Hint


class Listener:
    """One iterator's inbox, on the loop that iterates. Hints of a sort are merged until they are read."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._pending: dict[Hint, None] = {}
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False

    def put(self, hint: Hint) -> None:
        """Leave a hint. On the listener's loop."""
        self._pending[hint] = None
        self._wake()

    def close(self) -> None:
        """End the iteration. On the listener's loop."""
        self._closed = True
        self._wake()

    async def get(self) -> Hint | None:
        """The next hint; None: closed."""
        while not self._pending:
            if self._closed:
                return None
            self._waiter = self.loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        hint = next(iter(self._pending))
        del self._pending[hint]
        return hint

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Hub:
    """All listeners of a process. `publish` may be called on any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: list[Listener] = []

    def publish(self, hint: Hint) -> None:
        """Give `hint` to every listener."""
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            try:
                listener.loop.call_soon_threadsafe(listener.put, hint)
            except RuntimeError:
                self.remove(listener)  # its loop is closed

    def add(self, listener: Listener) -> None:
        with self._lock:
            self._listeners.append(listener)

    def remove(self, listener: Listener) -> None:
        with self._lock:
            if listener in self._listeners:
                self._listeners.remove(listener)


async def listen(hub: Hub, listener: Listener) -> AsyncIterator[Hint]:
    """Iterate over what `listener` hears, until it is closed."""
    hub.add(listener)
    try:
        while (hint := await listener.get()) is not None:
            yield hint
    finally:
        hub.remove(listener)
