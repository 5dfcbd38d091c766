"""What is sent to whom after a commit."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from typing import Final

from pillion.store.base import Hint
from pillion.store.sqlite.hints import Hub, Listener
from pillion.store.sqlite.inbox import Inbox, path_fits
from pillion.store.sqlite.siblings import Siblings

PAUSE_S: Final = 0.003  # between two sends of a process


class Signals:
    """The hints of one process: to its own listeners at once, to siblings a few hundred times a second at most.

    `listeners` and wishes come from links on any thread; `committed` and `flush` are the writer's.
    """

    def __init__(self, folder: Callable[[], str | None], steady_us: Callable[[], int]) -> None:
        self._folder = folder  # asked once, at the first use
        self._steady_us = steady_us
        self._lock = threading.Lock()
        self._opened = False
        self._inbox: Inbox | None = None
        self._siblings: Siblings | None = None
        self._due: dict[Hint, None] = {}
        self._sent_at: int | None = None
        self.hub = Hub(self._changed)

    def listen(self, listener: Listener) -> None:
        """Add a listener."""
        self.hub.add(listener)

    def unlisten(self, listener: Listener) -> None:
        """Remove one and end its iteration. On its loop."""
        if self._inbox is not None:
            self._inbox.release(listener)
        self.hub.remove(listener)
        listener.close()

    def close(self) -> None:
        """Remove what was opened. Idempotent."""
        with self._lock:
            inbox, siblings = self._inbox, self._siblings
            self._inbox = self._siblings = None
            self._opened = False
        if inbox is not None:
            inbox.close()
        if siblings is not None:
            siblings.close()

    def abandon(self) -> None:
        """In a forked child: let go of what is the parent's."""
        if self._inbox is not None:
            self._inbox.abandon()
        if self._siblings is not None:
            self._siblings.close()

    # -- the writer's --------------------------------------------------------------------------------------

    @property
    def due(self) -> bool:
        """True if something waits to be sent: call `flush` in ``PAUSE_S`` seconds."""
        return bool(self._due)

    def committed(self, *, ready: bool, ended: bool, more: bool) -> None:
        """Tell who may want to know: jobs became ready, jobs ended, or more are ready than a claim could take."""
        if ready:
            self.hub.publish("ready")
        if (ready or more) and not self.hub.idle:
            # An idle worker of this process comes first: then no sibling is woken.
            self._due["ready"] = None
        if ended:
            if self.hub.waiting:
                self.hub.publish("ended")
            self._due["ended"] = None
        if self._due and (self._sent_at is None or self._steady_us() - self._sent_at >= PAUSE_S * 1e6):
            self.flush()

    def flush(self) -> None:
        """Send to siblings what is due."""
        self._open()
        self._sent_at = self._steady_us()
        due, self._due = self._due, {}
        if self._siblings is not None:
            for hint in due:
                self._siblings.send(hint)

    # -- the host folder -----------------------------------------------------------------------------------

    def _changed(self) -> None:
        self._open()
        if self._inbox is not None:
            self._inbox.update()

    def _open(self) -> None:
        with self._lock:
            if self._opened:
                return
            self._opened = True
            folder = self._folder()
            if folder is not None and path_fits(folder):
                key = secrets.token_hex(8)
                self._siblings = Siblings(folder, key)
                self._inbox = Inbox(folder, key, self.hub)
