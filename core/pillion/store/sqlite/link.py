"""One event loop's connection to the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from pillion.errors import StoreData
from pillion.host import boot_id
from pillion.model import (
    Claim,
    Enqueued,
    Exchanged,
    Held,
    JobRow,
    NewJob,
    Orders,
    QueueRow,
    Report,
    Rescue,
    Settlement,
    Want,
    WorkerInfo,
    WorkerRow,
)
from pillion.store.base import Hint
from pillion.store.sqlite import claims, fleet, jobs, upkeep
from pillion.store.sqlite.desk import Desk, Operation
from pillion.store.sqlite.enqueue import check_jobs, check_text, enqueue
from pillion.store.sqlite.hints import Listener
from pillion.store.sqlite.siblings import sort_of

if TYPE_CHECKING:
    from pillion.store.sqlite.store import SqliteStore

T = TypeVar("T")


class SqliteLink:
    """See `pillion.store.base.Link`. Each call is an operation for the process's writer."""

    def __init__(self, store: SqliteStore, worker: str | None, index: int) -> None:
        self._store = store
        self._worker = worker
        self._index = index
        self._listeners: list[Listener] = []

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        if not jobs:
            return []
        check_jobs(jobs)
        operation = Operation(write=partial(enqueue, jobs=jobs), durable=True, weight=len(jobs))
        return await self._call("enqueue", operation)

    async def exchange(
        self, number: int, settled: Sequence[Settlement], want: Sequence[Want], only: Sequence[str] | None = None
    ) -> Exchanged:
        for item in settled:
            if item.result is not None or item.error is not None:
                check_text(f"result of job {item.seq}", item.result)
                check_text(f"error of job {item.seq}", item.error)
        step = claims.Exchange(self._name(), self._index, number, settled, want, only)
        weight = len(settled) + sum(row.slots for row in want)
        operation = Operation(write=step.write, peek=None if settled else step.peek, weight=weight)
        return await self._call("exchange", operation)

    async def held(self) -> list[Claim]:
        worker = self._name()
        return await self._call("held", Operation(peek=lambda desk: claims.held(desk, worker, self._index)))

    async def join(self, info: WorkerInfo) -> None:
        await self._call("join", Operation(write=lambda desk: fleet.join(desk, info)))
        self._store.signals.hub.set_sort(sort_of(info.queues))

    async def leave(self, worker: str) -> bool:
        return await self._call("leave", Operation(write=lambda desk: fleet.leave(desk, worker)))

    async def beat(self, worker: str, report: Report) -> Orders:
        check_text("health report", report.health)
        operation = Operation(write=lambda desk: fleet.beat(desk, worker, report), urgent=True)
        return await self._call("beat", operation)

    async def condemn(self, worker: str, by: str | None) -> bool:
        operation = Operation(
            peek=lambda desk: fleet.condemned(desk, worker),
            write=lambda desk: fleet.condemn(desk, worker, by),
        )
        return await self._call("condemn", operation)

    async def orphans(self, limit: int) -> list[Held]:
        return await self._call("orphans", Operation(peek=lambda desk: fleet.orphans(desk, limit)))

    async def rescue(self, decisions: Sequence[Rescue]) -> int:
        if not decisions:
            return 0
        operation = Operation(write=lambda desk: fleet.rescue(desk, decisions), weight=len(decisions))
        return await self._call("rescue", operation)

    async def promote(self, limit: int) -> int:
        operation = Operation(peek=upkeep.nothing_due, write=lambda desk: upkeep.promote(desk, limit), weight=limit)
        return await self._call("promote", operation)

    async def prune(self, limit: int) -> int:
        operation = Operation(peek=upkeep.nothing_prunable, write=lambda desk: upkeep.prune(desk, limit), weight=limit)
        return await self._call("prune", operation)

    async def tasks(self, known: Sequence[str]) -> list[str]:
        operation = Operation(
            peek=lambda desk: upkeep.known_tasks(desk, known), write=lambda desk: upkeep.tasks(desk, known)
        )
        return await self._call("tasks", operation)

    async def get(self, ids: Sequence[str]) -> list[JobRow]:
        return await self._read("get", lambda desk: jobs.get(desk, ids))

    async def states(self, ids: Sequence[str]) -> dict[str, str]:
        return await self._call("states", Operation(peek=lambda desk: jobs.states(desk, ids)))

    async def cancel(self, ids: Sequence[str], keep_us: int | None) -> dict[str, str]:
        operation = Operation(
            peek=lambda desk: jobs.uncancellable(desk, ids),
            write=lambda desk: jobs.cancel(desk, ids, keep_us),
            weight=len(ids),
        )
        return await self._call("cancel", operation)

    async def workers(self) -> list[WorkerRow]:
        return await self._call("workers", Operation(peek=lambda desk: fleet.workers(desk, boot_id())))

    async def queues(self, cap: int) -> list[QueueRow]:
        return await self._read("queues", lambda desk: jobs.queues(desk, cap))

    def hints(self) -> AsyncIterator[Hint]:
        listener = Listener(asyncio.get_running_loop())
        self._listeners.append(listener)
        self._store.signals.listen(listener)
        return listener

    def idle(self, idle: bool) -> None:
        self._store.signals.hub.set_idle(self, idle)

    def waiting(self, waiting: bool) -> None:
        self._store.signals.hub.set_waiting(self, waiting)

    async def aclose(self) -> None:
        self.idle(False)
        self.waiting(False)
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            self._store.signals.unlisten(listener)

    def _name(self) -> str:
        if self._worker is None:
            raise StoreData("a client's link claims nothing; make the link with a worker's id")
        return self._worker

    async def _read(self, name: str, read: Callable[[Desk], T]) -> T:
        """A read of several statements that see the same moment."""
        return await self._call(name, Operation(peek=partial(_snapshot, read)))

    async def _call(self, name: str, operation: Operation[T]) -> T:
        checkpoint = self._store.checkpoint
        if checkpoint is None:
            return await self._store.submit(operation)
        await checkpoint(f"{name}.before")
        answer = await self._store.submit(operation)
        await checkpoint(f"{name}.after")
        return answer


def _snapshot(read: Callable[[Desk], T], desk: Desk) -> T:
    desk.connection.execute("BEGIN")
    try:
        return read(desk)
    finally:
        if desk.connection.in_transaction:
            desk.connection.execute("COMMIT")
