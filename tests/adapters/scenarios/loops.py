"""Threads, several loops one after another, signals: plain functions, which run on no loop."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from typing import Any

import pytest
from starlette.requests import Request
from starlette.testclient import TestClient

import pillion
from adapters.asgi import WAIT, served, until
from adapters.scenarios.world import World, is_status, our_threads, posts, scenario
from pillion.adapter import Enqueue


@scenario
def a_test_client_runs_the_app_in_another_thread(world: World) -> None:
    """The whole lifespan on a thread that is not the main one."""
    jobs, double = world.doubling()

    async def handler(enqueue: Enqueue, request: Request) -> Any:
        assert threading.current_thread() is not threading.main_thread()
        return await (await enqueue(double, 21)).result(timeout=WAIT)

    with TestClient(world.kit.app(jobs.lifespan, {"/go": handler})) as client:
        assert client.post("/go").json() == 42
        assert client.get("/jobs/health").json()["status"] == "pass"
    assert not our_threads()


@scenario
def a_test_client_without_with_says_what_to_add(world: World) -> None:
    jobs, double = world.doubling()
    client = TestClient(world.kit.app(jobs.lifespan, {"/go": posts(double)}))
    with pytest.raises(pillion.NotStarted, match=r"with TestClient\(app\) as client"):
        client.post("/go")


@scenario
def one_jobs_object_serves_several_loops_one_after_another(world: World) -> None:
    """Two `asyncio.run` and a TestClient thread in a row, in one process."""
    jobs, double = world.doubling()

    async def handler(enqueue: Enqueue, request: Request) -> Any:
        return await (await enqueue(double, 21)).result(timeout=WAIT)

    app = world.kit.app(jobs.lifespan, {"/go": handler})

    async def once() -> None:
        async with served(app) as client:
            assert (await client.post("/go")).json() == 42

    asyncio.run(once())
    asyncio.run(double.enqueue(1))  # no lifespan: closed with its loop
    asyncio.run(once())
    with TestClient(app) as client:
        assert client.post("/go").json() == 42
    assert double.enqueue_sync(1).created
    asyncio.run(once())
    assert our_threads() <= {"pillion-client", "pillion-store"}  # of enqueue_sync, which no loop ends


@scenario
def signal_handlers_are_chained_and_given_back(world: World) -> None:
    """The server's handler still runs, and everything is as before once the lifespan ended."""
    jobs, _ = world.doubling()
    signals = (signal.SIGINT, signal.SIGTERM)
    heard: list[int] = []

    def servers_own(number: int, frame: Any) -> None:
        heard.append(number)

    async def serve() -> None:
        for number in signals:
            signal.signal(number, servers_own)
        async with served(world.kit.app(jobs.lifespan)) as client:
            os.kill(os.getpid(), signal.SIGTERM)
            await until(lambda: heard == [signal.SIGTERM])
            # The drain began at the signal, long before the server ends the lifespan.
            await until(lambda: is_status(client, "/jobs/health/ready", 503))
            assert (await client.get("/jobs/health/live")).status_code == 200
        assert [signal.getsignal(number) for number in signals] == [servers_own] * 2

    before = [signal.getsignal(number) for number in signals]
    try:
        asyncio.run(serve())
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)
