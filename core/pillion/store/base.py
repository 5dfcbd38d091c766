"""The store contract. Mechanism lives below this line, policy above it.

Every method may raise `StoreAway` (repeat the same call), `StoreContended` (repeat after a pause) or
`StoreData` (the data is refused; nothing of the call was written). Each call is one atomic step.
Cancelling an awaiting caller never undoes or half-does a call that was sent.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Literal, Protocol

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

Hint = Literal["ready", "ended"]
Checkpoint = Callable[[str], Awaitable[None]]


class Link(Protocol):
    """One event loop's connection to the store; safe for that loop's concurrent tasks.

    A client link (made without a worker) only enqueues and reads.
    """

    async def enqueue(self, jobs: Sequence[NewJob]) -> list[Enqueued]:
        """Store `jobs` in order, all or none, durably.

        Answers come in the order of `jobs`. An id that is known already changes nothing and is a success
        (``created=False``). A taken key is a result that names the holder. Idempotent by id. One write.
        A wake-up hint is sent after the commit if something became ready.
        """
        ...

    async def exchange(
        self,
        number: int,
        settled: Sequence[Settlement],
        want: Sequence[Want],
        only: Sequence[str] | None = None,
    ) -> Exchanged:
        """Settle and claim in one atomic step: the hot path's one round trip.

        A settlement is written if its row still runs under this link and the settlement's ticket; else its
        seq comes back in ``refused``. Settlements apply whatever the worker's standing, claims come only to
        a worker that is registered, not dead, and whose lease has not lapsed, checked in the same step.
        `number` must be above the link's last. The last number again is a repeat: nothing is written and
        the rows that still run under this link and number are the claims. A lower number raises
        `StoreData`. A step that finds nothing to write may leave the number unrecorded.
        `only` limits claims to these task names; None claims any. Wants of one sort add up. Within one want: higher
        priority first, then lowest seq. A settlement that makes a job ready (retry now, release) precedes the claims.
        """
        ...

    async def held(self) -> list[Claim]:
        """What runs under this link, with its tickets. Reads only."""
        ...

    # -- the pulse's calls -----------------------------------------------------------------------------

    async def join(self, info: WorkerInfo) -> None:
        """Register the worker and its links ``0..links-1``; its lease and its streak start now.

        Repeated, it starts both again; for a worker that was declared dead it changes nothing.
        """
        ...

    async def leave(self, worker: str) -> bool:
        """Remove a worker that runs nothing. False (and no change) while jobs run under it."""
        ...

    async def beat(self, worker: str, report: Report) -> Orders:
        """Renew the lease and read orders. A lapsed worker revives; a dead or unknown one is told ``dead``.

        A gap of more than 0.4 leases between beats starts the worker's unbroken streak again; only a streak
        of one full lease entitles it to be told of lapsed workers. ``leaving`` is sticky.
        """
        ...

    async def condemn(self, worker: str, by: str | None) -> bool:
        """First step of a sweep: mark `worker` dead and remove its links. Final. True if it is dead or unknown now.

        With `by` (a worker's id) the lease decides: nothing happens unless the lease of `worker` has lapsed and
        `by` itself lives with an unbroken streak of one full lease. With None the caller holds proof of death.
        """
        ...

    async def orphans(self, limit: int) -> list[Held]:
        """Running jobs whose worker is dead or not registered, in seq order. Reads only, a fresh snapshot."""
        ...

    async def rescue(self, decisions: Sequence[Rescue]) -> int:
        """Second step of a sweep: write decisions whose fence (worker, link, ticket) still holds. The count."""
        ...

    async def promote(self, limit: int) -> int:
        """Make due scheduled jobs queued, earliest first, at most `limit`. The count. Hints after commit."""
        ...

    async def prune(self, limit: int) -> int:
        """Delete final jobs that need not be kept any longer, at most `limit`; forget workers an hour after death."""
        ...

    async def tasks(self, known: Sequence[str]) -> list[str]:
        """Add `known` task names and read all names the store knows."""
        ...

    # -- reads and wishes --------------------------------------------------------------------------------

    async def get(self, ids: Sequence[str]) -> list[JobRow]:
        """The jobs among `ids` that exist, in no order, with their attempt history."""
        ...

    async def states(self, ids: Sequence[str]) -> dict[str, str]:
        """State by id for those of `ids` that exist: the cheap read behind waits."""
        ...

    async def cancel(self, ids: Sequence[str], keep_us: int | None) -> dict[str, str]:
        """Cancel what has not started; leave a wish on what runs. State by id afterwards (`running` for a wish).

        `keep_us` is kept with the wish, for a settlement that brings none of its own.
        """
        ...

    async def workers(self) -> list[WorkerRow]:
        """All registered workers, the dead among them until they are pruned."""
        ...

    async def queues(self, cap: int) -> list[QueueRow]:
        """Depths by queue and task, each counted up to `cap`. Bounded and indexed."""
        ...

    # -- hints ---------------------------------------------------------------------------------------------

    def hints(self) -> AsyncIterator[Hint]:
        """Wake-ups for this process, from the call on. Hints may be lost; polling is the truth. Ends with the link.

        ``ready``: some job may be claimable. ``ended``: some job that a process waits for may have ended.
        """
        ...

    def idle(self, idle: bool) -> None:
        """Tell siblings whether this worker would like to be woken for ready jobs. Costs no store access.

        What became ready before the call woke somebody else: look once more between the call and the sleep.
        """
        ...

    def waiting(self, waiting: bool) -> None:
        """Tell siblings whether somebody in this process waits for results. Costs no store access."""
        ...

    async def aclose(self) -> None:
        """Close this link; waits at most a second. Idempotent."""
        ...


class Store(Protocol):
    """What a URL names, opened once a process and shared by its loops. Building it opens nothing."""

    #: What this store promises and warns of, for the start line and health: plain sentences.
    @property
    def notes(self) -> Sequence[str]: ...

    #: Those of the notes that warn, and say what to do.
    @property
    def warnings(self) -> Sequence[str]: ...

    #: The absolute, secret-free name for people, e.g. ``sqlite:////srv/jobs.db``.
    @property
    def label(self) -> str: ...

    #: Folder of the host-local files that siblings on this host share (certificates, wake-ups); None: none.
    @property
    def host_folder(self) -> str | None: ...

    #: Moves the store's clock, in microseconds. 0 in production; tests move time with it.
    offset_us: int

    #: Awaited by links as ``checkpoint("exchange.before")``, ``("exchange.after")`` …; None in production.
    checkpoint: Checkpoint | None

    async def open(self) -> None:
        """Connect, create a missing schema under the store's lock, check its version. Idempotent.

        Raises `WrongSchema` (fatal), `StoreAway` or `StoreContended` (try again).
        """
        ...

    async def link(self, worker: str | None = None, index: int = -1) -> Link:
        """A link for the running event loop: of a worker (job loops ``0..``, the pulse ``-1``) or a client's."""
        ...

    async def aclose(self) -> None:
        """Close what `open` opened, within two seconds. Idempotent."""
        ...
