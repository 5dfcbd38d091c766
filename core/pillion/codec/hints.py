"""Annotations, one parameter at a time, resolved as late as possible.

One name at a time matters: a dependency's annotation may be importable under ``TYPE_CHECKING`` only, and
is never needed, while the argument beside it is.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any


class Hints:
    """The annotations of one callable."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self._fn = annotated_function(fn)
        self._raw = {**_signature_annotations(fn), **_raw_annotations(self._fn)}
        self._names: dict[str, Any] | None = None

    def get(self, name: str) -> Any:
        """The resolved annotation with its extras (`Annotated`), or `inspect.Parameter.empty`.

        Raises whatever evaluating it raises, usually `NameError`.
        """
        raw = self._raw.get(name, inspect.Parameter.empty)
        if raw is inspect.Parameter.empty or raw is None or isinstance(raw, type):
            return raw
        holder = types.SimpleNamespace(__annotations__={name: raw})
        known = getattr(self._fn, "__globals__", None)
        if known is None:
            known = vars(sys.modules.get(self._fn.__module__, types))
        return typing.get_type_hints(holder, known, self._local_names(), include_extras=True)[name]

    def text(self, name: str) -> str:
        """The annotation as it was written, for messages."""
        raw = self._raw.get(name, "")
        return raw if isinstance(raw, str) else inspect.formatannotation(raw)

    def _local_names(self) -> dict[str, Any]:
        """Names that a nested function's annotations see beside its globals, as far as they still exist."""
        if self._names is None:
            found: dict[str, Any] = {p.__name__: p for p in getattr(self._fn, "__type_params__", ())}
            code, cells = getattr(self._fn, "__code__", None), getattr(self._fn, "__closure__", None)
            for variable, cell in zip(getattr(code, "co_freevars", ()), cells or (), strict=False):
                try:
                    found[variable] = cell.cell_contents
                except ValueError:  # not assigned yet
                    continue
            self._names = found
        return self._names


def annotated_function(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function that carries the annotations: inside partials, wrappers, methods, callable objects, classes."""
    while True:
        if isinstance(fn, functools.partial):
            fn = fn.func
        elif isinstance(fn, types.MethodType):
            fn = fn.__func__
        elif not isinstance(fn, type) and "__wrapped__" in getattr(fn, "__dict__", ()):
            fn = vars(fn)["__wrapped__"]
        elif isinstance(fn, type):
            return _constructor(fn)
        elif inspect.isroutine(fn):
            return fn
        else:
            fn = call_of(type(fn))


def call_of(fn: Any) -> Any:
    """What calling `fn` runs, for objects that are no functions."""
    return fn.__call__


def _constructor(cls: Any) -> Callable[..., Any]:
    made: Callable[..., Any] = cls.__new__ if cls.__init__ is object.__init__ else cls.__init__
    return made


def _signature_annotations(fn: Callable[..., Any]) -> dict[str, Any]:
    """What a decorator that sets ``__signature__`` says, of parameters that the function inside does not have."""
    if not hasattr(fn, "__signature__"):
        return {}
    parameters = inspect.signature(fn).parameters.values()
    return {each.name: each.annotation for each in parameters if each.annotation is not inspect.Parameter.empty}


def _raw_annotations(fn: Callable[..., Any]) -> Mapping[str, Any]:
    if sys.version_info >= (3, 14):  # evaluating all at once would fail on the first unknown name
        import annotationlib

        return annotationlib.get_annotations(fn, format=annotationlib.Format.FORWARDREF)
    return getattr(fn, "__annotations__", None) or {}


def unwrap(hint: Any) -> Any:
    """`hint` without what says nothing about its values: Annotated, Final, NewType, type aliases, Required."""
    while True:
        origin = typing.get_origin(hint)
        if origin is typing.Annotated:
            hint = hint.__origin__
        elif origin in _WRAPPERS:
            hint = typing.get_args(hint)[0]
        elif isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        else:
            return hint


_WRAPPERS: frozenset[Any] = frozenset(
    getattr(typing, name)
    for name in ("Final", "ClassVar", "Required", "NotRequired", "ReadOnly")
    if hasattr(typing, name)
)
