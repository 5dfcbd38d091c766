"""No-ops a second by one and by two worker processes that find all jobs waiting; every job exactly once."""

from __future__ import annotations

from contextlib import ExitStack

from bench.ledger import Ledger, check_once, window_s
from bench.place import Place
from bench.process import Child, wait_until
from bench.systems import system
from bench.systems.base import Kind

_PATIENCE_S = 300


def throughput(place: Place, name: str, kind: Kind, processes: int, jobs: int) -> dict[str, float]:
    """From the first start to the last one, as the handlers note them. Processes start cold and go at one moment."""
    seed = place.filled(name, f"noop_{kind}", jobs)
    with place.folder(seed) as folder, ExitStack() as stack:
        ledgers = [Ledger(folder / f"ledger{index}", jobs) for index in range(processes)]
        children = [
            stack.enter_context(
                Child("bench.child", ["worker", name, folder, folder / f"ledger{index}", jobs, kind], folder / "log")
            )
            for index in range(processes)
        ]
        for child in children:
            child.ready()
        for child in children:
            child.go()
        wait_until(
            lambda: sum(ledger.started() for ledger in ledgers) >= jobs,
            _PATIENCE_S,
            what=f"{jobs} jobs of {name}, {[ledger.started() for ledger in ledgers]} so far",
        )
        cpu = sum(child.cpu_s() for child in children)
        for child in children:
            child.end()
        check_once(ledgers)
        left = system(name).count_unfinished(folder)
        assert left == 0, f"{name} left {left} jobs unfinished in its store"
        return {
            "per_s": (jobs - 1) / window_s(ledgers),
            "cpu_us_per_job": cpu / jobs * 1e6,  # the start of the processes included
            "least_share": min(ledger.started() for ledger in ledgers) / jobs,
        }
