"""What a task declares is what arrives, equal and of the same class."""

from __future__ import annotations

import collections.abc as abc
import random
import sys
import uuid
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, NewType, Optional, TypeVar, Union
from zoneinfo import ZoneInfo

import pydantic
import pytest

from core.codec_types import (
    Address,
    Aliased,
    Box,
    Checked,
    Colour,
    Computed,
    Coordinates,
    Corner,
    Level,
    Line,
    Loose,
    Mixed,
    Mode,
    Movie,
    Node,
    Numbers,
    Order,
    Pair,
    Partly,
    Point,
    Point3,
    ReadOnlyAlias,
    Renamed,
    User,
    Word,
)
from pillion.codec import CallCodec

UserId = NewType("UserId", int)
N = TypeVar("N", bound=int)

BERLIN = ZoneInfo("Europe/Berlin")


def codec_for(annotation: Any) -> CallCodec:
    def task(value: Any) -> Any: ...

    task.__annotations__ = {"value": annotation, "return": annotation}
    return CallCodec(task, task="shop.task")


def through(annotation: Any, value: Any) -> Any:
    codec = codec_for(annotation)
    args, kwargs = codec.decode(codec.encode((value,), {}))
    assert args == ()
    return kwargs["value"]


CASES: list[tuple[Any, Any]] = [
    (int, 0),
    (int, -(2**63)),
    (int, 2**64),
    (int, -(10**300)),
    (str, ""),
    (str, 'Grüße 🚲 \\ " / \n\t\x7f'),
    (str, "with\0nul"),
    (bytes, b""),
    (bytes, bytes(range(256))),
    (bytearray, bytearray(b"\x00\xff")),
    (float, 0.1),
    (float, 1e300),
    (float, 5e-324),
    (float, 7.0),
    (bool, True),
    (None, None),
    (datetime, datetime(2026, 3, 29, 2, 30, 0, 1, tzinfo=UTC)),
    (datetime, datetime(2026, 3, 29, 2, 30)),  # noqa: DTZ001 (a naive one arrives naive)
    (datetime, datetime.max),  # noqa: DTZ901
    (datetime, datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=-3, minutes=-30, seconds=-5)))),
    (date, date(2026, 2, 28)),
    (time, time(23, 59, 59, 999999)),
    (time, time(1, 2, tzinfo=UTC)),
    (timedelta, timedelta.max),
    (timedelta, timedelta.min),
    (timedelta, timedelta(microseconds=-1)),
    (timedelta, timedelta()),
    (uuid.UUID, uuid.UUID("12345678-1234-5678-1234-567812345678")),
    (Decimal, Decimal("0.10")),
    (Decimal, Decimal("-1E+400")),
    (Path, Path("/srv/uploads/ä b.png")),
    (Path, Path("relative/file")),
    (PurePosixPath, PurePosixPath("/etc")),
    (Colour, Colour.BLUE),
    (Level, Level.HIGH),
    (Word, Word.NO),
    (Mode, Mode.READ | Mode.WRITE),
    (Corner, Corner.FAR),
    (Mixed, Mixed.ONE),
    (Mixed, Mixed.TWO),
    (Literal["a", 1, True, None], 1),
    (Literal["a", 2, True, None], True),
    (Literal[Colour.RED, "x"], Colour.RED),
    (Literal[b"raw"], b"raw"),
    (Optional[int], None),  # noqa: UP045 (people write it)
    (Union[int, str], "7"),  # noqa: UP007
    (int | float, 7),
    (int | float, 7.0),
    (int | bool, True),
    (bool | int, 1),
    (datetime | str, "2026-01-01T00:00:00"),
    (datetime | str, datetime(2026, 1, 1, tzinfo=UTC)),
    (date | datetime, datetime(2026, 1, 1, tzinfo=UTC)),
    (date | datetime, date(2026, 1, 1)),
    (bytes | str | None, b"x"),
    (bytes | str | None, "eA=="),
    (Word | str, Word.YES),
    (Word | str, "yes"),
    (Level | int, Level.LOW),
    (uuid.UUID | int | str, "12345678-1234-5678-1234-567812345678"),
    (Point | Point3, Point3(1, 2.0, 3)),
    (Point | Point3, Point(1, 2.0)),
    (Point | dict[str, int], {"x": 1}),
    (list[int] | list[str], ["1"]),
    (list[int] | None, [1, 2]),
    (Annotated[int, "metadata"], 3),
    (list[Annotated[UserId, "x"]], [1]),
    (UserId, 5),
    (N, 5),
    (list, [1, "a", None, {"k": [1.5]}]),
    (list[datetime], [datetime(2026, 1, 1, tzinfo=UTC)]),
    (tuple, (1, "a")),
    (tuple[int, ...], (1, 2, 3)),
    (tuple[int, str, Decimal], (1, "2", Decimal(3))),
    (tuple[()], ()),
    (set[int], {3, 1, 2}),
    (frozenset[tuple[int, str]], frozenset({(1, "a"), (2, "b")})),
    (dict, {"a": {"b": [1]}}),
    (dict[str, bytes], {"": b"x"}),
    (dict[int, str], {1: "a", -2: "b"}),
    (dict[uuid.UUID, int], {uuid.UUID(int=1): 1}),
    (dict[Colour, list[Level]], {Colour.RED: [Level.LOW]}),
    (dict[tuple[int, int], float], {(1, 2): 0.5}),
    (dict[datetime, None], {datetime(2026, 1, 1, tzinfo=UTC): None}),
    (abc.Sequence[int], [1, 2]),
    (abc.Mapping[str, int], {"a": 1}),
    (abc.Set[int], frozenset({1})),
    (Point, Point(1, 2.5)),
    (Order, Order(id=1)),
    (
        Order,
        Order(
            id=2,
            lines=[Line("a", Decimal("1.50"), 0.25), Line("b", Decimal(2))],
            placed=datetime(2026, 5, 1, 12, tzinfo=UTC),
            total=Decimal("3.50"),
            tags=frozenset({"x", "y"}),
        ),
    ),
    (Node, Node("root", [Node("leaf", [], "root")])),
    (Computed, Computed(4)),
    (Box[int], Box(1, [2, 3])),
    (Box[datetime], Box(datetime(2026, 1, 1, tzinfo=UTC))),
    (list[Box[Point]], [Box(Point(1))]),
    (Coordinates, Coordinates(1.5)),
    (Coordinates, Coordinates(1.5, 2.5, "here")),
    (Renamed, Renamed("Ada", Coordinates(0.0))),
    (Pair, Pair(1, datetime(2026, 1, 1, tzinfo=UTC))),
    (Loose, Loose(1, [2])),
    (Movie, {"title": "Alien"}),
    (Movie, {"title": "Alien", "year": 1979}),
    (Partly, {"id": 1}),
    (Address, Address(street="Main", zipCode="1")),
    (
        User,
        User(
            id=1,
            joined=datetime(2026, 1, 1, tzinfo=UTC),
            addresses=[Address(street="Main", zipCode="1")],
            rank=Colour.RED,
            raw=b"ascii",
        ),
    ),
    (User | None, None),
    (User | Address, Address(street="Main", zipCode="1")),
    (dict[str, list[Address]], {"home": [Address(street="Main", zipCode="1")]}),
    (Aliased, Aliased(uno=1, three=[Address(street="Main", zipCode="1")])),
    (Numbers, Numbers([1, 2])),
    (pydantic.HttpUrl, pydantic.HttpUrl("https://example.org/x?y=1")),
    (Checked, Checked(3, datetime(2026, 1, 1, tzinfo=UTC))),
    (Any, {"a": [1, 2.5, None, True, "x"]}),
    (object, [1]),
]


