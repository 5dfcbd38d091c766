"""Shapes: how values of one type become plain JSON values and come back. The base, and the scalars.

A shape is strict both ways: `dump` takes only values of its type (a wrong one is refused at the enqueue
call), `load` only what its `dump` can have written. Neither needs the other's imports: a stored text is
never unpickled, nor does it name anything to import.
"""

from __future__ import annotations

import binascii
import math
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePath
from typing import Any, Final, Literal
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec

Kind = Literal["null", "bool", "int", "float", "str", "array", "object"]
EVERY_KIND: Final[frozenset[Kind]] = frozenset({"null", "bool", "int", "float", "str", "array", "object"})


def is_a(value: Any, classes: Any) -> bool:
    """`isinstance`, out of type checkers' sight: what comes from outside stays `Any` until a shape has made it."""
    return isinstance(value, classes)


def is_sub(cls: Any, classes: Any) -> bool:
    """`issubclass`, likewise."""
    return issubclass(cls, classes)


class Misfit(Exception):
    """A value that does not fit. Shapes on the way out put their step in front of ``path``."""

    def __init__(self, expected: str, value: object, why: str = "") -> None:
        super().__init__(expected, value, why)
        self.expected = expected
        self.value = value
        self.why = why  # what is wrong, where the types alone do not tell
        self.path = ""

    def under(self, step: str) -> Misfit:
        self.path = step + self.path
        return self


class Shape:
    """One type's way to JSON and back."""

    label: str = ""  # the type as people write it
    kinds: frozenset[Kind] = EVERY_KIND  # what its JSON can look like: how a union tells members apart
    types: frozenset[type] = frozenset()  # classes whose values are exactly this shape's

    def dump(self, value: Any, /) -> Any:
        """`value` as JSON-natural Python. Raises `Misfit`."""
        raise NotImplementedError

    def load(self, wire: Any, /) -> Any:
        """The value again. Raises `Misfit`."""
        raise NotImplementedError


class NoneShape(Shape):
    label = "None"
    kinds = frozenset({"null"})
    types = frozenset({type(None)})

    def dump(self, value: Any) -> Any:
        if value is None:
            return None
        raise Misfit(self.label, value)

    load = dump


class BoolShape(Shape):
    label = "bool"
    kinds = frozenset({"bool"})
    types = frozenset({bool})

    def dump(self, value: Any) -> Any:
        if value is True or value is False:
            return value
        raise Misfit(self.label, value)

    load = dump


class IntShape(Shape):
    """Of any size. A subclass's value (bool, IntEnum) arrives as the int it is."""

    label = "int"
    kinds = frozenset({"int"})
    types = frozenset({int})

    def dump(self, value: Any) -> int:
        if type(value) is int:
            return value
        if isinstance(value, int):
            return int.__int__(value)
        raise Misfit(self.label, value)

    def load(self, wire: Any) -> int:
        if type(wire) is int:
            return wire
        raise Misfit(self.label, wire)


class FloatShape(Shape):
    """Finite. An int is taken, as type checkers do, and arrives as a float."""

    label = "float"
    kinds = frozenset({"float", "int"})
    types = frozenset({float})

    def dump(self, value: Any) -> float:
        if not isinstance(value, (float, int)) or value is True or value is False:
            raise Misfit(self.label, value)
        try:
            number = float.__float__(value) if isinstance(value, float) else float(int.__int__(value))
        except OverflowError:
            raise Misfit(self.label, value, "is too large for a float") from None
        if not math.isfinite(number):
            raise Misfit(self.label, value, "is not a finite number, and JSON has no word for it")
        return number

    def load(self, wire: Any) -> float:
        if type(wire) is float:
            return wire
        if type(wire) is int:
            return float(wire)
        raise Misfit(self.label, wire)


class StrShape(Shape):
    """A subclass's value (StrEnum, Markup) arrives as the str it is."""

    label = "str"
    kinds = frozenset({"str"})
    types = frozenset({str})

    def dump(self, value: Any) -> str:
        if type(value) is str:
            return value  # lone surrogates are found by the encoder, at no cost to all others
        if isinstance(value, str):
            return str.__str__(value)
        raise Misfit(self.label, value)

    def load(self, wire: Any) -> str:
        if type(wire) is str:
            return wire
        raise Misfit(self.label, wire)


class BytesShape(Shape):
    """Base 64."""

    kinds = frozenset({"str"})

    def __init__(self, cls: type[bytes] | type[bytearray]) -> None:
        self._cls = cls
        self.label = cls.__name__
        self.types = frozenset({cls})

    def dump(self, value: Any) -> str:
        if isinstance(value, self._cls):
            return b64encode(value).decode("ascii")
        raise Misfit(self.label, value)

    def load(self, wire: Any) -> bytes | bytearray:
        if type(wire) is str:
            try:
                return self._cls(b64decode(wire, validate=True))
            except (binascii.Error, ValueError):
                pass
        raise Misfit(f"{self.label} (base 64)", wire)


