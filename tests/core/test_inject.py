"""Injection: what is found at start, and what a job is given."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Optional

import pytest

from pillion import inject, injected
from pillion.errors import ConfigurationError
from pillion.inject import Injector, Provider, Refusal
from pillion.resource import LoopResources

if TYPE_CHECKING:
    from fractions import Fraction


class Log(list[str]):
    pass


log = Log()


@pytest.fixture(autouse=True)
def empty_log() -> None:
    log.clear()


async def connection() -> AsyncIterator[str]:
    log.append("open connection")
    try:
        yield "connection"
    except BaseException as error:
        log.append(f"connection saw {type(error).__name__}")
        raise
    finally:
        log.append("close connection")


def session(c: str = inject(connection)) -> Iterator[str]:
    log.append("open session")
    try:
        yield f"session on {c}"
    finally:
        log.append("close session")


async def user(s: str = inject(session)) -> str:
    log.append("user")
    return f"user by {s}"


def number() -> int:
    log.append("number")
    return 7


@dataclass
class Repository:
    session: Annotated[str, inject(session)]
    size: int = 3


class Factory:
    async def __call__(self, n: int = inject(number)) -> str:
        return f"made {n}"


class Opener:
    def __call__(self) -> Iterator[str]:
        yield "opened"
        log.append("closed opener")


class Query:
    """A marker that reads a request, as FastAPI has it."""

    def __init__(self, default: Any = ...) -> None: ...


class Depends:
    """A framework's own marker."""

    def __init__(self, dependency: Callable[..., Any] | None = None, use_cache: bool = True) -> None:
        self.dependency, self.use_cache = dependency, use_cache


def total(n: Annotated[int, Depends(number)], m: Annotated[int, Depends(number, use_cache=False)]) -> int:
    return n + m


factory = Factory()
opener = Opener()


async def solve(
    fn: Callable[..., Any],
    overrides: dict[Callable[..., Any], Callable[..., Any]] | None = None,
    error: BaseException | None = None,
    injector: Injector | None = None,
) -> dict[str, Any]:
    injector = injector or Injector()
    plan = injector.plan(fn, "task")
    async with AsyncExitStack() as stack:
        values = await injector.solve(plan, stack, LoopResources(), overrides or {})
        log.append("job")
        if error:
            raise error
    return values


# -- finding ---------------------------------------------------------------------------------------------------


def test_both_ways_of_marking_are_found_and_arguments_are_left_alone() -> None:
    def task(
        a: int,
        b: str = "b",
        c: str = inject(session),
        d: Annotated[int, "x", inject(number)] = injected,
        *,
        e: Annotated[int, inject(number)],
        **rest: int,
    ) -> None: ...

    plan = Injector().plan(task)
    assert list(plan.injected) == ["c", "d", "e"]
    assert plan


def test_a_function_without_markers_has_an_empty_plan() -> None:
    def task(a: int, b: Fraction, *args: Any, **kwargs: Any) -> None: ...

    assert not Injector().plan(task)


def test_an_annotation_for_type_checkers_only_is_not_needed_beside_a_default_marker() -> None:
    def task(a: Fraction = inject(number)) -> None: ...

    assert list(Injector().plan(task).injected) == ["a"]


def test_injected_without_a_marker_is_refused() -> None:
    def task(a: int = injected) -> None: ...
    def unresolved(a: Annotated[Fraction, inject(number)] = injected) -> None: ...

    for fn in (task, unresolved):
        with pytest.raises(ConfigurationError, match="`a` is `= injected`"):
            Injector().plan(fn, "task")


def test_positional_only_parameters_cannot_be_injected() -> None:
    def task(a: int = inject(number), /) -> None: ...

    with pytest.raises(ConfigurationError, match="positional-only"):
        Injector().plan(task)


class TestWhatAJobCannotHave:
    def refused(self, provider: Callable[..., Any], injector: Injector | None = None) -> str:
        def outer(inner: Any = inject(provider)) -> None: ...
        def task(o: Any = inject(outer)) -> None: ...

        with pytest.raises(ConfigurationError) as caught:
            (injector or Injector()).plan(task, "send_receipt")
        return str(caught.value)

    def test_a_required_parameter_is_refused_with_its_path(self) -> None:
        def current_user(token: str) -> None: ...

        assert "send_receipt -> outer -> current_user(token)" in self.refused(current_user)

    def test_an_annotation_that_hides_its_marker_is_told(self) -> None:
        def current_user(ratio: Annotated[Fraction, inject(number)]) -> None: ...

        assert "cannot be resolved (NameError" in self.refused(current_user)

    @pytest.mark.parametrize("root", ["starlette.requests", "fastapi", "litestar.connection"])
    @pytest.mark.parametrize("name", ["Request", "WebSocket", "HTTPConnection", "BackgroundTasks", "Response"])
    def test_a_request_is_refused_with_its_path(self, root: str, name: str) -> None:
        kind = type(name, (type(name, (), {"__module__": root}),), {"__module__": "app"})

        def current_user(request: Any = None) -> None: ...

        for annotation in (kind, Annotated[kind, "x"], Optional[kind]):  # noqa: UP045
            current_user.__annotations__["request"] = annotation
            current_user.__defaults__ = None
            message = self.refused(current_user)
            assert "send_receipt -> outer -> current_user(request)" in message
            assert name in message
        current_user.__defaults__ = (None,)
        Injector().check(current_user)  # None will do, says its annotation

    def test_a_marker_that_only_a_request_serves_is_refused(self) -> None:
        def read(marker: object) -> Refusal | None:
            return Refusal("query string") if isinstance(marker, Query) else None

        def page(n: int = Query(1)) -> None: ...  # type: ignore[assignment]
        def size(n: Annotated[int, Query()]) -> None: ...
        def limit(n: Annotated[int, Query()] = 10) -> None: ...

        def task(n: int = Query(1)) -> None: ...  # type: ignore[assignment]

        injector = Injector([read])
        assert "page(n)" in self.refused(page, injector)
        assert "query string" in self.refused(size, injector)
        injector.check(limit)
        with pytest.raises(ConfigurationError, match=r"task\(n\)"):
            injector.plan(task, "task")

    def test_a_circle_is_refused(self) -> None:
        def first(b: Any = None) -> None: ...
        def second(a: Any = inject(first)) -> None: ...

        first.__defaults__ = (inject(second),)
        assert "first -> second -> first" in self.refused(first)

    def test_what_cannot_be_called_is_refused(self) -> None:
        assert "cannot be called" in self.refused(3)  # type: ignore[arg-type]


