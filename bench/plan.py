"""What is measured, of which systems, in which order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from bench.measures.embedding import footprint, pings
from bench.measures.enqueue import enqueue
from bench.measures.pickup import pickup
from bench.measures.rescue import rescue
from bench.measures.throughput import throughput
from bench.place import Place

Figures = dict[str, float]
WORKERS = ("pillion", "tinyjobs", "huey")


@dataclass(frozen=True)
class Scale:
    """How much of each."""

    rounds: int = 3
    jobs: int = 30_000  # throughput
    singles: int = 1_000  # enqueued one by one
    together: int = 3_000  # enqueued fifty at once
    bulk: int = 20_000
    pickups: int = 200
    window_s: float = 2.0  # of pings
    idle_s: float = 10.0
    patience_s: float = 100.0  # for a rescue by a peer; tinyjobs: a lease of 60 s, looked at every 30


QUICK = Scale(1, 8_000, 400, 1_000, 5_000, 60, 1.0, 3.0, 2.0)


@dataclass(frozen=True)
class Case:
    """One measure over its systems: each system once a round, in an order that turns with the rounds."""

    key: str
    systems: Sequence[str]
    run: Callable[[Place, str, int], Figures]
    rounds: int | None = None  # fewer than the scale's: for what takes minutes


def cases(scale: Scale) -> list[Case]:
    """All cases, in the order of the table."""
    found: list[Case] = []
    for kind in ("async", "def"):
        for processes in (1, 2):
            who = WORKERS if kind == "def" else WORKERS[:2]
            work = partial(_throughput, kind, processes, scale.jobs)
            found.append(Case(f"throughput.{kind}.{processes}", who, work))
    counts = {"one": scale.singles, "fifty": scale.together, "bulk": scale.bulk}
    names: dict[str, Sequence[str]] = {
        "one": ("pillion", "pillion:relaxed", "tinyjobs", "huey", "huey:full", "bare", "bare:relaxed"),
        "fifty": ("pillion", "pillion:relaxed", "tinyjobs", "huey", "huey:full"),
        "bulk": ("pillion", "pillion:relaxed"),
    }
    for way, count in counts.items():
        found.append(Case(f"enqueue.{way}", names[way], partial(_enqueue, way, count)))
    found.append(Case("pickup", WORKERS, partial(_pickup, scale.pickups)))
    found.append(Case("footprint", ("", "pillion", "tinyjobs"), partial(_footprint, scale.idle_s)))
    found.append(Case("ping", ("pillion", "tinyjobs"), partial(_pings, scale.window_s)))
    found.append(Case("rescue", ("pillion",), partial(_rescue, 60.0)))
    found.append(Case("rescue.peers", ("tinyjobs", "huey"), partial(_rescue, scale.patience_s), rounds=1))
    return found


def _throughput(kind: str, processes: int, jobs: int, place: Place, name: str, turn: int) -> Figures:
    return throughput(place, name, "async" if kind == "async" else "def", processes, jobs)


def _enqueue(way: str, jobs: int, place: Place, name: str, turn: int) -> Figures:
    return enqueue(place, name, way, jobs)


def _pickup(jobs: int, place: Place, name: str, turn: int) -> Figures:
    return pickup(place, name, jobs, seed=turn)


def _footprint(idle_s: float, place: Place, name: str, turn: int) -> Figures:
    return footprint(place, name, idle_s)


def _pings(window_s: float, place: Place, name: str, turn: int) -> Figures:
    return pings(place, name, window_s)


def _rescue(patience_s: float, place: Place, name: str, turn: int) -> Figures:
    # huey deletes a job before it runs it: a few seconds show that nothing comes back.
    return rescue(place, name, 5.0 if name == "huey" else patience_s)
