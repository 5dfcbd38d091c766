"""What Pillion says is seen, whether or not anybody has configured logging.

All of it goes to the logger ``pillion``. Under a plain server nobody has given that logger or the root a handler: INFO
would vanish and warnings come out bare. Then, and only then, a handler of ours writes them to stderr in one form.
"""

from __future__ import annotations

import logging
import sys

log = logging.getLogger("pillion")


class _Fallback(logging.Handler):
    """Writes only while no other handler would."""

    def emit(self, record: logging.LogRecord) -> None:
        if not _configured():
            print(f"{record.levelname + ':':<9} pillion: {self.format(record)}", file=sys.stderr, flush=True)


_FALLBACK = _Fallback()


def be_seen() -> None:
    """From now on nothing that is said gets lost for want of a handler. Idempotent."""
    if _FALLBACK not in log.handlers:
        log.addHandler(_FALLBACK)


def announce(text: str) -> None:
    """Say `text` once, at INFO: the start, the drain, the end."""
    if _configured():
        log.info(text)
    elif log.level in (logging.NOTSET, logging.DEBUG, logging.INFO):  # the root's default of WARNING is nobody's wish
        _FALLBACK.handle(log.makeRecord(log.name, logging.INFO, __file__, 0, text, (), None))


def _configured() -> bool:
    """True if some handler other than ours takes the records of ``pillion``."""
    logger: logging.Logger | None = log
    while logger is not None:
        if any(handler is not _FALLBACK for handler in logger.handlers):
            return True
        logger = logger.parent if logger.propagate else None
    return False
