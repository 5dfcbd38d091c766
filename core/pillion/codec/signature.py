"""A task's parameters, compiled: what each takes, and how stored values become a call again."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any, Final

from pillion.codec.advice import of_class
from pillion.codec.compiler import Compiler, Unsupported
from pillion.codec.containers import ArrayShape, DictShape
from pillion.codec.hints import Hints, unwrap
from pillion.codec.natural import AnyShape
from pillion.codec.shapes import Shape, StrShape
from pillion.errors import ConfigurationError

_EMPTY: Final = inspect.Parameter.empty
_REMEDY: Final = "declare it as a type that JSON can carry (an id, bytes, a path, a dataclass), or inject it"

Convert = Callable[[Any], Any]


class Signature:
    """The parameters of `fn` that are job arguments. Raises `ConfigurationError`, naming the parameter."""

    def __init__(self, fn: Callable[..., Any], task: str, skip: frozenset[str]) -> None:
        self._task = task
        self._hints = Hints(fn)
        self._compiler = Compiler()
        try:
            whole = inspect.signature(fn)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(f"Task {task}: {fn!r} tells no signature ({error})") from None
        parameters = [parameter for name, parameter in whole.parameters.items() if name not in skip]
        self._check_injected(list(whole.parameters.values()), skip)
        self.inspected = _without_defaults(whole, parameters)
        shapes = {parameter.name: self._shape(parameter) for parameter in parameters}
        self.dumps: dict[str, Convert] = {name: shape.dump for name, shape in shapes.items()}
        self.loads: dict[str, Convert] = {name: shape.load for name, shape in shapes.items()}
        self.required = frozenset(
            parameter.name
            for parameter in parameters
            if parameter.default is _EMPTY
            and parameter.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        )
        self.count = len(parameters)
        kinds = {parameter.kind for parameter in parameters}
        variadic = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
        self.simple = not kinds & variadic  # encoding needs no thorough binding
        self.simple_call = self.simple and inspect.Parameter.POSITIONAL_ONLY not in kinds  # all by keyword
        self._parameters = parameters
        either = inspect.Parameter.POSITIONAL_OR_KEYWORD
        self.positional = tuple(p.name for p in parameters if p.kind in (inspect.Parameter.POSITIONAL_ONLY, either))
        self.keywords = frozenset(p.name for p in parameters if p.kind in (inspect.Parameter.KEYWORD_ONLY, either))

    def call(self, values: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Loaded values as arguments for the function; keywords wherever it allows them, so that injected
        parameters may stand anywhere."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        rest = next((p.name for p in self._parameters if p.kind is inspect.Parameter.VAR_POSITIONAL), None)
        by_place = bool(rest and values.get(rest))
        for parameter in self._parameters:
            name = parameter.name
            if name not in values:
                continue
            if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
                args.extend(values[name])
            elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
                kwargs.update(values[name])
            elif parameter.kind is inspect.Parameter.POSITIONAL_ONLY or (
                by_place and parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
            ):
                args.append(values[name])
            else:
                kwargs[name] = values[name]
        return tuple(args), kwargs

    def _shape(self, parameter: inspect.Parameter) -> Shape:
        hint = self._resolve(parameter.name)
        variadic = parameter.kind is inspect.Parameter.VAR_KEYWORD
        try:
            if variadic and typing.get_origin(hint) is typing.Unpack:
                return self._compiler.shape(typing.get_args(hint)[0])
            shape = AnyShape() if hint is _EMPTY else self._compiler.shape(hint)
        except Unsupported as error:
            remedy = (of_class(error.cls) if error.cls else "") or _REMEDY
            raise ConfigurationError(f"Task {self._task}: parameter `{parameter.name}`: {error}; {remedy}") from None
        if variadic:
            return DictShape("dict", StrShape(), shape)
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            return ArrayShape("tuple", (tuple,), tuple, shape)
        return shape

    def _resolve(self, name: str) -> Any:
        try:
            return unwrap(self._hints.get(name))
        except Exception as error:  # whatever evaluating an annotation raises
            raise ConfigurationError(
                f"Task {self._task}: the annotation {self._hints.text(name)!r} of parameter `{name}` cannot be "
                f"resolved ({type(error).__name__}: {error}); it must be importable at module level, "
                "not under TYPE_CHECKING only"
            ) from error

    def _check_injected(self, parameters: list[inspect.Parameter], skip: frozenset[str]) -> None:
        variadic = any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in parameters)
        for parameter in parameters:
            if parameter.name not in skip or parameter.kind is inspect.Parameter.KEYWORD_ONLY:
                continue
            if parameter.kind is inspect.Parameter.POSITIONAL_ONLY or variadic:
                raise ConfigurationError(
                    f"Task {self._task}: injected parameter `{parameter.name}` is passed by keyword; put it after a `*`"
                )


def _without_defaults(whole: inspect.Signature, parameters: list[inspect.Parameter]) -> inspect.Signature:
    """The signature of the arguments alone. An injected parameter may have stood before a required one, so
    order is only kept where Python allows it."""
    try:
        return whole.replace(parameters=parameters)
    except ValueError:
        return inspect.Signature()
