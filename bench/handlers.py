"""What the jobs do: the same functions for every system."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

HELD_S = 600.0  # how long a job of the rescue measure runs; its process is killed long before


@dataclass(frozen=True)
class Handlers:
    """Plain functions that a system registers as its tasks."""

    noop_async: Callable[[int], Coroutine[Any, Any, None]]
    noop_def: Callable[[int], None]
    hold_async: Callable[[int], Coroutine[Any, Any, None]]
    hold_def: Callable[[int], None]
    block: Callable[[int, float], Coroutine[Any, Any, None]]


def handlers(mark: Callable[[int], None]) -> Handlers:
    """Handlers that call `mark` with the job's number when they start."""

    async def noop_async(job: int) -> None:
        mark(job)

    def noop_def(job: int) -> None:
        mark(job)

    async def hold_async(job: int) -> None:
        mark(job)
        await asyncio.sleep(HELD_S)

    def hold_def(job: int) -> None:
        mark(job)
        time.sleep(HELD_S)

    async def block(job: int, seconds: float) -> None:
        mark(job)
        time.sleep(seconds)  # an async job that blocks its loop: the mistake that is measured

    return Handlers(noop_async, noop_def, hold_async, hold_def, block)
