"""huey on SQLite (SqliteHuey)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from huey import SqliteHuey

from bench.handlers import Handlers
from bench.systems.base import THREADS, Kind, System, TaskName


class Huey(System):
    packages = ("huey",)
    delivery = "at most once: a job is deleted before it runs"
    durability = "synchronous=OFF (fsync=False; it has no NORMAL); WAL"
    stored = unfinished = "SELECT count(*) FROM task"
    settings = f"results=False, -k thread -w {THREADS} -d 0.005 -m 0.02 -n"
    kinds = ("def",)
    note = "def handlers only; enqueue blocks the loop: called there one by one, by asyncio.to_thread for 50 at once"
    _fsync: bool | None = False

    def __init__(self, folder: Path, handlers: Handlers, *, app: bool = False) -> None:
        super().__init__(folder, handlers, app=app)
        self._huey = SqliteHuey("bench", filename=str(folder / "jobs.db"), fsync=self._fsync, results=False)
        self._tasks: dict[str, Any] = {
            name: self._huey.task(name=name)(getattr(handlers, name)) for name in ("noop_def", "hold_def")
        }

    def serve(self, kind: Kind) -> None:
        consumer = self._huey.create_consumer(
            workers=THREADS,
            worker_type="thread",
            initial_delay=0.005,
            max_delay=0.02,
            periodic=False,
            graceful_signal="TERM",
        )
        consumer.run()

    @asynccontextmanager
    async def client(self) -> AsyncIterator[None]:
        yield

    async def enqueue(self, task: TaskName, *args: Any) -> None:
        self._tasks[task](*args)

    async def enqueue_beside(self, task: TaskName, *args: Any) -> None:
        """As an async app has to call it, so that others go on meanwhile."""
        await asyncio.to_thread(self._tasks[task], *args)


class HueyFull(Huey):
    durability = "synchronous=FULL (its default, fsync=None); WAL"
    _fsync = None
