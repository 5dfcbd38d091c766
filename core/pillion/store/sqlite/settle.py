"""Writing outcomes, each only if its fence holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from pillion.model import Rescue, Settlement
from pillion.store.sqlite.codes import CODE
from pillion.store.sqlite.desk import Desk, json_text
from pillion.store.sqlite.statements import Value, padded

ATTEMPTS_KEPT: Final = 20  # rows of history a job
_MAX_ROWS: Final = 256
_seqs = msgspec.json.Decoder(list[int])


def settle(desk: Desk, settled: Sequence[Settlement], worker: str, link: int, number: int) -> list[int]:
    """Write what exchange `number` hands in; the seqs whose fence no longer held."""
    # A settled row carries the negated number of the exchange that settled it. Numbers never repeat on a link,
    # so a count that falls short can be traced to the rows.
    stamp = -number
    empty: dict[tuple[int, int | None], list[int]] = {}  # successes without a result, by ticket and time to keep
    plain: list[Settlement] = []
    other: list[Settlement] = []
    for item in settled:
        if not _is_plain(item):
            other.append(item)
        elif item.result is None:
            empty.setdefault((item.ticket, item.keep_us), []).append(item.seq)
        else:
            plain.append(item)
    written = _write_empty(desk, empty, worker, link, stamp)
    written += _write_plain(desk, plain, worker, link, stamp) if plain else 0
    if other:
        written += _write(desk, [(worker, link, item) for item in other], stamp)
    free_keys(desk, [item for item in settled if item.keyed and _is_plain(item)])
    if written == len(settled):
        return []
    asked = [item.seq for item in settled]
    done = set(_seqs.decode(desk.row("settled_by", (json_text(asked), worker, link, stamp))[0]))
    return [seq for seq in asked if seq not in done]


def rescue(desk: Desk, decisions: Sequence[Rescue]) -> int:
    """Write decisions over other workers' jobs; how many fences still held."""
    return _write(desk, [(item.worker, item.link, item.settlement) for item in decisions], 0)


def free_keys(desk: Desk, settled: Sequence[Settlement]) -> None:
    """Free the keys of those that hold one and have come to a final state."""
    keyed = [item.seq for item in settled if item.keyed]
    if keyed:
        desk.run("keys_free", (json_text(keyed),))


def _is_plain(item: Settlement) -> bool:
    """A success that brings nothing but its result: by far the most."""
    return item.state == "succeeded" and item.error is None and not (item.failures or item.losses or item.releases)


def _write_empty(
    desk: Desk, groups: Mapping[tuple[int, int | None], Sequence[int]], worker: str, link: int, stamp: int
) -> int:
    """Successes without a result: what one exchange claimed is one statement with one list."""
    now = desk.wall_us()
    written = 0
    for (ticket, keep), seqs in groups.items():
        prune = None if keep is None else now + keep
        written += desk.run("settle_empty", (stamp, now, prune, json_text(seqs), ticket, worker, link))
        desk.ended = True
    return written


def _write_plain(desk: Desk, settled: Sequence[Settlement], worker: str, link: int, stamp: int) -> int:
    now = desk.wall_us()
    written = 0
    for start in range(0, len(settled), _MAX_ROWS):
        part = settled[start : start + _MAX_ROWS]
        text, size = desk.sql.rows("settle_success", len(part))
        values: list[Value] = [stamp, now]
        for item in part:
            keep = item.keep_us
            values += (item.seq, item.ticket, None if keep is None else now + keep, item.result)
        padded(values, len(part), 4, size)
        values += (worker, link)
        written += desk.run_text(text, values)
    desk.ended = True
    return written


def _write(desk: Desk, items: Sequence[tuple[str, int, Settlement]], stamp: int) -> int:
    """Write any outcomes; how many fences held."""
    now = desk.wall_us()
    _add_attempts(desk, [item for item in items if item[2].outcome != "succeeded"], now)
    written = 0
    for start in range(0, len(items), _MAX_ROWS):
        part = items[start : start + _MAX_ROWS]
        text, size = desk.sql.rows("settle", len(part))
        values: list[Value] = [stamp, now, now]
        for worker, link, item in part:
            keep = item.keep_us
            values += (
                item.seq, worker, link, item.ticket, CODE[item.state],
                now + item.delay_us if item.state == "scheduled" else None,
                item.failures, item.losses, item.releases, item.suspect,
                item.result, item.error, None if keep is None else now + keep,
            )  # fmt: skip
            if item.state == "queued":
                desk.ready = True
            desk.ended = True  # or it may have: a cancel wish ends what was to wait again
        written += desk.run_text(text, padded(values, len(part), 13, size))
    free_keys(desk, [item for _, _, item in items])
    return written


def _add_attempts(desk: Desk, items: Sequence[tuple[str, int, Settlement]], now: int) -> None:
    """Keep how these attempts ended; before the rows themselves change."""
    for start in range(0, len(items), _MAX_ROWS):
        part = items[start : start + _MAX_ROWS]
        text, size = desk.sql.rows("attempts_add", len(part))
        values: list[Value] = [now]
        for worker, link, item in part:
            values += (item.seq, worker, link, item.ticket, item.outcome, item.error)
        desk.run_text(text, padded(values, len(part), 6, size))
        desk.run("attempts_trim", (json_text([item.seq for _, _, item in part]), ATTEMPTS_KEPT))
