"""Stores by URL. The only place that names concrete stores, and it imports them late."""

from __future__ import annotations

from typing import Literal

from pillion.clock import Clock, SystemClock
from pillion.errors import ConfigurationError
from pillion.store.base import Store

Durability = Literal["full", "relaxed"]


def open_store(url: str, *, namespace: str = "", durability: Durability = "full", clock: Clock | None = None) -> Store:
    """Build (not open) the store that `url` names.

    Raises `ConfigurationError` for a scheme that no installed store serves.
    """
    scheme = url.partition(":")[0].partition("+")[0].lower()
    if scheme in ("sqlite", "memory"):
        from pillion.store.sqlite.store import SqliteStore

        return SqliteStore(url, namespace=namespace, durability=durability, clock=clock or SystemClock())
    raise ConfigurationError(
        f"no store serves {scheme!r} URLs; use sqlite:///jobs.db for a file, or memory:// in tests"
    )
