"""What handles and tasks ask of the store, on behalf of one `Jobs`."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from pillion.announce import be_seen
from pillion.errors import EnqueueUnknown, ResultTimeout, StoreAway, StoreContended, StoreError
from pillion.inject import Injector
from pillion.inject.solve import Overrides
from pillion.job import Job
from pillion.model import FINAL, Enqueued, JobRow, NewJob
from pillion.policy.retention import Retention
from pillion.process import Process
from pillion.resource import LoopResources
from pillion.store.base import Hint, Link

if TYPE_CHECKING:
    from pillion.task import Bound, Task
    from pillion.worker.runtime import Runtime

_READ_DEADLINE: Final = 5.0  # seconds for a read or a cancel
_PAUSE: Final = 0.05  # seconds between tries of a read
T = TypeVar("T")
log = logging.getLogger("pillion")
Send = Callable[[Sequence[NewJob]], Awaitable[list[Enqueued]]]
Stored = Callable[[Sequence[NewJob]], Awaitable[Mapping[str, JobRow]]]


class Desk:
    """Enqueue, read, wait and cancel, from any loop."""

    def __init__(
        self,
        process: Callable[[], Process],
        runtime: Callable[[], Runtime | None],
        tasks: Mapping[str, Task[..., Any]],
        injector: Injector,
        retention: Retention,
        poll_interval: float,
    ) -> None:
        self._process = process
        self._runtime = runtime
        self._tasks = tasks
        self.injector = injector
        self.overrides: Callable[[], Overrides] = dict  # replacements of dependencies; adapters and tests set it
        self._retention = retention
        self.started: Callable[[], bool] = lambda: False  # did a lifespan of ours run in this process?
        self._poll_interval = poll_interval
        self.send: Send = self._send  # how jobs reach the store; tests look over its shoulder
        self.stored: Stored | None = None  # awaited with new jobs, gives rows for their handles; for tests

    # -- injection -----------------------------------------------------------------------------------------

    def loop_resources(self) -> LoopResources:
        """The resources of the running loop; on a loop that is not ours they are closed with it."""
        process = self._process()
        scope = process.scope()
        if scope.users == 0:
            scope.keep_soon(process.close_scope)
        return scope.resources

    async def inject(self, task: Task[..., Any], stack: AsyncExitStack, resources: LoopResources) -> dict[str, Any]:
        """Values of a task's injected parameters for one run; closed with `stack`."""
        return await self.injector.solve(task.plan, stack, resources, self.overrides())

    # -- jobs ------------------------------------------------------------------------------------------------

    async def enqueue_bound(self, bounds: Sequence[Bound[Any]]) -> list[Job[Any]]:
        """Store the jobs, all or none; handles in the same order."""
        news = [bound.new for bound in bounds]
        try:
            answers = await self.send(news)
        except EnqueueUnknown as error:
            error.job = Job(self, news[0].id, news[0].task, new=news[0], group=news)
            raise
        self._tell_timers(news)
        await self._warn_if_nobody_works()
        rows = await self._holders([answer.holder for answer in answers if answer.holder is not None])
        if self.stored is not None:
            rows |= await self.stored([new for new, answer in zip(news, answers, strict=True) if answer.created])
        jobs: list[Job[Any]] = []
        for new, answer in zip(news, answers, strict=True):
            if answer.holder is not None:
                jobs.append(Job(self, answer.holder, new.task, created=False, row=rows.get(answer.holder)))
            else:
                jobs.append(Job(self, new.id, new.task, created=answer.created, new=new, row=rows.get(new.id)))
        return jobs

    def enqueue_bound_sync(self, bounds: Sequence[Bound[Any]]) -> list[Job[Any]]:
        """`enqueue_bound` for def code; raises on a running loop."""

        async def work() -> list[Job[Any]]:
            return await self.enqueue_bound(bounds)

        return self._process().run_blocking(
            work, timeout=None, instead="await task.enqueue(…) or await enqueue(task, …)"
        )

    async def _holders(self, ids: Sequence[str]) -> dict[str, JobRow]:
        """Those who hold a unique key, as they are: their handles are not to show the newcomer's state."""
        if not ids:
            return {}
        with suppress(StoreError):
            return {row.id: row for row in await self._bounded(lambda link: link.get(ids))}
        return {}

    async def _warn_if_nobody_works(self) -> None:
        """Say once a process that jobs are stored which nothing runs: the usual slip is a lifespan left out."""
        process = self._process()
        if process.looked_for_workers or self.started() or self.stored is not None:
            return
        process.looked_for_workers = True
        with suppress(StoreError):
            link = await (await process.borrowed()).client.link()
            if not any(not worker.dead and not worker.lapsed for worker in await link.workers()):
                be_seen()
                log.warning(
                    "a job is stored, but no process runs jobs of %s now: start one with lifespan=jobs.lifespan in the "
                    "app, or `async with jobs.worker():` in a program of its own",
                    process.store.label,
                )

    def _tell_timers(self, news: Sequence[NewJob]) -> None:
        runtime = self._runtime()
        if runtime is None:
            return
        now_us = time.time_ns() // 1000
        delays = {
            new.delay_us if new.due_us is None else max(new.due_us - now_us, 0)
            for new in news
            if new.due_us is not None or new.delay_us > 0
        }
        for delay in sorted(delays)[:100]:
            runtime.scheduled_in(delay)

    async def read(self, job_id: str) -> JobRow | None:
        """The job's row, or None. Raises `StoreAway` if the store does not answer in time."""
        rows = await self._bounded(lambda link: link.get([job_id]))
        return rows[0] if rows else None

    async def cancel(self, job_id: str) -> str | None:
        """The job's state afterwards; None if it is not known."""
        states = await self._bounded(lambda link: link.cancel([job_id], self._retention.keep_us("cancelled")))
        self._process().waits.ended([job_id])
        return states.get(job_id)

    async def store_again(self, news: Sequence[NewJob]) -> Enqueued:
        """Repeat an enqueue under its ids. The answer for the first."""
        answers = await self.send(news)
        if self.stored is not None:
            await self.stored([new for new, answer in zip(news, answers, strict=True) if answer.created])
        return answers[0]

    async def _send(self, news: Sequence[NewJob]) -> list[Enqueued]:
        scope = await self._process().borrowed()
        return await scope.client.enqueue(news)

    async def wait_end(self, job_id: str, timeout: float | None) -> JobRow:
        """The row of the ended job. Raises `ResultTimeout`, `LookupError` or `Draining`."""
        process = self._process()
        deadline = None if timeout is None else time.monotonic() + timeout
        scope = await process.borrowed()
        while True:
            ended = process.waits.add(job_id)
            link: Link | None = None
            state = "the store could not be asked"
            try:
                with suppress(StoreAway, StoreContended):
                    link = await scope.client.link()
                    await scope.listen(self._on_hint)
                    link.waiting(True)
                    states = await link.states([job_id])
                    if job_id not in states:
                        raise LookupError(f"job {job_id} is not in the store: it was pruned, or never stored")
                    state = f"it is {states[job_id]}"
                    if states[job_id] in FINAL and (rows := await link.get([job_id])):
                        return rows[0]
                pause = self._poll_interval * (0.9 + 0.2 * random.random())
                if deadline is not None:
                    pause = min(pause, deadline - time.monotonic())
                    if pause <= 0:
                        raise ResultTimeout(
                            f"job {job_id} had not ended after {timeout:g} s ({state}); it is left alone"
                        )
                with suppress(TimeoutError):
                    await asyncio.wait_for(ended, pause)
            finally:
                process.waits.drop(job_id, ended)
                if link is not None:
                    link.waiting(bool(process.waits))

    def _on_hint(self, hint: Hint) -> None:
        if hint == "ended":
            self._process().waits.look_again()

    def decode_result(self, task: str, text: str | None) -> Any:
        """By the task's return annotation; as plain JSON for a task that this process does not know."""
        known = self._tasks.get(task)
        if known is not None:
            return known.codec.decode_result(text)
        return None if text is None else msgspec.json.decode(text)

    async def _bounded(self, call: Callable[[Link], Awaitable[T]]) -> T:
        """`call` on this loop's link, repeated while the store is away, five seconds at most."""
        scope = await self._process().borrowed()
        deadline = time.monotonic() + _READ_DEADLINE
        while True:
            try:
                async with asyncio.timeout(max(deadline - time.monotonic(), 0.001)):
                    return await call(await scope.client.link())
            except (StoreAway, StoreContended, TimeoutError) as error:
                if time.monotonic() + _PAUSE >= deadline:
                    raise StoreAway(f"the store did not answer within {_READ_DEADLINE:g} s: try again later") from error
            await asyncio.sleep(_PAUSE)