class TextShape(Shape):
    """A class whose values have one faithful text: `write` makes it, `read` takes it."""

    kinds = frozenset({"str"})

    def __init__(
        self, cls: type, write: Callable[[Any], str], read: Callable[[str], Any], *, refuse: tuple[type, ...] = ()
    ) -> None:
        self._cls, self._write, self._read, self._refuse = cls, write, read, refuse
        self.label = cls.__name__
        self.types = frozenset({cls})

    def dump(self, value: Any) -> str:
        if isinstance(value, self._cls) and not isinstance(value, self._refuse):
            try:
                return self._write(value)
            except ValueError as error:
                raise Misfit(self.label, value, str(error)) from None
        raise Misfit(self.label, value)

    def load(self, wire: Any) -> Any:
        if type(wire) is str:
            try:
                return self._read(wire)
            except (ValueError, ArithmeticError, LookupError):
                pass
        raise Misfit(self.label, wire)


def datetime_shape() -> Shape:
    """ISO 8601. A named time zone travels with it (RFC 9557), since its rules are more than an offset."""
    return TextShape(datetime, _write_datetime, _read_datetime)


def _write_datetime(value: datetime) -> str:
    text = datetime.isoformat(value)
    zone = value.tzinfo
    if isinstance(zone, ZoneInfo) and zone.key:
        return f"{text}[{zone.key}]"
    return text


def _read_datetime(text: str) -> datetime:
    if not text.endswith("]"):
        return datetime.fromisoformat(text)
    stamp, _, zone = text[:-1].partition("[")
    moment = datetime.fromisoformat(stamp)
    try:
        return moment.astimezone(ZoneInfo(zone))
    except (ValueError, LookupError, OSError):  # a host without that zone still knows the instant
        return moment


def date_shape() -> Shape:
    """A datetime is no date here, though a subclass: its time would be lost."""
    return TextShape(date, date.isoformat, date.fromisoformat, refuse=(datetime,))


def time_shape() -> Shape:
    return TextShape(time, time.isoformat, time.fromisoformat)


def timedelta_shape() -> Shape:
    """ISO 8601, to the microsecond."""
    return TextShape(timedelta, _write_timedelta, _read_timedelta)


def _write_timedelta(value: timedelta) -> str:
    # built anew, so that a subclass's own text (pandas, pendulum) does not matter
    plain = timedelta(value.days, value.seconds, value.microseconds)
    return str(msgspec.to_builtins(plain))


def _read_timedelta(text: str) -> timedelta:
    return msgspec.convert(text, timedelta)


def decimal_shape() -> Shape:
    return TextShape(Decimal, _write_decimal, _read_decimal)


def _write_decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise ValueError("is not a finite number")
    return Decimal.__str__(value)


def _read_decimal(text: str) -> Decimal:
    value = Decimal(text)
    if not value.is_finite():
        raise ValueError(text)
    return value


def uuid_shape() -> Shape:
    return TextShape(UUID, UUID.__str__, UUID)


def path_shape(cls: type[PurePath]) -> Shape:
    """A path of this host's flavour arrives as `cls`. A subclass of a user's own is not told apart."""
    return TextShape(cls, str, cls)


class EnumShape(Shape):
    """By value where all values are str or int, else by name."""

    def __init__(self, cls: type[Enum]) -> None:
        self._cls = cls
        self.label = cls.__name__
        self.types = frozenset({cls})
        self._by_value = len(cls) > 0 and all(type(member.value) in (str, int) for member in cls)
        self.kinds = frozenset({"str", "int"}) if self._by_value else frozenset({"str"})

    def dump(self, value: Any) -> Any:
        if not isinstance(value, self._cls):
            raise Misfit(self.label, value, self._choices())
        return value.value if self._by_value else value.name

    def load(self, wire: Any) -> Any:
        try:
            if self._by_value and type(wire) in (str, int):
                return self._cls(wire)
            if not self._by_value and type(wire) is str:
                return self._cls[wire]
        except (ValueError, KeyError):
            pass
        raise Misfit(self.label, wire, self._choices())

    def _choices(self) -> str:
        names = [member.name for member in self._cls][:6]
        return f"is not a member ({', '.join(names)})" if names else "is not a member"


SCALARS: Final[dict[Any, Callable[[], Shape]]] = {
    None: NoneShape,
    type(None): NoneShape,
    bool: BoolShape,
    int: IntShape,
    float: FloatShape,
    str: StrShape,
    bytes: lambda: BytesShape(bytes),
    bytearray: lambda: BytesShape(bytearray),
    datetime: datetime_shape,
    date: date_shape,
    time: time_shape,
    timedelta: timedelta_shape,
    Decimal: decimal_shape,
    UUID: uuid_shape,
    Path: lambda: path_shape(Path),
}
