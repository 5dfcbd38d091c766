"""How long an ended job is kept."""

from __future__ import annotations

from dataclasses import dataclass

from pillion.model import State

#: An id stays known at least this long after the end, so that `job.ensure()` can repeat an enqueue safely.
FLOOR_US = 10 * 60 * 1_000_000


@dataclass(frozen=True, slots=True)
class Retention:
    """Microseconds that an ended job stays readable, by how it ended. None: for ever."""

    succeeded_us: int | None = 24 * 3600 * 1_000_000
    failed_us: int | None = 30 * 24 * 3600 * 1_000_000

    def keep_us(self, state: State) -> int | None:
        """The time to keep a job that ended in `state`; never under ten minutes."""
        keep = self.failed_us if state == "failed" else self.succeeded_us
        return None if keep is None else max(keep, FLOOR_US)
