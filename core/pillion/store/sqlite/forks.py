"""Forks: no open database crosses one.

SQLite keeps its file locks per process and remembers them in the process's memory. A forked child inherits
that memory but not the locks, so even a database that the child opens itself would go unlocked. Hence every
writer puts its database away before a fork, and the parent opens it again on the next use.
"""

from __future__ import annotations

import os
import weakref

from pillion.store.sqlite.writer import Pause, Writer

_writers: weakref.WeakSet[Writer] = weakref.WeakSet()
_pauses: list[Pause] = []
_registered = False


def remember(writer: Writer) -> None:
    """Watch over `writer` from now on."""
    global _registered
    _writers.add(writer)
    if not _registered and hasattr(os, "register_at_fork"):
        _registered = True
        os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)


def forget(writer: Writer) -> None:
    """Stop watching a writer that was stopped."""
    _writers.discard(writer)


def _before() -> None:
    _pauses.extend(writer.pause() for writer in list(_writers))


def _after_in_parent() -> None:
    for pause in _pauses:
        pause.over.set()
    _pauses.clear()


def _after_in_child() -> None:
    _pauses.clear()
    _writers.clear()
