"""Only type-checked: what the adapters give has the types that users build on."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, assert_type

from fastapi import APIRouter, Depends, FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount

import pillion_fastapi
import pillion_starlette
from pillion import Job

jobs = pillion_fastapi.Jobs("memory://", concurrency=3)
plain = pillion_starlette.Jobs("memory://")


def settings() -> dict[str, str]:
    return {}


@jobs.task
async def double(number: int, settings: dict[str, str] = Depends(settings)) -> int:
    return 2 * number


async def enqueueing(enqueue: pillion_fastapi.Enqueue, enqueue_sync: pillion_fastapi.EnqueueSync) -> None:
    assert_type(await enqueue(double, 1), Job[int])
    assert_type(await enqueue(double.options(delay=60), number=1), Job[int])
    assert_type(enqueue_sync(double, 1), Job[int])
    await enqueue(double, "one")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await enqueue(double)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    enqueue_sync(double, "one")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
    async with jobs.lifespan(app) as state:
        assert_type(state, None)
        yield


def apps() -> list[Any]:
    app = FastAPI(lifespan=jobs.lifespan)
    app.include_router(jobs.router(dependencies=[Depends(settings)]))
    app.include_router(APIRouter(lifespan=jobs.lifespan))
    return [
        app,
        FastAPI(lifespan=lifespan),
        Starlette(lifespan=plain.lifespan, routes=[Mount("/internal", routes=plain.routes())]),
    ]
