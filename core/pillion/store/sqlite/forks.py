"""Forks: no open database crosses one.

SQLite keeps its file locks per process and remembers them in the process's memory. A forked child inherits
that memory but not the locks, so even a database that the child opens itself would go unlocked. Hence every
store puts its database away before a fork, and the parent opens it again on the next use.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Protocol


class Forkable(Protocol):
    """What holds things that must not cross a fork."""

    def before_fork(self) -> Callable[[], None]:
        """Put them away, within a second or so; what to call in the parent afterwards."""
        ...

    def in_child(self) -> None:
        """Forget everything that is the parent's."""
        ...


_all: weakref.WeakSet[Forkable] = weakref.WeakSet()
_resume: list[Callable[[], None]] = []
_registered = False


def watch(forkable: Forkable) -> None:
    """See to `forkable` at every fork from now on."""
    global _registered
    _all.add(forkable)
    if not _registered and hasattr(os, "register_at_fork"):
        _registered = True
        os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)


def _before() -> None:
    _resume.extend(forkable.before_fork() for forkable in list(_all))


def _in_parent() -> None:
    for resume in _resume:
        resume()
    _resume.clear()


def _in_child() -> None:
    _resume.clear()
    for forkable in list(_all):
        forkable.in_child()
