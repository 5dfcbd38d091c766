"""Only type-checked, by mypy and pyright: handles of tasks have the signature of the function.

A line that must be refused carries an ignore; both tools fail where it is not needed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, assert_type

from pillion import Backoff, Bound, Job, Jobs, Resource, inject, injected
from pillion.task import AsyncTask, Configured, SyncTask, Task

jobs = Jobs("memory://")


class Client:
    """Something to inject."""


class Dependent:
    """A class as a provider."""

    def __init__(self, size: int = 1) -> None:
        self.size = size


# -- resources and injection: typed as the value that arrives ----------------------------------------------------


@jobs.resource
async def http() -> AsyncIterator[Client]:
    yield Client()


@jobs.resource
async def awaited() -> Client:
    return Client()


@jobs.resource
def stepped() -> Iterator[Client]:
    yield Client()


@jobs.resource
def plain() -> Client:
    return Client()


def number(client: Client = inject(http)) -> int:
    return id(client)


assert_type(http, Resource[Client])
assert_type(awaited, Resource[Client])
assert_type(stepped, Resource[Client])
assert_type(plain, Resource[Client])
assert_type(inject(http), Client)
assert_type(inject(plain), Client)
assert_type(inject(number), int)
assert_type(inject(number, use_cache=False), int)
assert_type(inject(Dependent), Dependent)


async def opened() -> Client:
    return await http()


# -- tasks -------------------------------------------------------------------------------------------------------


@jobs.task(max_attempts=5, timeout=30)
async def send_receipt(order_id: int, client: Client = inject(http)) -> str:
    return f"{order_id} {client}"


@jobs.task
def resize(path: str, *, width: int = 100) -> bytes:
    return path.encode() * width


@jobs.task(queue="slow", retry=Backoff(base=1), aliases=["old.name"], loop="app")
async def nothing(ratio: Annotated[float, inject(number)] = injected) -> None:
    return None


@jobs.task
async def variadic(*numbers: int, **names: str) -> list[int]:
    return [*numbers, len(names)]


async def declared() -> None:
    assert_type(await send_receipt.enqueue(7), Job[str])
    assert_type(send_receipt.enqueue_sync(order_id=7), Job[str])
    assert_type(await resize.enqueue("x", width=3), Job[bytes])
    assert_type(await nothing.enqueue(), Job[None])
    assert_type(await (await send_receipt.enqueue(7)).result(timeout=10), str)
    assert_type(await variadic.enqueue(1, 2, a="x"), Job[list[int]])


async def called() -> None:
    assert_type(await send_receipt(7), str)
    assert_type(await send_receipt(7, Client()), str)
    assert_type(resize("x"), bytes)
    running: Coroutine[Any, Any, str] = send_receipt(7)
    assert_type(await running, str)


async def bound() -> None:
    assert_type(send_receipt.bind(7), Bound[str])
    assert_type(await jobs.enqueue_many(send_receipt.bind(i) for i in range(3)), list[Job[str]])
    assert_type(await jobs.enqueue_many([resize.bind("x"), resize.bind("y", width=2)]), list[Job[bytes]])


async def configured() -> None:
    assert_type(await send_receipt.options(delay=60, priority=5, unique_key="receipt:7").enqueue(7), Job[str])
    assert_type(resize.options(delay=timedelta(minutes=1)).enqueue_sync("x"), Job[bytes])
    assert_type(resize.options(at=datetime.now(UTC), queue="slow").bind("x", width=1), Bound[bytes])
    later = nothing.options(delay=0.5)
    assert_type(await later.enqueue(), Job[None])


def accepts(anything: Task[..., object], texts: Task[[int], str], call: Bound[object]) -> None:
    """What helpers of a user's own can ask for."""


def passed(texts: Task[[int], str]) -> None:
    accepts(send_receipt, texts, send_receipt.bind(7))
    accepts(resize, texts, resize.bind("x"))
    kinds: tuple[type[AsyncTask[..., Any]], type[SyncTask[..., Any]]] = (AsyncTask, SyncTask)
    handle: Configured[[int], str] = texts.options()
    del kinds, handle


# -- what must be refused ----------------------------------------------------------------------------------------


async def refused() -> None:
    await send_receipt.enqueue("7")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await send_receipt.enqueue()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await send_receipt.enqueue(7, delay=60)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    send_receipt.enqueue_sync(None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    send_receipt.bind(7, 8)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    send_receipt.options(priority="high")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    send_receipt.options(dely=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await send_receipt.options(delay=1).enqueue("7")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    resize.options().bind("x", height=3)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await resize("x")  # type: ignore[misc]  # pyright: ignore[reportGeneralTypeIssues]
    await send_receipt("7")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    jobs.task(max_attempt=3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    text: str = inject(number)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    del text
