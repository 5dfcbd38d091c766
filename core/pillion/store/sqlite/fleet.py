"""Workers: registration, leases, and the two steps of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from pillion.model import Held, Orders, Report, Rescue, WorkerInfo, WorkerRow
from pillion.store.sqlite import settle
from pillion.store.sqlite.desk import Desk, json_text

FORGET_US: Final = 3_600_000_000  # a dead worker that runs nothing is remembered for an hour

# SQLite has no booleans: 0 and 1 are taken for them.
_held = msgspec.json.Decoder(list[Held], strict=False)
_rows = msgspec.json.Decoder(list[WorkerRow], strict=False)
_ints = msgspec.json.Decoder(list[int])
_texts = msgspec.json.Decoder(list[str])


def join(desk: Desk, info: WorkerInfo) -> None:
    """Register a worker and its links; a repeat starts the lease again, and changes nothing for a dead one."""
    desk.run(
        "worker_join",
        (
            info.id, info.host, info.boot, info.pid, desk.steady_us(), info.lease_us,
            json_text(info.tasks), json_text(info.queues),
        ),
    )  # fmt: skip
    desk.run("links_join", (info.id, json_text(list(range(info.links)))))


def leave(desk: Desk, worker: str) -> bool:
    """Remove a worker that runs nothing; False while it runs something."""
    if not desk.run("worker_leave", (worker,)) and desk.row("worker_runs", (worker,))[0]:
        return False
    desk.run("links_drop", (worker,))
    return True


def beat(desk: Desk, worker: str, report: Report) -> Orders:
    """Renew the lease, then read the orders."""
    now = desk.steady_us()
    if not desk.run("beat", (worker, now, report.leaving, report.health)):
        return Orders(standing="dead")
    wall = desk.wall_us()
    cancels, lapsed, orphaned, ready, due, prunable, tasks = desk.row("orders", (worker, now, wall, wall - FORGET_US))
    return Orders(
        standing="alive",
        cancels=_ints.decode(cancels),
        lapsed=_texts.decode(lapsed),
        orphaned=bool(orphaned),
        ready=bool(ready),
        due_in_us=None if due is None else max(0, due - wall),
        prunable=bool(prunable),
        tasks=tasks,
    )


def condemn(desk: Desk, worker: str, by: str | None) -> bool:
    """Mark a worker dead and remove its links: for good."""
    if by is None:
        desk.run("condemn", (worker, desk.wall_us()))
    else:
        desk.run("condemn_lapsed", (worker, desk.wall_us(), by, desk.steady_us()))
    found = desk.row("worker_dead", (worker,))
    # One that is not registered (any more) is as good as dead: it is told so, and claims nothing.
    dead = found is None or bool(found[0])
    if dead:
        desk.run("links_drop", (worker,))
    return dead


def condemned(desk: Desk, worker: str) -> bool | None:
    """The answer without writing for one that is dead already; None: look closer."""
    found = desk.row("worker_dead", (worker,))
    return True if found is not None and found[0] else None


def orphans(desk: Desk, limit: int) -> list[Held]:
    """Running jobs without a living worker, in seq order."""
    return _held.decode(desk.row("orphans", (limit,))[0])


def rescue(desk: Desk, decisions: Sequence[Rescue]) -> int:
    """Write decisions over such jobs whose fence still holds."""
    return settle.rescue(desk, decisions)


def workers(desk: Desk, boot: str) -> list[WorkerRow]:
    """All registered workers, as seen on a host of this boot id."""
    return _rows.decode(desk.row("workers", (boot, desk.steady_us()))[0])
