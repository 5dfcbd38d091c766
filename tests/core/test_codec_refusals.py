"""What cannot arrive as it is, is refused at the enqueue call: by name, with what to pass instead."""

from __future__ import annotations

import asyncio
import io
import json
import queue
import tempfile
import threading
from collections import UserDict
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import httpx
import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from core.codec_types import (
    Checked,
    Colour,
    Employee,
    Hidden,
    Level,
    Line,
    Movie,
    Order,
    Pair,
    Point,
    Point3,
    Positive,
    Secret,
    User,
    WithInitVar,
)
from pillion.codec import MAX_ARGS, CallCodec
from pillion.errors import ArgumentError, ConfigurationError


def codec_for(annotation: Any) -> CallCodec:
    def task(value: Any) -> Any: ...

    task.__annotations__ = {"value": annotation}
    return CallCodec(task, task="shop.task")


def refusal(annotation: Any, value: Any) -> str:
    with pytest.raises(ArgumentError) as caught:
        codec_for(annotation).encode((value,), {})
    assert caught.value.parameter == "value"
    message = str(caught.value)
    assert "`value" in message
    assert "shop.task" in message
    assert len(message) < 700
    return message


NOW = datetime(2026, 1, 1, tzinfo=UTC)
WRONG: list[tuple[Any, Any]] = [
    (int, "7"),
    (int, 7.0),
    (int, None),
    (str, 7),
    (str, b"x"),
    (bytes, "x"),
    (bytes, bytearray(b"x")),
    (float, "1"),
    (float, True),
    (float, 10**400),
    (float, Decimal(1)),
    (bool, 1),
    (None, 0),
    (datetime, "2026-01-01"),
    (datetime, date(2026, 1, 1)),
    (date, NOW),
    (UUID, "12345678-1234-5678-1234-567812345678"),
    (Decimal, 1),
    (Decimal, "1"),
    (Path, "/tmp"),
    (Colour, "red"),
    (Level, 2),
    (Literal["a", "b"], "c"),
    (Literal[1], True),
    (int | str, 1.5),
    (list[int], (1,)),
    (list[int], "abc"),
    (list[int], [1, "2"]),
    (tuple[int, int], (1,)),
    (tuple[int, int], [1, 2]),
    (set[int], [1]),
    (dict[str, int], {1: 1}),
    (dict[str, int], {"a": "b"}),
    (dict[str, int], UserDict()),
    (Point, {"x": 1}),
    (Point, Point3(1)),
    (Point, Point("1")),  # type: ignore[arg-type]
    (Pair, (1, None)),
    (Movie, {"year": 1}),
    (Movie, {"title": "x", "studio": "y"}),
    (User, {"id": 1}),
    (User, Employee(id=1, joined=NOW)),
    (list[User], [Employee(id=1, joined=NOW)]),
    (User, User(id=1, joined=NOW, raw=b"\xff")),
    (Secret, Secret(token="t")),  # type: ignore[arg-type]
    (Hidden, Hidden(shown=1, kept_back=2)),
    (Checked, 3),
]


@pytest.mark.parametrize(("annotation", "value"), WRONG, ids=[f"{a!r:.50}-{v!r:.40}" for a, v in WRONG])
def test_a_value_that_the_annotation_does_not_allow_is_refused(annotation: Any, value: Any) -> None:
    refusal(annotation, value)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("annotation", [float, Any, list[float], dict[str, Any], float | None])
def test_nan_and_inf_are_refused(annotation: Any, number: float) -> None:
    value: Any = number if annotation in (float, Any) or annotation == float | None else [number]
    if annotation == dict[str, Any]:
        value = {"deep": value}
    assert "finite" in refusal(annotation, value)


@pytest.mark.parametrize("number", [Decimal("nan"), Decimal("sNaN"), Decimal("inf")])
def test_decimals_that_are_no_numbers_are_refused(number: Decimal) -> None:
    assert "finite" in refusal(Decimal, number)


def test_the_path_to_the_culprit_is_told() -> None:
    order = Order(id=1, lines=[Line("a", Decimal(1)), Line("b", "2")])  # type: ignore[arg-type]
    assert "`value.lines[1].amount` takes Decimal, not str '2'" in refusal(Order, order)
    assert "`value['a'][1]` takes int, not str 'x'" in refusal(dict[str, list[int]], {"a": [1, "x"]})
    assert "`value[2]['when']`" in refusal(Any, [0, 1, {"when": NOW}])


def test_an_undeclared_type_names_the_annotation_that_would_take_it() -> None:
    assert "annotate the parameter as datetime" in refusal(Any, NOW)
    assert "annotate the parameter as tuple" in refusal(Any, (1, 2))
    assert "annotate the parameter as Point" in refusal(Any, Point(1))
    assert "annotate the parameter as Colour" in refusal(Any, Colour.RED)


@pytest.mark.parametrize("annotation", [str, Any, list[str], Path, dict[str, int]])
def test_text_that_is_no_unicode_is_refused_not_stored(annotation: Any) -> None:
    bad = "a\ud800b"
    value: Any = {list[str]: [bad], Path: Path(bad), dict[str, int]: {bad: 1}}.get(annotation, bad)
    message = refusal(annotation, value)
    assert "U+D800" in message
    assert "bytes" in message
    message.encode()


