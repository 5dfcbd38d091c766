"""What gunicorn does with a preloaded app: the jobs object was made and used before the fork."""

from __future__ import annotations

import asyncio
import os
import sys
import traceback
from pathlib import Path

from ledger import note
from pillion import Jobs

jobs = Jobs()
PER_PROCESS = 250


@jobs.task
async def quick(ref: str) -> int:
    note("start", ref)
    note("end", ref)
    return os.getpid()


async def serve(name: str) -> None:
    async with jobs.worker():
        note("up")
        handles = [await quick.enqueue(f"{name}-{number}") for number in range(20)]
        handles += await jobs.enqueue_many(quick.bind(f"{name}-{number}") for number in range(20, PER_PROCESS))
        for handle in handles:
            await handle.result(timeout=30)
        while not Path("stop").exists():
            await asyncio.sleep(0.02)


note("given", quick.enqueue_sync("before").id)
children = []
for number in range(4):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            asyncio.run(serve(f"child{number}"))
            code = 0
        except BaseException:
            traceback.print_exc()
        sys.stderr.flush()
        os._exit(code)
    children.append(pid)
note("given", quick.enqueue_sync("after").id)
failed = sum(os.waitpid(pid, 0)[1] != 0 for pid in children)
note("given", quick.enqueue_sync("last").id)
print("failed:", failed)
sys.exit(1 if failed else 0)
