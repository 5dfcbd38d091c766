"""Values for one job, by its plan."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final, Protocol

from pillion.errors import ConfigurationError
from pillion.inject.markers import MarkerReader, PerLoop, read_own
from pillion.inject.plan import Injected, Plan, Planner, called

_NOTHING: Final = object()

Overrides = Mapping[Callable[..., Any], Callable[..., Any]]


class Resources(Protocol):
    """Where a loop's resources are found."""

    async def get(self, resource: Any, /) -> Any: ...


class Injector:
    """Plans and solves by core's marker and those that adapters add to `readers`.

    Everything runs on the loop that solves, plain functions and generators too: for a job that is a job
    loop of ours, where blocking holds up other jobs of that loop but never a request. (A task with
    ``loop="app"`` has chosen the app's loop for its dependencies as well.)
    """

    def __init__(self, readers: Sequence[MarkerReader] = ()) -> None:
        self.readers: list[MarkerReader] = [read_own, *readers]
        self._planner = Planner(self.readers)

    def plan(self, fn: Callable[..., Any], name: str | None = None) -> Plan:
        """The injected parameters of a task's function. Raises `ConfigurationError`, with the path."""
        return self._planner.plan(fn, name or called(fn))

    def check(self, provider: Callable[..., Any]) -> None:
        """Raises `ConfigurationError` if what `provider` needs, at any depth, cannot be there in a job."""
        self._planner.injected(provider, True)

    async def solve(
        self,
        plan: Plan,
        stack: AsyncExitStack,
        resources: Resources,
        overrides: Overrides,
        only: Collection[str] | None = None,
    ) -> dict[str, Any]:
        """Values by parameter name, of `only` these if given. What has to be closed is entered on `stack`.

        The caller leaves `stack` with the job's exception, so that generators see it. A generator that
        swallows it ends the `async with` without an error: the caller has to remember the exception.
        """
        run = _Run(self._planner, stack, resources, overrides)
        return {name: await run.value(need) for name, need in plan.injected.items() if only is None or name in only}

    async def make(
        self, provider: Callable[..., Any], stack: AsyncExitStack, resources: Resources, overrides: Overrides
    ) -> Any:
        """The value of one provider, with all it needs."""
        return await _Run(self._planner, stack, resources, overrides).value(self._planner.injected(provider, True))

    async def call(
        self,
        fn: Callable[..., Any],
        plan: Plan,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        resources: Resources,
        overrides: Overrides,
        absent: Collection[str],
    ) -> Any:
        """Await `fn` here and now, with the `absent` parameters of the plan injected, and closed afterwards."""
        raised: BaseException | None = None
        result: Any = None
        async with AsyncExitStack() as stack:
            values = await self.solve(plan, stack, resources, overrides, only=absent)
            try:
                result = await fn(*args, **kwargs, **values)
            except BaseException as error:
                raised = error
                raise
        if raised is not None:  # a dependency swallowed it; the call failed all the same
            raise raised
        return result


class _Run:
    """One job's values, each made once unless its marker says otherwise."""

    def __init__(self, planner: Planner, stack: AsyncExitStack, resources: Resources, overrides: Overrides) -> None:
        self._planner = planner
        self._stack = stack
        self._resources = resources
        self._overrides = overrides
        self._made: dict[Callable[..., Any], Any] = {}
        self._replacing: list[Callable[..., Any]] = []

    async def value(self, need: Injected) -> Any:
        if self._overrides and (replacement := self._overrides.get(need.fn)) is not None:
            return await self._replaced(need, replacement)
        return await self._value(need)

    async def _value(self, need: Injected) -> Any:
        if need.use_cache and (made := self._made.get(need.fn, _NOTHING)) is not _NOTHING:
            return made
        if need.manner == "resource":
            value = await self._resources.get(need.fn)
        else:
            values = {name: await self.value(inner) for name, inner in need.needs}
            value = await self._open(need, values)
        self._made.setdefault(need.fn, value)
        return value

    async def _replaced(self, need: Injected, replacement: Callable[..., Any]) -> Any:
        """The override's value, solved like any provider; overrides apply to what it needs in turn."""
        if need.fn in self._replacing:
            raise ConfigurationError(f"The override of {called(need.fn)} depends on what it replaces")
        use_cache = need.use_cache and not isinstance(replacement, PerLoop)
        self._replacing.append(need.fn)
        try:
            return await self._value(self._planner.injected(replacement, use_cache))
        finally:
            self._replacing.pop()

    async def _open(self, need: Injected, values: dict[str, Any]) -> Any:
        if need.manner == "async generator":
            return await self._stack.enter_async_context(need.open(**values))
        if need.manner == "generator":
            return self._stack.enter_context(need.open(**values))
        return await need.open(**values) if need.manner == "coroutine" else need.open(**values)
