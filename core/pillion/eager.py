"""Tasks that take their first step at once, where Python can (3.12): a turn of the loop less on the hot path."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from contextvars import Context
from typing import Any, Final, TypeVar

T = TypeVar("T")
EAGER: Final = sys.version_info >= (3, 12)


def start(
    run: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop, context: Context | None = None
) -> asyncio.Task[T]:
    """A task of `loop`, which is running; the caller keeps the reference. No task factory: only ours start so."""
    if EAGER:
        return asyncio.Task(run, loop=loop, context=context, eager_start=True)  # type: ignore[call-arg,unused-ignore]
    return asyncio.Task(run, loop=loop, context=context)
