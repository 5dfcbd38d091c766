"""Injection for jobs: markers on parameters, a plan made at start, values made per job.

A parameter is injected if its default is a marker (``client: Client = inject(http)``), or its annotation
carries one (``client: Annotated[Client, inject(http)] = injected``). Adapters teach `Injector` to read
their framework's marker as well.
"""

from __future__ import annotations

from pillion.inject.markers import (
    Inject,
    MarkerReader,
    PerLoop,
    Provider,
    Refusal,
    inject,
    injected,
    read_own,
)
from pillion.inject.plan import Injected, Plan
from pillion.inject.solve import Injector, Resources

__all__ = [
    "Inject",
    "Injected",
    "Injector",
    "MarkerReader",
    "PerLoop",
    "Plan",
    "Provider",
    "Refusal",
    "Resources",
    "inject",
    "injected",
    "read_own",
]
