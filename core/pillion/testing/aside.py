"""Clean-up from wherever a test stands."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final

_LIMIT: Final = 10.0  # seconds


def run_aside(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run `work` on a loop of its own in a thread, so that the caller's loop is left alone. Bounded."""
    thread = threading.Thread(target=lambda: asyncio.run(work()), name="pillion-test-close", daemon=True)
    thread.start()
    thread.join(_LIMIT)
