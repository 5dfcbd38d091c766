"""Pillion on SQLite."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import uvloop

from bench.handlers import Handlers
from bench.systems.base import ASYNC_SLOTS, THREADS, Kind, System, TaskName


class Pillion(System):
    packages = ("pillion", "msgspec", "uvloop")
    delivery = "at least once, fenced"
    durability = "enqueue synchronous=FULL, the rest NORMAL; WAL"
    unfinished = "SELECT count(*) FROM jobs WHERE state <> 4"
    settings = f"concurrency={ASYNC_SLOTS}, threads={THREADS}, all else by default"
    bulk = True
    _durability: Literal["full", "relaxed"] = "full"

    def __init__(self, folder: Path, handlers: Handlers, *, app: bool = False) -> None:
        super().__init__(folder, handlers, app=app)
        jobs_class: Any = import_module("pillion_fastapi" if app else "pillion").Jobs
        self._jobs = jobs_class(
            f"sqlite:///{folder}/jobs.db", concurrency=ASYNC_SLOTS, threads=THREADS, durability=self._durability
        )
        self._tasks: dict[str, Any] = {
            name: self._jobs.task(name=name)(getattr(handlers, name))
            for name in ("noop_async", "noop_def", "hold_async", "hold_def", "block")
        }

    def serve(self, kind: Kind) -> None:
        async def forever() -> None:
            async with self._jobs.worker():
                await asyncio.Event().wait()

        uvloop.run(forever())

    @asynccontextmanager
    async def client(self) -> AsyncIterator[None]:
        async with self._jobs.client():
            yield

    async def enqueue(self, task: TaskName, *args: Any) -> None:
        await self._tasks[task].enqueue(*args)

    async def enqueue_many(self, task: TaskName, jobs: Sequence[int]) -> None:
        bind = self._tasks[task].bind
        await self._jobs.enqueue_many(bind(job) for job in jobs)

    def lifespan(self) -> Callable[[Any], AbstractAsyncContextManager[Any]]:
        lifespan: Callable[[Any], AbstractAsyncContextManager[Any]] = self._jobs.lifespan
        return lifespan


class PillionRelaxed(Pillion):
    durability = "synchronous=NORMAL throughout; WAL"
    _durability = "relaxed"
