"""Resources: clients, engines and pools that are opened once per event loop and closed with it."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import AsyncExitStack
from typing import Any, Final, Generic, Protocol, TypeVar, cast, overload

from pillion.errors import Draining
from pillion.inject import Injector, PerLoop
from pillion.inject.solve import Overrides

T = TypeVar("T")

CLOSE_TIMEOUT: Final = 3.0  # seconds that one resource may take to close
_AT_LEAST: Final = 0.05  # seconds for each, when the time for all of them is used up
_CANCEL_GRACE: Final = 1.0  # seconds more, once its closing was cancelled

_log: Final = logging.getLogger("pillion")


class ResourceOwner(Protocol):
    """What a resource needs of the `Jobs` it belongs to."""

    @property
    def injector(self) -> Injector: ...
    def overrides(self) -> Overrides:
        """Replacements of dependencies, for tests; empty in production."""
        ...

    def loop_resources(self) -> LoopResources:
        """The resources of the running loop."""
        ...


class Resource(PerLoop, Generic[T]):
    """What `@jobs.resource` makes of a generator or function: call and await it for this loop's instance.

    It has no parameters of its own, so that frameworks can depend on it in routes. What it needs itself
    (``= inject(other)``) is opened before it and closed after it.
    """

    def __init__(self, owner: ResourceOwner, fn: Callable[..., Any]) -> None:
        self.owner = owner
        self.opener = fn
        self.name: str = getattr(fn, "__name__", type(fn).__name__)
        self.__name__ = self.name  # no __wrapped__: signatures are to show no parameters
        self.__doc__ = getattr(fn, "__doc__", None)

    async def __call__(self) -> T:
        """This loop's instance, opened by the first use. Raises what opening raises; the next use tries again."""
        return await self.owner.loop_resources().get(self)

    def __repr__(self) -> str:
        return f"<resource {self.name}>"

    def check(self) -> None:
        """Raises `ConfigurationError` if a dependency can never be filled."""
        self.owner.injector.check(self)


class ResourceDecorator:
    """`@jobs.resource`, typed by what the function gives in the end. `register` is told of each."""

    __slots__ = ("_owner", "_register")

    def __init__(self, owner: ResourceOwner, register: Callable[[Resource[Any]], None]) -> None:
        self._owner = owner
        self._register = register

    @overload
    def __call__(self, fn: Callable[..., AsyncGenerator[T, Any]], /) -> Resource[T]: ...
    @overload
    def __call__(self, fn: Callable[..., AsyncIterator[T]], /) -> Resource[T]: ...
    @overload
    def __call__(self, fn: Callable[..., Generator[T, Any, Any]], /) -> Resource[T]: ...
    @overload
    def __call__(self, fn: Callable[..., Iterator[T]], /) -> Resource[T]: ...
    @overload
    def __call__(self, fn: Callable[..., Coroutine[Any, Any, T]], /) -> Resource[T]: ...
    @overload
    def __call__(self, fn: Callable[..., Awaitable[T]], /) -> Resource[T]: ...
    @overload
    def __call__(self, fn: Callable[..., T], /) -> Resource[T]: ...
    def __call__(self, fn: Callable[..., Any], /) -> Resource[Any]:
        """Declare what is opened once per event loop, at first use, and closed with the loop."""
        resource: Resource[Any] = Resource(self._owner, fn)
        self._register(resource)
        return resource


