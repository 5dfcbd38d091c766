"""Helpers for tests of apps that use Pillion. `Jobs.testing` is the way in; importing this needs no test framework.

>>> import asyncio
>>> from pillion import Jobs
>>> jobs = Jobs()
>>> @jobs.task(name="add")
... async def add(a: int, b: int) -> int:
...     return a + b
>>> async def test_adding() -> int:
...     async with jobs.testing.override("memory://", run="inline"):
...         job = await add.enqueue(1, 2)
...         return await job.result()
>>> asyncio.run(test_adding())
3

Writers of stores find the store contract, as tests, in `pillion.testing.contract`.
"""

from pillion.clock import ManualClock
from pillion.testing.capture import Capture, Captured
from pillion.testing.clocks import RunningClock
from pillion.testing.front import Testing

__all__ = ["Capture", "Captured", "ManualClock", "RunningClock", "Testing"]
