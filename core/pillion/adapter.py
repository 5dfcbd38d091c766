"""What framework packages build on: entering a `Jobs`, its health, and injection by the framework's own markers.

An adapter adds a lifespan, injection and routes, and nothing else. It imports `pillion`, `pillion.adapter`,
`pillion.errors`, `pillion.handle` and `pillion.web`; everything else is private to the core.
"""

# The one module beside `pillion.jobs` that looks inside a `Jobs`, so that no adapter has to.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from pillion.handle import Enqueue, EnqueueSync
from pillion.inject import MarkerReader, Provider, Refusal
from pillion.jobs import Jobs
from pillion.web.facts import Here
from pillion.web.health import Health, Origin
from pillion.web.here import look

__all__ = ["Adapter", "Enqueue", "EnqueueSync", "MarkerReader", "Overrides", "Provider", "Refusal"]

Overrides = Mapping[Callable[..., Any], Callable[..., Any]]


class Adapter:
    """A framework's side of one `Jobs`. Building it opens nothing."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self.health = Health(self._here, self._origin)

    @asynccontextmanager
    async def entered(self) -> AsyncGenerator[None]:
        """Run the worker, or only open the store with ``worker=False``, and keep health fresh; the last exit drains.

        May be entered any number of times in a process. Raises `ConfigurationError` for a task that cannot work.
        """
        jobs = self._jobs
        jobs.prepare()
        async with jobs._lifecycle.enter(worker=jobs.settings.worker):
            scope = jobs._this_process().scope()
            async with self.health.watching(scope.client.link):
                yield

    def replace_dependencies(self, overrides: Callable[[], Overrides]) -> None:
        """Where replacements of dependencies are found, asked at every run: for tests."""
        self._jobs._desk.overrides = overrides

    def _here(self) -> Here:
        jobs, lifecycle = self._jobs, self._jobs._lifecycle
        wanted = jobs.settings.worker and jobs._grounds[-1].workers
        return look(jobs.settings, lifecycle.entered > 0, wanted, lifecycle.runtime)

    def _origin(self) -> Origin:
        jobs, settings = self._jobs, self._jobs.settings
        return Origin(
            source=(settings.url, settings.namespace),
            kind=settings.url.partition(":")[0].partition("+")[0].lower(),
            durability=settings.durability,
            warnings=jobs._this_process().store.warnings if jobs._lifecycle.entered else (),
        )
