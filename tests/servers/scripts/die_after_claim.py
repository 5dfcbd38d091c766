"""Dies at the very moment when the store has handed out a job and the process has not yet seen it."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3

from ledger import note
from pillion import Jobs

jobs = Jobs()


@jobs.task(name="servers_app.nap")
async def nap(ref: str, seconds: float) -> None:
    note("start", ref)


async def die(step: str) -> None:
    if step == "exchange.after":
        with sqlite3.connect(os.environ["PILLION_URL"].removeprefix("sqlite:///")) as database:
            (running,) = database.execute("SELECT count(*) FROM jobs WHERE state = 3").fetchone()
        if running:
            note("died", running=running)
            os.kill(os.getpid(), signal.SIGKILL)


async def main() -> None:
    async with jobs.client():
        store = jobs._this_process().store
        store.checkpoint = die
        async with jobs.worker():
            await asyncio.Event().wait()


asyncio.run(main())
