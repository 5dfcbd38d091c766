"""`Depends(enqueue)`: the one place to override where a test wants no queue."""

from __future__ import annotations

from typing import ClassVar, Final

from pillion.adapter import Enqueue as _Enqueue
from pillion.adapter import EnqueueSync as _EnqueueSync


class Enqueue(_Enqueue):
    """What ``Depends(enqueue)`` gives: ``await enqueue(task, *args)``."""

    __slots__ = ()
    line: ClassVar[str] = "app = FastAPI(lifespan=jobs.lifespan)"


class EnqueueSync(_EnqueueSync):
    """What ``Depends(enqueue_sync)`` gives: ``enqueue_sync(task, *args)``, in ``def`` routes."""

    __slots__ = ()
    line: ClassVar[str] = "app = FastAPI(lifespan=jobs.lifespan)"


_ENQUEUE: Final = Enqueue()
_ENQUEUE_SYNC: Final = EnqueueSync()


# Both are coroutine functions although they await nothing: FastAPI runs plain ones in its thread pool.
async def enqueue() -> Enqueue:
    """A dependency: the handle for ``async def`` routes. Override it with ``app.dependency_overrides[enqueue]``."""
    return _ENQUEUE


async def enqueue_sync() -> EnqueueSync:
    """A dependency: the handle for ``def`` routes, which run on a thread."""
    return _ENQUEUE_SYNC
