"""Enqueueing from routes: the handle, sub-apps, what is refused, what survives its request."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request

import pillion
from adapters.asgi import WAIT, client_of, lifespan_of, served, until
from adapters.scenarios.world import World, our_threads, posts, result_of, scenario
from pillion.adapter import Enqueue


@scenario
async def a_route_enqueues_and_the_job_runs(world: World) -> None:
    jobs, double = world.doubling()
    async with served(world.kit.app(jobs.lifespan, {"/go": posts(double)})) as client:
        assert await result_of(jobs, await client.post("/go")) == 42


@scenario
async def the_handle_takes_options(world: World) -> None:
    jobs, double = world.doubling()

    async def handler(enqueue: Enqueue, request: Request) -> Any:
        first = await enqueue(double.options(delay=3600, unique_key="one"), 1)
        second = await enqueue(double.options(unique_key="one"), 2)
        return [first.created, second.created, first == second, first.state]

    async with served(world.kit.app(jobs.lifespan, {"/go": handler})) as client:
        assert (await client.post("/go")).json() == [True, False, True, "scheduled"]


@scenario
async def without_a_lifespan_the_handle_says_what_to_add(world: World) -> None:
    """Httpx.ASGITransport runs no lifespan."""
    jobs, double = world.doubling()
    app = world.kit.app(jobs.lifespan, {"/go": posts(double)})
    async with client_of(app) as client:
        with pytest.raises(pillion.NotStarted) as caught:
            await client.post("/go")
        assert world.kit.line in str(caught.value)
        assert "ASGITransport" in str(caught.value)
        assert "TestClient" in str(caught.value)
        async with jobs.lifespan(app):  # the remedy that it names
            assert await result_of(jobs, await client.post("/go")) == 42
        with pytest.raises(pillion.NotStarted):
            await client.post("/go")
    assert not our_threads()


@scenario
async def without_a_lifespan_a_task_itself_enqueues(world: World) -> None:
    _, double = world.doubling()
    job = await double.enqueue(21)
    assert (await job.refresh()).state == "queued"


@scenario
async def a_mounted_app_enqueues_once_the_root_ran(world: World) -> None:
    jobs, double = world.doubling()
    root = world.kit.app(jobs.lifespan, mounts={"/sub": world.kit.app(None, {"/go": posts(double)})})
    async with served(root) as client:
        assert await result_of(jobs, await client.post("/sub/go")) == 42


@scenario
async def a_lifespan_on_a_mounted_app_never_runs_and_the_handle_says_so(world: World) -> None:
    jobs, double = world.doubling()
    root = world.kit.app(None, mounts={"/sub": world.kit.app(jobs.lifespan, {"/go": posts(double)})})
    async with served(root) as client:
        with pytest.raises(pillion.NotStarted, match="outermost app") as caught:
            await client.post("/sub/go")
        assert world.kit.line in str(caught.value)


@scenario
async def a_job_runs_though_the_route_raised_after_enqueueing(world: World) -> None:
    from starlette.exceptions import HTTPException

    jobs = world.jobs()
    ran: list[int] = []

    @jobs.task(name="note")
    async def note(number: int) -> None:
        ran.append(number)

    async def handler(enqueue: Enqueue, request: Request) -> Any:
        await enqueue(note, 1)
        raise HTTPException(404)

    async with served(world.kit.app(jobs.lifespan, {"/go": handler})) as client:
        assert (await client.post("/go")).status_code == 404
        await until(lambda: ran == [1])


@scenario
async def a_request_or_session_as_argument_is_refused_at_the_call(world: World) -> None:
    from sqlalchemy.ext.asyncio import AsyncSession

    jobs = world.jobs()
    errors: list[pillion.ArgumentError] = []

    @jobs.task(name="save")
    async def save(source: Any, session: Any = None) -> None: ...

    async def handler(enqueue: Enqueue, request: Request) -> Any:
        for call in (lambda: enqueue(save, request), lambda: enqueue(save, 1, session=AsyncSession())):
            with pytest.raises(pillion.ArgumentError) as caught:
                await call()
            errors.append(caught.value)

    async with served(world.kit.app(jobs.lifespan, {"/go": handler})) as client:
        assert (await client.post("/go")).status_code == 200
    assert [error.parameter for error in errors] == ["source", "session"]
    assert "pass the values" in str(errors[0])
    assert "let the job open its own" in str(errors[1])


@scenario
async def a_client_that_leaves_behind_middleware_cancels_no_job(world: World) -> None:
    """BaseHTTPMiddleware cancels what hangs on a request whose client is gone."""
    jobs = world.jobs()
    entered, leave = threading.Event(), threading.Event()
    ended: list[str] = []

    @jobs.task(name="slow")
    async def slow() -> None:
        try:
            entered.set()
            await asyncio.get_running_loop().run_in_executor(None, leave.wait, WAIT)
            ended.append("done")
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def handler(enqueue: Enqueue, request: Request) -> Any:
        return (await enqueue(slow)).id

    async def through(request: Request, call_next: Any) -> Any:
        return await call_next(request)

    app = world.kit.app(jobs.lifespan, {"/go": handler}, middleware=[Middleware(BaseHTTPMiddleware, dispatch=through)])
    async with lifespan_of(app):
        sent: list[Any] = []
        asked = iter([{"type": "http.request", "body": b""}])
        answered = asyncio.Event()

        async def receive() -> Any:
            if (message := next(asked, None)) is None:
                await answered.wait()
            return message or {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)
            if message["type"] == "http.response.body":
                answered.set()

        await app(
            {
                "type": "http", "method": "POST", "path": "/go", "raw_path": b"/go", "query_string": b"", "headers": [],
                "scheme": "http", "server": ("app", 80), "client": ("test", 1), "root_path": "", "http_version": "1.1",
                "asgi": {"version": "3.0"},
            },
            receive,
            send,
        )  # fmt: skip
        assert sent[0]["status"] == 200
        job = await jobs.get(json.loads(sent[1]["body"]))
        assert job is not None
        await until(entered.is_set)
        leave.set()
        await job.result(timeout=WAIT)
    assert ended == ["done"]
