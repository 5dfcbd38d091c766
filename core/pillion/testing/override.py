"""Putting another ground under a `Jobs` and taking it away again, from sync and async code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pillion.desk import Desk
from pillion.errors import ConfigurationError
from pillion.ground import Ground
from pillion.lifecycle import Lifecycle
from pillion.model import JobRow, NewJob
from pillion.process import Process
from pillion.registry import Registry
from pillion.testing.aside import run_aside
from pillion.testing.idle import Stagehand
from pillion.testing.staged import Staged

if TYPE_CHECKING:
    from pillion.testing.front import Testing


class Override:
    """``with`` and ``async with`` alike; made by `Testing.override`, to be entered once."""

    def __init__(
        self,
        build: Callable[[Ground], Staged],
        front: Testing,
        grounds: list[Ground],
        desk: Desk,
        lifecycle: Lifecycle,
        tasks: Registry,
    ) -> None:
        self._build = build
        self._front = front
        self._grounds = grounds
        self._desk = desk
        self._lifecycle = lifecycle
        self._tasks = tasks
        self._staged: Staged | None = None
        self._runs: set[asyncio.Task[Any]] = set()

    def __enter__(self) -> Testing:
        if self._lifecycle.entered:
            raise ConfigurationError(
                "the lifespan (or a worker or client) of these jobs is open already: override them before it is "
                "entered, outside of `with TestClient(app)`"
            )
        if self._staged is not None:
            raise ConfigurationError("an override is entered once: call override() again")
        self._staged = staged = self._build(self._grounds[-1])
        self._store = staged.process().store
        staged.process().hold()  # jobs outlive the loops that enqueue them
        self._stagehand = Stagehand(staged, self._desk, self._lifecycle, self._tasks)
        self._before = self._desk.stored, self._desk.started
        self._desk.stored = self._stored
        if not staged.workers:
            self._desk.started = lambda: True  # jobs run here, lifespan or not
        self._grounds.append(staged)
        return self._front

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        process, left_open = self._take_away()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        scope = None if loop is None else process.scope_of(loop)
        run_aside(lambda: self._let_go(process, close=scope is None))
        if loop is not None and scope is not None:  # at its next turn, or when it ends
            self._runs.add(loop.create_task(process.close_scope(scope), name="pillion-test-close"))
        self._complain(left_open, error)

    async def __aenter__(self) -> Testing:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        process, left_open = self._take_away()
        scope = process.scope_of(asyncio.get_running_loop())
        if scope is not None:
            await process.close_scope(scope)
        await self._let_go(process, close=True)
        self._complain(left_open, error)

    async def _let_go(self, process: Process, *, close: bool) -> None:
        await process.unhold()
        if close:  # whatever loop ended without closing what it had
            await self._store.aclose()

    def _take_away(self) -> tuple[Process, bool]:
        """Restore what was before; what is to be closed, and whether some context of ours is still open."""
        staged = self._staged
        assert staged is not None
        if self._grounds[-1] is not staged:
            raise ConfigurationError("overrides end in the reverse order of their beginning")
        for run in self._runs:
            run.get_loop().call_soon_threadsafe(run.cancel)
        left_open = self._lifecycle.entered > 0
        self._grounds.pop()
        self._desk.stored, self._desk.started = self._before
        return staged.process(), left_open

    def _complain(self, left_open: bool, error: BaseException | None) -> None:
        if left_open and error is None:
            raise ConfigurationError(
                "the override ended while the lifespan of these jobs was still open: leave `with TestClient(app)` first"
            )

    async def _stored(self, news: Sequence[NewJob]) -> Mapping[str, JobRow]:
        staged = self._staged
        assert staged is not None
        staged.remember(news)
        if staged.run != "inline" or not news:
            return {}
        # A caller that gives up does not stop the job, as it would not in production.
        run = asyncio.get_running_loop().create_task(self._stagehand.run_inline(news), name="pillion-test-inline")
        self._runs.add(run)
        run.add_done_callback(self._runs.discard)
        return await asyncio.shield(run)
