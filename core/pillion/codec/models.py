"""Shapes of what pydantic knows: its models, and classes that carry its schema hook.

pydantic is no dependency: a class with the hook means that somebody imported it already.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

import msgspec

from pillion.codec.shapes import EVERY_KIND, Misfit, Shape


class ModelShape(Shape):
    """A value goes through its own JSON and back at the enqueue call, and must come out equal.

    pydantic's JSON may lose things by design (excluded fields, masked secrets, a subclass's fields): that
    is refused here rather than found out in the job. Private attributes are not carried.
    """

    def __init__(self, hint: Any, adapter: Any) -> None:
        self._adapter = adapter
        # names where they can be asked for (pydantic 2.11): some aliases are for reading only, or for writing only
        names = "by_name" in inspect.signature(adapter.validate_json).parameters
        self._reading: dict[str, bool] = {"by_alias": True, "by_name": True} if names else {}
        self._by_alias = not names
        self._cls = hint if isinstance(hint, type) else None
        self.label = getattr(hint, "__name__", None) or str(hint)
        self.types = frozenset({self._cls}) if self._cls is not None else frozenset()
        self.kinds = frozenset({"object"}) if _is_plain_model(hint) else EVERY_KIND

    def dump(self, value: Any) -> Any:
        is_model = self._cls is not None and _is_model(self._cls)
        if is_model and type(value) is not self._cls:
            why = "is a subclass, and what it adds would be lost; name it in the annotation"
            raise Misfit(self.label, value, why if isinstance(value, self._cls or ()) else "")
        try:
            if not is_model:
                self._adapter.validate_python(value, strict=True)
            text = self._adapter.dump_json(value, by_alias=self._by_alias, round_trip=True, warnings=False)
            again = self._adapter.validate_json(text, **self._reading)
            same = type(again) is type(value) and bool(again == value)
        except Exception as error:  # validators and serializers are the user's
            raise Misfit(self.label, value, _first_line(error)) from None
        if not same:
            raise Misfit(
                self.label, value, "does not survive its own JSON (an excluded field, a secret, a subclass inside?)"
            )
        return msgspec.json.decode(text)

    def load(self, wire: Any) -> Any:
        try:
            return self._adapter.validate_json(msgspec.json.encode(wire), **self._reading)
        except Exception as error:
            raise Misfit(self.label, wire, _first_line(error)) from error


def model_shape(hint: Any) -> Shape | None:
    """The shape of a class with pydantic's hook, or of its own; None for others, and where it was never imported.

    Raises what pydantic raises for a class that is not complete.
    """
    pydantic = sys.modules.get("pydantic")
    root = str(getattr(hint, "__module__", "")).partition(".")[0]
    if pydantic is None or not (hasattr(hint, "__get_pydantic_core_schema__") or root == "pydantic_core"):
        return None
    return ModelShape(hint, pydantic.TypeAdapter(hint))


def _is_model(cls: type) -> bool:
    return hasattr(cls, "model_validate_json") and hasattr(cls, "model_fields")


def _is_plain_model(hint: Any) -> bool:
    return isinstance(hint, type) and _is_model(hint) and not getattr(hint, "__pydantic_root_model__", False)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return " ".join(line.strip() for line in lines[:3])[:300] or type(error).__name__
