"""This process's socket for wake-ups of its siblings.

The name of the socket's file says what the process would like to hear, so a sender needs no state: it lists the
folder. A datagram says only "ready" or "ended"; one that is lost costs a poll interval.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from contextlib import suppress
from typing import Final

from pillion.store.sqlite.hints import Hub, Listener
from pillion.store.sqlite.siblings import DATAGRAMS, Siblings, file_name

_PATH_BYTES: Final = 100  # socket addresses are short: 108 bytes on Linux, 104 on macOS


def path_fits(folder: str) -> bool:
    """True if sockets in `folder` have addresses short enough."""
    return len(os.fsencode(os.path.join(folder, file_name("0" * 16, "0000", False, False)))) < _PATH_BYTES


class Inbox:
    """The socket is there while somebody listens; one of the listening loops reads it for all."""

    def __init__(self, folder: str, key: str, hub: Hub) -> None:
        self._folder = folder
        self._key = key
        self._hub = hub
        self._lock = threading.RLock()
        self._socket: socket.socket | None = None
        self._path = ""
        self._reader: Listener | None = None
        self._heard = False  # of ready jobs, since the process went idle

    def update(self) -> None:
        """Bring socket, name and reader in line with what the process's links wish. On any thread."""
        with self._lock:
            listeners = self._hub.listeners
            if not listeners:
                self.close()
                return
            if self._socket is None and not self._bind():
                return
            self._rename()
            if self._reader not in listeners:
                self._reader = listeners[0]
                with suppress(RuntimeError):  # that loop is closed: its listener goes with the next hint
                    self._reader.loop.call_soon_threadsafe(self._adopt, self._reader)

    def release(self, listener: Listener) -> None:
        """Stop reading for `listener`, which goes. On its loop."""
        with self._lock:
            if self._reader is listener:
                self._reader = None
                if self._socket is not None:
                    listener.loop.remove_reader(self._socket.fileno())

    def close(self) -> None:
        """Remove the socket and its file. Idempotent."""
        with self._lock:
            sock, reader = self._socket, self._reader
            self._socket = self._reader = None
            if sock is None:
                return
            with suppress(OSError):
                os.unlink(self._path)
            if reader is None or reader.loop.is_closed():
                sock.close()
                return
            try:
                reader.loop.call_soon_threadsafe(_drop, reader.loop, sock)
            except RuntimeError:
                sock.close()

    def abandon(self) -> None:
        """In a forked child: let go of the parent's socket and leave its file alone."""
        sock, self._socket, self._reader = self._socket, None, None
        if sock is not None:
            sock.close()

    def _bind(self) -> bool:
        siblings = Siblings(self._folder, self._key)
        siblings.clear_dead()
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            sock.setblocking(False)
            path = self._wanted_path()
            sock.bind(path)
        except OSError:
            sock.close()
            return False
        self._socket, self._path = sock, path
        return True

    def _wanted_path(self) -> str:
        return os.path.join(self._folder, file_name(self._key, self._hub.sort, self._hub.idle, self._hub.waiting))

    def _rename(self) -> None:
        path = self._wanted_path()
        if path != self._path:
            with suppress(OSError):  # somebody cleared the folder: polling goes on
                os.rename(self._path, path)
            self._path = path
        if self._heard and not self._hub.idle:
            self._pass_on()

    def _pass_on(self) -> None:
        """Wake somebody else: what was heard last may have been meant for slots that are taken by now.

        A sender goes by the name that it finds, and the name comes after the fact. Whoever passes on has no idle name
        any more, so that this ends with the last idle sibling.
        """
        self._heard = False
        siblings = Siblings(self._folder, self._key)
        siblings.send("ready")
        siblings.close()

    def _adopt(self, listener: Listener) -> None:
        """Read the socket on this loop from now on."""
        with self._lock:
            if self._reader is listener and self._socket is not None:
                with suppress(NotImplementedError):  # a loop without readers: polling only
                    listener.loop.add_reader(self._socket.fileno(), self._receive)

    def _receive(self) -> None:
        sock = self._socket
        if sock is None:
            return
        found: set[bytes] = set()
        with suppress(OSError):  # nothing left to read
            while True:
                found.add(sock.recv(16))
        for hint, data in DATAGRAMS.items():
            if data in found:
                self._hub.publish(hint)
        if DATAGRAMS["ready"] in found:
            with self._lock:
                self._heard = True
                if not self._hub.idle:
                    self._pass_on()


def _drop(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> None:
    """On `loop`, which reads `sock`: stop that, and close it."""
    with suppress(NotImplementedError):
        loop.remove_reader(sock.fileno())
    sock.close()
