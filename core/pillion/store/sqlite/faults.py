"""SQLite's errors as the three kinds the contract knows."""

from __future__ import annotations

import sqlite3
from typing import Final

from pillion.errors import PillionError, StoreAway, StoreContended, StoreData

_CONTENDED: Final = {
    sqlite3.SQLITE_BUSY: "another connection is writing, or keeps a transaction open, perhaps in this very process",
    sqlite3.SQLITE_LOCKED: "another statement is in the way",
    sqlite3.SQLITE_PROTOCOL: "the locks of the write-ahead log are contended",
    sqlite3.SQLITE_SCHEMA: "the schema is changing",
    sqlite3.SQLITE_INTERRUPT: "the statement was interrupted",
}
_AWAY: Final = {
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened; does its folder exist, and may this user write there?",
    sqlite3.SQLITE_IOERR: "reading or writing the disk failed",
    sqlite3.SQLITE_FULL: "the disk or the database is full; free some space",
    sqlite3.SQLITE_READONLY: "the database is read-only; give this user write access to the file and its folder",
    sqlite3.SQLITE_PERM: "access was denied; give this user write access to the file and its folder",
    sqlite3.SQLITE_AUTH: "access was denied",
    sqlite3.SQLITE_NOTADB: "the file is not an SQLite database; check the URL",
    sqlite3.SQLITE_CORRUPT: "the database file is damaged; restore it from a backup, or move it away to start afresh",
    sqlite3.SQLITE_NOMEM: "no memory is left",
    sqlite3.SQLITE_NOLFS: "the file has become larger than the file system allows",
    sqlite3.SQLITE_ERROR: "the tables are not what was opened; was the file replaced while this process ran?",
}


def mapped(error: Exception, label: str) -> Exception:
    """`error` as a store error that says what to do; one that is none of SQLite's or Python's comes back as it is."""
    if isinstance(error, PillionError):
        return error
    if isinstance(error, sqlite3.Error):
        # Extended codes carry the primary one in their low byte; binding errors carry none.
        code = getattr(error, "sqlite_errorcode", None)
        primary = code & 0xFF if isinstance(code, int) else None
        if primary in _CONTENDED:
            return StoreContended(f"{label}: {_CONTENDED[primary]} ({error})")
        if primary in _AWAY:
            return StoreAway(f"{label}: {_AWAY[primary]} ({error})")
        if primary is None and isinstance(error, sqlite3.ProgrammingError) and "closed" in str(error):
            return StoreAway(f"{label}: the database was closed")
        return StoreData(f"{label}: the data is refused ({error})")
    if isinstance(error, (OverflowError, UnicodeError, ValueError)):
        return StoreData(f"{label}: the data is refused ({error})")
    if isinstance(error, OSError):
        return StoreAway(f"{label}: {error}")
    return error


def is_contended(error: Exception) -> bool:
    """True if somebody else holds the lock that was wanted."""
    code = getattr(error, "sqlite_errorcode", None)
    return isinstance(error, sqlite3.OperationalError) and isinstance(code, int) and code & 0xFF in _CONTENDED
