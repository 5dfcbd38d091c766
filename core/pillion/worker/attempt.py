"""One run of one job in this process, and what has been asked of it meanwhile."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal

from pillion.model import Claim

if TYPE_CHECKING:
    from pillion.task import Task

Stop = Literal["timeout", "cancel", "drain", "lost"]

CURRENT: ContextVar[Attempt] = ContextVar("pillion_attempt")


class Attempt:
    """`stop` says why its code was asked to end; None: it was not."""

    __slots__ = ("begun", "claim", "coroutine", "loop", "since", "stop", "task", "thread", "timer", "worker")

    def __init__(self, claim: Claim, task: Task[..., Any], worker: str) -> None:
        self.claim = claim
        self.task = task
        self.worker = worker  # the id it was claimed under
        self.since = 0.0  # monotonic; when its code began on a thread; 0: it waits for one
        self.stop: Stop | None = None
        self.begun = False  # its coroutine has taken its first step
        self.loop: asyncio.AbstractEventLoop | None = None  # where its coroutine lives
        self.coroutine: asyncio.Task[None] | None = None  # None: runs in a thread, or did not start yet
        self.thread = False
        self.timer: asyncio.TimerHandle | None = None

    def ask(self, stop: Stop) -> None:
        """Ask the code to end, from its own loop. A thread cannot be stopped: it is only marked.

        A coroutine that has not begun is not cancelled: it would end without a settlement. It sees `stop` itself.
        """
        self.stop = stop
        if self.coroutine is not None and self.begun:
            self.coroutine.cancel()

    def ask_soon(self, stop: Stop) -> None:
        """`ask` from any thread."""
        if self.loop is None:
            self.ask(stop)
            return
        with suppress(RuntimeError):  # that loop is closed, and the coroutine with it
            self.loop.call_soon_threadsafe(self.ask, stop)

    def timed_out(self) -> None:
        """Its time is over; called by the loop's timer."""
        if self.stop is None:
            self.ask("timeout")
