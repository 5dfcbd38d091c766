"""What a system's adapter gives the harness. One file a system, beside this one."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, ClassVar, Literal

from bench.handlers import Handlers

Kind = Literal["async", "def"]
TaskName = Literal["noop_async", "noop_def", "hold_async", "hold_def", "block"]

ASYNC_SLOTS = 100  # async jobs at a time, in every system
THREADS = 16  # `def` jobs at a time


class System(ABC):
    """One system under test, built in each process that takes part. `folder` holds its database."""

    packages: ClassVar[Sequence[str]]  # distributions whose versions are told
    delivery: ClassVar[str]
    durability: ClassVar[str]  # of an enqueue, as configured here
    settings: ClassVar[str]
    kinds: ClassVar[Sequence[Kind]] = ("async", "def")  # handlers it runs natively
    bulk: ClassVar[bool] = False  # it stores many jobs in one call
    note: ClassVar[str] = ""
    stored: ClassVar[str] = "SELECT count(*) FROM jobs"  # SQL: how many jobs there are
    unfinished: ClassVar[str]  # SQL: how many jobs have not succeeded

    def __init__(self, folder: Path, handlers: Handlers, *, app: bool = False) -> None:
        self.folder = folder
        self.handlers = handlers
        self.app = app  # built inside a web app

    @abstractmethod
    def serve(self, kind: Kind) -> None:
        """Be a worker for jobs of `kind` until SIGTERM."""

    @abstractmethod
    def client(self) -> AbstractAsyncContextManager[None]:
        """Open for enqueueing on the running loop."""

    @abstractmethod
    async def enqueue(self, task: TaskName, *args: Any) -> None:
        """Store one job; return when it is stored."""

    async def enqueue_many(self, task: TaskName, jobs: Sequence[int]) -> None:
        """Store many, in the fastest way there is."""
        for job in jobs:
            await self.enqueue(task, job)

    async def enqueue_beside(self, task: TaskName, *args: Any) -> None:
        """Store one job while other code of the loop goes on."""
        await self.enqueue(task, *args)

    def lifespan(self) -> Callable[[Any], AbstractAsyncContextManager[Any]] | None:
        """A lifespan that carries the worker inside a FastAPI app; None: the system does not do that."""
        return None

    @classmethod
    def count_unfinished(cls, folder: Path) -> int:
        """Jobs in the store that have not succeeded. While nothing else has the database open."""
        return _count(folder, cls.unfinished)

    @classmethod
    def count_stored(cls, folder: Path) -> int:
        """Jobs in the store. Likewise."""
        return _count(folder, cls.stored)


def _count(folder: Path, sql: str) -> int:
    connection = sqlite3.connect(folder / "jobs.db")
    (count,) = connection.execute(sql).fetchone()
    connection.close()
    return int(count)
