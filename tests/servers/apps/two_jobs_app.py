"""The same app with a second `Jobs` on a database of its own, nested around the first one's lifespan."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Body, FastAPI
from servers_app import app

from ledger import note
from pillion_fastapi import Jobs

__all__ = ["app"]

others = Jobs("sqlite:///others.db", prefix=None)
inner = app.router.lifespan_context


@others.task
async def other(ref: str, seconds: float) -> None:
    note("start", ref)
    await asyncio.sleep(seconds)
    note("end", ref)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with others.lifespan(app), inner(app):
        yield


app.router.lifespan_context = lifespan


@app.post("/other/{ref}", status_code=202)
async def enqueue_other(ref: str, args: Annotated[dict[str, Any], Body()]) -> dict[str, str]:
    job = await other.enqueue(ref, **args)
    return {"id": job.id}
