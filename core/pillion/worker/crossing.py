"""Objects that belong to one event loop, used on another: told at start, and explained when it fails.

An async client made at module level works in development and fails under load once routes (the app's loop) and
jobs (their own loop) share it. Nothing can be done about it from outside, so it is made loud.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

_ERRORS: Final = ("attached to a different loop", "different event loop", "Event loop is closed")
NOTE: Final = (
    "An object that belongs to one event loop was used on another: jobs run on their own loop, not on the app's. "
    "Make the client or engine a @jobs.resource (opened once per loop, for routes and jobs alike), or run this task "
    'on the app\'s loop with @jobs.task(loop="app").'
)

_DEPTH: Final = 3  # how many calls deep helper functions of the same package are followed
_ASYNCIO: Final = (asyncio.Lock, asyncio.Event, asyncio.Condition, asyncio.Semaphore, asyncio.Queue, asyncio.Future)
_KNOWN: Final = frozenset(
    {
        "aiohttp.client.ClientSession",
        "aiosqlite.core.Connection",
        "asyncpg.connection.Connection",
        "asyncpg.pool.Pool",
        "redis.asyncio.client.Redis",
        "redis.asyncio.cluster.RedisCluster",
        "sqlalchemy.ext.asyncio.engine.AsyncEngine",
        "sqlalchemy.ext.asyncio.session.async_sessionmaker",
    }
)


def is_crossing(error: BaseException) -> bool:
    """True for the errors that come of it. The write that failed may have happened."""
    if not isinstance(error, RuntimeError):
        return False
    try:
        text = str(error)
    except Exception:  # somebody else's `__str__`
        return False
    return any(words in text for words in _ERRORS)


def loop_bound_globals(function: Callable[..., Any]) -> list[str]:
    """Names of module-level objects that `function` uses and that look bound to an event loop."""
    return sorted(set(_search(function, _DEPTH, set())))


def _search(function: Any, depth: int, seen: set[int]) -> Iterator[str]:
    function = getattr(function, "__wrapped__", function)
    code = getattr(function, "__code__", None)
    if code is None or id(code) in seen or depth == 0:
        return
    seen.add(id(code))
    scope: Mapping[str, Any] = function.__globals__
    package = str(scope.get("__name__", "")).partition(".")[0]
    for name in _names(code):
        value = scope.get(name)
        if isinstance(value, types.FunctionType):
            if value.__module__.partition(".")[0] == package:
                yield from _search(value, depth - 1, seen)
        elif _is_loop_bound(value):
            yield f"{scope.get('__name__', '?')}.{name} ({type(value).__name__})"


def _names(code: types.CodeType) -> Iterator[str]:
    """Global names that a function mentions, those of its inner functions too."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _is_loop_bound(value: object) -> bool:
    if value is None or isinstance(value, type | types.ModuleType):
        return False
    if isinstance(value, _ASYNCIO):
        return True
    for cls in type(value).__mro__:
        if f"{cls.__module__}.{cls.__qualname__}" in _KNOWN:
            return True
        # AsyncClient, AsyncEngine, AsyncConnectionPool, AsyncOpenAI …: the naming of nearly all async libraries
        if cls.__name__.startswith("Async") and not cls.__module__.startswith(("pillion", "typing", "collections")):
            return True
    return False
