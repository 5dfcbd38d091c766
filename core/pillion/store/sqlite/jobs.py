"""Reading jobs, and the wish to cancel them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pillion.model import AttemptRow, JobRow, QueueRow
from pillion.store.sqlite.codes import STATES
from pillion.store.sqlite.desk import Desk, json_text

_states = msgspec.json.Decoder(dict[str, int])


def get(desk: Desk, ids: Sequence[str]) -> list[JobRow]:
    """The jobs among `ids`, with their history."""
    rows = desk.rows("jobs_get", (json_text(list(ids)),))
    history: dict[int, list[AttemptRow]] = {}
    for row in rows:
        history[row[0]] = []
    seqs = json_text(sorted(history))
    for seq, number, worker, started, ended, outcome, error in desk.rows("attempts_get", (seqs,)):
        history[seq].append(
            AttemptRow(number=number, worker=worker, started_us=started, ended_us=ended, outcome=outcome, error=error)
        )
    return [
        JobRow(
            id=row[1], task=row[2], queue=row[3], kind=row[4], state=STATES[int(row[5])], priority=row[6], key=row[7],
            args=row[8], headers=row[9], result=row[10], error=row[11], cancel=bool(row[12]), attempt=row[13],
            failures=row[14], losses=row[15], releases=row[16], worker=row[17], created_us=row[18], due_us=row[19],
            started_us=row[20], finished_us=row[21], history=history[row[0]],
        )
        for row in rows
    ]  # fmt: skip


def states(desk: Desk, ids: Sequence[str]) -> dict[str, str]:
    """State by id."""
    found = _states.decode(desk.row("states", (json_text(list(ids)),))[0])
    return {name: STATES[code] for name, code in found.items()}


def uncancellable(desk: Desk, ids: Sequence[str]) -> dict[str, str] | None:
    """The states if a cancel would change nothing, else None."""
    return None if desk.row("cancellable", (json_text(list(ids)),))[0] else states(desk, ids)


def cancel(desk: Desk, ids: Sequence[str], keep_us: int | None) -> dict[str, str]:
    """Cancel what has not started, wish it for what runs; the states afterwards."""
    text = json_text(list(ids))
    now = desk.wall_us()
    if desk.run("cancel_pending", (now, None if keep_us is None else now + keep_us, text)):
        desk.run("keys_free_ids", (text,))
        desk.ended = True
    desk.run("cancel_wish", (-1 if keep_us is None else keep_us, text))
    return states(desk, ids)


def queues(desk: Desk, cap: int) -> list[QueueRow]:
    """Depths by queue and task; nothing is counted beyond `cap` rows."""
    now = desk.wall_us()
    found: dict[tuple[str, str], dict[str, int | None]] = {}

    def row(queue: str, task: str) -> dict[str, int | None]:
        empty: dict[str, int | None] = {"queued": 0, "scheduled": 0, "running": 0, "oldest_us": None}
        return found.setdefault((queue, task), empty)

    for (queue,) in desk.rows("ready_queues"):
        for _, task, count, oldest in desk.rows("depth_ready", (queue, cap)):
            row(queue, task).update(queued=count, oldest_us=max(0, now - oldest))
    for queue, task, count in desk.rows("depth_scheduled", (cap,)):
        row(queue, task)["scheduled"] = count
    for queue, task, count in desk.rows("depth_running", (cap,)):
        row(queue, task)["running"] = count
    return [
        QueueRow(
            queue=queue,
            task=task,
            queued=depth["queued"] or 0,
            scheduled=depth["scheduled"] or 0,
            running=depth["running"] or 0,
            oldest_us=depth["oldest_us"],
        )
        for (queue, task), depth in sorted(found.items())
    ]
