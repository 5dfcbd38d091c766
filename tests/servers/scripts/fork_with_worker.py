"""A process with a running worker forks a child that runs a worker of its own: prints the child's pid when it is up."""

import asyncio
import os

from pillion import Jobs

jobs = Jobs(drain_timeout=1)


@jobs.task
async def idle() -> None: ...


async def child() -> None:
    async with jobs.worker():
        print(f"child {os.getpid()} up", flush=True)
        await asyncio.Event().wait()


async def main() -> None:
    async with jobs.worker():
        if os.fork() == 0:
            asyncio._set_running_loop(None)
            asyncio.set_event_loop(None)
            try:
                asyncio.run(child())
            finally:
                os._exit(1)
        await asyncio.Event().wait()


asyncio.run(main())
