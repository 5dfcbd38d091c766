"""Clocks that tests move."""

from __future__ import annotations

import time

from pillion.clock import ManualClock


class RunningClock:
    """The host's clock, which goes on by itself and can be moved on besides."""

    __slots__ = ("_ahead",)

    def __init__(self) -> None:
        self._ahead = 0  # microseconds

    def wall_us(self) -> int:
        """Wall time since the epoch."""
        return time.time_ns() // 1000 + self._ahead

    def steady_us(self) -> int:
        """The monotonic clock, moved on as far as the wall clock."""
        return time.monotonic_ns() // 1000 + self._ahead

    def advance(self, seconds: float) -> None:
        """Move on by ``seconds``."""
        self._ahead += round(seconds * 1e6)


MovableClock = ManualClock | RunningClock


def standing_clock() -> ManualClock:
    """A clock that stands still at this moment."""
    return ManualClock(time.time_ns() // 1000, time.monotonic_ns() // 1000)
