"""Drives an ASGI app in this process: its lifespan as a server would run it, requests through httpx."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

import httpx

Message = MutableMapping[str, Any]
App = Callable[[Any, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]]

WAIT = 10.0  # seconds at most for anything that a test waits for


@asynccontextmanager
async def lifespan_of(app: Any) -> AsyncGenerator[None]:
    """Start `app`, and stop it at the exit. Raises what its start or stop raises."""
    inbox: asyncio.Queue[Message] = asyncio.Queue()
    outbox: asyncio.Queue[Message] = asyncio.Queue()
    scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
    running = asyncio.create_task(app(scope, inbox.get, outbox.put))

    async def step(kind: str) -> None:
        inbox.put_nowait({"type": f"lifespan.{kind}"})
        answer = asyncio.create_task(outbox.get())
        await asyncio.wait({answer, running}, timeout=WAIT, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            answer.cancel()
            assert running.done(), f"no answer to lifespan.{kind}"
            await running
        elif answer.result()["type"] != f"lifespan.{kind}.complete":
            await running
            raise AssertionError(answer.result()["message"])

    await step("startup")
    try:
        yield
    finally:
        await step("shutdown")
        await running


def client_of(app: Any, **options: Any) -> httpx.AsyncClient:
    """A client that speaks to `app` on the running loop; no lifespan runs for it."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(app=app, **options), base_url="http://app", timeout=WAIT)


@asynccontextmanager
async def served(app: Any) -> AsyncGenerator[httpx.AsyncClient]:
    """`app` as under a server: lifespan and client."""
    async with lifespan_of(app), client_of(app) as client:
        yield client


async def until(holds: Callable[[], Any | Awaitable[Any]], what: str = "it") -> Any:
    """Ask until `holds` gives something true, `WAIT` seconds at most; gives that."""
    deadline = asyncio.get_running_loop().time() + WAIT
    while True:
        value = holds()
        if isinstance(value, Awaitable):
            value = await value
        if value:
            return value
        assert asyncio.get_running_loop().time() < deadline, f"{what} did not come true in {WAIT:g} s"
        await asyncio.sleep(0.01)
