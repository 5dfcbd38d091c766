"""Tasks: registered functions, with handles to enqueue calls of them that are typed by their own signature."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, ParamSpec, Protocol, TypeVar, cast, overload

import msgspec

from pillion.codec import CallCodec
from pillion.codec.hints import annotated_function, call_of
from pillion.errors import ArgumentError, ConfigurationError
from pillion.ids import new_id
from pillion.inject import Injected, Injector, Plan
from pillion.inject.solve import Overrides
from pillion.model import Kind, NewJob
from pillion.options import MAX_NAME, EnqueueOptions, Seconds, TaskOptions, check_text, duration_us, enqueue_options
from pillion.policy.retry import Backoff

if TYPE_CHECKING:
    from pillion.job import Job
    from pillion.resource import LoopResources

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

_TASK_OPTIONS: Final = frozenset(field.name for field in dataclasses.fields(TaskOptions))


class Owner(Protocol):
    """What a task needs of the `Jobs` it is registered with."""

    @property
    def injector(self) -> Injector: ...
    def overrides(self) -> Overrides: ...
    def loop_resources(self) -> LoopResources: ...
    def started(self) -> bool: ...
    async def enqueue_bound(self, bounds: Sequence[Bound[Any]]) -> list[Job[Any]]: ...
    def enqueue_bound_sync(self, bounds: Sequence[Bound[Any]]) -> list[Job[Any]]: ...


class Bound(msgspec.Struct, Generic[R_co], frozen=True):
    """A call of a task, checked and encoded, that is not stored yet. ``new`` has its id already."""

    task: Task[..., R_co]
    new: NewJob

    def with_headers(self, headers: str | None) -> Bound[R_co]:
        """The same call with `headers`, JSON text that the store never looks into."""
        return Bound(self.task, msgspec.structs.replace(self.new, headers=headers))


class Handle(ABC, Generic[P, R_co]):
    """What can be enqueued: a task, or a task with options."""

    __slots__ = ()

    @property
    @abstractmethod
    def task(self) -> Task[P, R_co]:
        """The task itself."""

    @abstractmethod
    def bind(self, /, *args: P.args, **kwargs: P.kwargs) -> Bound[R_co]:
        """Check and encode a call now, to be stored later: ``await jobs.enqueue_many(…)``.

        Raises `ArgumentError` for arguments that do not fit the signature. What they become is fixed here:
        changing them afterwards has no effect.
        """

    def enqueue(self, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, Job[R_co]]:
        """Store a job that calls the task with these arguments; await it for the job's handle.

        Arguments are checked and encoded at the call, before anything is awaited. Raises `ArgumentError`;
        awaiting raises `StoreUnavailable` (surely not stored), `EnqueueUnknown`.
        """
        return _enqueue(self.task.owner, self.bind(*args, **kwargs))

    def enqueue_sync(self, /, *args: P.args, **kwargs: P.kwargs) -> Job[R_co]:
        """`enqueue` for ``def`` code and scripts: blocks until the job is stored. Refuses to block a running loop."""
        return self.task.owner.enqueue_bound_sync((self.bind(*args, **kwargs),))[0]


async def _enqueue(owner: Owner, bound: Bound[R]) -> Job[R]:
    return (await owner.enqueue_bound((bound,)))[0]


class Task(Handle[P, R_co]):
    """A registered function. Made by ``@jobs.task``: an `AsyncTask` or a `SyncTask`.

    Annotations and injections are looked at with the first use, or by `resolve()`: not by the decorator,
    when half of the module does not exist yet.
    """

    def __init__(self, fn: Callable[..., Any], owner: Owner, options: TaskOptions) -> None:
        self.fn = fn
        self.owner = owner
        self.name: str = options.name or task_name(fn)
        self.aliases: tuple[str, ...] = tuple(options.aliases)
        self.queue = options.queue
        self.kind: Kind = _kind(fn, self.name, options.loop)
        self.max_attempts = options.max_attempts  # None: the setting of Jobs; so also below
        self.timeout_us = None if options.timeout is None else duration_us("timeout", options.timeout)
        self.retry: Backoff | None = options.retry
        check_text("a task's name", self.name, MAX_NAME)
        inner = annotated_function(fn)
        self.__name__: str = getattr(inner, "__name__", self.name)
        self.__qualname__: str = getattr(inner, "__qualname__", self.__name__)
        self.__module__ = getattr(inner, "__module__", __name__)
        self.__doc__ = fn.__doc__
        self.__wrapped__ = fn

    def __repr__(self) -> str:
        return f"<task {self.name}>"

    @property
    def task(self) -> Task[P, R_co]:
        return self

    @functools.cached_property
    def plan(self) -> Plan:
        """Which parameters are injected. Raises `ConfigurationError`."""
        return self.owner.injector.plan(self.fn, self.name)

    @property
    def injected(self) -> Mapping[str, Injected]:
        """The injected parameters by name; empty if there are none."""
        return self.plan.injected

    @functools.cached_property
    def codec(self) -> CallCodec:
        """Of arguments and results. Raises `ConfigurationError` for an injection that cannot work."""
        return CallCodec(self.fn, task=self.name, skip=self.plan.injected.keys())

    def resolve(self) -> None:
        """Look at annotations and injections now. Raises `ConfigurationError` that names the parameter."""
        self.codec.resolve()

    def bind(self, /, *args: P.args, **kwargs: P.kwargs) -> Bound[R_co]:
        text = self.codec.encode(args, kwargs)
        return Bound(self, NewJob(id=new_id(), task=self.name, queue=self.queue, kind=self.kind, args=text))

    def options(
        self,
        *,
        delay: Seconds | None = None,
        at: datetime | None = None,
        priority: int = 0,
        queue: str | None = None,
        unique_key: str | None = None,
    ) -> Configured[P, R_co]:
        """The same task, to be enqueued differently.

        delay: seconds or a `timedelta` from the store's now. at: an aware datetime; one in the past is due at once.
        priority: higher first, 0 by default, an int of 32 bits. queue: instead of the task's own.
        unique_key: at most one unfinished job holds a key; a second enqueue gives that job's handle.
        Raises `ConfigurationError`.
        """
        chosen = enqueue_options(delay=delay, at=at, priority=priority, queue=queue, unique_key=unique_key)
        return Configured(self, chosen)

    def _absent(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[str]:
        """The injected parameters that a direct call leaves out. Raises `ArgumentError` if it does not bind."""
        try:
            given = inspect.signature(self.fn).bind_partial(*args, **kwargs).arguments
        except TypeError as error:
            raise ArgumentError(f"Task {self.name}: {error}") from None
        return [name for name in self.injected if name not in given]


class AsyncTask(Task[P, R_co]):
    """A task of an ``async def`` function."""

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R_co]:
        """Run the function here and now, no job involved. What is injected and not given is resolved on this loop."""
        if self.injected and self._absent(args, kwargs):
            return self._call_injected(args, kwargs)
        return cast("Coroutine[Any, Any, R_co]", self.fn(*args, **kwargs))

    async def _call_injected(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> R_co:
        owner = self.owner
        result = await owner.injector.call(
            self.fn, self.plan, args, kwargs, owner.loop_resources(), owner.overrides(), self._absent(args, kwargs)
        )
        return cast("R_co", result)


class SyncTask(Task[P, R_co]):
    """A task of a ``def`` function."""

    def __call__(self, /, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Run the function here and now, no job involved. Raises `ArgumentError` unless what is injected is given."""
        if self.injected and (absent := self._absent(args, kwargs)):
            raise ArgumentError(
                f"Task {self.name} is a `def`: called directly it injects nothing. "
                f"Pass {', '.join(f'{name}=…' for name in absent)}, or enqueue it",
                absent[0],
            )
        return cast("R_co", self.fn(*args, **kwargs))


