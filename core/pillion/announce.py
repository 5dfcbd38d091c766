"""The few lines that everybody should see: start, drain, end.

Under a plain server nobody has configured our logger, and INFO on it would vanish. Then, and only then, the line
goes to stderr; with any logging configuration in place it is an ordinary record of the logger ``pillion``.
"""

from __future__ import annotations

import logging
import sys

log = logging.getLogger("pillion")


def announce(text: str) -> None:
    """Say `text` once, at INFO."""
    if log.hasHandlers():
        log.info(text)
    elif log.level in (logging.NOTSET, logging.DEBUG, logging.INFO):
        print(f"INFO:     pillion: {text}", file=sys.stderr, flush=True)
