"""From an annotation to its shape."""

from __future__ import annotations

import collections.abc as abc
import dataclasses
import types
import typing
from collections.abc import Callable
from enum import Enum
from pathlib import PurePath
from typing import Any, Final

import msgspec

from pillion.codec.containers import ArrayShape, DictShape, TupleShape
from pillion.codec.hints import unwrap
from pillion.codec.models import model_shape
from pillion.codec.natural import AnyShape
from pillion.codec.records import Field, RecordShape, TypedDictShape
from pillion.codec.shapes import SCALARS, EnumShape, Shape, is_sub, path_shape
from pillion.codec.unions import LiteralShape, UnionShape

_Alias: Final[type] = getattr(typing, "TypeAliasType", type(None))  # the `type X = …` statement's

_ARRAYS: Final[dict[Any, tuple[str, tuple[type, ...], Callable[[list[Any]], Any]]]] = {
    list: ("list", (list,), list),
    set: ("set", (set,), set),
    frozenset: ("frozenset", (frozenset,), frozenset),
    abc.Sequence: ("Sequence", (list, tuple), list),
    abc.MutableSequence: ("MutableSequence", (list,), list),
    abc.Collection: ("Collection", (list, tuple, set, frozenset), list),
    abc.Iterable: ("Iterable", (list, tuple, set, frozenset), list),
    abc.Set: ("Set", (set, frozenset), frozenset),
    abc.MutableSet: ("MutableSet", (set,), set),
}
_DICTS: Final[dict[Any, str]] = {dict: "dict", abc.Mapping: "Mapping", abc.MutableMapping: "MutableMapping"}


class Unsupported(Exception):
    """An annotation without a shape; the message says which part and why, `cls` is the class if it is one."""

    def __init__(self, message: str, cls: type | None = None) -> None:
        super().__init__(message)
        self.cls = cls