class Configured(Handle[P, R_co]):
    """A task with options for its next enqueues. Made by `Task.options`."""

    __slots__ = ("_options", "_task")

    def __init__(self, task: Task[P, R_co], options: EnqueueOptions) -> None:
        self._task = task
        self._options = options

    @property
    def task(self) -> Task[P, R_co]:
        return self._task

    def bind(self, /, *args: P.args, **kwargs: P.kwargs) -> Bound[R_co]:
        task, options = self._task, self._options
        new = NewJob(
            id=new_id(),
            task=task.name,
            queue=options.queue or task.queue,
            kind=task.kind,
            args=task.codec.encode(args, kwargs),
            priority=options.priority,
            delay_us=options.delay_us,
            due_us=options.due_us,
            key=options.unique_key,
        )
        return Bound(task, new)


class _Configure(Protocol):
    """``@jobs.task(…)``: takes the function."""

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, fn: Callable[P, R], /) -> SyncTask[P, R]: ...


class TaskDecorator:
    """``@jobs.task`` and ``@jobs.task(…)``. `register` takes the task in, and may refuse its name."""

    __slots__ = ("_owner", "_register")

    def __init__(self, owner: Owner, register: Callable[[Task[..., Any]], None]) -> None:
        self._owner = owner
        self._register = register

    @overload
    def __call__(self, fn: Callable[P, Coroutine[Any, Any, R]], /) -> AsyncTask[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, fn: Callable[P, R], /) -> SyncTask[P, R]: ...
    @overload
    def __call__(
        self,
        /,
        *,
        name: str | None = None,
        aliases: Sequence[str] = (),
        queue: str = "default",
        loop: Literal["own", "app"] | None = None,
        max_attempts: int | None = None,
        timeout: Seconds | None = None,
        retry: Backoff | None = None,
    ) -> _Configure: ...
    def __call__(self, fn: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Register a function as a task.

        name: what jobs are stored under, by default ``module.qualname``; with `aliases` for names it had before.
        queue: "default". loop: "app" runs an async task on the app's own loop instead of a job loop.
        max_attempts: failures after which the job is failed. timeout: seconds or a `timedelta`; 0 is none.
        retry: how long to wait before the next attempt.
        Raises `ConfigurationError` for what cannot work.
        """
        if unknown := options.keys() - _TASK_OPTIONS:
            near = difflib.get_close_matches(min(unknown), _TASK_OPTIONS, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(sorted(_TASK_OPTIONS))}"
            raise ConfigurationError(f"@jobs.task takes no option {min(unknown)!r}; {hint}")
        chosen = TaskOptions(**options)

        def decorate(function: Callable[..., Any]) -> Task[..., Any]:
            task = make_task(function, self._owner, chosen)
            self._register(task)
            return task

        return decorate if fn is None else decorate(fn)


def make_task(fn: Callable[..., Any], owner: Owner, options: TaskOptions) -> Task[..., Any]:
    """An `AsyncTask` or `SyncTask`, as the function is. Raises `ConfigurationError`."""
    _check_function(fn)
    return (AsyncTask if _is_async(fn) else SyncTask)(fn, owner, options)


def task_name(fn: Callable[..., Any]) -> str:
    """``module.qualname``, the script's module by the name that importing it has."""
    if isinstance(fn, functools.partial) or not hasattr(fn, "__qualname__"):
        raise ConfigurationError(f"{fn!r} has no name of its own: give it one with @jobs.task(name=…)")
    module = str(fn.__module__)
    if module in ("__main__", "__mp_main__"):
        module = _main_name()
    return f"{module}.{fn.__qualname__}"


def _main_name() -> str:
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None:  # python -m package.module
        return str(spec.name).removesuffix(".__main__")
    path = getattr(main, "__file__", None)
    return PurePath(path).stem if path else "__main__"


def _kind(fn: Callable[..., Any], name: str, loop: str | None) -> Kind:
    if _is_async(fn):
        return "app" if loop == "app" else "async"
    if loop == "app":
        raise ConfigurationError(
            f'Task {name} is a `def`: loop="app" would block the app. Make it `async def`, or drop it'
        )
    return "thread"


def _is_async(fn: Callable[..., Any]) -> bool:
    """By the outermost function: a wrapper decides what is called, whatever it wraps."""
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(call_of(fn))


def _check_function(fn: Any) -> None:
    """Raises `ConfigurationError` for what is no function that can be run as a job."""
    if isinstance(fn, Task):
        raise ConfigurationError(f"{fn.name} is a task already")
    if isinstance(fn, type):
        raise ConfigurationError(f"{fn.__qualname__} is a class: a task is a function; write one that uses it")
    if not callable(fn):
        raise ConfigurationError(f"A task is a function, not {type(fn).__name__} (decorate below @classmethod)")
    inner = annotated_function(fn)
    shown = getattr(inner, "__qualname__", repr(fn))
    if any(inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each) for each in (fn, inner)):
        raise ConfigurationError(f"{shown} is a generator: a job returns one result; return a list instead of yielding")
    holder, _, _ = shown.rpartition(".")
    parameters = list(inspect.signature(fn).parameters)
    if holder and not holder.endswith("<locals>") and parameters[:1] in (["self"], ["cls"]):
        raise ConfigurationError(
            f"{shown} is a method, and its {parameters[0]} cannot be stored: make the task a function, or register the "
            "bound method of an object"
        )
