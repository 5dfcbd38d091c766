"""Pillion for Starlette: `Jobs` with a lifespan and health routes."""

from pillion_starlette.handle import Enqueue, EnqueueSync
from pillion_starlette.jobs import Jobs

__all__ = ["Enqueue", "EnqueueSync", "Jobs"]
