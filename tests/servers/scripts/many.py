"""COUNT forked processes, let loose at the same moment on one database, each with a worker; ROUNDS times over.

many.py COUNT ROUNDS CYCLES CONCURRENCY: with ROUNDS > 1 each round has a database of its own (a race to create it).
Each process enqueues CYCLES jobs, a quarter of them one by one, and goes on until the file `stop` appears (or, with
ROUNDS > 1, until its own jobs have ended).
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from ledger import note
from pillion import Job, Jobs

COUNT, ROUNDS, CYCLES, CONCURRENCY = map(int, sys.argv[1:])
AT_ONCE = 25


async def serve(url: str, prefix: str) -> None:
    jobs = Jobs(url, concurrency=CONCURRENCY)

    @jobs.task(name="servers_app.nap")
    async def nap(ref: str, seconds: float) -> None:
        note("start", ref)
        if seconds:
            await asyncio.sleep(seconds)
        note("end", ref)

    took: list[float] = []

    async def enqueue(number: int) -> Job[Any]:
        began = time.monotonic()
        job = await nap.enqueue(f"{prefix}-{number}", 0)
        took.append(time.monotonic() - began)
        return job

    async with jobs.worker():
        note("up")
        handles: list[Job[Any]] = [await enqueue(number) for number in range(CYCLES // 4)]
        for start in range(CYCLES // 4, CYCLES, AT_ONCE):
            handles += await asyncio.gather(*map(enqueue, range(start, min(start + AT_ONCE, CYCLES))))
        if took:
            took.sort()
            note("enqueued", prefix, worst=took[-1], p99=took[int(len(took) * 0.99)], median=took[len(took) // 2])
        if ROUNDS > 1:
            for handle in handles:
                await handle.result(timeout=30)
        else:
            while not Path("stop").exists():
                await asyncio.sleep(0.05)


def child(url: str, prefix: str, start: int) -> int:
    """Serve in a forked process as soon as a byte can be read from `start`; its pid."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.read(start, 1)
        asyncio.run(serve(url, prefix))
        code = 0
    except BaseException:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(code)


failed = 0
for turn in range(ROUNDS):
    url = os.environ["PILLION_URL"] if ROUNDS == 1 else f"sqlite:///race-{turn}.db"
    start, go = os.pipe()
    children = [child(url, f"r{turn}-p{number}", start) for number in range(COUNT)]
    os.write(go, b"g" * COUNT)
    failed += sum(os.waitpid(pid, 0)[1] != 0 for pid in children)
    os.close(go)
    os.close(start)
print("failed:", failed)
sys.exit(1 if failed else 0)
