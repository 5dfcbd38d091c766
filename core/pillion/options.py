"""What can be said about a task and about one enqueue of it, checked where it is said."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

from pillion.codec.shapes import is_a
from pillion.errors import ConfigurationError
from pillion.policy.retry import Backoff

Seconds = float | timedelta

MAX_PRIORITY: Final = 2**31 - 1  # every store keeps 32 bits, with sign
MAX_NAME: Final = 200  # bytes of UTF-8: a task's, a queue's
MAX_KEY: Final = 512  # bytes of UTF-8
MAX_SECONDS: Final = 100 * 366 * 86_400.0  # a century: more is a mistake in units


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """What ``@jobs.task(…)`` takes. None: the setting of `Jobs` applies.

    Raises `ConfigurationError` for what cannot work.
    """

    name: str | None = None
    aliases: Sequence[str] = ()
    queue: str = "default"
    loop: Literal["own", "app"] | None = None
    max_attempts: int | None = None
    timeout: Seconds | None = None
    retry: Backoff | None = None

    def __post_init__(self) -> None:
        if self.name is not None:
            check_text("name", self.name, MAX_NAME)
        if isinstance(self.aliases, str):
            raise ConfigurationError(f"aliases takes a list of names, not the str {self.aliases!r}")
        for alias in self.aliases:
            check_text("aliases", alias, MAX_NAME)
        check_text("queue", self.queue, MAX_NAME)
        if self.loop not in (None, "own", "app"):
            raise ConfigurationError(f'loop is "own" or "app", not {self.loop!r}')
        if self.max_attempts is not None and (not _is_int(self.max_attempts) or self.max_attempts < 1):
            raise ConfigurationError(f"max_attempts is an int of at least 1, not {self.max_attempts!r}")
        if self.retry is not None and not is_a(self.retry, Backoff):
            raise ConfigurationError(f"retry takes a Backoff, not {type(self.retry).__name__}")
        if self.timeout is not None:
            duration_us("timeout", self.timeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueueOptions:
    """What ``task.options(…)`` takes, in the units of the store. Made by `enqueue_options`."""

    delay_us: int = 0
    due_us: int | None = None
    priority: int = 0
    queue: str | None = None
    unique_key: str | None = None


def enqueue_options(
    *,
    delay: Seconds | None,
    at: datetime | None,
    priority: int,
    queue: str | None,
    unique_key: str | None,
) -> EnqueueOptions:
    """Raises `ConfigurationError` for what no store could keep, or what is surely not meant."""
    if delay is not None and at is not None:
        raise ConfigurationError("delay and at are two ways to say when: give one")
    if not _is_int(priority) or not -MAX_PRIORITY - 1 <= priority <= MAX_PRIORITY:
        raise ConfigurationError(f"priority is an int of 32 bits, higher first, not {priority!r}")
    if queue is not None:
        check_text("queue", queue, MAX_NAME)
    if unique_key is not None:
        check_text("unique_key", unique_key, MAX_KEY)
    return EnqueueOptions(
        delay_us=0 if delay is None else duration_us("delay", delay),
        due_us=None if at is None else instant_us("at", at),
        priority=priority,
        queue=queue,
        unique_key=unique_key,
    )


def duration_us(what: str, value: Seconds) -> int:
    """Microseconds of a duration given in seconds or as a `timedelta`. Raises `ConfigurationError`."""
    if not is_a(value, (int, float, timedelta)) or is_a(value, bool):
        raise ConfigurationError(f"{what} is in seconds or a timedelta, not {type(value).__name__}")
    seconds = value.total_seconds() if isinstance(value, timedelta) else float(value)
    if not math.isfinite(seconds) or seconds < 0:
        raise ConfigurationError(f"{what} is a time from now on, 0 or more seconds, not {value!r}")
    if seconds > MAX_SECONDS:
        raise ConfigurationError(f"{what} is in seconds; {value!r} is more than a century")
    return round(seconds * 1e6)


def instant_us(what: str, value: datetime) -> int:
    """Microseconds since the epoch of an aware datetime. Raises `ConfigurationError` for a naive one."""
    if not is_a(value, datetime):
        raise ConfigurationError(f"{what} is an aware datetime, not {type(value).__name__}")
    if value.utcoffset() is None:
        raise ConfigurationError(
            f"{what}={value!r} has no time zone, and could mean any: use datetime.now(timezone.utc), or .astimezone()"
        )
    return (value - _EPOCH) // timedelta(microseconds=1)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def check_text(what: str, value: Any, limit: int) -> None:
    """Raises `ConfigurationError` unless `value` is a str that every store can keep, of 1 to `limit` bytes."""
    if not isinstance(value, str):
        raise ConfigurationError(f"{what} is a str, not {type(value).__name__}")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise ConfigurationError(f"{what}={value!r} is no valid Unicode text") from None
    if not value or size > limit or "\0" in value:
        raise ConfigurationError(f"{what} has 1 to {limit} bytes and no NUL, not {value[:60]!r}")


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