class _Keeper:
    """Opens one resource, keeps it, closes it: all in one asyncio task, since cancel scopes and task groups
    must be left by the task that entered them."""

    def __init__(self, resource: Resource[Any], resources: LoopResources) -> None:
        loop = asyncio.get_running_loop()
        self.name = resource.name
        self.value: asyncio.Future[Any] = loop.create_future()
        self._closing = asyncio.Event()
        # a context of its own: the first user's variables are not the resource's
        self.task = loop.create_task(
            self._keep(resource, resources), name=f"pillion-resource-{self.name}", context=contextvars.Context()
        )

    async def _keep(self, resource: Resource[Any], resources: LoopResources) -> None:
        owner = resource.owner
        opened = False
        try:
            async with AsyncExitStack() as stack:
                value = await owner.injector.make(resource.opener, stack, resources, owner.overrides())
                opened = True
                resources.opened(self)
                self.value.set_result(value)
                try:
                    await self._closing.wait()
                except asyncio.CancelledError:  # the loop is ending, and cancels all at once: keep the order
                    await resources.later_ones(self)
        except BaseException as error:
            if not opened:
                resources.forget(resource, self)
                self._fail(error)
            elif not isinstance(error, asyncio.CancelledError):
                _log.warning("Closing the resource %s failed", self.name, exc_info=error)
        finally:
            resources.forget(resource, self)

    def _fail(self, error: BaseException) -> None:
        if self.value.done():
            return
        if isinstance(error, asyncio.CancelledError) and self._closing.is_set():
            error = Draining(f"The resource {self.name} was still opening when this loop shut down")
        if isinstance(error, asyncio.CancelledError):  # the loop is ending: nobody is to wait for it
            self.value.cancel()
        else:
            self.value.set_exception(error)
            self.value.exception()  # seen: those who wait get it, but perhaps nobody does any more

    async def close(self, within: float) -> None:
        """Close in `within` seconds, or leave it behind and say so. Raises nothing."""
        self._closing.set()
        if not self.value.done():
            self.task.cancel()
        done, _ = await asyncio.wait({self.task}, timeout=within)
        if not done:
            self.task.cancel()
            done, _ = await asyncio.wait({self.task}, timeout=min(within, _CANCEL_GRACE))
            _log.warning(
                "The resource %s took more than %g s to close and was %s",
                self.name,
                round(within, 2),
                "cancelled" if done else "left behind",
            )


class LoopResources:
    """The open resources of one event loop. Used on that loop only."""

    def __init__(self) -> None:
        self._keepers: dict[Resource[Any], _Keeper] = {}
        self._order: list[_Keeper] = []  # as they were opened
        self._closer: asyncio.Task[None] | None = None

    async def get(self, resource: Resource[T]) -> T:
        """The open instance. Concurrent first uses open it once; a caller that is cancelled does not stop that.

        Raises `Draining` once `aclose` began.
        """
        keeper = self._keepers.get(resource)
        if keeper is None:
            if self._closer is not None:
                raise Draining(f"The resource {resource.name} is closed: this loop is shutting down")
            keeper = self._keepers[resource] = _Keeper(resource, self)
        if keeper.value.done():
            return cast("T", keeper.value.result())
        return cast("T", await asyncio.shield(keeper.value))

    async def aclose(self, within: float = CLOSE_TIMEOUT) -> None:
        """Close all, the last opened first, in about `within` seconds all together.

        Goes on to the end when cancelled, then says so.
        """
        if self._closer is None:
            self._closer = asyncio.create_task(self._close_all(within), name="pillion-close-resources")
        cancelled: asyncio.CancelledError | None = None
        while not self._closer.done():
            try:
                await asyncio.shield(self._closer)
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    def opened(self, keeper: _Keeper) -> None:
        self._order.append(keeper)

    def forget(self, resource: Resource[Any], keeper: _Keeper) -> None:
        """The keeper ended: the next use opens anew."""
        if self._keepers.get(resource) is keeper:
            del self._keepers[resource]
        if keeper in self._order:
            self._order.remove(keeper)

    async def later_ones(self, keeper: _Keeper) -> None:
        """Wait, bounded, until what was opened after `keeper`, and may depend on it, is closed."""
        if later := {other.task for other in self._order[self._order.index(keeper) + 1 :]}:
            await asyncio.wait(later, timeout=CLOSE_TIMEOUT)

    async def _close_all(self, within: float) -> None:
        over = time.monotonic() + within

        def left() -> float:
            return min(CLOSE_TIMEOUT, max(over - time.monotonic(), _AT_LEAST))

        for keeper in [keeper for keeper in self._keepers.values() if keeper not in self._order]:
            await keeper.close(left())  # still opening
        while self._order:
            keeper = self._order[-1]
            await keeper.close(left())
            if self._order and self._order[-1] is keeper:  # left behind
                self._order.pop()
