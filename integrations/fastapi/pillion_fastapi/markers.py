"""FastAPI's markers, as jobs read them. Only public names of FastAPI: its own solver changes between versions."""

from __future__ import annotations

from typing import Final

from fastapi import params

from pillion.adapter import Provider, Refusal

_OF_A_REQUEST: Final[tuple[tuple[type, str], ...]] = (
    (params.Path, "path parameter"),
    (params.Query, "query parameter"),
    (params.Header, "header"),
    (params.Cookie, "cookie"),
    (params.Param, "request parameter"),
    (params.File, "uploaded file"),
    (params.Form, "form field"),
    (params.Body, "request body"),
)


def read(marker: object) -> Provider | Refusal | None:
    """``Depends`` is honoured, ``use_cache`` too; what only a request can serve is refused.

    Both values of ``scope`` (newer FastAPI) come to the same in a job: what is opened is closed right after it.
    """
    if isinstance(marker, params.Security):
        return Refusal("request to authorise (Security)")
    if isinstance(marker, params.Depends):
        if getattr(marker, "max_concurrency", None) is not None:
            return Refusal("max_concurrency (limit the task's queue instead)")
        return Provider(marker.dependency, marker.use_cache)
    return next((Refusal(needs) for cls, needs in _OF_A_REQUEST if isinstance(marker, cls)), None)
