"""No job queue: one bare insert by a thread that owns the connection, as a floor for an enqueue's round trip."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from queue import SimpleQueue
from typing import Any

from bench.systems.base import Kind, System, TaskName


class Bare(System):
    packages = ()
    delivery = "-"
    durability = "synchronous=FULL; WAL"
    unfinished = "SELECT count(*) FROM jobs"
    settings = "loop -> thread -> BEGIN IMMEDIATE, INSERT of id and arguments, COMMIT -> loop"
    kinds = ()
    _synchronous = "FULL"

    def serve(self, kind: Kind) -> None:
        raise NotImplementedError

    @asynccontextmanager
    async def client(self) -> AsyncIterator[None]:
        self._queue: SimpleQueue[tuple[asyncio.Future[None], str, str] | None] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        yield
        self._queue.put(None)
        await asyncio.to_thread(thread.join)

    async def enqueue(self, task: TaskName, *args: Any) -> None:
        stored: asyncio.Future[None] = self._loop.create_future()
        self._queue.put((stored, os.urandom(13).hex(), f'{{"job":{args[0]}}}'))
        await stored

    def _run(self) -> None:
        connection = sqlite3.connect(self.folder / "jobs.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        connection.execute("CREATE TABLE jobs (seq INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, args TEXT NOT NULL)")
        while (item := self._queue.get()) is not None:
            stored, job_id, text = item
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO jobs (id, args) VALUES (?, ?)", (job_id, text))
            connection.execute("COMMIT")
            self._loop.call_soon_threadsafe(stored.set_result, None)
        connection.close()


class BareRelaxed(Bare):
    durability = "synchronous=NORMAL; WAL"
    _synchronous = "NORMAL"
