"""The plain data that crosses seams: what a store takes in and gives out.

All durations and instants are integers in microseconds (suffix ``_us``). Instants are wall-clock
microseconds since the epoch on the *store's* clock, unless a name says otherwise. A store never
looks inside ``args``, ``headers``, ``result``, ``error`` or ``report``: they are JSON text.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

State = Literal["waiting", "scheduled", "queued", "running", "succeeded", "failed", "cancelled"]
Kind = Literal["async", "thread", "process", "app"]
Outcome = Literal["succeeded", "failed", "retried", "released", "cancelled", "lost"]
Standing = Literal["alive", "lapsed", "dead"]

FINAL: Final[frozenset[State]] = frozenset({"succeeded", "failed", "cancelled"})


class NewJob(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """A job as its caller hands it in."""

    id: str  # made by the caller's process; an insert of an existing id is a success
    task: str
    queue: str = "default"
    kind: Kind = "async"
    args: str = "{}"
    headers: str | None = None
    priority: int = 0  # higher first, first in first out inside
    delay_us: int = 0  # from the store's now; ignored when `due_us` is given
    due_us: int | None = None  # absolute
    key: str | None = None  # at most one unfinished job holds a key


class Enqueued(msgspec.Struct, gc=False, frozen=True):
    """The store's answer to one `NewJob`; a taken key is a result, not an error."""

    id: str
    created: bool  # False: the id was known already (a repeat), or the key is taken
    holder: str | None = None  # the id of the unfinished job that holds the key


class Want(msgspec.Struct, gc=False, frozen=True):
    """How many jobs of one sort a link may claim: ``slots`` is taken from the process's budget."""

    queue: str
    kind: Kind
    suspect: bool
    slots: int


class Claim(msgspec.Struct, gc=False, frozen=True, array_like=True):
    """A job handed to a link. It carries the ticket (exchange number) that fences it."""

    seq: int
    ticket: int
    id: str
    task: str
    queue: str
    kind: Kind
    suspect: bool
    keyed: bool
    attempt: int  # counts claims, from 1; for people, never for fencing
    failures: int
    losses: int
    releases: int
    args: str
    headers: str | None


class Settlement(msgspec.Struct, gc=False, frozen=True, kw_only=True):
    """An outcome handed in. Policy has decided everything; the store only writes it, if the fence holds.

    A job that is to wait again (`queued`, `scheduled`) and carries a cancel wish becomes `cancelled`
    instead: that one rule is the store's, since only the row knows the wish.
    """

    seq: int
    ticket: int
    outcome: Outcome
    state: State  # what the job becomes
    delay_us: int = 0  # for `scheduled`: from the store's now
    failures: int = 0  # added to the job's counters
    losses: int = 0
    releases: int = 0
    suspect: bool = False  # what the job is from now on
    keyed: bool = False  # the job holds a unique key, to be freed by a final state
    result: str | None = None
    error: str | None = None
    keep_us: int | None = None  # a final job may be pruned after this; None: kept for ever


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A running job whose worker is dead or gone, as the first step of a rescue reads it."""

    seq: int
    worker: str
    link: int
    ticket: int
    task: str
    keyed: bool
    failures: int
    losses: int
    releases: int
    leaving: bool  # the worker had said that it was leaving: a release, not a loss
    cancel: bool


class Rescue(msgspec.Struct, frozen=True):
    """The second step: a decision, fenced by what was read. ``settlement.ticket`` is the held one."""

    worker: str
    link: int
    settlement: Settlement


class Exchanged(msgspec.Struct, frozen=True):
    """What an exchange brought."""

    standing: Standing  # claims come only to the living
    claims: list[Claim]
    refused: list[int]  # seqs whose fence no longer held; a repeated exchange reports none
    due_in_us: int | None = None  # until the next scheduled job; None: none, or not looked at


class WorkerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A worker's registration."""

    id: str
    host: str
    boot: str  # boot id of the host: its monotonic clock counts from there
    pid: int
    links: int  # link indexes 0..links-1 claim under this worker
    lease_us: int
    tasks: list[str]
    queues: list[str]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a beat says of its worker."""

    leaving: bool = False
    health: str = "{}"  # JSON for the fleet's health document; the store never looks inside


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """What a beat brings back."""

    standing: Standing
    cancels: list[int] = []  # seqs running under this worker that somebody wishes cancelled
    lapsed: list[str] = []  # workers to condemn by lease; empty unless this worker is entitled to
    orphaned: bool = False  # some job runs under a worker that is dead or gone
    ready: bool = False  # some job is queued and not held
    due_in_us: int | None = None  # until the next scheduled job
    prunable: bool = False
    tasks: int = 0  # how many task names the store knows; grows only


class AttemptRow(msgspec.Struct, frozen=True, kw_only=True):
    """One ended attempt. Kept for ends other than success."""

    number: int
    worker: str
    started_us: int
    ended_us: int
    outcome: Outcome
    error: str | None


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job as a reader sees it."""

    id: str
    task: str
    queue: str
    kind: Kind
    state: State
    priority: int
    key: str | None
    args: str
    headers: str | None
    result: str | None
    error: str | None
    cancel: bool
    attempt: int
    failures: int
    losses: int
    releases: int
    worker: str | None
    created_us: int
    due_us: int | None
    started_us: int | None
    finished_us: int | None
    history: list[AttemptRow]


class WorkerRow(msgspec.Struct, frozen=True, kw_only=True):
    """A registered worker as a reader sees it."""

    id: str
    host: str
    pid: int
    leaving: bool
    dead: bool
    lapsed: bool
    beat_age_us: int
    tasks: list[str]
    queues: list[str]
    report: str


class QueueRow(msgspec.Struct, frozen=True, kw_only=True):
    """How full a queue is, by task. Counts stop at the cap that the caller gave."""

    queue: str
    task: str
    queued: int
    scheduled: int
    running: int
    oldest_us: int | None  # age of the oldest queued job
