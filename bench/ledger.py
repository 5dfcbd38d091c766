"""The counter that costs every system the same: handlers mark their start in a file that is mapped into memory."""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable, Sequence
from pathlib import Path


class Ledger:
    """Runs and last start of each of `size` jobs, in one worker process. The parent opens the same file and reads."""

    def __init__(self, path: Path, size: int) -> None:
        self.size = size
        if not path.exists():
            with path.open("wb") as file:
                file.truncate(size * 9)
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), size * 9)
        view = memoryview(self._map)
        self.starts = view[: size * 8].cast("q")  # CLOCK_MONOTONIC in ns, the same clock in all processes of a host
        self.counts = view[size * 8 :]

    def marker(self) -> Callable[[int], None]:
        """What a handler calls first."""
        counts, starts, now = self.counts, self.starts, time.monotonic_ns

        def mark(job: int) -> None:
            counts[job] += 1
            starts[job] = now()

        return mark

    def started(self) -> int:
        """How many jobs have started at least once."""
        return self.size - bytes(self.counts).count(0)


def runs(ledgers: Sequence[Ledger]) -> list[int]:
    """How often each job ran, over all processes."""
    return [sum(counts) for counts in zip(*(bytes(ledger.counts) for ledger in ledgers), strict=True)]


def check_once(ledgers: Sequence[Ledger]) -> None:
    """Raises `AssertionError` unless every job ran exactly once."""
    counts = runs(ledgers)
    wrong = {count: counts.count(count) for count in set(counts) - {1}}
    assert not wrong, f"jobs by how often they ran, other than once: {wrong}"


def window_s(ledgers: Sequence[Ledger]) -> float:
    """Seconds from the first start to the last."""
    starts = [start for ledger in ledgers for start in ledger.starts if start]
    return (max(starts) - min(starts)) / 1e9
