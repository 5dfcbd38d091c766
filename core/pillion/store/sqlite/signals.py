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

    Listeners and wishes come from links on any thread; `committed`, `flush` and `finish` are the writer's.
    """

    def __init__(self, folder: Callable[[], str | None], steady_us: Callable[[], int]) -> None:
        self._find_folder = folder  # asked once, at the first use
        self._steady_us = steady_us
        self._lock = threading.Lock()
        self._key = secrets.token_hex(8)
        self._folder: str | None = None
        self._looked = False
        self._closed = False
        self._inbox: Inbox | None = None
        self._siblings: Siblings | None = None
        self._due: dict[Hint, None] = {}
        self._sent_at: int | None = None
        self._spare = False  # siblings of our own sort need not be woken
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
        """Remove this process's socket, for good. Idempotent."""
        with self._lock:
            self._closed = True
            inbox, self._inbox = self._inbox, None
        if inbox is not None:
            inbox.close()

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
        if ready or more:
            # An idle worker of this process comes first: then no sibling of its sort is woken, unless it has taken
            # all it can. What it does not serve may be for others.
            self._spare = not more and self.hub.idle and ("ready" not in self._due or self._spare)
            self._due["ready"] = None
        if ended:
            if self.hub.waiting:
                self.hub.publish("ended")
            self._due["ended"] = None
        if self._due and (self._sent_at is None or self._steady_us() - self._sent_at >= PAUSE_S * 1e6):
            self.flush()

    def flush(self) -> None:
        """Send to siblings what is due."""
        if not self._due:
            return
        self._sent_at = self._steady_us()
        due, self._due = self._due, {}
        if self._siblings is None and (folder := self._host_folder()) is not None:
            self._siblings = Siblings(folder, self._key)
        if self._siblings is not None:
            for hint in due:
                self._siblings.send(hint, self.hub.sort if self._spare else None)

    def finish(self) -> None:
        """The writer's thread ends: send what is due still, and close what only it uses."""
        self.flush()
        if self._siblings is not None:
            self._siblings.close()
            self._siblings = None

    # -- the host folder -----------------------------------------------------------------------------------

    def _changed(self) -> None:
        """A listener or a wish came or went."""
        folder = self._host_folder()
        with self._lock:
            if self._inbox is None and folder is not None and not self._closed:
                self._inbox = Inbox(folder, self._key, self.hub)
            inbox = self._inbox
        if inbox is not None:
            inbox.update()

    def _host_folder(self) -> str | None:
        """The folder of the sockets; None: there is none, or its path is too long."""
        with self._lock:
            if not self._looked:
                self._looked = True
                folder = self._find_folder()
                self._folder = folder if folder is not None and path_fits(folder) else None
            return self._folder
