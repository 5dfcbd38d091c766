"""The ground that an override puts under a `Jobs`: a store of its own, and a way to run its jobs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, Literal, get_args

from pillion.errors import ConfigurationError
from pillion.ground import Ground
from pillion.model import FINAL, JobRow, NewJob
from pillion.store.base import Link
from pillion.testing.clocks import MovableClock, RunningClock, standing_clock

Run = Literal["inline", "manual", "worker"]

_READ: Final = 500  # rows a read


class Staged(Ground):
    """Raises `ConfigurationError` for what cannot work."""

    def __init__(self, below: Ground, url: str, run: Run, clock: MovableClock | None, raise_errors: bool) -> None:
        if run not in get_args(Run):
            raise ConfigurationError(f"run is one of {', '.join(map(repr, get_args(Run)))}, not {run!r}")
        if raise_errors and run == "worker":
            raise ConfigurationError(
                "raise_errors=True needs jobs that run where they are enqueued or waited for: use run='inline' or "
                "run='manual', or look at job.error"
            )
        self.run: Run = run
        self.raise_errors = raise_errors
        self.clock: MovableClock = clock or (RunningClock() if run == "worker" else standing_clock())
        settings = replace(below.settings, url=url, worker=run == "worker")
        super().__init__(settings, clock=self.clock, workers=run == "worker")
        self._unreported: dict[str, None] = {}  # ids of jobs whose end was not told yet, in the order of enqueue

    def remember(self, news: Iterable[NewJob]) -> None:
        """These jobs were enqueued here."""
        self._unreported.update(dict.fromkeys(new.id for new in news))

    async def report(self, link: Link) -> list[JobRow]:
        """The remembered jobs as they are now; those that ended are told once."""
        ids = list(self._unreported)
        rows: dict[str, JobRow] = {}
        for start in range(0, len(ids), _READ):
            rows.update((row.id, row) for row in await link.get(ids[start : start + _READ]))
        for job_id in ids:
            if job_id not in rows or rows[job_id].state in FINAL:
                self._unreported.pop(job_id, None)
        return [rows[job_id] for job_id in ids if job_id in rows]
