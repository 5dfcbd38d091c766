"""Shapes of things with named fields: dataclasses, msgspec Structs, named tuples, TypedDicts.

All become JSON objects by field name and are built anew through their own constructor, so that
``__post_init__`` runs again. A field that was added with a default since the job was stored takes the
default; one that was removed is an error: dropping data quietly is worse than a failed job.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from pillion.codec.shapes import Misfit, Shape, is_a


class Field(NamedTuple):
    """One field. ``set_after``: no argument of the constructor, put in place once the value is built."""

    name: str
    shape: Shape
    required: bool = True
    set_after: bool = False


class RecordShape(Shape):
    """Fields read by `read(value, name)`, values built by ``build(**fields)``.

    ``fields`` are filled in after construction, since a record may contain itself.
    """

    kinds = frozenset({"object"})

    def __init__(
        self,
        cls: type,
        read: Callable[[Any, str], Any] = getattr,
        build: Callable[..., Any] | None = None,
    ) -> None:
        self._cls = cls
        self._read = read
        self._build = build or cls
        self.label = cls.__name__
        self.types = frozenset({cls})
        self.fields: tuple[Field, ...] = ()
        self._names: frozenset[str] = frozenset()

    def fill(self, fields: list[Field]) -> None:
        self.fields = tuple(fields)
        self._names = frozenset(field.name for field in fields)

    def dump(self, value: Any) -> dict[str, Any]:
        if type(value) is not self._cls:
            raise Misfit(self.label, value, self._foreign(value))
        wire: dict[str, Any] = {}
        for field in self.fields:
            item = self._item(value, field)
            if item is msgspec.UNSET:
                continue
            try:
                wire[field.name] = field.shape.dump(item)
            except Misfit as misfit:
                raise misfit.under(f".{field.name}") from None
        return wire

    def load(self, wire: Any) -> Any:
        if not is_a(wire, dict):
            raise Misfit(self.label, wire)
        if not self._names.issuperset(wire):
            unknown = ", ".join(sorted(wire.keys() - self._names))
            raise Misfit(self.label, wire, f"has fields that {self.label} does not know: {unknown}")
        arguments: dict[str, Any] = {}
        later: dict[str, Any] = {}
        for field in self.fields:
            if field.name in wire:
                try:
                    (later if field.set_after else arguments)[field.name] = field.shape.load(wire[field.name])
                except Misfit as misfit:
                    raise misfit.under(f".{field.name}") from None
            elif field.required:
                raise Misfit(self.label, wire, f"lacks the field {field.name}")
        try:
            value = self._build(**arguments)
        except Exception as error:  # the class's own checks
            raise Misfit(self.label, wire, f"is refused by {self.label}: {type(error).__name__}: {error}") from error
        for name, item in later.items():
            object.__setattr__(value, name, item)
        return value

    def _item(self, value: Any, field: Field) -> Any:
        try:
            return self._read(value, field.name)
        except AttributeError:  # a field that was never set
            if not field.required:
                return msgspec.UNSET
            raise Misfit(field.shape.label, None, f"is not set on this {self.label}") from None

    def _foreign(self, value: Any) -> str:
        if isinstance(value, self._cls):
            return f"is a subclass of {self.label}, and what it adds would be lost; name it in the annotation"
        return ""


class TypedDictShape(RecordShape):
    """A TypedDict: any dict with its keys."""

    def __init__(self, cls: type) -> None:
        super().__init__(cls, build=dict)
        self.types = frozenset({dict})

    def dump(self, value: Any) -> dict[str, Any]:
        if not is_a(value, dict):
            raise Misfit(self.label, value)
        unknown = [str(key) for key in value if key not in self._names]
        if unknown:
            raise Misfit(self.label, value, f"has keys that {self.label} does not know: {', '.join(sorted(unknown))}")
        wire: dict[str, Any] = {}
        for field in self.fields:
            if field.name in value:
                try:
                    wire[field.name] = field.shape.dump(value[field.name])
                except Misfit as misfit:
                    raise misfit.under(f"[{field.name!r}]") from None
            elif field.required:
                raise Misfit(self.label, value, f"lacks the key {field.name!r}")
        return wire
