"""How far is it? The client asks with the id of the job that its upload was given."""

from contextlib import suppress
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query
from pillion import Draining, JobFailed, ResultTimeout
from pydantic import BaseModel

import storage
from jobs import jobs
from tasks import Thumbnails

router = APIRouter(prefix="/status", tags=["status"])


class Status(BaseModel):
    state: str  # scheduled, queued, running, succeeded, failed, cancelled
    attempts: int
    thumbnails: list[str] = []
    webhook: str | None = None  # the state of the job that sends it, then "arrived"
    error: str | None = None


@router.get("/{job_id}")
async def status(job_id: str, wait: Annotated[float, Query(ge=0, le=30)] = 0) -> Status:
    """The state now; with `wait`, as soon as the job has ended, or after so many seconds."""
    job = await jobs.get(job_id)
    if job is None:
        raise HTTPException(404, "no such job")
    if wait and not job.done:
        with suppress(ResultTimeout, JobFailed, Draining):
            await job.result(timeout=wait)
        await job.refresh()
    found = Status(state=job.state, attempts=job.attempts, error=job.error.message if job.error else None)
    if job.state == "succeeded":
        made: Thumbnails = await job.result()
        sending = await jobs.get(made.webhook_job)
        found.thumbnails = [f"/photos/{made.photo}/{size}.webp" for size in made.sizes]
        found.webhook = "arrived" if storage.told(made.photo).exists() else sending.state if sending else None
    return found
