"""One client and one engine for routes and jobs alike: as resources (the advice), and at module level (the mistake)."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import httpx
from fastapi import Depends, FastAPI
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from pillion_fastapi import Jobs

jobs = Jobs(concurrency=40)
DATABASE = f"sqlite+aiosqlite:///{os.environ['CROSSING_DB']}"
module_client = httpx.AsyncClient()
module_engine = create_async_engine(DATABASE)


@jobs.resource
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient() as client:
        yield client


@jobs.resource
async def engine() -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(DATABASE)
    yield engine
    await engine.dispose()


async def use(client: httpx.AsyncClient, engine: AsyncEngine, origin: str) -> int:
    answer = (await client.get(f"{origin}/number", timeout=20)).json()
    async with engine.connect() as connection:
        return int(answer) + int((await connection.execute(text("SELECT 1"))).scalar_one())


@jobs.task
async def in_job(origin: str, client: httpx.AsyncClient = Depends(http), engine: AsyncEngine = Depends(engine)) -> int:
    return await use(client, engine, origin)


@jobs.task(max_attempts=1)
async def in_job_with_globals(origin: str) -> int:
    return await use(module_client, module_engine, origin)


app = FastAPI(lifespan=jobs.lifespan)


@app.get("/number")
async def number() -> int:
    return 41


@app.get("/use")
async def in_route(
    origin: str, client: httpx.AsyncClient = Depends(http), engine: AsyncEngine = Depends(engine)
) -> int:
    return await use(client, engine, origin)


@app.post("/jobs-that-use")
async def start(origin: str, count: int) -> list[str]:
    return [job.id for job in await jobs.enqueue_many(in_job.bind(origin) for _ in range(count))]


@app.get("/result/{job_id}")
async def result(job_id: str) -> int:
    job = await jobs.get(job_id)
    assert job is not None
    return int(await job.result(timeout=20))
