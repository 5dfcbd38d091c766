"""A host-local file whose exclusive lock proves that a worker's process lives.

A sibling that can take the lock knows that the owner is gone, however it ended, without waiting for a lease.
Missing or unreadable means "unknown". The lock belongs to the open file, so a forked child would keep it alive:
descriptors are closed in every forked child.
"""

from __future__ import annotations

import os
import secrets
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

if sys.platform != "win32":  # Windows has no certificates; leases alone decide there
    import fcntl

_SUFFIX: Final = ".alive"
_own: set[int] = set()  # descriptors of this process, closed in forked children
_own_lock = threading.Lock()


def supported() -> bool:
    """False where the platform has no such locks."""
    return sys.platform != "win32"


def _lock(descriptor: int) -> None:
    """Take the exclusive lock now. Raises OSError if somebody has it."""
    if sys.platform != "win32":
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


class Certificate:
    """This process's certificate for one worker id."""

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    @classmethod
    def create(cls, folder: str, worker: str) -> Certificate:
        """Make, lock, then publish by rename: nobody ever sees it unlocked. Raises OSError."""
        temporary = os.path.join(folder, f".{secrets.token_hex(8)}.tmp")
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            _lock(descriptor)
            path = os.path.join(folder, worker + _SUFFIX)
            os.rename(temporary, path)
        except BaseException:
            os.close(descriptor)
            with suppress(OSError):
                os.unlink(temporary)
            raise
        with _own_lock:
            _own.add(descriptor)
        return cls(path, descriptor)

    def close(self) -> None:
        """Withdraw it: the worker has left in order, or is about to go on under a new id."""
        with _own_lock:
            if self._descriptor not in _own:
                return
            _own.discard(self._descriptor)
        with suppress(OSError):
            os.unlink(self._path)
        os.close(self._descriptor)


def workers_of(folder: str) -> Iterator[str]:
    """The ids of all workers with a certificate in `folder`."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(_SUFFIX):
                yield entry.name[: -len(_SUFFIX)]


def owner_is_gone(folder: str, worker: str) -> bool:
    """True only with proof. The path must still name the file that was locked."""
    path = os.path.join(folder, worker + _SUFFIX)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        _lock(descriptor)
        held, named = os.fstat(descriptor), os.stat(path, follow_symlinks=False)
        return (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino)
    except OSError:
        return False
    finally:
        os.close(descriptor)


def discard(folder: str, worker: str) -> None:
    """Remove the certificate of a worker that was condemned."""
    with suppress(OSError):
        os.unlink(os.path.join(folder, worker + _SUFFIX))


def _close_in_child() -> None:
    for descriptor in _own:
        with suppress(OSError):
            os.close(descriptor)
    _own.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
