"""Background jobs inside an ASGI app: one object, no broker, nothing lost on a deploy or a crash."""

from pillion._version import __version__
from pillion.errors import (
    ArgumentError,
    ConfigurationError,
    Draining,
    EnqueueUnknown,
    JobCancelled,
    JobFailed,
    NotStarted,
    PillionError,
    ResultTimeout,
    StoreAway,
    StoreContended,
    StoreData,
    StoreError,
    StoreUnavailable,
    WrongSchema,
)
from pillion.inject import inject, injected
from pillion.job import Attempt, Job
from pillion.jobs import Jobs
from pillion.policy.retention import Retention
from pillion.policy.retry import Backoff
from pillion.resource import Resource
from pillion.task import Bound, Task

__all__ = [
    "ArgumentError",
    "Attempt",
    "Backoff",
    "Bound",
    "ConfigurationError",
    "Draining",
    "EnqueueUnknown",
    "Job",
    "JobCancelled",
    "JobFailed",
    "Jobs",
    "NotStarted",
    "PillionError",
    "Resource",
    "ResultTimeout",
    "Retention",
    "StoreAway",
    "StoreContended",
    "StoreData",
    "StoreError",
    "StoreUnavailable",
    "Task",
    "WrongSchema",
    "__version__",
    "inject",
    "injected",
]
