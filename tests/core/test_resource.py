"""Resources: one instance a loop, opened at first use, closed in reverse, whatever happens."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest

from pillion import inject
from pillion import resource as module
from pillion.errors import ConfigurationError, Draining
from pillion.inject import Injector
from pillion.resource import LoopResources, Resource, ResourceDecorator


class Owner:
    """Finds the running loop's resources, as `Jobs` does."""

    def __init__(self) -> None:
        self.injector = Injector()
        self.replaced: dict[Callable[..., Any], Callable[..., Any]] = {}
        self.loops: dict[asyncio.AbstractEventLoop, LoopResources] = {}
        self.resources: list[Resource[Any]] = []

    def overrides(self) -> dict[Callable[..., Any], Callable[..., Any]]:
        return self.replaced

    def loop_resources(self) -> LoopResources:
        return self.loops.setdefault(asyncio.get_running_loop(), LoopResources())

    @property
    def resource(self) -> ResourceDecorator:
        return ResourceDecorator(self, self.resources.append)


@pytest.fixture
def owner() -> Owner:
    return Owner()


@pytest.fixture
def log() -> list[str]:
    return []


def test_one_instance_a_loop_opened_at_first_use(owner: Owner, log: list[str]) -> None:
    @owner.resource
    async def client() -> AsyncIterator[object]:
        log.append("open")
        yield object()
        log.append("close")

    async def use() -> object:
        assert log[-1:] != ["open"]
        first = await client()
        assert await client() is first
        await owner.loop_resources().aclose()
        return first

    assert owner.resources == [client]
    assert asyncio.run(use()) is not asyncio.run(use())
    assert log == ["open", "close"] * 2


async def test_frameworks_see_a_callable_without_parameters(owner: Owner) -> None:
    @owner.resource
    async def client(other: int = 3) -> int:
        """Its words."""
        return other

    assert list(inspect.signature(client).parameters) == []
    assert inspect.unwrap(client) is client
    assert inspect.iscoroutinefunction(client.__call__)
    assert (client.__name__, client.__doc__, repr(client)) == ("client", "Its words.", "<resource client>")
    assert await client() == 3
    await owner.loop_resources().aclose()


async def test_every_kind_of_function_makes_a_resource(owner: Owner, log: list[str]) -> None:
    @owner.resource
    def generator() -> Iterator[int]:
        yield 1
        log.append("closed generator")

    @owner.resource
    def plain() -> int:
        return 2

    @owner.resource
    async def coroutine() -> int:
        return 3

    assert [await generator(), await plain(), await coroutine()] == [1, 2, 3]
    await owner.loop_resources().aclose()
    assert log == ["closed generator"]


async def test_concurrent_first_uses_open_once(owner: Owner, log: list[str]) -> None:
    go = asyncio.Event()

    @owner.resource
    async def client() -> AsyncIterator[object]:
        log.append("open")
        await go.wait()
        yield object()

    uses = [asyncio.create_task(client()) for _ in range(20)]
    await asyncio.sleep(0)
    uses[0].cancel()  # the first user goes away: the others are not to suffer
    await asyncio.sleep(0)
    go.set()
    values = await asyncio.gather(*uses[1:])
    assert log == ["open"]
    assert len(set(map(id, values))) == 1
    await owner.loop_resources().aclose()


async def test_when_opening_fails_the_next_use_tries_again(owner: Owner, log: list[str]) -> None:
    @owner.resource
    async def client() -> AsyncIterator[int]:
        log.append("open")
        if len(log) == 1:
            raise ConnectionError("refused")
        yield 1

    first, second = await asyncio.gather(client(), client(), return_exceptions=True)
    assert isinstance(first, ConnectionError)
    assert isinstance(second, ConnectionError)
    assert await client() == 1
    assert log == ["open", "open"]
    await owner.loop_resources().aclose()


async def test_resources_depend_on_each_other_and_close_in_reverse(owner: Owner, log: list[str]) -> None:
    def settings() -> Iterator[str]:
        yield "settings"
        log.append("close settings")

    @owner.resource
    async def engine(s: str = inject(settings)) -> AsyncIterator[str]:
        yield f"engine({s})"
        log.append("close engine")

    @owner.resource
    async def cache() -> AsyncIterator[str]:
        yield "cache"
        log.append("close cache")

    @owner.resource
    async def repository(e: str = inject(engine), c: str = inject(cache)) -> AsyncIterator[str]:
        yield f"repository({e}, {c})"
        log.append("close repository")

    assert await repository() == "repository(engine(settings), cache)"
    assert await engine() == "engine(settings)"
    await owner.loop_resources().aclose()
    assert log == ["close repository", "close cache", "close engine", "close settings"]


async def test_jobs_are_given_the_loops_instance(owner: Owner) -> None:
    @owner.resource
    async def client() -> object:
        return object()

    def task(a: object = inject(client), b: object = inject(client, use_cache=False)) -> None: ...

    async with AsyncExitStack() as stack:
        plan = owner.injector.plan(task)
        resources = owner.loop_resources()
        values = await owner.injector.solve(plan, stack, resources, {})
        assert values["a"] is values["b"] is await client()
        assert (await owner.injector.solve(plan, stack, resources, {client: lambda: "fake"}))["a"] == "fake"
    await owner.loop_resources().aclose()


