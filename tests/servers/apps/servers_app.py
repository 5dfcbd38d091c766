"""The app that the server tests start: FastAPI on whatever store and settings the environment names."""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Body, Depends, FastAPI
from starlette.responses import StreamingResponse

from ledger import listen, note
from pillion_fastapi import Enqueue, Jobs, enqueue

listen()
jobs = Jobs()

# A later server on the same jobs need not wait as long as the first one did.
_LONGEST = float(os.environ.get("LONGEST_NAP", "inf"))


# -- tasks: each tells the ledger when it starts and when it ends ------------------------------------------------------


@jobs.task
async def quick(ref: str) -> None:
    note("start", ref)
    note("end", ref)


@jobs.task
def quick_def(ref: str) -> None:
    note("start", ref)
    note("end", ref)


@jobs.task
async def nap(ref: str, seconds: float) -> int:
    note("start", ref)
    await asyncio.sleep(min(seconds, _LONGEST))
    note("end", ref)
    return os.getpid()


@jobs.task
def nap_def(ref: str, seconds: float) -> int:
    note("start", ref)
    time.sleep(min(seconds, _LONGEST))
    note("end", ref)
    return os.getpid()


@jobs.task(loop="app")
async def nap_app(ref: str, seconds: float) -> int:
    note("start", ref)
    await asyncio.sleep(min(seconds, _LONGEST))
    note("end", ref)
    return os.getpid()


@jobs.task
async def block(ref: str, seconds: float) -> None:
    """What should not be done in `async def`, and is."""
    note("start", ref)
    time.sleep(min(seconds, _LONGEST))
    note("end", ref)


@jobs.task
async def stubborn(ref: str, seconds: float) -> None:
    """Swallows its first cancellation."""
    note("start", ref)
    try:
        await asyncio.sleep(min(seconds, _LONGEST))
    except asyncio.CancelledError:
        note("swallowed", ref)
        await asyncio.sleep(min(seconds, _LONGEST))
    note("end", ref)


@jobs.task
def compute(ref: str, rounds: int) -> None:
    note("start", ref)
    total = 0
    for number in range(rounds):
        total += number * number
    note("end", ref)


@jobs.task
async def kill_process(ref: str, after: float) -> None:
    note("start", ref)
    await asyncio.sleep(after)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    note("abort", ref)
    os.abort()


@jobs.task
def hold_gil_once(ref: str, seconds: float, marker: str) -> None:
    """The first run keeps the interpreter's lock, as a C extension may; the next one finds the marker and ends."""
    note("start", ref)
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        note("end", ref)
        return
    ctypes.PyDLL(None).sleep(int(seconds))
    note("end", ref)


@jobs.task
def fork_child(ref: str, seconds: float) -> None:
    """Leaves a forked child behind that outlives this process's worker."""
    pid = os.fork()
    if pid == 0:
        time.sleep(seconds)
        os._exit(0)
    note("forked", ref, child=pid)


@jobs.task(max_attempts=5)
async def nap_five(ref: str, seconds: float) -> int:
    note("start", ref)
    await asyncio.sleep(min(seconds, _LONGEST))
    note("end", ref)
    return os.getpid()


@jobs.task(max_attempts=2)
async def nap_two(ref: str, seconds: float) -> int:
    note("start", ref)
    await asyncio.sleep(min(seconds, _LONGEST))
    note("end", ref)
    return os.getpid()


TASKS: dict[str, Any] = {
    task.name.rpartition(".")[2]: task
    for task in (
        quick, quick_def, nap, nap_def, nap_app, nap_five, nap_two, block, stubborn, compute, kill_process,
        hold_gil_once, fork_child,
    )
}  # fmt: skip


# -- the app -----------------------------------------------------------------------------------------------------------

_HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def _handlers() -> list[str]:
    return [repr(signal.getsignal(number)) for number in _HANDLED]


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    before = _handlers()
    async with jobs.lifespan(app):
        note("up")
        yield
    note("down", same_handlers=_handlers() == before)


app = FastAPI(lifespan=lifespan)


@app.get("/ping")
async def ping() -> dict[str, int]:
    return {"pid": os.getpid()}


@app.get("/ping-def")
def ping_def() -> dict[str, int]:
    return {"pid": os.getpid()}


@app.post("/one/{name}/{ref}", status_code=202)
async def one(
    name: str, ref: str, enqueue: Annotated[Enqueue, Depends(enqueue)], args: Annotated[dict[str, Any], Body()]
) -> dict[str, str]:
    began = time.monotonic()
    job = await enqueue(TASKS[name], ref, **args)
    note("enqueued", ref, took=time.monotonic() - began)
    return {"id": job.id}


@app.post("/late/{name}/{ref}", status_code=202)
async def late(
    name: str, ref: str, enqueue: Annotated[Enqueue, Depends(enqueue)], args: Annotated[dict[str, Any], Body()]
) -> dict[str, str]:
    note("asked", ref)
    await asyncio.sleep(1)
    job = await enqueue(TASKS[name], ref, **args)
    return {"id": job.id}


@app.post("/many/{name}", status_code=202)
async def many(
    name: str, refs: Annotated[list[str], Body()], args: Annotated[dict[str, Any], Body()]
) -> dict[str, list[str]]:
    handles = await jobs.enqueue_many(TASKS[name].bind(ref, **args) for ref in refs)
    return {"ids": [job.id for job in handles]}


@app.post("/keyed/{name}/{ref}", status_code=202)
async def keyed(name: str, ref: str, key: str, args: Annotated[dict[str, Any], Body()]) -> dict[str, Any]:
    job = await TASKS[name].options(unique_key=key).enqueue(ref, **args)
    return {"id": job.id, "created": job.created}


@app.post("/cancel/{job_id}")
async def cancel(job_id: str) -> dict[str, bool]:
    job = await jobs.get(job_id)
    assert job is not None
    return {"cancelled": await job.cancel()}


@app.get("/result/{job_id}")
async def result(job_id: str, timeout: float) -> dict[str, Any]:
    job = await jobs.get(job_id)
    assert job is not None
    return {"result": await job.result(timeout=timeout)}


@app.get("/stream")
async def stream(until: str) -> StreamingResponse:
    """A stream that ends when a file of that name appears; not with the server, and not with its client."""

    async def numbers() -> AsyncIterator[bytes]:
        while not os.path.exists(until):
            yield b"on\n"
            await asyncio.sleep(0.05)

    return _Deaf(numbers(), media_type="text/plain")


class _Deaf(StreamingResponse):
    """Does not listen for `http.disconnect`, as a hand-written stream may."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.stream_response(send)
