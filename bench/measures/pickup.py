"""How soon an idle worker in a second process starts a job that another process stores."""

from __future__ import annotations

import time

from bench.ledger import Ledger, check_once
from bench.place import Place
from bench.process import Child, wait_until
from bench.systems import system

_SETTLE_S = 1.5  # until the worker is idle


def pickup(place: Place, name: str, jobs: int, seed: int) -> dict[str, float]:
    """Milliseconds to the handler's start from the enqueue's return (commit), and from its call."""
    kind = system(name).kinds[0]
    with place.folder() as folder:
        ledger = Ledger(folder / "ledger0", jobs)
        served = ["worker", name, folder, folder / "ledger0", jobs, kind]
        stored = ["pickup", name, folder, folder / "ledger1", jobs, f"noop_{kind}", seed]
        with (
            Child("bench.child", served, folder / "log") as worker,
            Child("bench.child", stored, folder / "log") as app,
        ):
            worker.ready().go()
            app.ready()
            time.sleep(_SETTLE_S)
            app.go()
            answer = app.answer()
            wait_until(lambda: ledger.started() >= jobs, 30, what=f"jobs of {name}")
        check_once([ledger])
        starts = list(ledger.starts)
        since_return = [(start - at) / 1e6 for start, at in zip(starts, answer["returned"], strict=True)]
        since_call = [(start - at) / 1e6 for start, at in zip(starts, answer["called"], strict=True)]
        return {
            "p50_ms": _percentile(since_return, 50),
            "p95_ms": _percentile(since_return, 95),
            "p99_ms": _percentile(since_return, 99),
            "called_p50_ms": _percentile(since_call, 50),
            "called_p99_ms": _percentile(since_call, 99),
            "before_return": sum(since < 0 for since in since_return) / jobs,  # share that started before the return
        }


def _percentile(values: list[float], percent: int) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]
