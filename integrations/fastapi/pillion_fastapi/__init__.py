"""Pillion for FastAPI: `Jobs` with a lifespan, health routes, and injection through `Depends`."""

from pillion_fastapi.handle import Enqueue, EnqueueSync, enqueue, enqueue_sync
from pillion_fastapi.jobs import Jobs

__all__ = ["Enqueue", "EnqueueSync", "Jobs", "enqueue", "enqueue_sync"]