# -- solving ---------------------------------------------------------------------------------------------------


async def test_values_are_made_in_order_and_closed_in_reverse() -> None:
    def task(u: str = inject(user), n: int = inject(number)) -> None: ...

    assert await solve(task) == {"u": "user by session on connection", "n": 7}
    assert log == [
        "open connection",
        "open session",
        "user",
        "number",
        "job",
        "close session",
        "close connection",
    ]


async def test_a_value_is_made_once_a_job_unless_its_marker_says_otherwise() -> None:
    def task(
        a: int = inject(number),
        b: int = inject(number),
        c: int = inject(number, use_cache=False),
        d: str = inject(factory),
    ) -> None: ...

    assert await solve(task) == {"a": 7, "b": 7, "c": 7, "d": "made 7"}
    assert log.count("number") == 2
    await solve(task)
    assert log.count("number") == 4


async def test_generators_see_the_jobs_exception() -> None:
    def task(s: str = inject(session)) -> None: ...

    with pytest.raises(ValueError, match="boom"):
        await solve(task, error=ValueError("boom"))
    assert log[-3:] == ["close session", "connection saw ValueError", "close connection"]


async def test_what_was_opened_is_closed_when_a_later_dependency_fails() -> None:
    def broken() -> None:
        raise LookupError

    def task(s: str = inject(session), b: None = inject(broken)) -> None: ...

    with pytest.raises(LookupError):
        await solve(task)
    assert "job" not in log
    assert log[-1] == "close connection"


async def test_classes_and_callable_objects_are_providers() -> None:
    def task(r: Repository = inject(Repository), f: str = inject(factory), o: str = inject(opener)) -> None: ...

    values = await solve(task)
    assert values["r"] == Repository("session on connection", 3)
    assert (values["f"], values["o"]) == ("made 7", "opened")
    assert "closed opener" in log


async def test_overrides_apply_at_any_depth_and_bring_their_own_dependencies() -> None:
    async def fake(n: int = inject(number)) -> AsyncGenerator[str]:
        yield f"fake {n}"
        log.append("closed fake")

    def task(u: str = inject(user)) -> None: ...

    assert await solve(task, {connection: fake}) == {"u": "user by session on fake 7"}
    assert "closed fake" in log
    assert "open connection" not in log
    assert await solve(task, {connection: fake, number: lambda: 8}) == {"u": "user by session on fake 8"}
    assert await solve(task, {user: lambda: "nobody"}) == {"u": "nobody"}


async def test_an_override_that_depends_on_what_it_replaces_is_refused() -> None:
    def wrapping(n: int = inject(number)) -> int:
        return n + 1

    def task(n: int = inject(number)) -> None: ...

    with pytest.raises(ConfigurationError, match="depends on what it replaces"):
        await solve(task, {number: wrapping})


async def test_adapters_add_their_own_marker() -> None:
    def read(marker: object) -> Provider | None:
        return Provider(marker.dependency, marker.use_cache) if isinstance(marker, Depends) else None

    def task(
        a: Any = Depends(total),  # noqa: B008
        b: Annotated[int, Depends(total)] = injected,
        c: Annotated[Repository, Depends()] = injected,
    ) -> None: ...

    values = await solve(task, injector=Injector([read]))
    assert (values["a"], values["b"], values["c"].size) == (14, 14, 3)
    assert log.count("number") == 2


async def test_a_swallowed_exception_of_a_direct_call_is_raised_all_the_same() -> None:
    def swallowing() -> Iterator[int]:
        try:
            yield 1
        except ValueError:
            pass

    async def task(n: int = inject(swallowing)) -> None:
        raise ValueError("kept")

    injector = Injector()
    with pytest.raises(ValueError, match="kept"):
        await injector.call(task, injector.plan(task), (), {}, LoopResources(), {}, ["n"])
