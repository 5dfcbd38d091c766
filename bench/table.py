"""From all runs to one table: medians, their spread, and Pillion's ratio to the others."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

Runs = Mapping[str, Mapping[str, Sequence[Mapping[str, float]]]]  # case -> system -> one set of figures a run


@dataclass(frozen=True)
class Row:
    """A line of the table: one figure, of the systems named per column."""

    title: str
    case: str
    figure: str
    pillion: str = "pillion"
    tinyjobs: str = "tinyjobs"
    huey: str = "huey"
    bare: str = "-"
    digits: int = 0
    lower: bool = False  # less is better
    over: str = "-"  # shown as what is added to this system


ROWS: Final = (
    Row("async no-ops, 1 process, jobs/s", "throughput.async.1", "per_s"),
    Row("async no-ops, 2 processes, jobs/s", "throughput.async.2", "per_s"),
    Row("def no-ops, 1 process, jobs/s", "throughput.def.1", "per_s"),
    Row("def no-ops, 2 processes, jobs/s", "throughput.def.2", "per_s"),
    Row("enqueue one by one, synced, /s", "enqueue.one", "per_s", tinyjobs="-", huey="huey:full", bare="bare"),
    Row("enqueue one by one, relaxed, /s", "enqueue.one", "per_s", "pillion:relaxed", bare="bare:relaxed"),
    Row("enqueue 50 at once, synced, /s", "enqueue.fifty", "per_s", tinyjobs="-", huey="huey:full"),
    Row("enqueue 50 at once, relaxed, /s", "enqueue.fifty", "per_s", "pillion:relaxed"),
    Row("enqueue in bulk, synced, /s", "enqueue.bulk", "per_s", tinyjobs="-", huey="-"),
    Row("enqueue in bulk, relaxed, /s", "enqueue.bulk", "per_s", "pillion:relaxed", tinyjobs="-", huey="-"),
    Row("pickup by an idle process, p50 ms", "pickup", "p50_ms", digits=2, lower=True),
    Row("pickup, p95 ms", "pickup", "p95_ms", digits=2, lower=True),
    Row("pickup, p99 ms", "pickup", "p99_ms", digits=2, lower=True),
    Row("pickup from the enqueue's call, p50 ms", "pickup", "called_p50_ms", digits=2, lower=True),
    Row("embedding adds memory, MB", "footprint", "rss_mb", huey="-", bare="", digits=1, lower=True, over=""),
    Row("embedding adds start-up, s", "footprint", "start_added_s", huey="-", bare="", digits=2, lower=True),
    Row("idle CPU of the app, %", "footprint", "idle_cpu_percent", huey="-", bare="", digits=2, lower=True),
    Row("/ping p99 beside 8 blocking jobs, ms", "ping", "blocked_p99_ms", huey="-", digits=2, lower=True),
    Row("/ping p99 idle, ms", "ping", "idle_p99_ms", huey="-", digits=2, lower=True),
    Row("SIGKILL to rescue of 8 jobs, s", "rescue", "last_s", digits=2, lower=True),
)


def median(runs: Runs, case: str, system: str, figure: str) -> float | None:
    """The middle of all runs; None if there is none."""
    values = _values(runs, case, system, figure)
    return statistics.median(values) if values else None


def render(runs: Runs) -> str:
    """The table, and below it the goals."""
    columns = ("pillion", "tinyjobs", "huey", "bare")
    lines = [f"{'median (min–max)':40}" + "".join(f"{name:>24}" for name in columns) + f"{'pillion : best peer':>21}"]
    lines.append("-" * len(lines[0]))
    for row in ROWS:
        systems = (row.pillion, row.tinyjobs, row.huey, row.bare)
        if median(runs, row.case, row.pillion, row.figure) is None:
            continue
        cells = [_cell(runs, row, system) for system in systems]
        lines.append(f"{row.title:40}" + "".join(f"{cell:>24}" for cell in cells) + f"{_ratio(runs, row):>21}")
    return "\n".join([*lines, "", *goals(runs)])


def goals(runs: Runs) -> list[str]:
    """What is to be reached, and what was."""

    def of(case: str, figure: str = "per_s", system: str = "pillion") -> float | None:
        return median(runs, case, system, figure)

    def best(case: str, *systems: str) -> float | None:
        found = [value for system in systems if (value := of(case, "per_s", system)) is not None]
        return max(found) if found else None

    def added(figure: str) -> float | None:
        return _minus(of("footprint", figure), of("footprint", figure, ""))

    async_1, one, fifty = of("throughput.async.1"), of("enqueue.one"), of("enqueue.fifty")
    one_relaxed = of("enqueue.one", system="pillion:relaxed")
    fifty_relaxed = of("enqueue.fifty", system="pillion:relaxed")
    tinyjobs_rescue = of("rescue.peers", "last_s", "tinyjobs")
    checks = (
        ("async no-ops, 1 process : tinyjobs", _by(async_1, of("throughput.async.1", "per_s", "tinyjobs")), ">=", 12.0),
        ("async no-ops, 2 processes : 1", _by(of("throughput.async.2"), async_1), ">=", 1.0),
        ("def no-ops, 2 processes : 1", _by(of("throughput.def.2"), of("throughput.def.1")), ">=", 1.0),
        ("50 at once, synced : best of tinyjobs (relaxed), huey (synced)",
         _by(fifty, best("enqueue.fifty", "tinyjobs", "huey:full")), ">=", 2.0),
        ("50 at once, relaxed : best of tinyjobs (relaxed), huey (no sync at all)",
         _by(fifty_relaxed, best("enqueue.fifty", "tinyjobs", "huey")), ">=", 2.0),
        ("one by one, synced: time : bare round trip", _by(best("enqueue.one", "bare"), one), "<=", 1.3),
        ("one by one, relaxed: time : bare round trip",
         _by(best("enqueue.one", "bare:relaxed"), one_relaxed), "<=", 1.3),
        ("one by one, relaxed : tinyjobs (relaxed)", _by(one_relaxed, best("enqueue.one", "tinyjobs")), ">=", 2.0),
        ("pickup p50, ms", of("pickup", "p50_ms"), "<=", 1.0),
        ("embedding adds memory, MB", added("rss_mb"), "<=", 12.0),
        ("embedding adds start-up, s", of("footprint", "start_added_s"), "<=", 0.2),
        ("embedding adds idle CPU, %", added("idle_cpu_percent"), "<=", 0.5),
        ("/ping p99 beside 8 blocking jobs : idle", of("ping", "ratio"), "<=", 1.5),
        ("SIGKILL to rescue, s", of("rescue", "last_s"), "<=", 1.0),
    )  # fmt: skip
    lines = ["to reach"]
    for title, value, sign, limit in checks:
        if value is not None:
            reached = value >= limit if sign == ">=" else value <= limit
            lines.append(f"  {'ok  ' if reached else 'MISS'} {title:72} {value:8.2f}  ({sign} {limit:g})")
    if tinyjobs_rescue is not None:
        lines.append(f"  (rescue by tinyjobs, default lease of 60 s: {tinyjobs_rescue:.1f} s)")
    return lines


def _values(runs: Runs, case: str, system: str, figure: str) -> list[float]:
    return [run[figure] for run in runs.get(case, {}).get(system, ()) if figure in run]


def _cell(runs: Runs, row: Row, system: str) -> str:
    values = _values(runs, row.case, system, row.figure)
    if row.case == "rescue" and system != row.pillion:
        values = _values(runs, "rescue.peers", system, row.figure)
        if patience := _values(runs, "rescue.peers", system, "not_within_s"):
            return f"not in {patience[0]:g} s"
    if not values:
        return "-"
    base = _values(runs, row.case, row.over, row.figure)
    off = statistics.median(base) if base and system != row.over else 0.0
    low, middle, high = (
        f"{value - off:,.{row.digits}f}" for value in (min(values), statistics.median(values), max(values))
    )
    return middle if len(values) == 1 else f"{middle} ({low}–{high})"


def _ratio(runs: Runs, row: Row) -> str:
    ours = median(runs, row.case, row.pillion, row.figure)
    case = "rescue.peers" if row.case == "rescue" else row.case
    found = [median(runs, case, system, row.figure) for system in (row.tinyjobs, row.huey)]
    peers = [value for value in found if value is not None]
    if row.over != "-":
        base = median(runs, row.case, row.over, row.figure)
        ours = _minus(ours, base)
        peers = [value - base for value in peers if base is not None]
    if ours is None or not peers:
        return "-"
    ratio = _by(ours, min(peers) if row.lower else max(peers))
    return "-" if ratio is None else f"{ratio:.2f}"


def _by(value: float | None, divisor: float | None) -> float | None:
    return value / divisor if value is not None and divisor else None


def _minus(value: float | None, base: float | None) -> float | None:
    return value - base if value is not None and base is not None else None
