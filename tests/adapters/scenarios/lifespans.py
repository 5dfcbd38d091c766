"""Starting and stopping: a lifespan of the user's, twice, several `Jobs`, no worker."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.requests import Request

import pillion
from adapters.asgi import WAIT, client_of, lifespan_of, served
from adapters.scenarios.world import World, inner, our_threads, posts, result_of, scenario


@scenario
async def a_users_lifespan_with_ours_innermost_closes_after_the_drain(world: World) -> None:
    jobs = world.jobs()
    events: list[str] = []
    started = asyncio.Event()
    loop = asyncio.get_running_loop()

    @jobs.task(name="slow")
    async def slow() -> None:
        loop.call_soon_threadsafe(started.set)
        await asyncio.sleep(0.2)
        events.append("job ended")

    @asynccontextmanager
    async def engine() -> AsyncGenerator[None]:
        events.append("engine opened")
        yield
        events.append("engine closed")

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncGenerator[None]:
        async with engine(), jobs.lifespan(app):
            events.append("serving")
            yield

    async with lifespan_of(world.kit.app(lifespan)):
        await slow.enqueue()
        await asyncio.wait_for(started.wait(), WAIT)
    assert events == ["engine opened", "serving", "job ended", "engine closed"]


@scenario
async def a_users_lifespan_the_other_way_round_runs_both_too(world: World) -> None:
    jobs, double = world.doubling()
    events: list[str] = []

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncGenerator[None]:
        async with jobs.lifespan(app):
            events.append("opened")
            yield
            events.append("closed")

    app = world.kit.app(lifespan, {"/go": posts(double)})
    async with served(app) as client:
        assert await result_of(jobs, await client.post("/go")) == 42
    assert events == ["opened", "closed"]
    assert not our_threads()


@scenario
async def the_lifespan_yields_no_state(world: World) -> None:
    jobs, _ = world.doubling()
    async with jobs.lifespan(world.kit.app(None)) as state:
        assert state is None


@scenario
async def an_app_started_again_works_again(world: World) -> None:
    jobs, double = world.doubling()
    app = world.kit.app(jobs.lifespan, {"/go": posts(double)})
    routes = list(app.routes)
    for _ in range(3):
        async with served(app) as client:
            assert await result_of(jobs, await client.post("/go")) == 42
            assert (await client.get("/jobs/health/live")).status_code == 200
        assert app.routes == routes


@scenario
async def entering_twice_makes_one_worker_and_one_set_of_routes(world: World) -> None:
    jobs, double = world.doubling()
    app = world.kit.app(jobs.lifespan, {"/go": posts(double)})
    before = len(app.routes)
    async with served(app) as client:
        once = len(app.routes)
        async with jobs.lifespan(app):
            assert len(app.routes) == once == before + 3
            fleet = (await client.get("/jobs/health")).json()["checks"]["fleet"][0]
            assert fleet["alive"] == 1
            assert len((await client.get("/jobs/health")).json()["checks"]["worker"]) == 1
        # The first exit drains nothing.
        assert len(app.routes) == once
        assert await result_of(jobs, await client.post("/go")) == 42
        assert (await client.get("/jobs/health/ready")).status_code == 200
    assert len(app.routes) == before
    assert not our_threads()


@scenario
async def lifespans_may_end_in_any_order(world: World) -> None:
    jobs, double = world.doubling()
    one, two = world.kit.app(jobs.lifespan), world.kit.app(jobs.lifespan, {"/go": posts(double)})
    first, second = lifespan_of(one), lifespan_of(two)
    await first.__aenter__()
    await second.__aenter__()
    await first.__aexit__(None, None, None)
    async with client_of(two) as client:
        assert await result_of(jobs, await client.post("/go")) == 42
        assert (await client.get("/jobs/health/ready?store=1")).status_code == 200
        assert (await client.get("/jobs/health")).json()["status"] == "pass"
    await second.__aexit__(None, None, None)
    assert not our_threads()


@scenario
async def a_task_that_cannot_work_stops_the_start(world: World) -> None:
    jobs = world.jobs()

    @jobs.task(name="odd")
    async def odd(request: Request = pillion.inject(lambda request: request)) -> None: ...

    with pytest.raises(pillion.ConfigurationError, match="odd"):
        async with lifespan_of(world.kit.app(jobs.lifespan)):
            pytest.fail("it must not start")
    assert not our_threads()


@scenario
async def something_that_is_no_app_is_refused(world: World) -> None:
    jobs, _ = world.doubling()
    with pytest.raises(pillion.ConfigurationError, match=r"jobs\.lifespan\(app\)"):
        async with jobs.lifespan(object()):
            pytest.fail("it must not start")


@scenario
async def two_jobs_in_one_app_both_work_and_share_one_document(world: World) -> None:
    first, double = world.doubling()
    second = world.jobs(f"sqlite:///{world.folder}/other.db", queues=["default", "reports"])

    @second.task(name="triple")
    async def triple(number: int) -> int:
        return 3 * number

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncGenerator[None]:
        async with first.lifespan(app), second.lifespan(app):
            yield

    app = world.kit.app(lifespan, {"/double": posts(double), "/triple": posts(triple)})
    before = len(app.routes)
    async with served(app) as client:
        assert await result_of(first, await client.post("/double")) == 42
        assert await result_of(second, await client.post("/triple")) == 63
        assert len(app.routes) == before + 3
        document = (await client.get("/jobs/health")).json()
        assert [worker["componentId"] for worker in document["checks"]["worker"]] == ["jobs-1", "jobs-2"]
        assert len(document["checks"]["fleet"]) == 2
        assert document["status"] == "pass"
        inner(second).begin_drain("test")
        assert (await client.get("/jobs/health/ready")).status_code == 503
    assert len(app.routes) == before


@scenario
async def two_jobs_on_one_store_show_its_queues_once(world: World) -> None:
    first, _ = world.doubling(queues=["a"])
    second = world.jobs(queues=["b"])

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncGenerator[None]:
        async with first.lifespan(app), second.lifespan(app):
            yield

    async with served(world.kit.app(lifespan)) as client:
        checks = (await client.get("/jobs/health")).json()["checks"]
        assert len(checks["worker"]) == 2
        assert len(checks["store"]) == 1
        assert checks["fleet"][0]["alive"] == 2
        assert [queue["queue"] for queue in checks["queues"]] == ["a", "b"]


@scenario
async def a_process_that_only_enqueues_runs_no_jobs(world: World) -> None:
    jobs, double = world.doubling(worker=False)
    async with served(world.kit.app(jobs.lifespan, {"/go": posts(double)})) as client:
        job = await jobs.get((await client.post("/go")).json())
        assert job is not None
        assert (await client.get("/jobs/health/ready")).status_code == 200
        response = await client.get("/jobs/health")
        assert response.status_code == 200
        document = response.json()
        assert document["status"] == "warn"
        assert document["checks"]["worker"] == [{"status": "pass", "state": "off"}]
        assert any("worker=False" in note for note in document["notes"])
        assert any("'default' has no consumer: 1 job waits" in note for note in document["notes"])
        assert not {"pillion-pulse", "pillion-loop-0"} & our_threads()
        assert (await job.refresh()).state == "queued"


@scenario
async def inner_tasks_survive_the_garbage_collector(world: World) -> None:
    jobs, double = world.doubling()
    app = world.kit.app(jobs.lifespan, {"/go": posts(double)})
    async with served(app) as client:
        await client.get("/jobs/health")
        before = {task.get_name() for task in asyncio.all_tasks()}
        assert "pillion-health" in before
        for _ in range(10):
            gc.collect()
        assert {task.get_name() for task in asyncio.all_tasks()} >= before
        assert await result_of(jobs, await client.post("/go")) == 42
