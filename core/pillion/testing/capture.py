"""What was enqueued in a block, to be asserted on."""

from __future__ import annotations

import inspect
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from pillion.desk import Desk
from pillion.model import Enqueued, JobRow, NewJob
from pillion.process import Process
from pillion.registry import Registry
from pillion.task import Task
from pillion.testing.aside import run_aside


@dataclass(frozen=True, slots=True)
class Captured:
    """One job, as it was enqueued."""

    id: str
    task: Task[..., Any]
    arguments: dict[str, Any]  # by parameter name, as the job gets them; omitted ones are absent
    queue: str
    priority: int
    delay: timedelta | None
    at: datetime | None
    unique_key: str | None


class Capture(list[Captured]):
    """The jobs that were enqueued, oldest first. A plain list, with a filter."""

    def of(self, task: Task[..., Any]) -> Capture:
        """Those of one task."""
        return Capture(job for job in self if job.task is task)


@contextmanager
def captured(desk: Desk, tasks: Registry, process: Process, *, store: bool) -> Generator[Capture]:
    """See `Testing.capture`."""
    capture = Capture()
    send, stored, started = desk.send, desk.stored, desk.started

    async def swallow(news: Sequence[NewJob]) -> list[Enqueued]:
        return [Enqueued(new.id, True) for new in news]

    async def note(news: Sequence[NewJob]) -> Mapping[str, JobRow]:
        capture.extend(_captured(new, tasks[new.task]) for new in news)
        return await stored(news) if store and stored is not None else {}

    desk.stored = note
    if not store:
        desk.send, desk.started = swallow, lambda: True
        process.hold()
    try:
        yield capture
    finally:
        desk.send, desk.stored, desk.started = send, stored, started
        if not store:  # `enqueue_sync` may have started a thread that nothing else needs
            run_aside(process.unhold)


def _captured(new: NewJob, task: Task[..., Any]) -> Captured:
    args, kwargs = task.codec.decode(new.args)
    return Captured(
        id=new.id,
        task=task,
        arguments=dict(inspect.signature(task.fn).bind_partial(*args, **kwargs).arguments),
        queue=new.queue,
        priority=new.priority,
        delay=timedelta(microseconds=new.delay_us) if new.delay_us else None,
        at=None if new.due_us is None else datetime.fromtimestamp(new.due_us / 1e6, UTC),
        unique_key=new.key,
    )
