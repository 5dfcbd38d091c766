"""`Jobs` for FastAPI."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Any, ClassVar

import fastapi.routing
from fastapi import APIRouter, params
from starlette.routing import WebSocketRoute

import pillion_starlette
from pillion.adapter import Adapter, MarkerReader, Overrides
from pillion_fastapi import markers
from pillion_starlette.health import Board


class Jobs(pillion_starlette.Jobs):
    """`pillion.Jobs` with a lifespan, health routes and `Depends`: ``app = FastAPI(lifespan=jobs.lifespan)``."""

    marker_readers: ClassVar[Sequence[MarkerReader]] = (markers.read,)

    @cached_property
    def _apps(self) -> list[Any]:
        """The apps whose lifespan runs, as often as it was entered."""
        return []

    @cached_property
    def _adapter(self) -> Adapter:
        adapter = Adapter(self)
        adapter.replace_dependencies(self._overrides)
        return adapter

    @asynccontextmanager
    async def lifespan(self, app: Any) -> AsyncGenerator[None]:
        """See `pillion_starlette.Jobs.lifespan`. Jobs honour ``app.dependency_overrides``, as they are at each run."""
        self._apps.append(app)
        try:
            async with super().lifespan(app):
                yield
        finally:
            self._apps.remove(app)

    def router(
        self,
        prefix: str | None = None,
        *,
        dependencies: Sequence[params.Depends] | None = None,
        include_in_schema: bool = False,
    ) -> APIRouter:
        """The health routes behind dependencies of your own: ``app.include_router(jobs.router(dependencies=[…]))``.

        The lifespan adds no open ones then. prefix: by default the setting of that name, or ``/jobs`` if it is None.
        """
        self._placed_by_hand = True
        router = APIRouter(dependencies=dependencies, include_in_schema=include_in_schema)
        for path, endpoint in Board(self._adapter.health).endpoints(self._prefix(prefix)).items():
            router.add_api_route(path, endpoint, methods=["GET"])
        return router

    def _overrides(self) -> Overrides:
        found = [app.dependency_overrides for app in dict.fromkeys(self._apps) if hasattr(app, "dependency_overrides")]
        return found[0] if len(found) == 1 else ChainMap(*found)

    def _flat(self, routes: Iterable[Any]) -> Iterable[Any]:
        # Newer FastAPI keeps an included router as one route, and spells it out with this function.
        spell_out = getattr(fastapi.routing, "iter_route_contexts", None)
        if spell_out is None:
            return routes
        return [route for route in spell_out(routes) if not isinstance(route.original_route, WebSocketRoute)]
