"""Tasks: their names, what they refuse, and what an enqueue hands to the store."""

from __future__ import annotations

import asyncio
import functools
import sys
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from pillion import ids, inject
from pillion.errors import ArgumentError, ConfigurationError
from pillion.inject import Injector
from pillion.policy.retry import Backoff
from pillion.resource import LoopResources
from pillion.task import AsyncTask, Bound, Configured, SyncTask, Task, TaskDecorator, task_name


class Desk:
    """Takes in what tasks hand over, as `Jobs` would."""

    def __init__(self) -> None:
        self.injector = Injector()
        self.resources = LoopResources()
        self.replaced: dict[Callable[..., Any], Callable[..., Any]] = {}
        self.taken: list[Bound[Any]] = []
        self.started: Callable[[], bool] = lambda: False

    def overrides(self) -> dict[Callable[..., Any], Callable[..., Any]]:
        return self.replaced

    def loop_resources(self) -> LoopResources:
        return self.resources

    async def enqueue_bound(self, bounds: Sequence[Bound[Any]]) -> list[Any]:
        await asyncio.sleep(0)
        return self.enqueue_bound_sync(bounds)

    def enqueue_bound_sync(self, bounds: Sequence[Bound[Any]]) -> list[Any]:
        self.taken.extend(bounds)
        return [bound.new.id for bound in bounds]


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def registered() -> list[Task[..., Any]]:
    return []


@pytest.fixture
def task(desk: Desk, registered: list[Task[..., Any]]) -> TaskDecorator:
    return TaskDecorator(desk, registered.append)


async def send(order: int, note: str = "") -> str:
    return f"{order}{note}"


def resize(path: str) -> int:
    return len(path)


class Service:
    async def run(self, number: int) -> int:
        return number

    def __call__(self, number: int) -> int:
        return number

    @staticmethod
    def static(number: int) -> int:
        return number


# -- declaring -------------------------------------------------------------------------------------------------


def test_the_decorator_works_bare_and_with_options(task: TaskDecorator, registered: list[Any]) -> None:
    bare = task(send)
    told = task(max_attempts=5, timeout=timedelta(seconds=30), queue="mail", retry=Backoff(base=1))(resize)
    assert isinstance(bare, AsyncTask)
    assert isinstance(told, SyncTask)
    assert registered == [bare, told]
    assert (bare.max_attempts, bare.timeout_us, bare.retry, bare.queue) == (None, None, None, "default")
    assert (told.max_attempts, told.timeout_us, told.retry, told.queue) == (5, 30_000_000, Backoff(base=1), "mail")
    assert (bare.kind, told.kind) == ("async", "thread")
    assert task(loop="app", name="a")(send).kind == "app"
    assert task(loop="own", name="b")(send).kind == "async"


def test_a_task_looks_like_its_function(task: TaskDecorator) -> None:
    made = task(send)
    assert (made.__name__, made.__module__, made.__doc__) == ("send", __name__, send.__doc__)
    assert made.__wrapped__ is send
    assert repr(made) == f"<task {__name__}.send>"


def test_nothing_is_resolved_by_the_decorator(task: TaskDecorator) -> None:
    def early(value: NotYet) -> None: ...  # noqa: F821 (that is the point)

    made = task(early)
    with pytest.raises(ConfigurationError, match="`value`"):
        made.resolve()
    globals()["NotYet"] = int
    try:
        made.resolve()
    finally:
        del globals()["NotYet"]


def test_a_name_is_module_and_qualname() -> None:
    def nested() -> None: ...

    assert task_name(send) == f"{__name__}.send"
    assert task_name(nested) == f"{__name__}.test_a_name_is_module_and_qualname.<locals>.nested"


@pytest.mark.parametrize(
    ("spec", "file", "expected"),
    [
        ("shop.tasks", "/srv/shop/tasks.py", "shop.tasks.job"),
        ("shop.__main__", "/srv/shop/__main__.py", "shop.job"),
        (None, "/srv/tasks.py", "tasks.job"),
        (None, None, "__main__.job"),
    ],
)
@pytest.mark.parametrize("module", ["__main__", "__mp_main__"])
def test_main_has_the_name_that_importing_it_gives(
    monkeypatch: pytest.MonkeyPatch, module: str, spec: str | None, file: str | None, expected: str
) -> None:
    main = types.ModuleType("__main__")
    main.__spec__ = types.SimpleNamespace(name=spec) if spec else None  # type: ignore[assignment]
    if file:
        main.__file__ = file
    monkeypatch.setitem(sys.modules, "__main__", main)

    def job() -> None: ...

    job.__module__, job.__qualname__ = module, "job"
    assert task_name(job) == expected


async def async_generator() -> AsyncIterator[int]:
    yield 1


def generator() -> Iterator[int]:
    yield 1


