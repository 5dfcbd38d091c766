"""One kit a framework: how an app with these routes is built there. A new framework costs one class."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar, Protocol

from fastapi import Depends, FastAPI
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Mount, Route

import pillion_fastapi
import pillion_starlette
from pillion.adapter import Enqueue

Handler = Callable[[Enqueue, Request], Awaitable[Any]]
Lifespan = Callable[[Any], AbstractAsyncContextManager[None]]


class Kit(Protocol):
    """What scenarios need of a framework."""

    name: ClassVar[str]
    line: ClassVar[str]  # how a user of it starts the worker

    def jobs(self, url: str, **settings: Any) -> pillion_starlette.Jobs:
        """The framework's `Jobs`."""
        ...

    def app(
        self,
        lifespan: Lifespan | None,
        routes: Mapping[str, Handler] = ...,
        *,
        mounts: Mapping[str, Any] = ...,
        middleware: Sequence[Middleware] = ...,
    ) -> Any:
        """An app that answers POST at each path with what the handler gives, as JSON, and then serves `mounts`."""
        ...


async def everything(request: Request) -> Response:
    """A catch-all."""
    return PlainTextResponse(f"caught {request.url.path}")


class StarletteKit:
    name: ClassVar[str] = "starlette"
    line: ClassVar[str] = "app = Starlette(lifespan=jobs.lifespan)"

    def jobs(self, url: str, **settings: Any) -> pillion_starlette.Jobs:
        return pillion_starlette.Jobs(url, **settings)

    def app(
        self,
        lifespan: Lifespan | None,
        routes: Mapping[str, Handler] = {},
        *,
        mounts: Mapping[str, Any] = {},
        middleware: Sequence[Middleware] = (),
    ) -> Starlette:
        own: list[BaseRoute] = []
        own += [Route(path, self._endpoint(handler), methods=["POST"]) for path, handler in routes.items()]
        own += [Mount(path, app=mounted) for path, mounted in mounts.items()]
        return Starlette(routes=own, lifespan=lifespan, middleware=list(middleware))

    def _endpoint(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        enqueue = pillion_starlette.Enqueue()

        async def endpoint(request: Request) -> Response:
            return JSONResponse(await handler(enqueue, request))

        return endpoint


class FastAPIKit:
    name: ClassVar[str] = "fastapi"
    line: ClassVar[str] = "app = FastAPI(lifespan=jobs.lifespan)"

    def jobs(self, url: str, **settings: Any) -> pillion_fastapi.Jobs:
        return pillion_fastapi.Jobs(url, **settings)

    def app(
        self,
        lifespan: Lifespan | None,
        routes: Mapping[str, Handler] = {},
        *,
        mounts: Mapping[str, Any] = {},
        middleware: Sequence[Middleware] = (),
    ) -> FastAPI:
        app = FastAPI(lifespan=lifespan, middleware=list(middleware))
        for path, handler in routes.items():
            app.post(path)(self._endpoint(handler))
        for path, mounted in mounts.items():
            app.mount(path, mounted)
        return app

    def _endpoint(self, handler: Handler) -> Callable[..., Awaitable[Any]]:
        async def endpoint(
            request: Request, enqueue: pillion_fastapi.Enqueue = Depends(pillion_fastapi.enqueue)
        ) -> Any:
            return await handler(enqueue, request)

        # Annotations are text in this module, and FastAPI looks names up in the function's globals.
        return endpoint


KITS: Sequence[Kit] = (StarletteKit(), FastAPIKit())
