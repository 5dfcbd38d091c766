"""Shapes of lists, tuples, sets and dicts: JSON arrays and objects of other shapes' values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pillion.codec.shapes import Misfit, Shape, is_a
from pillion.failure import safe_repr


def each(convert: Callable[[Any], Any], values: Iterable[Any]) -> list[Any]:
    """`convert` over `values`; a `Misfit` gets the index."""
    done: list[Any] = []
    try:
        for value in values:
            done.append(convert(value))  # noqa: PERF401 (its length is the index of what fails)
    except Misfit as misfit:
        raise misfit.under(f"[{len(done)}]") from None
    return done


class ArrayShape(Shape):
    """Any number of items of one shape: list, set, frozenset, ``tuple[X, ...]``, and their abstract kin.

    `takes` are the classes of values, `make` builds what arrives.
    """

    kinds = frozenset({"array"})

    def __init__(self, label: str, takes: tuple[type, ...], make: Callable[[list[Any]], Any], item: Shape) -> None:
        self.label = f"{label}[{item.label}, ...]" if label == "tuple" else f"{label}[{item.label}]"
        self._takes, self._make, self._item = takes, make, item
        self.types = frozenset(takes)

    def dump(self, value: Any) -> list[Any]:
        if not is_a(value, self._takes):
            raise Misfit(self.label, value)
        return each(self._item.dump, value)

    def load(self, wire: Any) -> Any:
        if not is_a(wire, list):
            raise Misfit(self.label, wire)
        items = each(self._item.load, wire)
        try:
            return self._make(items)
        except TypeError as error:  # unhashable items of a set
            raise Misfit(self.label, wire, str(error)) from None


class TupleShape(Shape):
    """A tuple of fixed length."""

    kinds = frozenset({"array"})
    types = frozenset({tuple})

    def __init__(self, items: Sequence[Shape]) -> None:
        self._items = tuple(items)
        self.label = f"tuple[{', '.join(item.label for item in items) or '()'}]"

    def dump(self, value: Any) -> list[Any]:
        if not is_a(value, tuple) or len(value) != len(self._items):
            raise Misfit(self.label, value, self._lengths(value))
        return self._each([item.dump for item in self._items], value)

    def load(self, wire: Any) -> tuple[Any, ...]:
        if not is_a(wire, list) or len(wire) != len(self._items):
            raise Misfit(self.label, wire, self._lengths(wire))
        return tuple(self._each([item.load for item in self._items], wire))

    @staticmethod
    def _each(converts: list[Callable[[Any], Any]], values: Sequence[Any]) -> list[Any]:
        done: list[Any] = []
        try:
            for convert, value in zip(converts, values, strict=True):
                done.append(convert(value))
        except Misfit as misfit:
            raise misfit.under(f"[{len(done)}]") from None
        return done

    def _lengths(self, value: Any) -> str:
        return f"has {len(value)} items instead of {len(self._items)}" if is_a(value, (tuple, list)) else ""


class DictShape(Shape):
    """A JSON object where keys are text anyway, else an array of pairs."""

    types = frozenset({dict})

    def __init__(self, label: str, key: Shape, value: Shape) -> None:
        self.label = f"{label}[{key.label}, {value.label}]"
        self._key, self._value = key, value
        self._object = key.kinds == frozenset({"str"})
        self.kinds = frozenset({"object"}) if self._object else frozenset({"array"})

    def dump(self, value: Any) -> Any:
        if not is_a(value, dict):
            raise Misfit(self.label, value)
        pairs = [self._pair(self._key.dump, self._value.dump, key, item) for key, item in value.items()]
        if not self._object:
            return pairs
        members = dict(pairs)
        if len(members) != len(value):
            raise Misfit(self.label, value, "has keys that become the same text")
        return members

    def load(self, wire: Any) -> dict[Any, Any]:
        if not is_a(wire, dict if self._object else list):
            raise Misfit(self.label, wire)
        pairs: Iterable[tuple[Any, Any]] = wire.items() if self._object else map(self._two, wire)
        try:
            return dict(self._pair(self._key.load, self._value.load, key, item) for key, item in pairs)
        except TypeError as error:  # an unhashable key
            raise Misfit(self.label, wire, str(error)) from None

    def _two(self, pair: Any) -> tuple[Any, Any]:
        if is_a(pair, list) and len(pair) == 2:
            return pair[0], pair[1]
        raise Misfit(f"{self.label} (pairs)", pair)

    @staticmethod
    def _pair(convert_key: Callable[[Any], Any], convert: Callable[[Any], Any], key: Any, item: Any) -> tuple[Any, Any]:
        try:
            new_key = convert_key(key)
        except Misfit as misfit:
            raise misfit.under(" key") from None
        try:
            return new_key, convert(item)
        except Misfit as misfit:
            raise misfit.under(f"[{safe_repr(key, 40)}]") from None
