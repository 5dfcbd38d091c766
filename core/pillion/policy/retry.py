"""When a failed job tries again. Pure: randomness is passed in."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from pillion.errors import ConfigurationError

_LONGEST = 366 * 86_400.0  # seconds
_DOUBLINGS = 64  # beyond this any sane cap is reached; keeps 2.0 ** n finite at attempt 1,000


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff with jitter.

    The n-th failure waits ``base * factor ** (n - 1)`` seconds, at most ``cap``, minus up to ``jitter`` of it
    at random, so that jobs that failed together do not come back together.
    """

    base: float = 2.0  # seconds
    factor: float = 2.0
    cap: float = 3600.0  # seconds
    jitter: float = 0.25  # fraction of the delay, 0 to 1; 0: none

    def __post_init__(self) -> None:
        if not (0 <= self.base <= _LONGEST and 0 <= self.cap <= _LONGEST and 1 <= self.factor < math.inf):
            raise ConfigurationError("Backoff needs base and cap from 0 seconds to a year, and a factor of at least 1")
        if not 0 <= self.jitter <= 1:
            raise ConfigurationError("Backoff needs a jitter from 0 to 1")

    def delay_us(self, failures: int, random: Callable[[], float]) -> int:
        """Microseconds to wait after the ``failures``-th failure (from 1). ``random`` gives [0, 1)."""
        doublings = min(max(failures - 1, 0), _DOUBLINGS)
        try:
            delay = min(self.base * self.factor**doublings, self.cap)
        except OverflowError:
            delay = self.cap
        return round(delay * (1.0 - self.jitter * random()) * 1e6)
