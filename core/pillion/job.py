"""A handle to one job: what the caller of `enqueue` holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, Protocol, TypeVar

from pillion import failure
from pillion.errors import ConfigurationError, JobCancelled, JobFailed, PillionError
from pillion.failure import Failure
from pillion.model import FINAL, AttemptRow, Enqueued, JobRow, NewJob, Outcome, State

R_co = TypeVar("R_co", covariant=True)


class Desk(Protocol):
    """What a handle needs of the `Jobs` it came from."""

    async def read(self, job_id: str) -> JobRow | None: ...
    async def wait_end(self, job_id: str, timeout: float | None) -> JobRow: ...
    async def cancel(self, job_id: str) -> str | None: ...
    async def store_again(self, news: Sequence[NewJob]) -> Enqueued: ...
    def decode_result(self, task: str, text: str | None) -> Any: ...


@dataclass(frozen=True, slots=True)
class Attempt:
    """One ended attempt, as `Job.history` lists it."""

    number: int  # counts claims, from 1
    outcome: Outcome
    worker: str
    started: datetime
    ended: datetime
    error: Failure | None


class Job(Generic[R_co]):
    """A handle to a job. It shows what was last read; `refresh()` reads again.

    ``created`` is False when this enqueue found the job there already: the same id stored before, or an unfinished
    job that holds the unique key (the handle then names that job).
    """

    def __init__(
        self,
        desk: Desk,
        job_id: str,
        task: str,
        *,
        created: bool = True,
        new: NewJob | None = None,
        row: JobRow | None = None,
        group: Sequence[NewJob] = (),
    ) -> None:
        self._desk = desk
        self._new = new
        self._group = group  # the jobs of the same call, this one first; empty: it was the only one
        self._row = row
        self.id = job_id
        self.task = task
        self.created = created

    def __repr__(self) -> str:
        return f"<Job {self.id} of {self.task}: {self.state}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    # -- what was last read --------------------------------------------------------------------------------

    @property
    def state(self) -> State:
        """The state last read; before the first `refresh()`, the one it was stored in."""
        if self._row is not None:
            return self._row.state
        if self._new is not None and (self._new.due_us is not None or self._new.delay_us > 0):
            return "scheduled"
        return "queued"

    @property
    def done(self) -> bool:
        """True once the job succeeded, failed or was cancelled."""
        return self.state in FINAL

    @property
    def attempts(self) -> int:
        """How often a worker has taken the job."""
        return self._row.attempt if self._row else 0

    @property
    def failures(self) -> int:
        """Attempts that raised; `max_attempts` bounds these."""
        return self._row.failures if self._row else 0

    @property
    def losses(self) -> int:
        """Attempts whose process died."""
        return self._row.losses if self._row else 0

    @property
    def releases(self) -> int:
        """Attempts handed back by a shutdown; they cost the job nothing."""
        return self._row.releases if self._row else 0

    @property
    def error(self) -> Failure | None:
        """The last failure; None if there was none."""
        return failure.read(self._row.error) if self._row and self._row.error else None

    @property
    def queue(self) -> str:
        row = self._row or self._new
        return row.queue if row else "default"

    @property
    def created_at(self) -> datetime | None:
        """When the store took the job; None before the first `refresh()`."""
        return _instant(self._row.created_us) if self._row else None

    @property
    def due(self) -> datetime | None:
        """When a scheduled job is to start; None for one that never had to wait."""
        return _instant(self._row.due_us) if self._row and self._row.due_us is not None else None

    @property
    def started(self) -> datetime | None:
        """When the last attempt started."""
        return _instant(self._row.started_us) if self._row and self._row.started_us is not None else None

    @property
    def finished(self) -> datetime | None:
        """When the job came to its end."""
        return _instant(self._row.finished_us) if self._row and self._row.finished_us is not None else None

    @property
    def history(self) -> Sequence[Attempt]:
        """The ended attempts, oldest first, the successful one last."""
        row = self._row
        if row is None:
            return ()
        attempts = [_attempt(entry) for entry in row.history]
        if row.state == "succeeded" and row.started_us is not None and row.finished_us is not None:
            attempts.append(
                Attempt(
                    row.attempt,
                    "succeeded",
                    row.worker or "",
                    _instant(row.started_us),
                    _instant(row.finished_us),
                    None,
                )
            )
        return attempts

    # -- asking the store ----------------------------------------------------------------------------------

    async def refresh(self) -> Job[R_co]:
        """Read the job again; returns itself. Raises `LookupError` if the store no longer knows it."""
        row = await self._desk.read(self.id)
        if row is None:
            raise LookupError(f"job {self.id} is not in the store: it was pruned after its retention, or never stored")
        self._row = row
        return self

    async def result(self, timeout: float | timedelta | None = None) -> R_co:
        """Wait for the job's end and return what its function returned.

        `timeout` in seconds; None waits for ever, 0 looks once. Raises `JobFailed`, `JobCancelled`, `ResultTimeout`, or
        `Draining` when this process shuts down first. A timeout does not touch the job.
        """
        limit = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
        row = self._row if self.done and self._row else await self._desk.wait_end(self.id, limit)
        self._row = row
        if row.state == "succeeded":
            value: R_co = self._desk.decode_result(row.task, row.result)
            return value
        if row.state == "cancelled":
            raise JobCancelled(f"job {self.id} of {row.task} was cancelled")
        error = self.error
        if error is None:
            raise JobFailed(f"job {self.id} of {row.task} failed")
        raise JobFailed(
            f"job {self.id} of {row.task} failed: {error.type}: {error.message}",
            error_type=error.type,
            traceback=error.traceback,
        )

    async def cancel(self) -> bool:
        """Cancel the job. True: it will not run (any more). False: it runs and was asked to stop, or had ended."""
        state = await self._desk.cancel(self.id)
        if state == "cancelled":
            await self.refresh()
        return state == "cancelled"

    async def ensure(self) -> Job[R_co]:
        """Store the job if it is not stored yet, under the same id: safe after `EnqueueUnknown`, any number of times.

        The handle of an `EnqueueUnknown` stands for all jobs of that call: they are stored together, or are already.
        A unique key that another job holds by now makes this the handle of that job, with ``created`` False.

        Raises `ConfigurationError` on a handle that did not come from an enqueue of this process.
        """
        if self._new is None:
            raise ConfigurationError("ensure() repeats an enqueue of this process; this handle was read from the store")
        if datetime.now(UTC) - created_of(self._new.id) > timedelta(minutes=10):
            raise PillionError(
                f"job {self.id} is older than ten minutes: its id may be forgotten, so storing it again could run it "
                "twice; look it up with jobs.get(), or enqueue it anew"
            )
        answer = await self._desk.store_again(self._group or (self._new,))
        self.created = answer.created
        if answer.holder is not None:
            self.id = answer.holder
        return self


def created_of(job_id: str) -> datetime:
    """The instant in a job's id (its first 48 bits count milliseconds)."""
    from pillion.ids import millis

    return datetime.fromtimestamp(millis(job_id) / 1000, UTC)


def _instant(us: int) -> datetime:
    return datetime.fromtimestamp(us / 1e6, UTC)


def _attempt(row: AttemptRow) -> Attempt:
    return Attempt(
        row.number,
        row.outcome,
        row.worker,
        _instant(row.started_us),
        _instant(row.ended_us),
        failure.read(row.error) if row.error else None,
    )