@pytest.mark.parametrize(("annotation", "value"), CASES, ids=[f"{a!r:.60}-{v!r:.40}" for a, v in CASES])
def test_what_is_declared_arrives(annotation: Any, value: Any) -> None:
    arrived = through(annotation, value)
    assert arrived == value
    assert type(arrived) is type(value)


@pytest.mark.parametrize(("annotation", "value"), CASES, ids=[f"{a!r:.60}-{v!r:.40}" for a, v in CASES])
def test_results_come_back_as_declared(annotation: Any, value: Any) -> None:
    codec = codec_for(annotation)
    back = codec.decode_result(codec.encode_result(value))
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize("moment", [datetime(2026, 10, 25, 2, 30, fold=fold, tzinfo=BERLIN) for fold in (0, 1)])
def test_a_named_time_zone_travels_with_its_rules(moment: datetime) -> None:
    arrived = through(datetime, moment)
    assert arrived.tzinfo is BERLIN
    assert (arrived.utcoffset(), arrived.fold) == (moment.utcoffset(), moment.fold)
    assert arrived + timedelta(days=180) == moment + timedelta(days=180)


def test_a_zone_that_the_host_does_not_know_keeps_the_instant() -> None:
    _, kwargs = codec_for(datetime).decode('{"value":"2026-01-01T12:00:00+05:30[Mars/Olympus]"}')
    assert kwargs["value"] == datetime(2026, 1, 1, 6, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("annotation", "value", "plain"),
    [(int, True, 1), (int, Level.HIGH, 2), (str, Word.YES, "yes"), (float, 7, 7.0), (list[str], [Word.NO], ["no"])],
)
def test_a_subclass_of_a_plain_type_arrives_as_the_declared_type(annotation: Any, value: Any, plain: Any) -> None:
    arrived = through(annotation, value)
    assert arrived == plain
    assert type(arrived) is type(plain)


