"""tinyjobs on SQLite."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import uvloop
from tinyjobs import TinyJobs
from tinyjobs.retention import KEEP_EVERYTHING

from bench.handlers import Handlers
from bench.systems.base import ASYNC_SLOTS, THREADS, Kind, System, TaskName

_POLL = {"poll_minimum": 0.005, "poll_maximum": 0.02}  # seconds


class Tinyjobs(System):
    packages = ("tinyjobs", "uvloop")
    delivery = "at least once"
    durability = "synchronous=NORMAL (its own pragmas); WAL"
    unfinished = "SELECT count(*) FROM jobs WHERE status <> 'success'"
    settings = f"concurrency={ASYNC_SLOTS} async / {THREADS} threads, poll 5-20 ms, no scheduler, retention off, uvloop"

    def __init__(self, folder: Path, handlers: Handlers, *, app: bool = False) -> None:
        super().__init__(folder, handlers, app=app)
        self._app = TinyJobs(f"sqlite:///{folder}/jobs.db", retention=KEEP_EVERYTHING)
        self._tasks: dict[str, Any] = {
            name: self._app.task(getattr(handlers, name), name=name)
            for name in ("noop_async", "noop_def", "hold_async", "hold_def", "block")
        }

    def serve(self, kind: Kind) -> None:
        slots = ASYNC_SLOTS if kind == "async" else THREADS
        worker = self._app.worker(concurrency=slots, scheduler=False, **_POLL)
        uvloop.run(worker.start())

    @asynccontextmanager
    async def client(self) -> AsyncIterator[None]:
        async with self._app.serve():
            yield

    async def enqueue(self, task: TaskName, *args: Any) -> None:
        await self._tasks[task].aenqueue(*args)

    def lifespan(self) -> Callable[[Any], AbstractAsyncContextManager[Any]]:
        return self._app.lifespan(worker=True, concurrency=ASYNC_SLOTS, scheduler=False, **_POLL)
