"""What an operation works on: the open database, the statements, and the store's clock."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import msgspec

from pillion.store.sqlite.statements import Statements, Value

T = TypeVar("T")

_BREAKING: Final = {
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_ERROR,
}

_encode = msgspec.json.Encoder().encode


def json_text(value: object) -> str:
    """`value` as JSON text, as the statements take lists."""
    return _encode(value).decode()


def _identity(path: str | None) -> tuple[int, int] | None:
    """Device and inode of a file; None: there is none."""
    try:
        stat = os.stat(path) if path is not None else None
    except OSError:
        return None
    return None if stat is None else (stat.st_dev, stat.st_ino)


class Desk:
    """One open database on the writer's thread. Operations are plain functions over it.

    ``ready``, ``ended`` and ``more`` (ready jobs than a claim could take) are set by operations and turned into
    hints after the commit.
    """

    __slots__ = (
        "_execute", "_fetch", "_path", "_stat", "broken", "connection", "durable", "ended", "more", "ready",
        "sql", "steady_us", "wall_us",
    )  # fmt: skip

    def __init__(
        self,
        connection: sqlite3.Connection,
        sql: Statements,
        wall_us: Callable[[], int],
        steady_us: Callable[[], int],
        path: str | None = None,
    ) -> None:
        self.connection = connection
        self.sql = sql
        self.durable = True  # whether commits wait for the disk, as connections are opened
        self.broken = False  # True: close it and open another
        self._path = path
        self._stat = _identity(path)
        self.wall_us = wall_us  # the store's clock, its offset included
        self.steady_us = steady_us
        self.ready = False
        self.ended = False
        self.more = False
        cursor = connection.cursor()
        self._execute = cursor.execute
        self._fetch = cursor.fetchone

    def close(self) -> None:
        """Close the database; the last one to do so folds the log into it."""
        self.connection.close()

    def note(self, error: Exception) -> None:
        """Remember an error after which the connection is not to be trusted."""
        code = getattr(error, "sqlite_errorcode", None)
        if self._path is not None and isinstance(code, int) and code & 0xFF in _BREAKING:
            self.broken = True

    def stale(self) -> bool:
        """True if the file was moved or replaced under the open connection."""
        return _identity(self._path) != self._stat

    def run(self, name: str, values: Sequence[Value] = ()) -> int:
        """Run the writing statement `name`; how many rows it touched."""
        return self._execute(self.sql[name], values).rowcount

    def run_text(self, text: str, values: Sequence[Value]) -> int:
        """The same for a text that was built from parts."""
        return self._execute(text, values).rowcount

    def row(self, name: str, values: Sequence[Value] = ()) -> Any:
        """The only row of the reading statement `name`, or None."""
        return self.row_text(self.sql[name], values)

    def row_text(self, text: str, values: Sequence[Value]) -> Any:
        """The same for a text that was built from parts."""
        self._execute(text, values)
        return self._fetch()

    def rows(self, name: str, values: Sequence[Value] = ()) -> list[Any]:
        """All rows of the reading statement `name`: for answers that are few and cold."""
        return self.connection.execute(self.sql[name], values).fetchall()


@dataclass(frozen=True, slots=True)
class Operation(Generic[T]):
    """A store call, as the writer takes it. At least one of ``peek`` and ``write`` is given.

    ``peek`` runs first, outside any write transaction, and may answer; None sends the operation on to ``write``.
    """

    write: Callable[[Desk], T] | None = None
    peek: Callable[[Desk], T | None] | None = None
    durable: bool = False  # its commit waits for the disk, unless the store is relaxed
    urgent: bool = False  # a beat: before all others
    weight: int = 1  # about how many rows it writes
