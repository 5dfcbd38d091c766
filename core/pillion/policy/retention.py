"""How long an ended job is kept."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from pillion.errors import ConfigurationError
from pillion.model import State

#: An id stays known at least this long after the end, so that `job.ensure()` can repeat an enqueue safely.
FLOOR_US: Final = 10 * 60 * 1_000_000


@dataclass(frozen=True, slots=True)
class Retention:
    """How long an ended job stays readable: seconds or a `timedelta`; None: for ever; never under ten minutes.

    ``succeeded`` is for cancelled jobs too. Raises `ConfigurationError` for what is no duration.
    """

    succeeded: float | timedelta | None = 24 * 3600.0
    failed: float | timedelta | None = 30 * 24 * 3600.0
    _succeeded_us: int | None = field(init=False, repr=False, compare=False, default=None)
    _failed_us: int | None = field(init=False, repr=False, compare=False, default=None)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_succeeded_us", _microseconds("succeeded", self.succeeded))
        object.__setattr__(self, "_failed_us", _microseconds("failed", self.failed))

    def keep_us(self, state: State) -> int | None:
        """Microseconds to keep a job that ended in `state`; None: for ever."""
        return self._failed_us if state == "failed" else self._succeeded_us


def _microseconds(name: str, value: Any) -> int | None:
    if value is None:
        return None
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    number = seconds if isinstance(seconds, int | float) and not isinstance(seconds, bool) else math.nan
    if not 0 <= number < math.inf:
        raise ConfigurationError(f"Retention({name}=…) takes seconds, a timedelta, or None for ever; not {value!r}")
    return max(round(number * 1e6), FLOOR_US)
