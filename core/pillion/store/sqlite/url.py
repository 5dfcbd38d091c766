"""What an SQLite URL names."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from pillion.errors import ConfigurationError

_MEMORY_NOTE: Final = "Jobs live in this process's memory: other processes do not see them, and they end with it."


@dataclass(frozen=True, slots=True)
class Target:
    """A database file by its absolute path, or a private one in memory (``path`` is None)."""

    path: str | None
    label: str
    notes: tuple[str, ...] = ()


def parse(url: str) -> Target:
    """Resolve `url` once: ``sqlite:///rel.db``, ``sqlite:////abs.db``, ``memory://``; ``+driver`` is ignored.

    Relative paths count from the current folder, now. Raises `ConfigurationError` for what names neither.
    """
    scheme, colon, rest = url.partition(":")
    name = scheme.partition("+")[0].lower()
    body = rest.partition("?")[0]
    if name == "memory" and body in ("", "//"):
        return Target(None, "memory://", (_MEMORY_NOTE,))
    if name == "sqlite" and body in ("", "//", "///", "///:memory:", "//:memory:"):
        return Target(None, "memory://", (f"{url!r} names no file. {_MEMORY_NOTE}",))
    if name != "sqlite" or not colon:
        raise ConfigurationError(f"{url!r} is no SQLite URL; use sqlite:///jobs.db or sqlite:////var/lib/jobs.db")
    if not body.startswith("///"):
        raise ConfigurationError(
            f"{url!r} names a host; a file takes three slashes (relative, sqlite:///jobs.db) or four (absolute)"
        )
    given = unquote(body[3:])
    if given.startswith("file:"):
        raise ConfigurationError(f"{url!r} holds an SQLite file: URI; give the plain path, as in sqlite:///jobs.db")
    if "\0" in given:
        raise ConfigurationError("the path of an SQLite URL cannot hold NUL")
    path = os.path.abspath(os.path.expanduser(given))
    return Target(path, f"sqlite:///{path}")