@functools.wraps(generator)
def wrapped_generator() -> Any:
    return list(generator())


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (async_generator, "generator"),
        (generator, "generator"),
        (functools.partial(generator), "generator"),
        (Service, "class"),
        (Service.run, "method"),
        (classmethod(Service.run), "not classmethod"),
        (functools.partial(resize, "x"), "name="),
        (Service(), "name="),
        (3, "not int"),
        (None, ""),
    ],
)
def test_what_is_no_function_for_a_job_is_refused(task: TaskDecorator, function: Any, why: str) -> None:
    if function is None:
        function, why = task(send), "already"
    with pytest.raises(ConfigurationError, match=why):
        task(function)


def test_methods_objects_and_partials_work_once_they_have_a_name(task: TaskDecorator) -> None:
    assert task(Service().run).name == f"{__name__}.Service.run"
    assert task(Service().run).kind == "async"
    assert task(Service.static).name == f"{__name__}.Service.static"
    assert task(name="service")(Service()).bind(1).new.args == '{"number":1}'
    assert task(name="partial")(functools.partial(send, note="!")).bind(1).new.args == '{"order":1}'
    assert task(name="partial2")(functools.partial(send, 1)).kind == "async"


def test_the_outermost_function_decides_how_a_task_runs(task: TaskDecorator) -> None:
    @functools.wraps(send)
    def blocking(*args: Any, **kwargs: Any) -> str:
        return asyncio.run(send(*args, **kwargs))

    @functools.wraps(resize)
    async def awaiting(*args: Any) -> int:
        return resize(*args)

    assert task(name="a")(blocking).kind == "thread"
    assert task(name="b")(awaiting).kind == "async"
    assert task(name="c")(blocking).bind(1).new.args == '{"order":1}'


