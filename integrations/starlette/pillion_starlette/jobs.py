"""`Jobs` for Starlette."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import ExitStack, asynccontextmanager
from functools import cached_property
from typing import Any

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Router

import pillion
from pillion.adapter import Adapter
from pillion.errors import ConfigurationError
from pillion_starlette import health


class Jobs(pillion.Jobs):
    """`pillion.Jobs` with a lifespan and health routes: ``app = Starlette(lifespan=jobs.lifespan)``."""

    _placed_by_hand = False  # the user puts the health routes where they are wanted

    @cached_property
    def _adapter(self) -> Adapter:
        return Adapter(self)

    @asynccontextmanager
    async def lifespan(self, app: Any) -> AsyncGenerator[None]:
        """Start the worker, answer health, and drain at the exit. Yields no state.

        A lifespan of your own has it innermost: ``async with engine(), jobs.lifespan(app): yield``. Entered several
        times in a process there is one worker; the last exit drains. Raises `ConfigurationError`.
        """
        if not isinstance(app, Starlette | Router | None):
            raise ConfigurationError(
                f"{type(self).__module__.partition('.')[0]} serves Starlette and FastAPI apps, and {app!r} is neither: "
                "write lifespan=jobs.lifespan, or jobs.lifespan(app) inside a lifespan of your own"
            )
        async with self._adapter.entered():
            with ExitStack() as stack:
                prefix = self.settings.prefix
                if app is not None and prefix is not None and not self._placed_by_hand:
                    stack.enter_context(health.in_front(app.routes, prefix, self._adapter.health, self._flat))
                yield

    def routes(self, prefix: str | None = None) -> list[BaseRoute]:
        """The health routes, to be placed by hand; the lifespan adds none then.

        prefix: by default the setting of that name, or ``/jobs`` if it is None.
        """
        self._placed_by_hand = True
        return list(health.routes(health.Board(self._adapter.health), self._prefix(prefix)))

    def _prefix(self, given: str | None) -> str:
        return next(prefix for prefix in (given, self.settings.prefix, health.PREFIX) if prefix is not None)

    def _flat(self, routes: Iterable[Any]) -> Iterable[Any]:
        """An app's routes with everything spelled out that its framework keeps folded up."""
        return routes
