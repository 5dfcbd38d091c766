"""The queue, and what jobs and routes share."""

from collections.abc import AsyncIterator

import httpx
from pillion_fastapi import Jobs

# Without an argument: PILLION_URL, and without that sqlite:///jobs.db in the current folder.
jobs = Jobs()


@jobs.resource
async def http() -> AsyncIterator[httpx.AsyncClient]:
    """One client per event loop, with its pool of connections. `Depends(http)` gives it to a job or a route."""
    async with httpx.AsyncClient(timeout=10) as client:
        yield client
