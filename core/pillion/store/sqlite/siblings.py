"""The way to sibling processes: datagrams to the sockets in the store's host folder. See `inbox`."""

from __future__ import annotations

import os
import random
import socket
import zlib
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from pillion.store.base import Hint

PREFIX: Final = "wake-"
DATAGRAMS: Final[dict[Hint, bytes]] = {"ready": b"r", "ended": b"e"}
_TRIES: Final = 4  # idle siblings of a sort to try until one is there


def file_name(key: str, sort: str, idle: bool, waiting: bool) -> str:
    """The name of a process's socket: it says of which sort the process is, and what it would like to hear.

    `sort` stands for the queues it serves: four characters, the same for processes that serve the same.
    """
    return f"{PREFIX}{key}.{sort}.{'i' if idle else 'b'}{'w' if waiting else 'n'}"


def sort_of(queues: Iterable[str]) -> str:
    """The sort of a process that serves `queues`."""
    return f"{zlib.crc32(chr(0).join(sorted(queues)).encode()) & 0xFFFF:04x}"


class Siblings:
    """Sends hints to other processes than the one named `key`. Used by one thread at a time; never blocks."""

    def __init__(self, folder: str, key: str) -> None:
        self._folder = folder
        self._key = key
        self._socket: socket.socket | None = None

    def send(self, hint: Hint, but: str | None = None) -> None:
        """Wake one idle sibling of each sort except `but` (``ready``), or all that wait for results (``ended``)."""
        if hint == "ended":
            for name in self._names():
                if name[-1] == "w":
                    self._send(name, hint)
            return
        idle: dict[str, list[str]] = {}
        for name in self._names():
            if name[-2] == "i" and (sort := name.split(".")[-2]) != but:
                idle.setdefault(sort, []).append(name)
        for names in idle.values():
            random.shuffle(names)
            any(self._send(name, hint) for name in names[:_TRIES])

    def clear_dead(self) -> None:
        """Remove the files of processes that are gone."""
        for name in self._names():
            path = os.path.join(self._folder, name)
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
                probe.setblocking(False)
                try:
                    probe.connect(path)
                except ConnectionRefusedError:
                    _unlink(path)
                except OSError:
                    pass  # renamed or removed in between

    def close(self) -> None:
        """Close the sending socket. Idempotent."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _names(self) -> list[str]:
        try:
            names = os.listdir(self._folder)
        except OSError:
            return []
        return [name for name in names if name.startswith(PREFIX) and self._key not in name]

    def _send(self, name: str, hint: Hint) -> bool:
        """True if the sibling was there."""
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)
        path = os.path.join(self._folder, name)
        try:
            self._socket.sendto(DATAGRAMS[hint], path)
        except BlockingIOError:
            return True  # hints enough wait for it already
        except ConnectionRefusedError:
            _unlink(path)  # its process is gone
            return False
        except OSError:
            return False  # renamed or removed in between
        return True


def _unlink(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)
