# ruff: noqa: I001
# fmt: off
from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adapters.snippets.receipts import http, jobs, send_receipt
from httpx import AsyncClient
from pillion_fastapi import Enqueue

from pillion import Job


async def anywhere(enqueue: Enqueue, ids: Iterable[int]) -> list[Job[str]]:
    job = await send_receipt.enqueue(7)                               # typed by the task's own signature
    batch = await jobs.enqueue_many(send_receipt.bind(i) for i in ids)
    later = await send_receipt.options(delay=60, priority=5, unique_key="receipt:7").enqueue(7)
    same = await enqueue(send_receipt.options(delay=60), 7)           # the same through the injected handle
    text: str = await job.result(timeout=10)                          # str; push-driven, not a poll loop
    assert text == "receipt for 7"
    found: Job[Any] | None = await jobs.get(job.id)                   # or None
    assert found == job
    await job.refresh()
    told = (job.state, job.attempts, job.failures, job.losses, job.releases, job.error, job.created, len(job.history))
    assert told == ("succeeded", 1, 0, 0, 0, None, True, 1)
    assert await later.cancel()
    text = await send_receipt(7)                                      # calling a task runs the function, here and now
    client: AsyncClient = await http()
    assert text == await send_receipt(7, client)
    return [job, *batch, later, same]


def from_def_code() -> Job[str]:
    return send_receipt.enqueue_sync(7)                               # from def code and scripts


async def without_a_web_server() -> str:
    async with jobs.worker():
        job = await send_receipt.enqueue(8)
        return await job.result(timeout=10)


async def only_the_store() -> bool:
    async with jobs.client():
        return (await send_receipt.enqueue(9)).created
