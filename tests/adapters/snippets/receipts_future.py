# ruff: noqa: I001, PIE790
# fmt: off
from __future__ import annotations

# app.py: FastAPI
from collections.abc import AsyncIterator
from typing import Annotated

import httpx
from fastapi import Depends, FastAPI
from pillion_fastapi import Enqueue, Jobs, enqueue

jobs = Jobs("sqlite:///jobs.db")            # or postgresql://…, redis://…, memory://

@jobs.resource                              # opened once per event loop, closed with it; serves routes and jobs alike
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient() as client:
        yield client

@jobs.task(max_attempts=5, timeout=30)
async def send_receipt(order_id: int, client: httpx.AsyncClient = Depends(http)) -> str:
    ...
    return f"receipt for {order_id}"

app = FastAPI(lifespan=jobs.lifespan)       # starts and drains the worker, answers /jobs/health

@app.post("/orders/{order_id}/receipt", status_code=202)
async def receipt(order_id: int, enqueue: Annotated[Enqueue, Depends(enqueue)]) -> dict[str, str]:
    job = await enqueue(send_receipt, order_id)
    return {"job": job.id}
