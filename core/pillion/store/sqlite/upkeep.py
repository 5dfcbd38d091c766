"""What the pulse does now and then: due jobs, retention, task names. Each looks first and writes only if it must."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pillion.store.sqlite.desk import Desk, json_text
from pillion.store.sqlite.fleet import FORGET_US

_seqs = msgspec.json.Decoder(list[int])
_names = msgspec.json.Decoder(list[str])


def nothing_due(desk: Desk) -> int | None:
    """0 if no scheduled job is due, else None."""
    return None if desk.row("due_exists", (desk.wall_us(),))[0] else 0


def promote(desk: Desk, limit: int) -> int:
    """Queue due jobs, earliest first."""
    count = desk.run("promote", (desk.wall_us(), limit))
    if count:
        desk.ready = True
    return count


def nothing_prunable(desk: Desk) -> int | None:
    """0 if there is nothing to forget, else None."""
    wall = desk.wall_us()
    return None if desk.row("prunable", (wall, wall - FORGET_US))[0] else 0


def prune(desk: Desk, limit: int) -> int:
    """Delete what need not be kept; how many jobs that were."""
    wall = desk.wall_us()
    seqs = desk.row("prune_seqs", (wall, limit))[0]
    desk.run("workers_forget", (wall - FORGET_US,))
    desk.run("attempts_drop", (seqs,))
    return desk.run("jobs_drop", (seqs,))


def known_tasks(desk: Desk, known: Sequence[str]) -> list[str] | None:
    """All task names if `known` adds nothing to them, else None."""
    names = _names.decode(desk.row("tasks")[0])
    return names if set(known) <= set(names) else None


def tasks(desk: Desk, known: Sequence[str]) -> list[str]:
    """Add names and read all."""
    desk.run("tasks_add", (json_text(list(known)),))
    return _names.decode(desk.row("tasks")[0])
