"""The marker of core, and the seam through which adapters add theirs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Generator, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar, overload

T = TypeVar("T")


class PerLoop:
    """Marks a provider whose value lives as long as the event loop: what `@jobs.resource` makes.

    ``opener`` is the user's function, whose own dependencies are checked at start.
    """

    opener: Callable[..., Any]

    def __call__(self) -> Coroutine[Any, Any, Any]:
        """This loop's value."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Provider:
    """What a marker asks for. ``fn`` None: the annotation itself is to be called (FastAPI's bare ``Depends()``).

    With ``use_cache`` a value is made once per job, however many parameters ask for it.
    """

    fn: Callable[..., Any] | None
    use_cache: bool = True


@dataclass(frozen=True, slots=True)
class Refusal:
    """A marker that only a request can serve (a header, a query, `Security`); `needs` says what it needs."""

    needs: str


MarkerReader = Callable[[object], Provider | Refusal | None]
"""Reads a parameter's default, or one item of its ``Annotated``: None if that is no marker of its kind."""


class Inject:
    """Core's marker, made by `inject`."""

    __slots__ = ("provider",)

    def __init__(self, provider: Provider) -> None:
        self.provider = provider

    def __repr__(self) -> str:
        return f"inject({getattr(self.provider.fn, '__name__', self.provider.fn)})"


class _Injected:
    """The default of a parameter whose annotation carries the marker."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "injected"


injected: Final[Any] = _Injected()
"""``client: Annotated[Client, inject(http)] = injected``: lets callers leave the parameter out."""


@overload
def inject(provider: Callable[..., AsyncGenerator[T, Any]], /, *, use_cache: bool = True) -> T: ...
@overload
def inject(provider: Callable[..., AsyncIterator[T]], /, *, use_cache: bool = True) -> T: ...
@overload
def inject(provider: Callable[..., Generator[T, Any, Any]], /, *, use_cache: bool = True) -> T: ...
@overload
def inject(provider: Callable[..., Iterator[T]], /, *, use_cache: bool = True) -> T: ...
@overload
def inject(provider: Callable[..., Coroutine[Any, Any, T]], /, *, use_cache: bool = True) -> T: ...
@overload
def inject(provider: Callable[..., Awaitable[T]], /, *, use_cache: bool = True) -> T: ...
@overload
def inject(provider: Callable[..., T], /, *, use_cache: bool = True) -> T: ...
def inject(provider: Callable[..., Any], /, *, use_cache: bool = True) -> Any:
    """Have the job given what `provider` makes: a resource, a function, a generator (closed after the job), a class.

    Typed as the value itself, so that it can be a parameter's default. ``use_cache=False`` makes a value of
    its own for this parameter.
    """
    return Inject(Provider(provider, use_cache))


def read_own(marker: object) -> Provider | None:
    """The `MarkerReader` of core's own marker."""
    return marker.provider if isinstance(marker, Inject) else None