async def test_overrides_apply_to_what_a_resource_depends_on(owner: Owner) -> None:
    @owner.resource
    async def url() -> str:
        return "real"

    @owner.resource
    async def client(u: str = inject(url)) -> str:
        return f"client of {u}"

    owner.replaced[url] = lambda: "fake"
    assert await client() == "client of fake"
    await owner.loop_resources().aclose()


def test_what_a_resource_cannot_have_is_refused_with_its_path(owner: Owner) -> None:
    def settings(path: str) -> None: ...

    @owner.resource
    async def engine(s: Any = inject(settings)) -> None: ...

    def task(e: Any = inject(engine)) -> None: ...

    with pytest.raises(ConfigurationError, match=r"engine -> settings\(path\)"):
        engine.check()
    with pytest.raises(ConfigurationError, match=r"send -> engine -> settings\(path\)"):
        owner.injector.plan(task, "send")


async def test_resources_that_need_each_other_are_refused(owner: Owner) -> None:
    async def first(b: Any = None) -> None: ...

    one = owner.resource(first)

    @owner.resource
    async def other(a: Any = inject(one)) -> None: ...

    first.__defaults__ = (inject(other),)
    with pytest.raises(ConfigurationError, match="circle"):
        one.check()
    with pytest.raises(ConfigurationError, match="circle"):
        await other()


async def test_task_groups_inside_are_left_by_the_task_that_entered_them(owner: Owner, log: list[str]) -> None:
    @owner.resource
    async def client() -> AsyncIterator[str]:
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep_forever)
            yield "client"
            group.cancel_scope.cancel()
        log.append("closed")

    assert await asyncio.create_task(client()) == "client"
    await asyncio.create_task(owner.loop_resources().aclose())
    assert log == ["closed"]


async def test_the_first_users_context_is_not_the_resources(owner: Owner) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="clean")

    @owner.resource
    async def client() -> str:
        return variable.get()

    variable.set("request")
    assert await client() == "clean"
    await owner.loop_resources().aclose()


def test_the_end_of_the_loop_closes_what_nobody_closed(owner: Owner, log: list[str]) -> None:
    @owner.resource
    async def engine() -> AsyncIterator[int]:
        yield 1
        log.append("close engine")

    @owner.resource
    async def client(e: int = inject(engine)) -> AsyncIterator[int]:
        yield e
        await asyncio.sleep(0)
        log.append("close client")

    @owner.resource
    async def cache(c: int = inject(client)) -> AsyncIterator[int]:
        yield c
        await asyncio.sleep(0)
        log.append("close cache")

    async def use() -> None:
        await cache()

    asyncio.run(use())
    assert log == ["close cache", "close client", "close engine"]


async def test_after_closing_nothing_opens_any_more(owner: Owner) -> None:
    @owner.resource
    async def client() -> int:
        return 1

    await owner.loop_resources().aclose()
    await owner.loop_resources().aclose()
    with pytest.raises(Draining, match="client"):
        await client()


async def test_an_opening_is_given_up_when_the_loop_closes(owner: Owner, log: list[str]) -> None:
    @owner.resource
    async def client() -> AsyncIterator[int]:
        try:
            await asyncio.Event().wait()
        finally:
            log.append("given up")
        yield 1

    use = asyncio.create_task(client())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await owner.loop_resources().aclose()
    with pytest.raises(Draining, match="client"):
        await use
    assert log == ["given up"]


class TestClosing:
    @pytest.fixture(autouse=True)
    def soon(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module, "CLOSE_TIMEOUT", 0.05)
        monkeypatch.setattr(module, "_CANCEL_GRACE", 0.05)

    async def test_an_error_is_logged_and_the_others_close(
        self, owner: Owner, log: list[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        @owner.resource
        async def good() -> AsyncIterator[int]:
            yield 1
            log.append("closed")

        @owner.resource
        async def bad() -> AsyncIterator[int]:
            yield 1
            raise OSError("broken pipe")

        await good()
        await bad()
        with caplog.at_level(logging.WARNING, "pillion"):
            await owner.loop_resources().aclose()
        assert log == ["closed"]
        assert "resource bad" in caplog.text
        assert "broken pipe" in caplog.text

    async def test_one_that_hangs_is_bounded_and_told(
        self, owner: Owner, log: list[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        release = asyncio.Event()

        @owner.resource
        async def good() -> AsyncIterator[int]:
            yield 1
            log.append("closed")

        @owner.resource
        async def slow() -> AsyncIterator[int]:
            yield 1
            await release.wait()

        @owner.resource
        async def stubborn() -> AsyncIterator[int]:
            yield 1
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    log.append("swallowed")

        await good()
        await slow()
        await stubborn()
        with caplog.at_level(logging.WARNING, "pillion"):
            await owner.loop_resources().aclose()
        release.set()
        assert log == ["swallowed", "closed"]
        assert "slow took more than 0.05 s to close and was cancelled" in caplog.text
        assert "stubborn took more than 0.05 s to close and was left behind" in caplog.text

    async def test_a_cancelled_close_goes_on_to_the_end(self, owner: Owner, log: list[str]) -> None:
        @owner.resource
        async def first() -> AsyncIterator[int]:
            yield 1
            log.append("closed first")

        @owner.resource
        async def second() -> AsyncIterator[int]:
            yield 1
            for _ in range(10):
                await asyncio.sleep(0)
            log.append("closed second")

        await first()
        await second()
        closing = asyncio.create_task(owner.loop_resources().aclose())
        await asyncio.sleep(0)
        for _ in range(3):
            closing.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert log == ["closed second", "closed first"]