@pytest.mark.skipif(tuple(map(int, pydantic.VERSION.split(".")[:2])) < (2, 11), reason="by_name is of pydantic 2.11")
def test_a_models_aliases_may_differ_by_direction() -> None:
    value = ReadOnlyAlias.model_validate({"eins": 1, "dos": 2})
    assert through(ReadOnlyAlias, value) == value


def test_a_signed_zero_keeps_its_sign() -> None:
    assert str(through(float, -0.0)) == "-0.0"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the type statement is of 3.12")
def test_type_aliases_may_be_recursive_and_generic() -> None:
    names: dict[str, Any] = {}
    exec("type Json = dict[str, Json] | list[Json] | int | None\ntype Pairs[T] = list[tuple[str, T]]", names)
    value = {"a": [1, {"b": [None]}]}
    assert through(names["Json"], value) == value
    assert through(names["Pairs"][Decimal], [("a", Decimal(1))]) == [("a", Decimal(1))]


def test_random_values_of_random_types_arrive() -> None:
    """Types and values are grown together, from a fixed seed, three levels deep."""
    chance = random.Random(20_240_101)
    for _ in range(1500):
        annotation, value = grown(chance, 3)
        arrived = through(annotation, value)
        assert arrived == value, (annotation, value)
        assert type(arrived) is type(value)


LEAVES: list[tuple[Any, Callable[[random.Random], Any]]] = [
    (int, lambda chance: chance.randint(-(2**70), 2**70)),
    (float, lambda chance: chance.uniform(-1e9, 1e9)),
    (str, lambda chance: "".join(chr(chance.choice([0, 10, 34, 65, 0x7F, 0xE9, 0x20AC, 0x1F6B2])) for _ in range(5))),
    (bytes, lambda chance: chance.randbytes(4)),
    (bool, lambda chance: chance.random() < 0.5),
    (None, lambda chance: None),
    (datetime, lambda chance: datetime(2000, 1, 1, tzinfo=UTC) + timedelta(microseconds=chance.randint(0, 10**15))),
    (timedelta, lambda chance: timedelta(microseconds=chance.randint(-(10**15), 10**15))),
    (uuid.UUID, lambda chance: uuid.UUID(int=chance.getrandbits(128))),
    (Decimal, lambda chance: Decimal(chance.randint(-(10**9), 10**9)).scaleb(-chance.randint(0, 9))),
    (Colour, lambda chance: chance.choice(list(Colour))),
    (Corner, lambda chance: chance.choice(list(Corner))),
]


def grown(chance: random.Random, depth: int) -> tuple[Any, Any]:
    if depth == 0 or chance.random() < 0.2:
        annotation, make = chance.choice(LEAVES)
        return annotation, make(chance)
    inner, value = grown(chance, depth - 1)
    other, other_value = grown(chance, depth - 1)
    kind = chance.randrange(6)
    if kind == 0:
        return list[inner], [value] * chance.randint(0, 2)
    if kind == 1:
        return tuple[inner, other], (value, other_value)
    if kind == 2:
        return dict[str, inner], {"k": value}
    if kind == 3:
        return Box[inner], Box(value, [value])
    if kind == 4 and inner != other:
        return Union[inner, other], chance.choice([value, other_value])  # noqa: UP007 (None is among the types)
    return Optional[inner], chance.choice([value, None])  # noqa: UP045
