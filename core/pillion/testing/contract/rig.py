"""What the contract's tests stand on: stores on the same data, workers with a link each, and time that is moved."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final

from pillion.model import (
    Claim,
    Enqueued,
    Exchanged,
    Held,
    JobRow,
    Kind,
    NewJob,
    Orders,
    Report,
    Rescue,
    Settlement,
    Want,
    WorkerInfo,
)
from pillion.store.base import Link, Store

LEASE: Final = 15.0  # s, of the rig's workers


@contextmanager
def raises(kind: type[Exception]) -> Generator[None, None, None]:
    """The block must raise `kind`."""
    try:
        yield
    except kind:
        return
    raise AssertionError(f"did not raise {kind.__name__}")


def job(name: str, **options: Any) -> NewJob:
    """A job with the id `name`."""
    fields: dict[str, Any] = {"id": name, "task": "app.work", "args": '{"n":1}'}
    return NewJob(**fields | options)


def success(claim: Claim, **options: Any) -> Settlement:
    """The job of `claim` succeeded."""
    return _settlement(claim, {"outcome": "succeeded", "state": "succeeded"}, options)


def failure(claim: Claim, **options: Any) -> Settlement:
    """It failed for good."""
    return _settlement(claim, {"outcome": "failed", "state": "failed", "failures": 1, "error": '"boom"'}, options)


def later(claim: Claim) -> Settlement:
    """It failed, and is to run again in half a minute."""
    return retry(claim, 30.0)


def retry(claim: Claim, delay: float = 0.0, **options: Any) -> Settlement:
    """It failed, and is to run again: at once, or after `delay` seconds."""
    usual: dict[str, Any] = {"outcome": "retried", "state": "queued", "failures": 1, "error": '"boom"'}
    if delay:
        usual |= {"state": "scheduled", "delay_us": round(delay * 1e6)}
    return _settlement(claim, usual, options)


def release(claim: Claim, **options: Any) -> Settlement:
    """It is handed back, not counted against the job."""
    return _settlement(claim, {"outcome": "released", "state": "queued", "releases": 1}, options)


def lost(held: Held, **options: Any) -> Rescue:
    """The decision over an orphan: it runs again."""
    fields: dict[str, Any] = {"seq": held.seq, "ticket": held.ticket, "keyed": held.keyed}
    fields |= {"outcome": "lost", "state": "queued", "losses": 1}
    return Rescue(held.worker, held.link, Settlement(**fields | options))


def _settlement(claim: Claim, usual: dict[str, Any], options: dict[str, Any]) -> Settlement:
    fields: dict[str, Any] = {"seq": claim.seq, "ticket": claim.ticket, "keyed": claim.keyed}
    return Settlement(**fields | usual | options)


class Seat:
    """A worker with a pulse and one job loop's link."""

    def __init__(self, rig: Rig, worker: str, link: Link, pulse: Link) -> None:
        self.rig = rig
        self.id = worker
        self.link = link
        self.pulse = pulse
        self.number = 0

    async def exchange(
        self,
        settled: Sequence[Settlement] = (),
        slots: int = 10,
        *,
        queue: str = "default",
        kind: Kind = "async",
        suspect: bool = False,
        only: Sequence[str] | None = None,
    ) -> Exchanged:
        """The next exchange, with one want (none for 0 slots)."""
        self.number += 1
        want = [Want(queue, kind, suspect, slots)] if slots else []
        return await self.link.exchange(self.number, settled, want, only)

    async def claim(self, slots: int = 10, **options: Any) -> list[Claim]:
        """What the next exchange claims."""
        return (await self.exchange((), slots, **options)).claims

    async def settle(self, *settled: Settlement) -> list[int]:
        """Hand in outcomes and claim nothing; the refused seqs."""
        return (await self.exchange(settled, 0)).refused

    async def beat(self, *, leaving: bool = False) -> Orders:
        return await self.pulse.beat(self.id, Report(leaving=leaving))

    async def beat_on(self, seconds: float) -> Orders:
        """Let time pass with beats as a pulse gives them, a fifth of a lease apart; the last orders."""
        orders, left = await self.beat(), seconds
        while left > 0:
            step = min(left, LEASE / 5)
            self.rig.advance(step)
            orders, left = await self.beat(), left - step
        return orders


class Rig:
    """Builds stores on the same data, workers on them, and moves their time. An async context manager."""

    def __init__(self, build: Callable[[], Store], *, shared: bool = True) -> None:
        self._build = build
        self._shared = shared
        self._stores: list[Store] = []
        self._links: list[Link] = []
        self._offset_us = 0

    async def __aenter__(self) -> Rig:
        await self.another_store()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for link in self._links:
            await link.aclose()
        for store in self._stores:
            await store.aclose()

    @property
    def store(self) -> Store:
        """The store that was built last."""
        return self._stores[-1]

    async def another_store(self) -> Store:
        """One more store on the same data, as another process has it, opened."""
        if self._stores and not self._shared:
            return self._stores[0]
        store = self._build()
        store.offset_us = self._offset_us
        self._stores.append(store)
        await store.open()
        return store

    async def client(self, store: Store | None = None) -> Link:
        """A client's link."""
        return self._kept(await (store or self.store).link())

    async def worker(
        self, name: str, store: Store | None = None, *, boot: str = "boot", tasks: Sequence[str] = ()
    ) -> Seat:
        """A registered worker."""
        store = store or self.store
        link = self._kept(await store.link(name, 0))
        pulse = self._kept(await store.link(name, -1))
        info = WorkerInfo(
            id=name, host="host", boot=boot, pid=7, links=1, lease_us=round(LEASE * 1e6), tasks=list(tasks),
            queues=["default"],
        )  # fmt: skip
        await pulse.join(info)
        return Seat(self, name, link, pulse)

    def advance(self, seconds: float) -> None:
        """Move the stores' clock on."""
        self._offset_us += round(seconds * 1e6)
        for store in self._stores:
            store.offset_us = self._offset_us

    async def enqueue(self, *jobs: NewJob) -> list[Enqueued]:
        return await (await self.client()).enqueue(jobs)

    async def row(self, name: str) -> JobRow:
        """The job with the id `name`."""
        rows = await (await self.client()).get([name])
        assert [row.id for row in rows] == [name]
        return rows[0]

    async def state(self, name: str) -> str:
        return (await (await self.client()).states([name]))[name]

    def _kept(self, link: Link) -> Link:
        self._links.append(link)
        return link
