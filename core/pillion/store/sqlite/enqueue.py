"""Storing jobs."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pillion.errors import StoreData
from pillion.model import Enqueued, NewJob
from pillion.store.sqlite.desk import Desk, json_text
from pillion.store.sqlite.statements import Value

_WIDTH = 11
_MAX_ROWS = 256
_ids = msgspec.json.Decoder(list[str])
_holders = msgspec.json.Decoder(dict[str, str])


def _clean(text: str | None) -> bool:
    """True for what a database and JSON can surely carry; False: look closer."""
    return text is None or (text.isascii() and "\0" not in text)


def check_text(name: str, text: str | None) -> None:
    """Refuse what a database or JSON cannot carry, before it can spoil a group. Raises `StoreData`."""
    if text is None or _clean(text):
        return
    if "\0" in text:
        raise StoreData(f"{name} holds a NUL character; remove it")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise StoreData(f"{name} is not valid Unicode (a lone surrogate); clean it") from error


def check_jobs(jobs: Sequence[NewJob]) -> None:
    """Raises `StoreData` for a text that cannot be stored."""
    for job in jobs:
        if not (
            _clean(job.args) and _clean(job.id) and _clean(job.task) and _clean(job.queue)
            and (job.key is None or _clean(job.key)) and (job.headers is None or _clean(job.headers))
        ):  # fmt: skip
            for name in ("id", "task", "queue", "key", "args", "headers"):
                check_text(f"{name} of job {job.id!r}", getattr(job, name))


def enqueue(desk: Desk, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """Insert `jobs` in order; known ids and taken keys are results."""
    taken = _taken(desk, jobs) if any(job.key is not None for job in jobs) else {}
    fresh = [job for at, job in enumerate(jobs) if at not in taken] if taken else jobs
    now = desk.wall_us()
    created = _insert(desk, fresh, now)
    keyed = [job.id for job in fresh if job.key is not None and (created is None or job.id in created)]
    if keyed:
        desk.run("keys_take", (json_text(keyed),))
    answers: list[Enqueued] = []
    for at, job in enumerate(jobs):
        if at in taken:
            answers.append(Enqueued(job.id, False, taken[at]))
        elif created is None:
            answers.append(Enqueued(job.id, True))
        else:
            answers.append(Enqueued(job.id, job.id in created))
            created.discard(job.id)
    return answers


def _insert(desk: Desk, jobs: Sequence[NewJob], now: int) -> set[str] | None:
    """Insert what is not known by id. The ids that are new; None if all are (the usual case)."""
    touched = 0
    for start in range(0, len(jobs), _MAX_ROWS):
        part = jobs[start : start + _MAX_ROWS]
        values: list[Value] = []
        for job in part:
            state, due = 2, job.due_us
            if due is None and job.delay_us > 0:
                due = now + job.delay_us
            if due is not None and due > now:
                state = 1
            else:
                desk.ready = True
            values += (
                job.id, job.queue, job.task, job.kind, job.priority, state, due, job.key, now, job.headers, job.args,
            )  # fmt: skip
        touched += _insert_part(desk, values, len(part))
    if touched == len(jobs):
        return None
    # Sequence numbers are given without gaps inside a transaction, so what is new is what came last.
    last: int = desk.row("last_seq")[0] or 0
    return set(_ids.decode(desk.row("ids_after", (last - touched,))[0]))


def _insert_part(desk: Desk, values: list[Value], rows: int) -> int:
    """Insert without padding (a NULL id would be refused): the sizes of the statements, largest first."""
    touched = done = 0
    while done < rows:
        text, size = desk.sql.rows_within("enqueue", rows - done)
        part = values if size == rows else values[done * _WIDTH : (done + size) * _WIDTH]
        touched += desk.run_text(text, part)
        done += size
    return touched


def _taken(desk: Desk, jobs: Sequence[NewJob]) -> dict[int, str]:
    """Which of `jobs` (by place) find their key held, and by whom. Repeats of known ids are not among them."""
    keyed = [job for job in jobs if job.key is not None]
    known = set(_ids.decode(desk.row("ids_known", (json_text([job.id for job in keyed]),))[0]))
    holders = _holders.decode(desk.row("key_holders", (json_text([job.key for job in keyed]),))[0])
    taken: dict[int, str] = {}
    for at, job in enumerate(jobs):
        if job.key is None or job.id in known:
            continue
        holder = holders.setdefault(job.key, job.id)
        if holder != job.id:
            taken[at] = holder
    return taken
