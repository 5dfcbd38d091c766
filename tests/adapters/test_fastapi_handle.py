"""FastAPI: the handle in routes, `def` ones and WebSockets among them, and in jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from fastapi import (
    Depends,
    FastAPI,
    WebSocket,
)
from starlette.testclient import TestClient

import pillion
from adapters.asgi import WAIT, client_of, lifespan_of, served
from pillion_fastapi import Enqueue, EnqueueSync, Jobs, enqueue, enqueue_sync


async def test_def_routes_enqueue_with_the_sync_handle(jobs: Jobs) -> None:
    @jobs.task(name="double")
    def double(number: int) -> int:
        return 2 * number

    app = FastAPI(lifespan=jobs.lifespan)

    @app.post("/go")
    def go(enqueue: Annotated[EnqueueSync, Depends(enqueue_sync)]) -> str:
        return enqueue(double, 21).id

    @app.post("/blocking")
    async def blocking(enqueue: Annotated[EnqueueSync, Depends(enqueue_sync)]) -> None:
        with pytest.raises(pillion.ConfigurationError, match="await enqueue"):
            enqueue(double, 21)

    async with served(app) as http:
        job = await jobs.get((await http.post("/go")).json())
        assert job is not None
        assert await job.result(timeout=WAIT) == 42
        assert (await http.post("/blocking")).status_code == 200


async def test_the_sync_handle_needs_the_lifespan_too(jobs: Jobs) -> None:
    @jobs.task(name="nothing")
    def nothing() -> None: ...

    with pytest.raises(pillion.NotStarted, match=r"FastAPI\(lifespan=jobs\.lifespan\)"):
        (await enqueue_sync())(nothing)


def test_websocket_routes_enqueue(jobs: Jobs) -> None:
    @jobs.task(name="double")
    async def double(number: int) -> int:
        return 2 * number

    app = FastAPI(lifespan=jobs.lifespan)
    sub = FastAPI()
    app.mount("/sub", sub)

    for each in (app, sub):

        @each.websocket("/ws")
        async def talk(socket: WebSocket, enqueue: Annotated[Enqueue, Depends(enqueue)]) -> None:
            await socket.accept()
            job = await enqueue(double, int(await socket.receive_text()))
            await socket.send_text(str(await job.result(timeout=WAIT)))
            await socket.close()

    with TestClient(app) as http:
        for path in ("/ws", "/sub/ws"):
            with http.websocket_connect(path) as socket:
                socket.send_text("21")
                assert socket.receive_text() == "42"


async def test_the_handle_has_one_place_to_override(jobs: Jobs) -> None:
    @jobs.task(name="double")
    async def double(number: int) -> int:
        return 2 * number

    calls: list[Any] = []

    async def fake() -> Callable[..., Any]:
        async def record(task: Any, *args: Any) -> None:
            calls.append((task, *args))

        return record

    app = FastAPI(lifespan=jobs.lifespan)

    @app.post("/go")
    async def go(enqueue: Annotated[Enqueue, Depends(enqueue)]) -> None:
        await enqueue(double, 21)

    app.dependency_overrides[enqueue] = fake
    async with client_of(app) as http:  # no lifespan, no store
        assert (await http.post("/go")).status_code == 200
    assert calls == [(double, 21)]


async def test_a_job_enqueues_through_the_handle_as_a_route_does(jobs: Jobs) -> None:
    @jobs.task(name="second")
    async def second(number: int) -> int:
        return 2 * number

    @jobs.task(name="first")
    async def first(number: int, enqueue: Enqueue = Depends(enqueue)) -> str:
        return (await enqueue(second, number)).id

    async with lifespan_of(FastAPI(lifespan=jobs.lifespan)):
        inner = await jobs.get(await (await first.enqueue(21)).result(timeout=WAIT))
        assert inner is not None
        assert await inner.result(timeout=WAIT) == 42
