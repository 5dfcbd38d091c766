"""What to pass instead: recognises the things people hand to jobs, without importing where they come from."""

from __future__ import annotations

import asyncio
import inspect
import io
import types
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

from pillion.codec.shapes import is_a
from pillion.failure import safe_repr

_ANNOTATE: Final[Any] = (
    datetime,
    date,
    time,
    timedelta,
    Decimal,
    UUID,
    Enum,
    PurePath,
    tuple,
    set,
    frozenset,
    bytes,
    bytearray,
)
_WEB: Final = ("starlette", "fastapi", "litestar", "quart", "sanic", "django", "flask")
_BY_NAME: Final[dict[str, str]] = {
    "UploadFile": "its file is closed with the request: pass the bytes, or a path you saved it to",
    "Request": "it is gone once the response is sent: pass the values the job needs (an id, the body's bytes)",
    "HTTPConnection": "it is gone once the response is sent: pass the values the job needs (an id, the body's bytes)",
    "WebSocket": "it belongs to this connection: pass an id, and let the job store what the socket then sends",
    "BackgroundTasks": "it belongs to its request: enqueue a job of its own instead",
    "Response": "it belongs to its request: pass the values the job needs",
    "State": "it is this process's memory: pass the values the job needs",
}
_LOCKS: Final = ("_thread", "threading", "multiprocessing.synchronize", "queue")
_SYNC: Final[Any] = (asyncio.Lock, asyncio.Event, asyncio.Condition, asyncio.Semaphore, asyncio.Queue)
_MAPPED: Final = ("__mapper__", "_sa_class_manager", "_meta")  # SQLAlchemy, Django and its kin
_RECORDS: Final = ("__dataclass_fields__", "__struct_fields__", "model_fields")
_SESSION: Final = "it is bound to this request or loop: pass an id, and let the job open its own (inject a dependency)"
_CLIENT: Final = "it is a live connection: make it a @jobs.resource and inject it"
_SESSIONS: Final = frozenset({"Session", "AsyncSession", "scoped_session", "async_scoped_session"})
_CLIENTS: Final = frozenset(
    {
        "Client",
        "AsyncClient",
        "ClientSession",
        "Connection",
        "AsyncConnection",
        "Engine",
        "AsyncEngine",
        "Redis",
        "Pool",
    }
)


def advice(value: Any) -> str:
    """One clause on what to pass in place of `value`; empty where the types tell enough. Never raises."""
    try:
        return _known(value) or _general(value)
    except Exception:  # a proxy's attributes may do anything
        return _GENERAL


_GENERAL: Final = (
    "pass an id, bytes or a path, or declare the parameter as a dataclass, msgspec Struct or pydantic model"
)


def _known(value: Any) -> str:
    return of_class(type(value)) or _by_kind(value)


def of_class(cls: Any) -> str:
    """What to pass in place of an instance of `cls`; empty for classes that are not among the usual."""
    names = {base.__name__: base.__module__.partition(".")[0] for base in cls.__mro__}
    for name, remedy in _BY_NAME.items():
        if names.get(name) in _WEB:
            return remedy
    if not _SESSIONS.isdisjoint(names):
        return _SESSION
    if not _CLIENTS.isdisjoint(names):
        return _CLIENT
    if _offers(cls, _MAPPED):
        return "it belongs to its database session: pass its primary key, and load it in the job"
    if issubclass(cls, io.IOBase) or cls.__module__ == "tempfile":
        return "an open file stays in this process: pass its path, or its content as bytes"
    if cls.__module__ in _LOCKS or issubclass(cls, _SYNC):
        return "it lives in this process's memory: make it a @jobs.resource, or use a lock in a database"
    return ""


def _by_kind(value: Any) -> str:
    if inspect.isawaitable(value):
        return "await it first, and pass what it gives"
    if inspect.isgenerator(value) or inspect.isasyncgen(value) or isinstance(value, Iterator):
        return "an iterator can be read only once: pass a list of its items"
    if isinstance(value, (types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)):
        return "code is not data: pass a name, and look it up in the job"
    if isinstance(value, types.ModuleType):
        return "import it in the job"
    return ""


def _general(value: Any) -> str:
    if isinstance(value, (str, int, float, type(None))) or is_a(value, (list, dict, *_ANNOTATE)):
        return ""
    if callable(getattr(value, "aclose", None)) or callable(getattr(value, "close", None)):
        return "it looks like something open: pass an id or a path, or make it a @jobs.resource and inject it"
    return _GENERAL


def annotation_for(value: Any) -> str:
    """The annotation under which `value` would be taken, or empty."""
    for cls in _ANNOTATE:
        if is_a(value, cls):
            return type(value).__name__ if cls is Enum or hasattr(value, "_fields") else cls.__name__
    return type(value).__name__ if _offers(type(value), _RECORDS) else ""


def _offers(cls: Any, names: tuple[str, ...]) -> bool:
    return any(name in dir(cls) for name in names)


def seen(value: Any) -> str:
    """What was given, in a few words: the value itself only where it is short, plain data."""
    name = type(value).__qualname__
    if value is None:
        return "None"
    if isinstance(value, (str, int, float, Decimal, date, UUID, Enum)):
        return f"{name} {safe_repr(value, 60)}"
    return name if type(value).__module__ == "builtins" else f"{type(value).__module__}.{name}"
