"""Opening the database: pragmas set, and read back where it matters."""

from __future__ import annotations

import sqlite3
from typing import Final

from pillion.store.sqlite.log import KEEP_BYTES

CACHE_KIB: Final = 16_384
CHECKPOINT_PAGES: Final = 4_000  # 16 MB of log between checkpoints: each costs two syncs


def connect(path: str | None) -> sqlite3.Connection:
    """Open `path`, or a private database in memory. SQLite itself does not wait for locks: see `patience`.

    Raises `sqlite3.Error`.
    """
    # The connection is used by one thread only; closing may happen on another, hence the unchecked thread.
    connection = sqlite3.connect(
        path or ":memory:",
        timeout=0,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )
    try:
        if path is not None:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
        connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA journal_size_limit = {KEEP_BYTES}").fetchone()
        connection.execute("PRAGMA temp_store = MEMORY")
    except BaseException:
        connection.close()
        raise
    return connection


def journal_mode(connection: sqlite3.Connection) -> str:
    """The journal mode that is in force, whatever was asked for."""
    return str(connection.execute("PRAGMA journal_mode").fetchone()[0]).lower()


def set_synchronous(connection: sqlite3.Connection, full: bool) -> None:
    """Choose whether commits wait for the disk. Only outside a transaction."""
    # This pragma acts when it is compiled. A text that sqlite3 has cached would not be compiled again, and so
    # do nothing; executescript() caches nothing.
    connection.executescript(f"PRAGMA synchronous = {'FULL' if full else 'NORMAL'}")
