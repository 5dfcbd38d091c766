"""What a verdict is made from: plain data. All ages and durations are in seconds; None: never, or not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from pillion.model import QueueRow, WorkerRow

Level = Literal["pass", "warn", "fail"]


class SlotFacts(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs of one kind run, and how many may."""

    used: int = 0
    of: int = 0


class LoopFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One job loop."""

    lag: float = 0.0  # since it owes the watchdog a turn
    running: int = 0
    last_poll: float | None = None  # age of the last answered exchange
    alive: bool = True
    trouble: bool = False  # the last exchange was not answered yet


class WorkerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as `pillion.worker.status` tells it, of this version or another: what is absent has its default."""

    state: str = "starting"  # starting, running, draining, drained
    running: int = 0
    slots: Mapping[str, SlotFacts] = {}
    loops: Sequence[LoopFacts] = ()
    last_beat: float | None = None
    certificate: bool = False
    outcomes: Mapping[str, int] = {}
    stalls: Mapping[str, float] = {}  # who held a job loop -> for how long at worst
    last_stall: float | None = None  # age of the last one
    upkeep: Mapping[str, int] = {}  # duties that fail now -> how often they were started again
    uptime: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """This process."""

    entered: bool  # a lifespan (or worker, or client) of ours is open
    wanted: bool  # this process is to run jobs
    worker: WorkerFacts | None = None  # None: none runs here
    joined: bool = False  # it was registered in the store at least once
    upkeep_alive: bool = True  # the thread that beats
    wrong_schema: bool = False
    away: bool = False  # the store was never reached so far
    lease: float = 15.0
    certificate_wanted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What the store said of the fleet and the queues. Counts stop at `cap`."""

    taken: float  # on the clock of `Health`
    workers: Sequence[WorkerRow] = ()
    queues: Sequence[QueueRow] = ()
    cap: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFacts:
    """The store, as this process sees it."""

    kind: str  # sqlite, memory, …
    durability: str
    answered: float | None = None  # age of the last sample
    unanswered: bool = False  # the last question got no answer, or not in time
    warnings: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Gap:
    """Jobs that wait for nobody: no living worker serves their queue (task None), or knows their task there."""

    queue: str
    task: str | None
    waiting: int
    capped: bool  # there may be more
    oldest: float | None  # None: all are due later


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason why all is not well. The text is for everybody: no hosts, addresses, paths, errors or arguments."""

    level: Literal["warn", "fail"]
    check: Literal["worker", "store", "fleet", "queues"]
    text: str
