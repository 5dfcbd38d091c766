"""Uses jobs and closes nothing. The argument says how; `done` is printed when nothing is left to do."""

from __future__ import annotations

import asyncio
import sys
import threading

from pillion import Jobs

jobs = Jobs()


@jobs.task
async def noop() -> None: ...


@jobs.task
def sleep_on() -> None:
    threading.Event().wait()


async def enqueue() -> None:
    await noop.enqueue()


async def start_and_fail() -> None:
    async with jobs.worker():
        await noop.enqueue()
        print("done", flush=True)
        raise RuntimeError("the app's own start failed")


async def leave_running() -> None:
    """The context is entered and never left, while a thread runs a job that does not end."""
    await sleep_on.enqueue()
    context = jobs.worker()
    await context.__aenter__()
    while not sleep_on_started():
        await asyncio.sleep(0.01)


def sleep_on_started() -> bool:
    return any(thread.name.startswith("pillion-job") for thread in threading.enumerate())


match sys.argv[1]:
    case "sync":
        noop.enqueue_sync()
    case "async":
        asyncio.run(enqueue())
    case "two loops":
        asyncio.run(enqueue())
        asyncio.run(enqueue())
    case "half":
        asyncio.run(start_and_fail())
    case "entered":
        asyncio.run(leave_running())
print("done", flush=True)