class Later(Shape):
    """Stands for a recursive alias while it is being compiled."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.target: Shape | None = None

    def dump(self, value: Any) -> Any:
        assert self.target is not None
        return self.target.dump(value)

    def load(self, wire: Any) -> Any:
        assert self.target is not None
        return self.target.load(wire)


class Compiler:
    """Shapes by annotation, each made once, so that a type may contain itself."""

    def __init__(self) -> None:
        self._known: dict[Any, Shape] = {}

    def shape(self, hint: Any) -> Shape:
        """The shape of an annotation; what `Annotated` adds (bounds, say) is not checked. Raises `Unsupported`."""
        hint = unwrap(hint)
        try:
            known = self._known.get(hint)
        except TypeError:  # unhashable: a Literal of something odd
            raise Unsupported(f"{hint!r} is not a type") from None
        if known is None:
            known = self._make(hint)
            self._known[hint] = known
        return known

    def _make(self, hint: Any) -> Shape:
        if hint is Any or hint is object:
            return AnyShape()
        if (scalar := SCALARS.get(hint)) is not None:
            return scalar()
        if isinstance(hint, typing.TypeVar):
            return self._type_variable(hint)
        origin: Any = typing.get_origin(hint) or hint
        if isinstance(origin, _Alias):
            return self._alias(hint, origin)
        arguments = typing.get_args(hint)
        if origin is typing.Union or origin is types.UnionType:
            return self._union(arguments)
        if origin is typing.Literal:
            return self._literal(arguments)
        if origin in _ARRAYS:
            label, takes, make = _ARRAYS[origin]
            return ArrayShape(label, takes, make, self.shape(arguments[0] if arguments else Any))
        if origin in _DICTS:
            key, value = arguments or (Any, Any)
            return DictShape(_DICTS[origin], self.shape(str if key is Any else key), self.shape(value))
        if origin is tuple:
            return self._tuple(hint, arguments)
        if isinstance(origin, type):
            return self._class(hint, origin)
        raise Unsupported(f"{_name(hint)} has no form in JSON")

    def _class(self, hint: Any, cls: Any) -> Shape:
        if is_sub(cls, Enum):
            return EnumShape(cls)
        if is_sub(cls, PurePath):
            return path_shape(cls)
        if is_sub(cls, dict) and hasattr(cls, "__required_keys__"):
            return self._typed_dict(hint, cls)
        if is_sub(cls, tuple) and hasattr(cls, "_fields"):
            return self._named_tuple(hint, cls)
        if is_sub(cls, msgspec.Struct):
            return self._struct(hint, cls)
        if dataclasses.is_dataclass(cls):
            return self._dataclass(hint, cls)
        try:
            model = model_shape(hint)
        except Exception as error:  # whatever building its schema raises
            raise Unsupported(f"{_name(hint)} cannot be used: {error}", cls) from error
        if model is None:
            raise Unsupported(f"{_name(hint)} has no form in JSON", cls)
        return model

    def _type_variable(self, variable: typing.TypeVar) -> Shape:
        if variable.__constraints__:
            return self._union(variable.__constraints__)
        return self.shape(Any if variable.__bound__ is None else variable.__bound__)

    def _alias(self, hint: Any, alias: Any) -> Shape:
        later = Later(alias.__name__)
        self._known[hint] = later
        later.target = self.shape(_substitute(alias.__value__, _bindings(hint, alias)))
        return later.target

    def _union(self, arguments: tuple[Any, ...]) -> Shape:
        members = [self.shape(argument) for argument in arguments if argument is not msgspec.UnsetType]
        for member in members:
            if isinstance(member, AnyShape):
                return member
        return members[0] if len(members) == 1 else UnionShape(members)

    def _literal(self, choices: tuple[Any, ...]) -> Shape:
        try:
            return LiteralShape(choices, [self.shape(type(choice)) for choice in choices])
        except ValueError as error:
            raise Unsupported(f"Literal{list(choices)}: {error}") from None

    def _tuple(self, hint: Any, arguments: tuple[Any, ...]) -> Shape:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return ArrayShape("tuple", (tuple,), tuple, self.shape(arguments[0]))
        if not arguments and hint is tuple:
            return ArrayShape("tuple", (tuple,), tuple, self.shape(Any))
        return TupleShape([self.shape(argument) for argument in arguments])

    def _dataclass(self, hint: Any, cls: Any) -> Shape:
        hints = self._hints(hint, cls)
        for name, kind in hints.items():
            if isinstance(kind, dataclasses.InitVar):
                raise Unsupported(f"{cls.__name__}.{name} is an InitVar, whose value is gone once the object exists")
        if not cls.__dataclass_params__.init:
            raise Unsupported(f"{cls.__name__} has init=False: it cannot be built from its fields")
        shape = self._begin(hint, RecordShape(cls))
        fields = dataclasses.fields(cls)
        shape.fill(
            [
                Field(
                    field.name,
                    self._field(cls, field.name, hints.get(field.name, field.type)),
                    required=field.init
                    and field.default is dataclasses.MISSING
                    and field.default_factory is dataclasses.MISSING,
                    set_after=not field.init,
                )
                for field in fields
            ]
        )
        return shape

    def _struct(self, hint: Any, cls: type[msgspec.Struct]) -> Shape:
        try:
            fields = msgspec.structs.fields(cls)
        except Exception as error:  # whatever evaluating the class's annotations raises
            raise Unsupported(f"the annotations of {cls.__name__} cannot be resolved: {error}") from error
        shape = self._begin(hint, RecordShape(cls))
        bindings = _bindings(hint, cls)
        shape.fill(
            [
                Field(field.name, self._field(cls, field.name, _substitute(field.type, bindings)), field.required)
                for field in fields
            ]
        )
        return shape

    def _named_tuple(self, hint: Any, cls: Any) -> Shape:
        hints = self._hints(hint, cls)
        shape = self._begin(hint, RecordShape(cls))
        shape.fill(
            [
                Field(name, self._field(cls, name, hints.get(name, Any)), name not in cls._field_defaults)
                for name in cls._fields
            ]
        )
        return shape

    def _typed_dict(self, hint: Any, cls: Any) -> Shape:
        hints = self._hints(hint, cls)
        shape = self._begin(hint, TypedDictShape(cls))
        shape.fill(
            [
                Field(name, self._field(cls, name, kind), _is_required(kind, name in cls.__required_keys__))
                for name, kind in hints.items()
            ]
        )
        return shape

    def _begin(self, hint: Any, shape: RecordShape) -> RecordShape:
        self._known[hint] = shape
        return shape

    def _hints(self, hint: Any, cls: type) -> dict[str, Any]:
        try:
            hints = typing.get_type_hints(cls, include_extras=True)
        except Exception as error:  # whatever evaluating the class's annotations raises
            raise Unsupported(f"the annotations of {cls.__name__} cannot be resolved: {error}") from error
        bindings = _bindings(hint, cls)
        return {name: _substitute(kind, bindings) for name, kind in hints.items()}

    def _field(self, cls: type, name: str, hint: Any) -> Shape:
        try:
            return self.shape(hint)
        except Unsupported as error:
            raise Unsupported(f"{cls.__name__}.{name}: {error}", error.cls) from None


def _is_required(hint: Any, default: bool) -> bool:
    """With string annotations ``__required_keys__`` misses the wrapper, the resolved annotation shows it."""
    origin = typing.get_origin(hint)
    return True if origin is typing.Required else False if origin is typing.NotRequired else default


def _bindings(hint: Any, generic: Any) -> dict[Any, Any]:
    """What ``Box[int]`` puts in the place of ``Box``'s type variables."""
    parameters = getattr(generic, "__parameters__", ()) or getattr(generic, "__type_params__", ())
    return dict(zip(parameters, typing.get_args(hint), strict=False))


def _substitute(hint: Any, bindings: dict[Any, Any]) -> Any:
    if not bindings:
        return hint
    if isinstance(hint, typing.TypeVar):
        return bindings.get(hint, hint)
    parameters = getattr(hint, "__parameters__", ())
    if parameters and not isinstance(hint, type):
        return hint[tuple(bindings.get(parameter, parameter) for parameter in parameters)]
    return hint


def _name(hint: Any) -> str:
    return hint.__qualname__ if isinstance(hint, type) else str(hint)
