"""Results: typed where declared, natural where not, text where nothing else works; never an error."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from core.codec_types import Colour, Point, User
from pillion.codec import CallCodec
from pillion.codec.results import MAX_RESULT


def codec(returns: Any = "missing") -> CallCodec:
    def task() -> Any: ...

    task.__annotations__ = {} if returns == "missing" else {"return": returns}
    return CallCodec(task, task="shop.task")


def back(made: CallCodec, value: Any) -> Any:
    text = made.encode_result(value)
    if text is not None:
        json.loads(text)
        text.encode()
    return made.decode_result(text)


class Odd:
    def __repr__(self) -> str:
        return "<odd>"


class Hostile:
    def __repr__(self) -> str:
        raise SystemExit("no")

    def __str__(self) -> str:
        raise KeyboardInterrupt


def test_none_is_no_text() -> None:
    assert codec().encode_result(None) is None
    assert codec(int).decode_result(None) is None


def test_a_result_that_breaks_its_annotation_is_kept_as_it_is() -> None:
    assert back(codec(int), "text") == "text"
    assert back(codec(None), {"a": 1}) == {"a": 1}
    assert back(codec(User), {"id": 1}) == {"id": 1}
    assert back(codec(datetime), 5) == 5


def test_without_an_annotation_a_result_becomes_its_own_types_json() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert back(codec(), now) == "2026-01-01T00:00:00+00:00"
    assert back(codec(), Point(1, 2.0)) == {"x": 1, "y": 2.0}
    assert back(codec(), Colour.RED) == "red"
    assert back(codec(), UUID(int=1)) == str(UUID(int=1))
    assert back(codec(), [1, {"a": None}]) == [1, {"a": None}]


@pytest.mark.parametrize("returns", ["missing", Any, int, User, "NoSuchName", Odd])
def test_a_result_without_a_form_in_json_becomes_its_text(returns: Any) -> None:
    assert back(codec(returns), Odd()) == "<odd>"
    assert "Hostile object" in back(codec(returns), Hostile())
    assert back(codec(returns), float("nan")) == "nan"
    assert "Odd" in json.loads(codec(returns).encode_result(Odd()) or "")["$type"]


def test_what_contains_itself_becomes_text() -> None:
    circle: list[Any] = []
    circle.append(circle)
    assert back(codec(), circle) == "[[...]]"
    assert isinstance(back(codec(list[Any]), circle), str)


def test_text_that_is_no_unicode_becomes_clean_text() -> None:
    assert "\ufffd" in back(codec(str), "a\ud800") or "\\ud800" in back(codec(str), "a\ud800")


def test_a_result_that_is_too_large_becomes_its_beginning() -> None:
    kept = back(codec(str), "x" * (MAX_RESULT + 1))
    assert kept.startswith("'xxx")
    assert len(kept) < 3000


def test_it_is_said_once_that_a_result_was_no_data(caplog: pytest.LogCaptureFixture) -> None:
    made = codec()
    with caplog.at_level(logging.WARNING, "pillion"):
        made.encode_result(Odd())
        made.encode_result(Odd())
    (record,) = caplog.records
    assert "shop.task" in record.getMessage()


@pytest.mark.parametrize("stored", ["", "{", "nonsense", "[" * 100_000, "\ud800"])
def test_stored_text_of_another_hand_is_given_back(stored: str) -> None:
    assert codec(int).decode_result(stored) == stored


def test_a_result_stored_under_another_annotation_is_plain_json() -> None:
    assert codec(Point).decode_result('"2026-01-01"') == "2026-01-01"
