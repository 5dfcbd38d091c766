"""Outcomes on their way to the store: filled by the loop and its threads, emptied by the loop's exchanges."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from pillion.model import Settlement

BATCH = 1000  # settlements an exchange carries at most; bounds a transaction


class Outbox:
    """First in, first out; appends are safe from any thread."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: deque[tuple[Settlement, str]] = deque()

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, settlement: Settlement, job_id: str) -> None:
        """Hand in an outcome."""
        self._entries.append((settlement, job_id))

    def take(self) -> list[tuple[Settlement, str]]:
        """The next batch."""
        entries = self._entries
        count = min(len(entries), BATCH)
        return [entries.popleft() for _ in range(count)]

    def put_back(self, batch: Sequence[tuple[Settlement, str]]) -> None:
        """Return what `take` gave and could not be handed in."""
        self._entries.extendleft(reversed(batch))

    def peek(self) -> list[tuple[Settlement, str]]:
        """What waits, left in place."""
        return list(self._entries)

    def clear(self) -> None:
        """Drop everything: the identity that it was claimed under is dead."""
        self._entries.clear()