def test_what_contains_itself_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    assert "nested too deeply" in refusal(Any, circle)
    assert "nested too deeply" in refusal(list[Any], circle)


def test_the_size_is_bounded_above_a_megabyte() -> None:
    codec = codec_for(bytes)
    assert len(codec.encode((b"x" * 1024 * 1024,), {})) > 1_000_000
    assert codec_for(str).encode(("\n" * 1_000_000,), {})
    message = refusal(bytes, b"x" * MAX_ARGS)
    assert "path" in message


class Base(DeclarativeBase):
    pass


class Product(Base):
    __tablename__ = "product"
    id: Mapped[int] = mapped_column(primary_key=True)


def a_generator() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize("annotation", [int, Any, str | None, Point])
@pytest.mark.parametrize(
    ("make", "remedy"),
    [
        (lambda: Session(create_engine("sqlite://")), "let the job open its own"),
        (lambda: create_engine("sqlite://"), "@jobs.resource"),
        (lambda: Product(id=1), "primary key"),
        (httpx.AsyncClient, "@jobs.resource"),
        (io.BytesIO, "as bytes"),
        (tempfile.TemporaryFile, "as bytes"),
        (threading.Lock, "@jobs.resource"),
        (threading.Event, "@jobs.resource"),
        (asyncio.Lock, "@jobs.resource"),
        (queue.Queue, "@jobs.resource"),
        (a_generator, "a list of its items"),
        (lambda: iter([1]), "a list of its items"),
        (lambda: print, "ode is not data"),
        (lambda: lambda: 0, "ode is not data"),
        (lambda: json, "mport it in the job"),
        (object, "dataclass"),
    ],
)
def test_what_lives_in_this_process_is_refused_with_what_to_pass(
    annotation: Any, make: Callable[[], Any], remedy: str
) -> None:
    value = make()
    try:
        assert remedy in refusal(annotation, value)
    finally:
        if isinstance(value, (io.IOBase, Session)) or type(value).__module__ == "tempfile":
            value.close()


def test_a_coroutine_is_to_be_awaited_first() -> None:
    async def work() -> int:
        return 1

    coroutine = work()
    assert "wait it first" in refusal(int, coroutine)
    coroutine.close()


def web_class(name: str) -> type:
    return type(name, (), {"__module__": "starlette.requests"})


@pytest.mark.parametrize("name", ["Request", "WebSocket", "UploadFile", "BackgroundTasks"])
def test_what_belongs_to_a_request_is_refused(name: str) -> None:
    kind = web_class(name)
    assert "pass" in refusal(int, kind()) or "enqueue" in refusal(int, kind())
    with pytest.raises(ConfigurationError, match=name):
        codec_for(kind).resolve()


def test_an_object_that_fails_at_everything_is_refused_all_the_same() -> None:
    class Hostile:
        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError("no")

        def __repr__(self) -> str:
            raise RuntimeError("no")

    refusal(int, Hostile())
    refusal(Any, Hostile())
    refusal(Point, [Hostile()])


class TestAnnotationsThatNoJobCanHave:
    @pytest.mark.parametrize(
        "annotation",
        [
            Callable[[], int],
            type[int],
            Iterator[int],
            complex,
            io.BytesIO,
            threading.Lock,
            list[Callable[[], int]],
            WithInitVar,
            "NoSuchName",
            "list[NoSuchName]",
        ],
        ids=repr,
    )
    def test_are_refused_when_they_are_resolved(self, annotation: Any) -> None:
        with pytest.raises(ConfigurationError, match="`value`"):
            codec_for(annotation).resolve()

    def test_name_the_field_inside(self) -> None:
        from dataclasses import dataclass

        @dataclass
        class Holder:
            hook: Callable[[], int]

        Holder.__annotations__["hook"] = Callable[[], int]
        with pytest.raises(ConfigurationError, match=r"Holder\.hook"):
            codec_for(Holder).resolve()


def test_stored_values_that_the_class_refuses_do_not_fit() -> None:
    with pytest.raises(ArgumentError, match="must be positive"):
        codec_for(Positive).decode('{"value":{"value":-1}}')


@pytest.mark.parametrize(
    ("annotation", "stored"),
    [
        (int, '"7"'),
        (int, "7.0"),
        (int, "true"),
        (str, "7"),
        (bytes, '"%%%"'),
        (datetime, '"yesterday"'),
        (UUID, '"x"'),
        (Decimal, '"NaN"'),
        (Colour, '"green"'),
        (list[int], "{}"),
        (set[Any], "[[1]]"),
        (dict[int, int], "[[1]]"),
        (dict[int, int], "{}"),
        (tuple[int, int], "[1]"),
        (Point, '{"x":1,"w":2}'),
        (Point, "{}"),
        (User, '{"id":1}'),
        (datetime | str, '{"$type":"Path","$value":"x"}'),
        (int | None, '"x"'),
    ],
)
def test_stored_values_are_read_as_strictly(annotation: Any, stored: str) -> None:
    with pytest.raises(ArgumentError, match="do not fit"):
        codec_for(annotation).decode(f'{{"value":{stored}}}')
