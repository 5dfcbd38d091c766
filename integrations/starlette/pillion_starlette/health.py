"""Health routes: plain Starlette routes, put in front of an app's own while its lifespan runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from pillion.web import MEDIA_TYPE, Answer, Health, detail, live, ready

log = logging.getLogger("pillion")

PREFIX: Final = "/jobs"  # where routes made by hand go, if the setting `prefix` is None
_YES: Final = frozenset({"1", "true", "yes", "on"})


class Board:
    """The endpoints, over one or several `Jobs` of an app."""

    def __init__(self, *healths: Health) -> None:
        self._entries: list[Health] = list(healths)  # one as often as it was entered

    @property
    def healths(self) -> list[Health]:
        """Each once, in the order of their starts."""
        return list(dict.fromkeys(self._entries))

    def add(self, health: Health) -> None:
        """Show one more."""
        self._entries.append(health)

    def remove(self, health: Health) -> None:
        """Take back one `add`."""
        self._entries.remove(health)

    async def live(self, request: Request) -> Response:
        """This process turns."""
        return _respond(live())

    async def ready(self, request: Request) -> Response:
        """This process should be sent requests; with ``?store=1`` only if the store answers as well."""
        store = request.query_params.get("store", "").lower() in _YES
        return _respond(await ready(self.healths, store=store))

    async def document(self, request: Request) -> Response:
        """Pass, warn or fail, with reasons."""
        return _respond(await detail(self.healths))

    def endpoints(self, prefix: str) -> dict[str, Callable[[Request], Any]]:
        """By path."""
        return {
            f"{prefix}/health": self.document,
            f"{prefix}/health/live": self.live,
            f"{prefix}/health/ready": self.ready,
        }


class HealthRoute(Route):
    """A route that Pillion put there."""

    def __init__(self, path: str, endpoint: Callable[[Request], Any], board: Board) -> None:
        name = path.strip("/").replace("/", "-")
        super().__init__(path, endpoint, methods=["GET"], name=name, include_in_schema=False)
        self.board = board

    def serves(self, prefix: str) -> bool:
        """True if it is one of the routes under `prefix`."""
        return self.path in self.board.endpoints(prefix)


def routes(board: Board, prefix: str) -> list[HealthRoute]:
    """The three routes."""
    return [HealthRoute(path, endpoint, board) for path, endpoint in board.endpoints(prefix).items()]


@contextmanager
def in_front(
    own: list[BaseRoute], prefix: str, health: Health, flat: Callable[[Iterable[Any]], Iterable[Any]]
) -> Generator[None]:
    """Show `health` in front of an app's `own` routes while the context is open.

    Several `Jobs` with one prefix share the routes. A route of the user's with the same path wins.
    `flat` spells out what the app's framework keeps folded up, such as included routers.
    """
    board = next((route.board for route in own if isinstance(route, HealthRoute) and route.serves(prefix)), None)
    if board is None:
        board = Board()
        taken = _taken(flat(own))
        for path in board.endpoints(prefix).keys() & taken:
            log.warning(
                "%s is a route of this app, so Pillion puts no health route there; Jobs(…, prefix=…) chooses another "
                "place, prefix=None adds none",
                path,
            )
        own[:0] = [route for route in routes(board, prefix) if route.path not in taken]
    board.add(health)
    try:
        yield
    finally:
        board.remove(health)
        if not board.healths:
            own[:] = [route for route in own if not (isinstance(route, HealthRoute) and route.board is board)]


def _taken(own: Iterable[Any], above: str = "") -> set[str]:
    """The paths that the app answers GET on, or mounts something at. A catch-all is not such a path."""
    found: set[str] = set()
    for route in own:
        path = getattr(route, "path", None)
        if path is None:  # by host, or something else that is not told apart by path
            continue
        methods = getattr(route, "methods", ())
        inner = getattr(route, "routes", None)
        if inner is not None:  # a mount
            found.add(above + path)
            found |= _taken(inner, above + path)
        elif methods is None or "GET" in methods:
            found.add(above + path)
    return found


def _respond(answer: Answer) -> Response:
    return Response(answer.body, answer.status, {"Cache-Control": "no-store"}, MEDIA_TYPE)
