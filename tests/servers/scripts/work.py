"""A worker without a web server: `jobs.worker()` under `asyncio.run`. The argument says what is done with signals."""

from __future__ import annotations

import asyncio
import signal
import sys
import time

from ledger import listen, note
from pillion import Jobs

listen()
jobs = Jobs()


@jobs.task(name="servers_app.nap")
async def nap(ref: str, seconds: float) -> None:
    note("start", ref)
    await asyncio.sleep(seconds)
    note("end", ref)


@jobs.task(name="servers_app.nap_def")
def nap_def(ref: str, seconds: float) -> None:
    note("start", ref)
    time.sleep(seconds)
    note("end", ref)


def _handler(stop: asyncio.Event) -> None:
    note("handled")
    stop.set()


async def main(how: str) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    if how == "own":
        signal.signal(signal.SIGTERM, lambda number, frame: loop.call_soon_threadsafe(_handler, stop))
    elif how == "loop":
        loop.add_signal_handler(signal.SIGTERM, _handler, stop)
    elif how == "ignore":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    before = signal.getsignal(signal.SIGTERM)
    async with jobs.worker():
        if how == "late":
            loop.add_signal_handler(signal.SIGTERM, _handler, stop)
            before = signal.getsignal(signal.SIGTERM)
        note("up")
        await stop.wait()
    note("down", same_handlers=signal.getsignal(signal.SIGTERM) == before)


asyncio.run(main(sys.argv[1]))
