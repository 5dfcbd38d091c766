"""SIGKILL of a process that runs eight jobs, until they run again in another one."""

from __future__ import annotations

import time

from bench.ledger import Ledger, runs
from bench.place import Place
from bench.process import Child, wait_until
from bench.systems import system

_JOBS = 8
_SETTLE_S = 3.0  # the sibling is up and idle


def rescue(place: Place, name: str, patience_s: float) -> dict[str, float]:
    """Seconds from the kill to the first and to the last second start. Every system with its own default lease."""
    kind = system(name).kinds[0]
    seed = place.filled(name, f"hold_{kind}", _JOBS)
    with place.folder(seed) as folder:
        ledgers = [Ledger(folder / f"ledger{index}", _JOBS) for index in range(2)]
        args = [["worker", name, folder, folder / f"ledger{index}", _JOBS, kind] for index in range(2)]
        with Child("bench.child", args[0], folder / "log") as victim:
            victim.ready().go()
            wait_until(lambda: ledgers[0].started() == _JOBS, 30, what=f"{name}'s jobs")
            with Child("bench.child", args[1], folder / "log") as sibling:
                sibling.ready().go()
                time.sleep(_SETTLE_S)
                killed = time.monotonic_ns()
                victim.kill()
                try:
                    wait_until(lambda: ledgers[1].started() == _JOBS, patience_s, what="the rescue")
                except TimeoutError:
                    return {"rescued": float(ledgers[1].started()), "not_within_s": patience_s}
                starts = [(start - killed) / 1e9 for start in ledgers[1].starts]
                assert runs(ledgers) == [2] * _JOBS, f"{name} ran them {runs(ledgers)} times"
                sibling.kill()  # its jobs would run on
                return {"rescued": float(_JOBS), "first_s": min(starts), "last_s": max(starts)}
