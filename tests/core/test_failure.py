"""Whatever is raised becomes bounded, clean text, and describing it never raises."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn

import pytest

from pillion import failure, ids


def raised(make: Callable[[], BaseException]) -> BaseException:
    def job() -> NoReturn:
        raise make()

    try:
        job()
    except BaseException as error:
        return error


class Failing(Exception):
    """Everything about it fails."""

    def __str__(self) -> str:
        raise SystemExit("str")

    def __repr__(self) -> str:
        raise KeyboardInterrupt

    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]
        raise RuntimeError("notes")


class Liar(Exception):
    def __str__(self) -> Any:
        return 7  # noqa: PLE0307


def test_type_message_and_traceback_are_told() -> None:
    read = failure.read(failure.describe(raised(lambda: ValueError("bad number")), note="do this"))
    assert (read.type, read.message, read.note) == ("ValueError", "bad number", "do this")
    assert "in job" in read.traceback
    assert read.traceback.rstrip().endswith("ValueError: bad number")


def test_a_class_is_told_with_its_module() -> None:
    assert failure.read(failure.describe(Failing())).type == f"{__name__}.Failing"


def test_causes_and_notes_are_told() -> None:
    error = raised(lambda: ValueError("outer"))
    error.__cause__ = KeyError("inner")
    error.add_note("a hint")
    text = failure.read(failure.describe(error)).traceback
    assert "KeyError: 'inner'" in text
    assert "a hint" in text


def test_every_error_of_a_group_is_told() -> None:
    text = failure.read(failure.describe(ExceptionGroup("two", [ValueError("one"), KeyError("other")]))).traceback
    assert "ValueError: one" in text
    assert "KeyError: 'other'" in text


@pytest.mark.parametrize("make", [Failing, Liar, lambda: SystemExit(3), KeyboardInterrupt, lambda: Exception("\ud800")])
def test_an_error_that_cannot_be_shown_is_described_all_the_same(make: Callable[[], BaseException]) -> None:
    text = failure.describe(raised(make))
    text.encode()
    read = failure.read(text)
    assert read.type.rpartition(".")[2] == type(make()).__name__
    assert "in job" in read.traceback


def test_a_failing_class_is_described() -> None:
    class Meta(type):
        def __getattribute__(cls, name: str) -> Any:
            if name in ("__qualname__", "__module__", "__name__"):
                raise RuntimeError(name)
            return super().__getattribute__(name)

    class Nameless(Exception, metaclass=Meta):
        pass

    assert failure.read(failure.describe(raised(Nameless))).type


def test_a_chain_of_causes_may_be_circular_or_endless() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    assert "first" in failure.read(failure.describe(first)).traceback
    deepest = error = ValueError("last of many")
    for number in range(5000):
        cause = ValueError(number)
        error.__cause__ = cause
        error = cause
    assert failure.read(failure.describe(deepest)).message == "last of many"


def test_endless_recursion_is_described() -> None:
    def again() -> None:
        again()

    with pytest.raises(RecursionError) as caught:
        again()
    assert failure.read(failure.describe(caught.value)).type == "RecursionError"


def test_sizes_are_bounded_and_the_end_of_the_traceback_is_kept() -> None:
    error = raised(lambda: ValueError("é" * 1_000_000 + "end"))
    text = failure.describe(error, note="n" * 1_000_000)
    read = failure.read(text)
    assert len(read.message.encode()) <= failure.MAX_MESSAGE
    assert len(read.traceback.encode()) <= failure.MAX_TRACEBACK
    assert len((read.note or "").encode()) <= failure.MAX_NOTE
    assert read.message.startswith("ééé")
    assert read.traceback.rstrip().endswith("end")


def test_text_is_clean() -> None:
    text = failure.describe(raised(lambda: ValueError("a\0b\ud800c \U0001f6b2")))
    assert "\\u0000" not in text
    text.encode()
    assert failure.read(text).message == "a\ufffdb\ufffdc \U0001f6b2"


@pytest.mark.parametrize("length", range(30))
@pytest.mark.parametrize("text", ["aéb€c🚲", "\ud83d\ude00\ud83d", "€" * 20])
def test_cutting_keeps_whole_characters(text: str, length: int) -> None:
    limit = length + 4
    for cut in (failure.keep_start(text, limit), failure.keep_end(text, limit)):
        assert len(cut.encode()) <= limit
        assert "\0" not in cut


def test_an_error_of_our_own_keeps_its_frames() -> None:
    with pytest.raises(ValueError, match="no job id") as caught:
        ids.millis("x")
    caught.value.__traceback__ = caught.tb.tb_next
    assert "millis" in failure.read(failure.describe(caught.value)).traceback


@pytest.mark.parametrize("text", ["", "nonsense", "{}", "[1]", '{"type":7}', "\ud800"])
def test_text_of_another_hand_is_read_as_a_message(text: str) -> None:
    read = failure.read(text)
    assert read.type == "Unknown"
    read.message.encode()


def test_it_is_one_line_of_json() -> None:
    text = failure.describe(raised(lambda: ValueError("x\ny")))
    assert "\n" not in text
    assert set(json.loads(text)) == {"type", "message", "traceback"}
