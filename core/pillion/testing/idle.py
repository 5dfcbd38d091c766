"""Running what is due, in order, and waiting until nothing is left."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Final

from pillion.desk import Desk
from pillion.errors import JobFailed, NotStarted, PillionError
from pillion.lifecycle import Lifecycle
from pillion.model import Claim, JobRow, Kind, NewJob, QueueRow, Want
from pillion.registry import Registry
from pillion.store.base import Link
from pillion.testing.session import KINDS, Session
from pillion.testing.staged import Staged

log = logging.getLogger("pillion")

_TICK: Final = 0.02  # seconds between looks at what cannot tell: wishes, other sessions, the worker
_SHOWN: Final = 10_000  # jobs looked at by queue
_LIMIT: Final = 10_000  # attempts of one run: more is a job that enqueues itself without end

_Sort = tuple[str, Kind, bool]


class Line:
    """Ready jobs in one line over all queues and sorts: higher priority first, then first in, first out."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._heads: dict[_Sort, tuple[int, int, Claim]] = {}  # claimed, not started: the next of each sort

    async def next(self) -> Claim | None:
        """The next job, claimed; None: none is ready."""
        session = self._session
        sorts: list[_Sort] = [
            (queue, kind, suspect) for queue in session.queues for kind in KINDS for suspect in (False, True)
        ]
        claims = await session.claim([Want(*sort, 1) for sort in sorts if sort not in self._heads])
        if claims:
            priority = {row.id: row.priority for row in await session.link.get([claim.id for claim in claims])}
            for claim in claims:
                self._heads[claim.queue, claim.kind, claim.suspect] = (-priority[claim.id], claim.seq, claim)
        if not self._heads:
            return None
        sort = min(self._heads, key=lambda sort: self._heads[sort][:2])
        return self._heads.pop(sort)[2]

    async def give_up(self) -> None:
        """Hand back what was claimed and not started."""
        heads = [claim for _, _, claim in self._heads.values()]
        self._heads.clear()
        await self._session.hand_back(heads)


