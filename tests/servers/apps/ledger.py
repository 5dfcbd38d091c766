"""What jobs write down about themselves: one line at the start and one at the end, appended in one step.

Tests count runs by these lines, never by what the store says. Monotonic time is the same clock in every process.
"""

from __future__ import annotations

import json
import logging
import os
import time
from typing import Any

_fd: tuple[int, int] | None = None  # pid, descriptor


def note(event: str, ref: str = "", **more: Any) -> None:
    """Append one line to the file that ``LEDGER`` names; nothing without it."""
    global _fd
    path = os.environ.get("LEDGER")
    if not path:
        return
    if _fd is None or _fd[0] != os.getpid():
        _fd = (os.getpid(), os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600))
    line = {"event": event, "ref": ref, "pid": os.getpid(), "t": time.monotonic(), **more}
    os.write(_fd[1], (json.dumps(line) + "\n").encode())


class Saying(logging.Handler):
    """Writes what Pillion logs between the jobs' own lines, stamped where it is said."""

    def emit(self, record: logging.LogRecord) -> None:
        note("said", text=record.getMessage(), level=record.levelname)


def listen() -> None:
    """Send Pillion's log to the ledger as well, if ``LEDGER_LOG`` is set."""
    if os.environ.get("LEDGER_LOG"):
        log = logging.getLogger("pillion")
        log.setLevel(logging.INFO)
        log.addHandler(Saying())
