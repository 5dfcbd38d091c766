"""The systems by name, imported only when they are used."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from bench.systems.base import System

# name: (module, class). A colon starts a variant: the same system with other settings, in some measures only.
SYSTEMS: Final[dict[str, tuple[str, str]]] = {
    "pillion": ("pillion_sqlite", "Pillion"),
    "pillion:relaxed": ("pillion_sqlite", "PillionRelaxed"),
    "tinyjobs": ("tinyjobs_sqlite", "Tinyjobs"),
    "huey": ("huey_sqlite", "Huey"),
    "huey:full": ("huey_sqlite", "HueyFull"),
    "bare": ("bare_sqlite", "Bare"),
    "bare:relaxed": ("bare_sqlite", "BareRelaxed"),
}


def system(name: str) -> type[System]:
    """The adapter of that name."""
    module, cls = SYSTEMS[name]
    found: type[System] = getattr(import_module(f"bench.systems.{module}"), cls)
    return found