@pytest.mark.parametrize(
    "options",
    [
        {"name": ""},
        {"name": "x" * 201},
        {"name": "a\0b"},
        {"name": "\ud800"},
        {"name": 3},
        {"aliases": "old.name"},
        {"aliases": [""]},
        {"queue": ""},
        {"max_attempts": 0},
        {"max_attempts": True},
        {"max_attempts": 1.5},
        {"timeout": -1},
        {"timeout": float("nan")},
        {"timeout": "30"},
        {"loop": "mine"},
        {"retry": 3},
    ],
)
def test_options_that_cannot_work_are_refused(task: TaskDecorator, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        task(**options)(send)


def test_a_def_task_does_not_run_on_the_apps_loop(task: TaskDecorator) -> None:
    with pytest.raises(ConfigurationError, match='loop="app"'):
        task(loop="app")(resize)


# -- enqueueing ------------------------------------------------------------------------------------------------


async def test_enqueue_stores_one_encoded_call(task: TaskDecorator, desk: Desk) -> None:
    made = task(queue="mail")(send)
    job: Any = await made.enqueue(7, note="x")
    (bound,) = desk.taken
    new = bound.new
    assert job == new.id
    assert (new.task, new.queue, new.kind, new.args) == (made.name, "mail", "async", '{"order":7,"note":"x"}')
    assert (new.priority, new.delay_us, new.due_us, new.key, new.headers) == (0, 0, None, None, None)
    assert abs(ids.millis(new.id) / 1000 - datetime.now(UTC).timestamp()) < 60
    assert bound.task is made


def test_enqueue_sync_stores_it_from_def_code(task: TaskDecorator, desk: Desk) -> None:
    job: Any = task(resize).enqueue_sync("/tmp/x")
    assert [bound.new.id for bound in desk.taken] == [job]


async def test_arguments_are_taken_at_the_call_not_when_it_is_awaited(task: TaskDecorator, desk: Desk) -> None:
    async def count(numbers: list[int]) -> None: ...

    numbers = [1]
    pending = task(count).enqueue(numbers)
    numbers.append(2)
    await pending
    assert desk.taken[0].new.args == '{"numbers":[1]}'


def test_wrong_arguments_are_refused_at_the_call(task: TaskDecorator, desk: Desk) -> None:
    made: Any = task(send)
    for call in (made.enqueue, made.enqueue_sync, made.bind, made.options(delay=1).enqueue, made.options().bind):
        with pytest.raises(ArgumentError, match="`order`"):
            call("seven")
    assert desk.taken == []


async def test_parameters_may_be_called_what_they_like(task: TaskDecorator, desk: Desk) -> None:
    async def job(*, self: int, task: str, args: list[int], kwargs: int, delay: int) -> int:
        return self + delay

    made = task(job)
    values: Any = {"self": 1, "task": "x", "args": [1], "kwargs": 2, "delay": 3}
    await made.enqueue(**values)
    made.options(delay=9).enqueue_sync(**values)
    for bound in desk.taken:
        assert made.codec.decode(bound.new.args) == ((), values)
    assert await made(**values) == 4


def test_each_bind_is_a_job_of_its_own(task: TaskDecorator) -> None:
    made = task(send)
    assert len({made.bind(1).new.id for _ in range(100)}) == 100


def test_headers_are_added_to_a_bound_call(task: TaskDecorator) -> None:
    bound = task(send).bind(1)
    assert bound.with_headers('{"id":"x"}').new.headers == '{"id":"x"}'
    assert bound.with_headers('{"id":"x"}').new.id == bound.new.id
    assert bound.new.headers is None


async def test_options_go_with_the_job(task: TaskDecorator, desk: Desk) -> None:
    made = task(send)
    chosen = made.options(delay=1.5, priority=-5, queue="slow", unique_key="send:7")
    assert isinstance(chosen, Configured)
    assert chosen.task is made
    await chosen.enqueue(7)
    chosen.enqueue_sync(8)
    first, second = (bound.new for bound in desk.taken)
    assert (first.delay_us, first.due_us, first.priority) == (1_500_000, None, -5)
    assert (first.queue, first.key, first.args) == ("slow", "send:7", '{"order":7}')
    assert second.args == '{"order":8}'
    assert first.id != second.id


def test_times_are_seconds_timedeltas_and_aware_instants(task: TaskDecorator) -> None:
    made = task(send)
    east = timezone(timedelta(hours=5, minutes=30))
    assert made.options(delay=timedelta(minutes=1)).bind(1).new.delay_us == 60_000_000
    assert made.options(delay=0).bind(1).new.delay_us == 0
    due = made.options(at=datetime(2026, 1, 1, 5, 30, 0, 1, tzinfo=east)).bind(1).new.due_us
    assert due == round(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000 + 1
    assert (made.options(at=datetime(1960, 1, 1, tzinfo=UTC)).bind(1).new.due_us or 0) < 0


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"delay": -1}, "delay"),
        ({"delay": timedelta(seconds=-1)}, "delay"),
        ({"delay": float("nan")}, "delay"),
        ({"delay": float("inf")}, "delay"),
        ({"delay": 1e12}, "century"),
        ({"delay": "60"}, "seconds or a timedelta"),
        ({"delay": True}, "seconds or a timedelta"),
        ({"at": datetime(2026, 1, 1)}, "no time zone"),  # noqa: DTZ001 (it is what is refused)
        ({"at": "2026-01-01"}, "aware datetime"),
        ({"at": 5}, "aware datetime"),
        ({"delay": 1, "at": datetime(2026, 1, 1, tzinfo=UTC)}, "give one"),
        ({"priority": 2**31}, "32 bits"),
        ({"priority": -(2**31) - 1}, "32 bits"),
        ({"priority": 1.0}, "32 bits"),
        ({"priority": True}, "32 bits"),
        ({"queue": ""}, "queue"),
        ({"unique_key": ""}, "unique_key"),
        ({"unique_key": "k" * 513}, "unique_key"),
        ({"unique_key": "a\0"}, "unique_key"),
        ({"unique_key": "\udfff"}, "unique_key"),
        ({"unique_key": 7}, "unique_key"),
    ],
)
def test_options_that_no_store_could_keep_are_refused(task: TaskDecorator, options: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        task(send).options(**options)


# -- calling ---------------------------------------------------------------------------------------------------


async def test_calling_a_task_runs_the_function_here(task: TaskDecorator, desk: Desk) -> None:
    assert await task(send)(7, note="!") == "7!"
    assert task(resize)("abc") == 3
    assert desk.taken == []


def opened() -> str:
    return "opened"


async def test_calling_an_async_task_resolves_what_it_is_not_given(task: TaskDecorator, desk: Desk) -> None:
    async def job(number: int, client: str = inject(opened)) -> str:
        return f"{number} {client}"

    made = task(job)
    assert await made(1) == "1 opened"
    assert await made(1, "given") == "1 given"
    assert await made(1, client="given") == "1 given"
    desk.replaced[opened] = lambda: "fake"
    assert await made(1) == "1 fake"
    assert made.bind(1).new.args == '{"number":1}'
    with pytest.raises(ArgumentError, match="injected"):
        made.bind(1, client="x")


def test_calling_a_def_task_needs_what_is_injected(task: TaskDecorator) -> None:
    def job(number: int, client: str = inject(opened)) -> str:
        return f"{number} {client}"

    made = task(job)
    assert made(1, client="given") == "1 given"
    with pytest.raises(ArgumentError, match="client=…") as caught:
        made(1)
    assert caught.value.parameter == "client"


async def test_a_direct_call_that_does_not_bind_says_so(task: TaskDecorator) -> None:
    async def job(number: int, client: str = inject(opened)) -> None: ...

    made: Callable[..., Awaitable[None]] = task(job)
    with pytest.raises(ArgumentError, match="unexpected keyword"):
        await made(1, wrong=2)


def test_a_task_without_injection_has_an_empty_plan(task: TaskDecorator) -> None:
    made = task(send)
    assert not made.plan
    assert made.injected == {}
