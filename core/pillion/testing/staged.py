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
        self._told: dict[str, int] = {}  # unfinished jobs in the order of enqueue -> attempts told so far

    def remember(self, news: Iterable[NewJob]) -> None:
        """These jobs were enqueued here."""
        self._told.update(dict.fromkeys((new.id for new in news), 0))

    async def report(self, link: Link) -> list[JobRow]:
        """The remembered jobs that ran or ended since the last report, as they are now."""
        ids = list(self._told)
        rows: dict[str, JobRow] = {}
        for start in range(0, len(ids), _READ):
            rows.update((row.id, row) for row in await link.get(ids[start : start + _READ]))
        return [rows[job_id] for job_id in ids if self._is_news(job_id, rows.get(job_id))]

    def _is_news(self, job_id: str, row: JobRow | None) -> bool:
        if row is None or row.state in FINAL:
            return self._told.pop(job_id, None) is not None and row is not None
        before, self._told[job_id] = self._told[job_id], row.attempt
        return row.attempt > before
