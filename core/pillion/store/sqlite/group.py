"""One write transaction for many operations, and what to do when it fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from pillion.store.sqlite.connection import set_synchronous
from pillion.store.sqlite.desk import Desk, Operation
from pillion.store.sqlite.patience import patiently

Outcome = Any  # an operation's answer, or the exception it raised


class Asked(Protocol):
    """Something that carries an operation."""

    @property
    def operation(self) -> Operation[Any]: ...


A = TypeVar("A", bound=Asked)


def write_group(desk: Desk, group: Sequence[A], durable: bool) -> list[tuple[A, Outcome]]:
    """Run `group` in one transaction. If that fails, run each alone: only the culprit gets its error.

    Raises what BEGIN raises: then nothing was tried.
    """
    _begin(desk, durable)
    try:
        outcomes = _run(desk, group)
    except Exception as error:
        _undo(desk, error)
        if len(group) == 1:
            return [(group[0], error)]
    else:
        return outcomes
    alone: list[tuple[A, Outcome]] = []
    ready = ended = more = False
    for request in group:
        try:
            _begin(desk, durable)
            alone += _run(desk, [request])
        except Exception as error:
            _undo(desk, error)
            alone.append((request, error))
        ready, ended, more = ready or desk.ready, ended or desk.ended, more or desk.more
        desk.ready = desk.ended = desk.more = False
    desk.ready, desk.ended, desk.more = ready, ended, more
    return alone


def _begin(desk: Desk, durable: bool) -> None:
    # A transaction's durability is fixed before it begins.
    if desk.durable != durable:
        set_synchronous(desk.connection, durable)
        desk.durable = durable
    patiently(lambda: desk.connection.execute("BEGIN IMMEDIATE"))


def _run(desk: Desk, group: Sequence[A]) -> list[tuple[A, Outcome]]:
    outcomes: list[tuple[A, Outcome]] = []
    for request in group:
        write = request.operation.write
        outcomes.append((request, None if write is None else write(desk)))
    desk.connection.execute("COMMIT")
    return outcomes


def _undo(desk: Desk, error: Exception) -> None:
    """Leave no transaction open. Some errors (disk full) have rolled back already: look, do not guess."""
    desk.note(error)
    desk.ready = desk.ended = desk.more = False
    if desk.connection.in_transaction:
        desk.connection.execute("ROLLBACK")
