"""What Pillion raises. Every message says what to do next.

PillionError
├── ConfigurationError         a setting or declaration that cannot work (also a ValueError)
│   └── WrongSchema            the store's schema is of another version
├── NotStarted                 the injected handle was used, but no lifespan ran in this process
├── ArgumentError              an argument does not fit the task's signature (also a TypeError)
├── StoreError
│   ├── StoreAway              unreachable for now: the same call may be repeated
│   │   └── StoreUnavailable   an enqueue's deadline passed: surely not stored
│   ├── StoreContended         lost against another writer: repeat after a pause
│   └── StoreData              the data itself is refused: repeating is of no use
├── EnqueueUnknown             sent and not answered: `await error.job.ensure()` settles it
├── KeyTaken                   a unique key is held by an unfinished job
├── JobFailed                  `result()` of a job that failed
│   └── JobCancelled           … or was cancelled
├── ResultTimeout              `result(timeout=…)` ran out (also a TimeoutError)
└── Draining                   this process is shutting down, a wait ended early
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pillion.job import Job


class PillionError(Exception):
    """The root of everything below."""


class ConfigurationError(PillionError, ValueError):
    """A setting or declaration that cannot work, found as early as it can be."""


class WrongSchema(ConfigurationError):
    """The store's schema is of a version that this code does not serve."""


class NotStarted(PillionError, RuntimeError):
    """The worker's lifespan did not run in this process."""


class ArgumentError(PillionError, TypeError):
    """An argument that does not fit the task's signature, or cannot be stored.

    ``parameter`` names it, or is None when the call as a whole does not bind.
    """

    def __init__(self, message: str, parameter: str | None = None) -> None:
        super().__init__(message)
        self.parameter = parameter


class StoreError(PillionError):
    """The store did not do what was asked. Its subclasses are the three kinds there are."""


class StoreAway(StoreError):
    """The store cannot be reached now; the same call may be repeated."""


class StoreUnavailable(StoreAway):
    """An enqueue's deadline passed before anything was written: surely not stored."""


class StoreContended(StoreError):
    """Another writer was in the way; repeat after a pause."""


class StoreData(StoreError):
    """The store refuses the data itself; repeating is of no use."""


class EnqueueUnknown(PillionError):
    """The job was sent and no answer came within the deadline: it may or may not be stored.

    ``job`` is its handle; ``await job.ensure()`` repeats the enqueue under the same id, which stores it
    at most once.
    """

    def __init__(self, message: str, job: Job[Any] | None = None) -> None:
        super().__init__(message)
        self.job = job


class JobFailed(PillionError):
    """The job failed. ``error_type`` and ``traceback`` are the remote exception's, as text."""

    def __init__(self, message: str, *, error_type: str | None = None, traceback: str | None = None) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.traceback = traceback


class JobCancelled(JobFailed):
    """The job was cancelled before it could succeed."""


class ResultTimeout(PillionError, TimeoutError):
    """The job had not ended when the wait ran out; it goes on unharmed."""


class Draining(PillionError):
    """This process is shutting down; the wait ended, the job goes on elsewhere."""
