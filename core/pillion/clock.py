"""Time is passed in: nothing in policy or stores calls `time` itself."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Both readings are integers in microseconds."""

    def wall_us(self) -> int:
        """Wall time since the epoch: due times, `created`, `finished`."""
        ...

    def steady_us(self) -> int:
        """The host's monotonic clock, the same for all its processes: leases, durations."""
        ...


class SystemClock:
    """The host's clocks."""

    __slots__ = ()

    def wall_us(self) -> int:
        return time.time_ns() // 1000

    def steady_us(self) -> int:
        return time.monotonic_ns() // 1000


class ManualClock:
    """A clock that moves only when told to, for tests. ``advance`` moves both readings."""

    __slots__ = ("_steady", "_wall")

    def __init__(self, wall_us: int = 1_800_000_000_000_000, steady_us: int = 1_000_000_000) -> None:
        self._wall = wall_us
        self._steady = steady_us

    def wall_us(self) -> int:
        """What the wall clock was set or moved to."""
        return self._wall

    def steady_us(self) -> int:
        """What the monotonic clock was moved to."""
        return self._steady

    def advance(self, seconds: float) -> None:
        """Move on by ``seconds``."""
        self._wall += round(seconds * 1e6)
        self._steady += round(seconds * 1e6)

    def set_wall(self, wall_us: int) -> None:
        """Jump the wall clock only, as an administrator or NTP would."""
        self._wall = wall_us
