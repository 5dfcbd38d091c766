"""Waiting for other writers, fairly.

SQLite's own busy wait lets those who wait sleep longer and longer, so that they lose against those who just came.
Everybody trying again every millisecond or so is as fair as queueing on a lock of the operating system, as fast, and
cannot be stopped by a frozen holder of that lock. Measured with 8 processes that enqueue, claim and finish, each commit
of an enqueue reaching the disk: worst wait 0.1 s instead of 1 s, the busiest 1.2 times the least busy instead of 4.
"""

from __future__ import annotations

import random
import sqlite3
import threading
from collections.abc import Callable
from typing import Final, TypeVar

from pillion.store.sqlite.faults import is_contended

T = TypeVar("T")

PATIENCE_S: Final = 0.9  # one attempt to get the write lock; a beat waits no longer
_SHORT_S: Final = (0.0003, 0.001)
_LONG_S: Final = (0.003, 0.007)  # when somebody holds the lock for long, trying often is of no use
_SOON_S: Final = 0.25

_never: Final = threading.Event()


def patiently(attempt: Callable[[], T], patience_s: float = PATIENCE_S) -> T:
    """Call `attempt` until it is not told that somebody else holds a lock, for `patience_s` at most.

    Raises what `attempt` raises; what it did before such an error must not matter.
    """
    waited = 0.0
    while True:
        try:
            return attempt()
        except sqlite3.OperationalError as error:
            if waited >= patience_s or not is_contended(error):
                raise
        pause = random.uniform(*(_SHORT_S if waited < _SOON_S else _LONG_S))
        _never.wait(pause)
        waited += pause