class Stagehand:
    """Runs the jobs of one override, or waits for its worker to do so."""

    def __init__(self, staged: Staged, desk: Desk, lifecycle: Lifecycle, tasks: Registry) -> None:
        self._staged = staged
        self._desk = desk
        self._lifecycle = lifecycle
        self._tasks = tasks

    async def run_inline(self, news: Sequence[NewJob]) -> Mapping[str, JobRow]:
        """Run each of `news` that is due to its first outcome; how all stand then, by id."""
        queues = self._staged.settings.queues
        async with Session(self._staged, self._desk, self._tasks) as session:
            for new in news:
                if new.queue in queues:
                    await self._run_one(session, new)
            rows = await session.link.get([new.id for new in news])
        self._surface(session)
        return {row.id: row for row in rows}

    async def run_due(self, *, advance: bool, deadline: float) -> None:
        """Run what is due, one after the other; with `advance` what is scheduled too."""
        async with Session(self._staged, self._desk, self._tasks) as session:
            line = Line(session)
            try:
                await self._run_line(session, line, advance, deadline)
            finally:
                await line.give_up()
        self._surface(session)

    async def await_worker(self, *, advance: bool, deadline: float) -> None:
        """Wait until the worker of this process has nothing left to do."""
        link = await self._link()
        self._revive()
        while True:
            await link.promote(1000)
            rows = await self._unfinished(link)
            if not rows:
                if not (advance and await self._move_on()):
                    return
                self._revive()
            elif self._lifecycle.runtime is None:
                raise NotStarted(
                    f"{_told(rows)}, and no worker runs in this process: enter the lifespan "
                    "(`with TestClient(app) as client:`, or `async with jobs.worker():`) and wait inside it"
                )
            elif time.monotonic() >= deadline:
                raise TimeoutError(f"the worker still has work: {_told(rows)}")
            else:
                await asyncio.sleep(_TICK / 2)

    async def tell_unserved(self) -> None:
        """Log what nobody here will ever run."""
        for row in await (await self._link()).queues(_SHOWN):
            if row.queued and row.queue not in self._staged.settings.queues:
                served = ", ".join(map(repr, self._staged.settings.queues))
                log.warning("%d × %s in queue %r: only %s are served here", row.queued, row.task, row.queue, served)
            elif row.queued and row.task not in self._tasks:
                log.warning("%d × %s: this process knows no such task", row.queued, row.task)

    # -- running ---------------------------------------------------------------------------------------------

    async def _run_one(self, session: Session, new: NewJob) -> None:
        wants = [Want(new.queue, new.kind, False, 1)]
        while True:
            claims = await session.claim(wants, [new.task])
            for claim in claims:
                run = session.start(claim)
                while not run.done():
                    await asyncio.wait({run}, timeout=_TICK)
                    if not run.done():
                        await session.hear_wishes()
                run.result()
                if claim.id == new.id:
                    return
            if not claims:
                state = (await session.link.states([new.id])).get(new.id)
                if state != "running":
                    return
                await asyncio.sleep(_TICK)  # another enqueue took it along

    async def _run_line(self, session: Session, line: Line, advance: bool, deadline: float) -> None:
        running: set[asyncio.Task[None]] = set()
        for _ in range(_LIMIT):
            claim = await line.next()
            while claim is None:
                if running:
                    running = await self._ended(session, running, deadline)
                elif any(row.running for row in await self._unfinished(session.link)):  # inline, under another enqueue
                    await self._check(session, deadline)
                    await asyncio.sleep(_TICK)
                elif advance and session.due_in_us is not None:
                    self._staged.clock.advance(session.due_in_us / 1e6)
                else:
                    return
                claim = await line.next()
            await session.hear_wishes()
            running.add(session.start(claim))
            running = await self._ended(session, running, deadline)
            await self._check(session, deadline)
        raise PillionError(f"{_LIMIT} jobs ran and there are more: is there one that enqueues itself without end?")

    async def _ended(
        self, session: Session, running: set[asyncio.Task[None]], deadline: float
    ) -> set[asyncio.Task[None]]:
        """Wait until all ended, or until one waits for the result of another, which is to run meanwhile."""
        while running:
            done, running = await asyncio.wait(running, timeout=_TICK, return_when=asyncio.FIRST_COMPLETED)
            for run in done:
                run.result()
            if not running or done:
                continue
            await self._check(session, deadline)
            await session.hear_wishes()
            if self._staged.process().waits:
                break
        return running

    async def _check(self, session: Session, deadline: float) -> None:
        """Raises `TimeoutError` if there is work left and no time."""
        if time.monotonic() >= deadline and (rows := await self._unfinished(session.link)):
            raise TimeoutError(f"not idle in time: {_told(rows)}")

    def _surface(self, session: Session) -> None:
        if not (self._staged.raise_errors and session.errors):
            return
        claim, error = session.errors[0]
        others = len(session.errors) - 1
        note = f"Raised by job {claim.id} of {claim.task}" + (f"; {others} more raised, see the log" if others else "")
        if isinstance(error, asyncio.CancelledError):
            raise JobFailed(f"{note}: its own code raised CancelledError") from error
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
        raise error

    # -- the worker ------------------------------------------------------------------------------------------

    async def _move_on(self) -> bool:
        """Move the clock to the next scheduled job. False: there is none."""
        async with Session(self._staged, self._desk, self._tasks) as session:
            await session.claim(())
        if session.due_in_us is None:
            return False
        self._staged.clock.advance(session.due_in_us / 1e6)
        return True

    def _revive(self) -> None:
        """After the clock moved the lease may look lapsed: beat at once instead of within a second."""
        runtime = self._lifecycle.runtime
        if runtime is not None:
            runtime.pulse.call(runtime.pulse.beat.soon)

    async def _link(self) -> Link:
        scope = await self._staged.process().borrowed()
        return await scope.client.link()

    async def _unfinished(self, link: Link) -> list[QueueRow]:
        """What runs, or is ready for somebody who serves what we serve."""
        return [
            row
            for row in await link.queues(_SHOWN)
            if row.running or (row.queued and row.queue in self._staged.settings.queues and row.task in self._tasks)
        ]


def _told(rows: Sequence[QueueRow]) -> str:
    counts: dict[str, Mapping[str, int]] = {row.task: {"running": row.running, "queued": row.queued} for row in rows}
    return "; ".join(
        f"{task} " + ", ".join(f"{count} {state}" for state, count in states.items() if count)
        for task, states in counts.items()
    )
