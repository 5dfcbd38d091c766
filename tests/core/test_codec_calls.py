"""Calls bind as Python binds them, and stored calls survive what a deploy changes."""

from __future__ import annotations

import functools
import inspect
import pickle
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, Unpack

import msgspec
import pytest

from pillion.codec import CallCodec
from pillion.errors import ArgumentError, ConfigurationError

if TYPE_CHECKING:
    from fractions import Fraction


def plain(a: int, b: str = "b", *, c: float = 1.5) -> None: ...
def nothing() -> None: ...
def positional(a: int, /, b: int = 2, **rest: int) -> None: ...
def variadic(first: int, *rest: int, flag: bool = False, **named: str) -> None: ...


class Options(TypedDict, total=False):
    size: int
    name: str


def unpacked(**options: Unpack[Options]) -> None: ...
def unannotated(a, b=None):  # type: ignore[no-untyped-def]
    ...


def codec(fn: Any, *skip: str) -> CallCodec:
    return CallCodec(fn, task="shop.task", skip=skip)


@pytest.mark.parametrize(
    ("fn", "args", "kwargs"),
    [
        (plain, (1,), {}),
        (plain, (1, "x"), {"c": 2.0}),
        (plain, (), {"a": 1, "b": "x"}),
        (nothing, (), {}),
        (positional, (1,), {}),
        (positional, (1, 3), {"a": 9, "z": 8}),
        (variadic, (1,), {}),
        (variadic, (1, 2, 3), {"flag": True, "x": "y", "rest": "z"}),
        (variadic, (), {"first": 1}),
        (unpacked, (), {"size": 1}),
        (unpacked, (), {}),
        (unannotated, (1, [2, None]), {}),
        (functools.partial(plain, 1), ("x",), {}),
        (functools.partial(plain, b="x"), (1,), {}),
    ],
)
def test_a_call_arrives_as_the_same_call(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    made = codec(fn)
    new_args, new_kwargs = made.decode(made.encode(args, kwargs))
    signature = inspect.signature(fn)
    assert signature.bind(*new_args, **new_kwargs).arguments == signature.bind(*args, **kwargs).arguments


@pytest.mark.parametrize(
    ("fn", "args", "kwargs"),
    [
        (plain, (), {}),
        (plain, (1, "b", 2.0), {}),
        (plain, (1,), {"a": 1}),
        (plain, (1,), {"d": 1}),
        (nothing, (1,), {}),
        (positional, (), {"a": 1}),
        (unpacked, (), {"colour": 1}),
    ],
)
def test_a_call_that_does_not_bind_is_refused(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match=r"shop\.task"):
        codec(fn).encode(args, kwargs)


def test_a_call_that_does_not_bind_says_so_in_pythons_words() -> None:
    with pytest.raises(ArgumentError, match=r"shop\.task\(a: .*missing a required argument: 'a'"):
        codec(plain).encode((), {})


def test_omitted_arguments_are_not_stored_so_defaults_apply_in_the_job() -> None:
    assert codec(plain).encode((1,), {}) == '{"a":1}'
    assert codec(nothing).encode((), {}) == "{}"


def test_each_decoded_call_belongs_to_its_caller() -> None:
    made = codec(nothing)
    made.decode("{}")[1]["client"] = 1
    assert made.decode("{}") == ((), {})


def test_changing_an_argument_after_the_call_changes_nothing() -> None:
    numbers = [1, 2]

    def task(numbers: list[int]) -> None: ...

    made = codec(task)
    text = made.encode((numbers,), {})
    numbers.append(3)
    assert made.decode(text)[1] == {"numbers": [1, 2]}


class TestInjected:
    def test_parameters_are_no_arguments(self) -> None:
        def task(client: Fraction, a: int, b: int = 2) -> None: ...

        made = codec(task, "client")
        made.resolve()  # its annotation is for type checkers only, and is not needed
        assert made.decode(made.encode((1,), {"b": 3})) == ((), {"a": 1, "b": 3})

    def test_parameters_cannot_be_passed(self) -> None:
        def task(a: int, client: Any = None) -> None: ...

        with pytest.raises(ArgumentError, match=r"`client` of task .* injected"):
            codec(task, "client").encode((1,), {"client": 2})

    def test_parameters_must_be_reachable_by_keyword(self) -> None:
        def before_rest(client: Any = None, *rest: int) -> None: ...
        def by_place(client: Any = None, /) -> None: ...
        def after_rest(*rest: int, client: Any = None) -> None: ...

        for fn in (before_rest, by_place):
            with pytest.raises(ConfigurationError, match="`client`"):
                codec(fn, "client").resolve()
        codec(after_rest, "client").resolve()


class TestAnnotations:
    def test_are_resolved_late(self) -> None:
        def task(value: DefinedBelow) -> None: ...  # noqa: F821 (that is the point)

        made = codec(task)
        globals()["DefinedBelow"] = int
        try:
            assert made.encode((1,), {}) == '{"value":1}'
        finally:
            del globals()["DefinedBelow"]

    def test_that_only_type_checkers_see_name_the_parameter(self) -> None:
        def task(ratio: Fraction) -> None: ...

        with pytest.raises(ConfigurationError, match=r"'Fraction' of parameter `ratio` cannot be resolved"):
            codec(task).resolve()

    def test_see_what_a_nested_function_closes_over(self) -> None:
        @dataclass
        class Local:
            when: datetime

        def task(value: Local) -> Local:
            return Local(value.when)

        made = codec(task)
        value = Local(datetime(2026, 1, 1, tzinfo=UTC))
        assert made.decode(made.encode((value,), {}))[1]["value"] == value

    def test_of_wrapped_functions_methods_and_objects_are_found(self) -> None:
        @functools.wraps(plain)
        def wrapper(*args: Any, **kwargs: Any) -> None: ...

        class Service:
            def run(self, at: datetime) -> None: ...
            def __call__(self, at: Annotated[datetime, "x"]) -> None: ...

        now = datetime(2026, 1, 1, tzinfo=UTC)
        assert codec(wrapper).encode((1,), {}) == '{"a":1}'
        for fn in (Service().run, Service()):
            made = codec(fn)
            assert made.decode(made.encode((now,), {}))[1] == {"at": now}

    def test_of_a_signature_that_a_decorator_sets_are_found(self) -> None:
        def wrapper(*args: Any, **kwargs: Any) -> None: ...

        at = inspect.Parameter("at", inspect.Parameter.KEYWORD_ONLY, annotation="datetime")
        wrapper.__signature__ = inspect.Signature([at])  # type: ignore[attr-defined]
        now = datetime(2026, 1, 1, tzinfo=UTC)
        assert codec(wrapper).decode(codec(wrapper).encode((), {"at": now}))[1] == {"at": now}


class TestAfterADeploy:
    def test_a_new_parameter_with_a_default_is_left_to_it(self) -> None:
        assert codec(plain).decode('{"a":1}') == ((), {"a": 1})

    @pytest.mark.parametrize(
        "stored", ['{"a":1,"gone":2}', "{}", '{"a":"1"}', "[1]", "null", "{", "", '{"a":1', '{"a":NaN}', "\ud800"]
    )
    def test_arguments_that_do_not_fit_any_more_show_both_sides(self, stored: str) -> None:
        with pytest.raises(ArgumentError) as caught:
            codec(plain).decode(stored)
        message = str(caught.value)
        assert "(a: " in message
        assert len(message) < 1500
        message.encode()

    def test_a_huge_stored_value_is_shown_in_part(self) -> None:
        with pytest.raises(ArgumentError) as caught:
            codec(plain).decode(f'{{"a":"{"x" * 1_000_000}"}}')
        assert len(str(caught.value)) < 1500

    def test_deep_nesting_is_an_error_not_a_crash(self) -> None:
        with pytest.raises(ArgumentError):
            codec(unannotated).decode('{"a":' + "[" * 100_000 + "]" * 100_000 + "}")


def test_a_pickle_in_the_store_is_no_call() -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return (pytest.fail, ("unpickled",))

    with pytest.raises(ArgumentError):
        codec(plain).decode(pickle.dumps(Bomb(), protocol=0).decode("latin-1"))


def test_text_that_is_no_json_tells_so_by_its_cause() -> None:
    """The worker fails such a job for good: no version of the task could ever read it."""
    with pytest.raises(ArgumentError) as caught:
        codec(plain).decode("{")
    assert isinstance(caught.value.__cause__, msgspec.DecodeError)
    with pytest.raises(ArgumentError) as caught:
        codec(plain).decode('{"a":"x"}')
    assert caught.value.__cause__ is None
