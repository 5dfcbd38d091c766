"""Wake-ups inside a process: who listens, on which loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from pillion.store.base import Hint


class Listener:
    """One iterator's inbox, on the loop that iterates. Hints of a sort are merged until they are read."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._coming: set[Hint] = set()  # offered, and not read yet
        self._pending: list[Hint] = []
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False

    def offer(self, hint: Hint) -> None:
        """Leave a hint, from any thread. Raises `RuntimeError` if the loop is closed."""
        if hint not in self._coming:
            self._coming.add(hint)
            self.loop.call_soon_threadsafe(self._put, hint)

    def close(self) -> None:
        """End the iteration. On the listener's loop."""
        self._closed = True
        self._wake()

    def __aiter__(self) -> Listener:
        return self

    async def __anext__(self) -> Hint:
        while not self._pending:
            if self._closed:
                raise StopAsyncIteration
            self._waiter = self.loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        hint = self._pending.pop(0)
        self._coming.discard(hint)
        return hint

    def _put(self, hint: Hint) -> None:
        self._pending.append(hint)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Hub:
    """All listeners of a process, and what its links wish to hear. Methods may be called on any thread.

    ``changed`` is called after each change of the listeners or the wishes, without a lock.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._lock = threading.Lock()
        self._idle: set[object] = set()
        self._waiting: set[object] = set()
        self.listeners: tuple[Listener, ...] = ()
        self.sort = "none"  # of this process among its siblings: which queues it serves

    @property
    def idle(self) -> bool:
        """True if some link would like to be woken for ready jobs."""
        return bool(self._idle)

    @property
    def waiting(self) -> bool:
        """True if somebody in this process waits for results."""
        return bool(self._waiting)

    def set_sort(self, sort: str) -> None:
        """Say of which sort this process is; four characters."""
        if sort != self.sort:
            self.sort = sort
            self._changed()

    def publish(self, hint: Hint) -> None:
        """Give `hint` to every listener."""
        for listener in self.listeners:
            try:
                listener.offer(hint)
            except RuntimeError:
                self.remove(listener)  # its loop is closed

    def add(self, listener: Listener) -> None:
        with self._lock:
            self.listeners = (*self.listeners, listener)
        self._changed()

    def remove(self, listener: Listener) -> None:
        with self._lock:
            self.listeners = tuple(other for other in self.listeners if other is not listener)
        self._changed()

    def set_idle(self, link: object, idle: bool) -> None:
        """Note whether `link` would like to be woken."""
        self._set(self._idle, link, idle)

    def set_waiting(self, link: object, waiting: bool) -> None:
        """Note whether somebody waits over `link`."""
        self._set(self._waiting, link, waiting)

    def _set(self, links: set[object], link: object, wanted: bool) -> None:
        with self._lock:
            before = bool(links)
            if wanted:
                links.add(link)
            else:
                links.discard(link)
            changed = before != bool(links)
        if changed:
            self._changed()
