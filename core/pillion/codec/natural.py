"""`Any` and unannotated: values that JSON itself knows, so that they arrive as they were given."""

from __future__ import annotations

import math
from typing import Any

from pillion.codec.shapes import EVERY_KIND, Misfit, Shape, is_a
from pillion.failure import safe_repr

LABEL = "a JSON value (None, bool, int, float, str, list, dict with str keys)"


class AnyShape(Shape):
    label = "Any"
    kinds = EVERY_KIND

    def dump(self, value: Any) -> Any:
        return natural(value)

    def load(self, wire: Any) -> Any:
        return wire


def natural(value: Any) -> Any:
    """`value`, with subclasses of JSON's types made plain. Raises `Misfit` with the path of what is foreign."""
    if type(value) is str or type(value) is int or type(value) is bool or value is None:
        return value
    if type(value) is float:
        if math.isfinite(value):
            return value
        raise Misfit("float", value, "is not a finite number, and JSON has no word for it")
    if is_a(value, list):
        return _items(value)
    if is_a(value, dict):
        return _members(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return natural(float.__float__(value))
    raise Misfit(LABEL, value)


def _items(value: list[Any]) -> list[Any]:
    items: list[Any] = []
    try:
        for item in value:
            items.append(natural(item))  # noqa: PERF401 (its length is the index of what fails)
    except Misfit as misfit:
        raise misfit.under(f"[{len(items)}]") from None
    return items


def _members(value: dict[Any, Any]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    key: Any = None
    try:
        for key, item in value.items():
            if not isinstance(key, str):
                raise Misfit("str as key", key, "would become a str")
            members[str.__str__(key)] = natural(item)
    except Misfit as misfit:
        raise misfit.under(f"[{safe_repr(key, 40)}]" if isinstance(key, str) else "") from None
    return members
