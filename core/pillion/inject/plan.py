"""The plan: which parameters are injected, and from what, found at start and without calling anything."""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pillion.codec.hints import Hints, call_of, unwrap
from pillion.codec.shapes import is_a
from pillion.errors import ConfigurationError
from pillion.inject.markers import MarkerReader, PerLoop, Provider, Refusal, injected

_EMPTY: Final = inspect.Parameter.empty
_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_WEB_ROOTS: Final = frozenset({"starlette", "fastapi", "litestar"})
_WEB_NAMES: Final = frozenset(
    {"Request", "WebSocket", "HTTPConnection", "BackgroundTasks", "Response", "SecurityScopes", "ASGIConnection"}
)

Manner = Literal["resource", "async generator", "generator", "coroutine", "plain"]


@dataclass(frozen=True, slots=True)
class Injected:
    """One provider and what it needs itself. ``open`` is what a job calls, with the needs by keyword."""

    fn: Callable[..., Any]
    use_cache: bool
    manner: Manner
    open: Callable[..., Any]
    needs: tuple[tuple[str, Injected], ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What one function is given. False in a boolean context if that is nothing."""

    name: str
    injected: Mapping[str, Injected] = field(default_factory=dict[str, "Injected"])

    def __bool__(self) -> bool:
        return bool(self.injected)


class Planner:
    """Finds dependencies by the markers that `readers` know. The list may grow until the first plan is made."""

    def __init__(self, readers: Sequence[MarkerReader]) -> None:
        self._readers = readers
        self._known: dict[tuple[Any, bool], Injected] = {}

    def plan(self, fn: Callable[..., Any], name: str) -> Plan:
        """The injected parameters of `fn`, a task's function: all others are job arguments.

        Raises `ConfigurationError` with the path to what a job cannot be given.
        """
        found: dict[str, Injected] = {}
        hints = Hints(fn)
        for parameter in _parameters(fn, name):
            marker = self._marker(parameter, hints, (name,))
            if isinstance(marker, Refusal) and self._read(parameter.default) is not None:
                raise _unreachable((name,), parameter.name, marker.needs)
            if isinstance(marker, Provider):
                found[parameter.name] = self._injected(marker, parameter, hints, (name,), ())
        return Plan(name, found)

    def injected(self, fn: Callable[..., Any], use_cache: bool) -> Injected:
        """The tree under one provider: every parameter is injected, or has a default to fall back on."""
        return self._tree(fn, use_cache, (called(fn),), ())

    def _injected(
        self,
        provider: Provider,
        parameter: inspect.Parameter,
        hints: Hints,
        path: tuple[str, ...],
        above: tuple[Any, ...],
    ) -> Injected:
        fn = provider.fn if provider.fn is not None else unwrap(hints.get(parameter.name))
        if not _usable(fn):
            raise ConfigurationError(
                f"{' -> '.join(path)}: parameter `{parameter.name}` depends on {fn!r}, "
                "which cannot be called, or has no hash"
            )
        return self._tree(fn, provider.use_cache, (*path, called(fn)), above)

    def _tree(self, fn: Callable[..., Any], use_cache: bool, path: tuple[str, ...], above: tuple[Any, ...]) -> Injected:
        if fn in above:
            raise ConfigurationError(f"Dependencies go round in a circle: {' -> '.join(path)}")
        known = self._known.get((fn, use_cache))
        if known is None:
            if isinstance(fn, PerLoop):
                self._needs(fn.opener, path, (*above, fn))  # only checked: they are opened with the resource
                known = Injected(fn, True, "resource", fn)
            else:
                manner = manner_of(fn)
                known = Injected(fn, use_cache, manner, _opener(fn, manner), self._needs(fn, path, (*above, fn)))
            self._known[fn, use_cache] = known
        return known

    def _needs(
        self, fn: Callable[..., Any], path: tuple[str, ...], above: tuple[Any, ...]
    ) -> tuple[tuple[str, Injected], ...]:
        needs: list[tuple[str, Injected]] = []
        hints = Hints(fn)
        for parameter in _parameters(fn, " -> ".join(path)):
            marker = self._marker(parameter, hints, path)
            if isinstance(marker, Provider):
                needs.append((parameter.name, self._injected(marker, parameter, hints, path, above)))
                continue
            plain_default = parameter.default is not _EMPTY and self._read(parameter.default) is None
            if isinstance(marker, Refusal) and not plain_default:
                raise _unreachable(path, parameter.name, marker.needs)
            if (web := _web_class(_quietly(hints, parameter.name), plain_default)) is not None:
                raise _unreachable(path, parameter.name, web)
            if not plain_default:
                raise _unfilled(path, parameter.name, hints)
        return tuple(needs)

    def _marker(self, parameter: inspect.Parameter, hints: Hints, path: tuple[str, ...]) -> Provider | Refusal | None:
        marker = self._read(parameter.default)
        if marker is None:
            hint = _quietly(hints, parameter.name)
            if typing.get_origin(hint) is typing.Annotated:
                found = [self._read(item) for item in hint.__metadata__]
                marker = next((each for each in reversed(found) if each is not None), None)
        if parameter.default is injected and not isinstance(marker, Provider):
            why = _unresolved(hints, parameter.name) or f"its annotation {hints.text(parameter.name)!r} has no marker"
            raise ConfigurationError(
                f"{' -> '.join(path)}: parameter `{parameter.name}` is `= injected`, but {why}: "
                "write Annotated[…, inject(provider)], importable at module level"
            )
        if isinstance(marker, Provider) and parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise ConfigurationError(
                f"{' -> '.join(path)}: parameter `{parameter.name}` is positional-only; "
                "what is injected is passed by keyword"
            )
        return marker

    def _read(self, marker: object) -> Provider | Refusal | None:
        for reader in self._readers:
            if (read := reader(marker)) is not None:
                return read
        return None


def called(fn: Callable[..., Any]) -> str:
    """A provider's name, for paths in messages."""
    if isinstance(fn, functools.partial):
        return called(fn.func)
    opener = fn.opener if isinstance(fn, PerLoop) else fn
    return getattr(opener, "__name__", None) or type(opener).__name__


def manner_of(fn: Callable[..., Any]) -> Manner:
    """How a value is got from `fn`: by its own kind, or that of the ``__call__`` of an object."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    if isinstance(fn, type):
        return "plain"
    for candidate in (fn, call_of(fn)):
        if inspect.isasyncgenfunction(candidate):
            return "async generator"
        if inspect.isgeneratorfunction(candidate):
            return "generator"
        if inspect.iscoroutinefunction(candidate):
            return "coroutine"
    return "plain"


def _usable(fn: Any) -> bool:
    return callable(fn) and is_a(fn, Hashable)


def _opener(fn: Callable[..., Any], manner: Manner) -> Callable[..., Any]:
    if manner == "async generator":
        return asynccontextmanager(fn)
    return contextmanager(fn) if manner == "generator" else fn


def _parameters(fn: Callable[..., Any], where: str) -> list[inspect.Parameter]:
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        raise ConfigurationError(f"{where}: {fn!r} tells no signature; wrap it in a function of your own") from None
    return [parameter for parameter in parameters if parameter.kind not in _VARIADIC]


def _quietly(hints: Hints, name: str) -> Any:
    """The annotation, or empty where it cannot be resolved: it may not be needed at all."""
    try:
        return hints.get(name)
    except Exception:  # whatever evaluating an annotation raises
        return _EMPTY


def _web_class(hint: Any, has_default: bool) -> str | None:
    """The name of a web framework's connection class in `hint`, unless None would do."""
    hint = unwrap(hint)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        members = typing.get_args(hint)
        if has_default and type(None) in members:
            return None
        return next(filter(None, (_web_class(member, False) for member in members)), None)
    for cls in getattr(hint, "__mro__", ()):
        if cls.__name__ in _WEB_NAMES and cls.__module__.partition(".")[0] in _WEB_ROOTS:
            return str(hint.__name__)
    return None


def _unreachable(path: tuple[str, ...], parameter: str, needs: str) -> ConfigurationError:
    return ConfigurationError(
        f"{' -> '.join(path)}({parameter}): `{parameter}` cannot be filled in a job, which has no {needs}. "
        "Give the job a dependency that does without, or pass what it needs as an argument"
    )


def _unfilled(path: tuple[str, ...], parameter: str, hints: Hints) -> ConfigurationError:
    why = _unresolved(hints, parameter) or "it has neither a default nor a marker that fills it"
    return ConfigurationError(
        f"{' -> '.join(path)}({parameter}): `{parameter}` cannot be filled in a job: {why}. "
        "Give the job a dependency that does without, or pass what it needs as an argument"
    )


def _unresolved(hints: Hints, parameter: str) -> str | None:
    """Why nobody can see whether the annotation holds a marker; None if it was read."""
    try:
        hints.get(parameter)
    except Exception as error:  # whatever evaluating an annotation raises
        return f"its annotation {hints.text(parameter)!r} cannot be resolved ({type(error).__name__}: {error})"
    return None
