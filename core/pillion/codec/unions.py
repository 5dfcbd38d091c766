"""Shapes of `Union` and `Literal`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pillion.codec.shapes import Kind, Misfit, Shape, is_a

TYPE: Final = "$type"  # the two keys of a tagged value
VALUE: Final = "$value"


class UnionShape(Shape):
    """One of several shapes.

    Where JSON tells the members apart (``int | str | None``) a value is stored bare. Where it does not
    (``datetime | str``, two dataclasses) it is stored with its member's name, since guessing would one day
    turn a str that looks like a date into a date.
    """

    def __init__(self, members: Sequence[Shape]) -> None:
        self._members = tuple(members)
        self.label = " | ".join(member.label for member in members)
        self.types = frozenset().union(*(member.types for member in members))
        self._by_kind = _disjoint(self._members)
        self._names = _names(self._members)
        self.kinds = (
            frozenset().union(*(member.kinds for member in members))
            if self._by_kind is not None
            else frozenset({"object"})
        )

    def dump(self, value: Any) -> Any:
        exact = [member for member in self._members if type(value) in member.types]
        failure: Misfit | None = None
        for member in [*exact, *(member for member in self._members if member not in exact)]:
            try:
                wire = member.dump(value)
            except Misfit as misfit:
                # of a list that should be list[int], say which item is wrong, not that it is no list[int] | None
                failure = failure or (misfit if exact == [member] else None)
                continue
            return wire if self._by_kind is not None else {TYPE: self._names[self._members.index(member)], VALUE: wire}
        raise failure or Misfit(self.label, value)

    def load(self, wire: Any) -> Any:
        if self._by_kind is not None:
            member = self._by_kind.get(kind_of(wire))
            if member is None:
                raise Misfit(self.label, wire)
            return member.load(wire)
        if is_a(wire, dict) and wire.keys() == {TYPE, VALUE}:
            if wire[TYPE] not in self._names:
                raise Misfit(self.label, wire, f"is a {wire[TYPE]}")
            return self._members[self._names.index(wire[TYPE])].load(wire[VALUE])
        for member in self._members:  # stored before the annotation became a union, or by hand
            try:
                return member.load(wire)
            except Misfit:
                continue
        raise Misfit(self.label, wire)


class LiteralShape(Shape):
    """One of the values that the annotation lists; `shapes` are theirs, in the same order."""

    def __init__(self, choices: Sequence[Any], shapes: Sequence[Shape]) -> None:
        self._choices = list(choices)
        self._wires = [shape.dump(choice) for choice, shape in zip(choices, shapes, strict=True)]
        self.label = f"Literal[{', '.join(repr(choice) for choice in choices)}]"
        self.types = frozenset(map(type, self._choices))
        self.kinds = frozenset(kind_of(wire) for wire in self._wires)
        if len({(kind_of(wire), wire) for wire in self._wires}) < len(self._wires):
            raise ValueError("two of its values look the same in JSON")

    def dump(self, value: Any) -> Any:
        for choice, wire in zip(self._choices, self._wires, strict=True):
            if type(value) is type(choice) and value == choice:
                return wire
        raise Misfit(self.label, value)

    def load(self, wire: Any) -> Any:
        for known, choice in zip(self._wires, self._choices, strict=True):
            if type(wire) is type(known) and wire == known:
                return choice
        raise Misfit(self.label, wire)


def kind_of(wire: Any) -> Kind:
    """What a decoded JSON value was."""
    return _KINDS[type(wire)]


_KINDS: Final[dict[type, Kind]] = {
    type(None): "null",
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
    list: "array",
    dict: "object",
}


def _disjoint(members: Sequence[Shape]) -> dict[Kind, Shape] | None:
    """Which member a JSON kind belongs to, or None if some kind belongs to two."""
    owners: dict[Kind, Shape] = {}
    for member in sorted(members, key=lambda member: member.label == "float"):
        for kind in member.kinds:
            if kind in owners and not (kind == "int" and member.label == "float"):
                return None  # an int beside a float is an int: floats are written with their point
            owners.setdefault(kind, member)
    return owners


def _names(members: Sequence[Shape]) -> list[str]:
    """A name for each member; where two are called the same, their place is added."""
    labels = [member.label for member in members]
    return [label if labels.count(label) == 1 else f"{label} #{place}" for place, label in enumerate(labels)]
