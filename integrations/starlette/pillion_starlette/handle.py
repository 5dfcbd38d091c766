"""The checked way to enqueue, with the line that Starlette users have to add."""

from __future__ import annotations

from typing import ClassVar

from pillion.adapter import Enqueue as _Enqueue
from pillion.adapter import EnqueueSync as _EnqueueSync


class Enqueue(_Enqueue):
    """``enqueue = Enqueue()``, then ``await enqueue(task, *args)``."""

    __slots__ = ()
    line: ClassVar[str] = "app = Starlette(lifespan=jobs.lifespan)"


class EnqueueSync(_EnqueueSync):
    """``enqueue_sync = EnqueueSync()``, then ``enqueue_sync(task, *args)``, in ``def`` routes."""

    __slots__ = ()
    line: ClassVar[str] = "app = Starlette(lifespan=jobs.lifespan)"
