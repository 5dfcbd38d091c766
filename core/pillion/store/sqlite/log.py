"""The write-ahead log, kept within bounds."""

from __future__ import annotations

import os
import sqlite3
from typing import Final

KEEP_BYTES: Final = 64 << 20  # the log is cut back above this
_MIB: Final = 1 << 20


def cut_back(connection: sqlite3.Connection, path: str, keep_bytes: int = KEEP_BYTES) -> str | None:
    """Fold a log that has grown too large into the database and empty it, outside a transaction.

    Returns a sentence for people if a reader stands in the way, else None. Waits for nobody.
    """
    if _size(path) <= keep_bytes:
        return None
    busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    if not busy:
        return None
    return (
        f"The write-ahead log has grown to {_size(path) // _MIB} MiB, since some connection keeps a read transaction "
        "open. Find and close it: a forgotten transaction, a console, or a backup that hangs."
    )


def _size(path: str) -> int:
    try:
        return os.stat(f"{path}-wal").st_size
    except OSError:
        return 0
