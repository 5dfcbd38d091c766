"""The handle that frameworks inject into routes: it enqueues, and sees to it that somebody runs the jobs.

It finds the queue through the task, never through app or request state, which nested lifespans and mounted
sub-apps lose. So it works in sub-apps, WebSockets and beside several `Jobs`, once a lifespan of this process ran.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar, ParamSpec, TypeVar

from pillion.errors import ArgumentError, NotStarted
from pillion.job import Job
from pillion.task import Bound, Handle

P = ParamSpec("P")
R = TypeVar("R")


class _Checked:
    """Refuses to enqueue in a process that never entered the lifespan of the task's `Jobs`."""

    __slots__ = ()

    #: The line that starts the worker, as users of this framework write it.
    line: ClassVar[str] = "async with jobs.worker(): ..."

    def check(self, handle: Handle[..., Any]) -> None:
        """Raises `NotStarted`, with the line to add, unless a lifespan, worker or client of ours is open."""
        if not isinstance(handle, Handle):
            raise _no_task(handle)
        task = handle.task
        if not task.owner.started():
            raise NotStarted(
                f"{task.name} cannot be enqueued: the lifespan of its jobs did not run in this process. "
                f"Add it to the outermost app, since servers never start a mounted one: {self.line}\n"
                "In tests, TestClient runs it only as `with TestClient(app) as client:`, httpx.ASGITransport never: "
                "open `async with jobs.lifespan(app):` around it. "
                f"To enqueue without any app, await {handle.task.__name__}.enqueue(…)"
            )


def _no_task(given: object) -> ArgumentError:
    if asyncio.iscoroutine(given):
        given.close()
        return ArgumentError("pass the task and its arguments apart: enqueue(task, 7), not enqueue(task(7))")
    if isinstance(given, Bound):
        return ArgumentError("enqueue takes a task and its arguments; for bound calls use jobs.enqueue_many([…])")
    name = getattr(given, "__name__", None) or repr(given)[:60]
    return ArgumentError(f"enqueue takes a task, and {name} is none: decorate the function with @jobs.task")


class Enqueue(_Checked):
    """``await enqueue(task, *args)``: typed by the task's own signature."""

    __slots__ = ()

    async def __call__(self, task: Handle[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Store a job that calls `task`, or `task.options(…)`, with these arguments.

        Raises `NotStarted` if nothing in this process entered the lifespan, and what `task.enqueue` raises.
        """
        self.check(task)
        return await task.enqueue(*args, **kwargs)


class EnqueueSync(_Checked):
    """The same for ``def`` routes: blocks until the job is stored; refuses to block a running loop."""

    __slots__ = ()

    def __call__(self, task: Handle[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """See `Enqueue`; raises what `task.enqueue_sync` raises."""
        self.check(task)
        return task.enqueue_sync(*args, **kwargs)
