"""The processes under test: `python -m bench.child ROLE SYSTEM FOLDER LEDGER SIZE …`, started by the harness only.

A child says "ready" when all is imported and built, waits for a line, and then does its part. Producers print JSON.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import uvloop

from bench.handlers import handlers
from bench.ledger import Ledger
from bench.systems import system
from bench.systems.base import System, TaskName

_TOGETHER = 50


def _gate() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


async def _fill(under_test: System, task: TaskName, count: int) -> None:
    """Store the jobs that workers find."""
    async with under_test.client():
        await under_test.enqueue_many(task, range(count))


async def _enqueue(under_test: System, task: TaskName, way: str, count: int) -> dict[str, Any]:
    """Jobs a second, stored one by one, fifty at once, or in bulk; a few before the clock starts."""
    warm = min(_TOGETHER, count // 4)
    async with under_test.client():
        for job in range(warm):
            await under_test.enqueue(task, job)
        rest = range(warm, count)
        started = time.perf_counter()
        if way == "one":
            for job in rest:
                await under_test.enqueue(task, job)
        elif way == "fifty":
            for first in range(warm, count, _TOGETHER):
                batch = range(first, min(first + _TOGETHER, count))
                await asyncio.gather(*(under_test.enqueue_beside(task, job) for job in batch))
        else:
            await under_test.enqueue_many(task, rest)
        seconds = time.perf_counter() - started
    return {"per_s": len(rest) / seconds}


async def _pickup(under_test: System, task: TaskName, count: int, seed: int) -> dict[str, Any]:
    """Store jobs at random moments; when each enqueue was called and when it returned (CLOCK_MONOTONIC, ns)."""
    chance = random.Random(seed)
    called: list[int] = []
    returned: list[int] = []
    async with under_test.client():
        for job in range(count):
            await asyncio.sleep(chance.uniform(0.02, 0.08))
            called.append(time.monotonic_ns())
            await under_test.enqueue(task, job)
            returned.append(time.monotonic_ns())
        await asyncio.sleep(0.5)
    return {"called": called, "returned": returned}


def main(role: str, name: str, folder: str, ledger: str, size: str, *rest: str) -> None:
    """Play one role."""
    count = int(size)
    under_test = system(name)(Path(folder), handlers(Ledger(Path(ledger), count).marker()))
    task: Any = rest[0] if rest else "noop_def"
    _gate()
    if role == "worker":
        under_test.serve(task)  # here the kind
    elif role == "fill":
        uvloop.run(_fill(under_test, task, count))
    elif role == "enqueue":
        print(json.dumps(uvloop.run(_enqueue(under_test, task, rest[1], count))), flush=True)
    elif role == "pickup":
        print(json.dumps(uvloop.run(_pickup(under_test, task, count, int(rest[1])))), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
