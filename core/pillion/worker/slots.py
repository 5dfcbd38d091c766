"""The process's budget of running jobs, shared by its loops. Thread-safe.

A slot is reserved before an exchange asks for a job and is free again only when the job's code has ended.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from pillion.model import Claim, Kind, Want
from pillion.policy.claims import share


class Slots:
    """Free slots by kind of executor and by queue; at most one suspect runs at a time."""

    def __init__(self, limits: Mapping[Kind, int], queues: Mapping[str, int | None], loops: int) -> None:
        self.limits = dict(limits)
        self._free: dict[Kind, int] = dict(limits)
        self._room = {queue: limit for queue, limit in queues.items() if limit is not None}
        self._queues = tuple(queues)
        self._loops = loops
        self._suspect: object | None = None  # the reservation or claim that holds the one place
        self._turn = 0
        self._lock = threading.Lock()

    def reserve(self, kinds: Sequence[Kind], *, suspect: bool) -> list[Want]:
        """Take what a loop may ask for now: an even share of the process's slots. Give the wants back with `settle`."""
        with self._lock:
            free: dict[Kind, int] = {}
            for kind in kinds:
                slots = min(self._free.get(kind, 0), -(-self.limits.get(kind, 0) // self._loops))
                if slots > 0:
                    free[kind] = slots
            if not free:
                return []
            self._turn += 1
            wants = share(free, self._queues, self._room, turn=self._turn, suspect=suspect and self._suspect is None)
            for want in wants:
                self._free[want.kind] -= want.slots
                if want.queue in self._room:
                    self._room[want.queue] -= want.slots
                if want.suspect:
                    self._suspect = want
            return wants

    def settle(self, wants: Sequence[Want], claims: Sequence[Claim]) -> None:
        """Keep the slots of `claims`, which were claimed for `wants`, and give the rest back."""
        with self._lock:
            for want in wants:
                self._free[want.kind] += want.slots
                if want.queue in self._room:
                    self._room[want.queue] += want.slots
                if self._suspect is want:
                    self._suspect = None
            for claim in claims:
                self._free[claim.kind] = self._free.get(claim.kind, 0) - 1
                if claim.queue in self._room:
                    self._room[claim.queue] -= 1
                if claim.suspect:
                    self._suspect = claim.id

    def free(self, claim: Claim) -> None:
        """The code of `claim` has ended."""
        with self._lock:
            self._free[claim.kind] += 1
            if claim.queue in self._room:
                self._room[claim.queue] += 1
            if self._suspect == claim.id:
                self._suspect = None

    def have_room(self, kinds: Sequence[Kind]) -> bool:
        """True if a job of each of `kinds` could be taken now."""
        with self._lock:
            return all(self._free.get(kind, 0) > 0 for kind in kinds)

    def used(self) -> dict[str, int]:
        """Slots in use by kind."""
        with self._lock:
            return {kind: limit - self._free[kind] for kind, limit in self.limits.items()}
