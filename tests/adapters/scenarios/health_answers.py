"""What health says."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from typing import Any

import pytest
from starlette.requests import Request

import pillion
from adapters.asgi import WAIT, served, until
from adapters.scenarios.world import World, inner, is_status, posts, result_of, scenario
from pillion.adapter import Enqueue


@scenario
async def a_healthy_process_passes(world: World) -> None:
    jobs, double = world.doubling()
    async with served(world.kit.app(jobs.lifespan, {"/go": posts(double)})) as client:
        await result_of(jobs, await client.post("/go"))
        await until(lambda: inner(jobs).done["succeeded"])
        response = await client.get("/jobs/health")
        assert response.status_code == 200
        assert response.headers["cache-control"] == "no-store"
        document = response.json()
        assert document["status"] == "pass"
        assert document["notes"] == []
        (worker,) = document["checks"]["worker"]
        assert worker["state"] == "running"
        assert worker["slots"]["async"] == {"used": 0, "of": 32}
        assert worker["outcomes"] == {"succeeded": 1}
        assert worker["certificate"] is True
        assert [loop["alive"] for loop in worker["loops"]] == [True]
        assert document["checks"]["store"][0]["durability"] == "full"
        assert document["checks"]["fleet"][0]["alive"] == 1
        (queue,) = document["checks"]["queues"]
        assert (queue["queue"], queue["consumer"]) == ("default", True)
        assert (await client.head("/jobs/health/live")).status_code == 200


@scenario
async def the_open_document_tells_no_hosts_paths_errors_or_arguments(world: World) -> None:
    jobs = world.jobs(f"sqlite:///{world.folder}/secret-place.db", max_attempts=1)

    @jobs.task(name="fail")
    async def fail(word: str) -> None:
        raise ValueError(f"secret-error {word}")

    async def handler(enqueue: Enqueue, request: Request) -> Any:
        job = await enqueue(fail, "secret-argument")
        await enqueue(fail.options(queue="nobody"), "secret-argument")
        with pytest.raises(pillion.JobFailed):
            await job.result(timeout=WAIT)

    async with served(world.kit.app(jobs.lifespan, {"/go": handler})) as client:
        await client.post("/go")
        text = (await client.get("/jobs/health")).text
    assert "nobody" in text
    for word in ("secret", socket.gethostname(), str(world.folder), "sqlite:", "/tmp", "ValueError"):
        assert word not in text


@scenario
async def a_queue_that_nobody_serves_is_named_with_its_age(world: World) -> None:
    jobs, double = world.doubling()

    async def handler(enqueue: Enqueue, request: Request) -> Any:
        await enqueue(double.options(queue="reports"), 1)
        await enqueue(double.options(queue="reports"), 2)

    async with served(world.kit.app(jobs.lifespan, {"/go": handler})) as client:
        await client.post("/go")

        async def named() -> Any:
            response = await client.get("/jobs/health")
            assert response.status_code == 200
            document = response.json()
            (queue,) = [queue for queue in document["checks"]["queues"] if queue["queue"] == "reports"] or [None]
            return document if queue and queue["queued"] == 2 else None

        document = await until(named)
        assert document["status"] == "warn"
        (note,) = document["notes"]
        assert note.startswith("queue 'reports' has no consumer: 2 jobs wait, the oldest for ")
        queue = document["checks"]["queues"][0]
        assert queue["consumer"] is False
        assert queue["oldest"] >= 0


@scenario
async def a_dead_job_loop_fails_the_document_with_the_reason(world: World) -> None:
    """HTTP lives, the worker does not."""
    jobs, _ = world.doubling()
    async with served(world.kit.app(jobs.lifespan)) as client:
        assert (await client.get("/jobs/health")).status_code == 200
        inner(jobs).loops[0].abandon()

        async def failed() -> Any:
            response = await client.get("/jobs/health")
            return response if response.status_code == 503 else None

        document = (await until(failed)).json()
        assert document["status"] == "fail"
        assert "job loop 0 has ended: no jobs run on it" in document["notes"]
        assert (await client.get("/jobs/health/live")).status_code == 200


@scenario
async def draining_shows_and_makes_unready(world: World) -> None:
    jobs = world.jobs()
    leave, entered = threading.Event(), threading.Event()

    @jobs.task(name="slow")
    def slow() -> None:
        entered.set()
        leave.wait(WAIT)

    async with served(world.kit.app(jobs.lifespan)) as client:
        await slow.enqueue()
        await until(entered.is_set)
        inner(jobs).begin_drain("test")
        response = await client.get("/jobs/health/ready")
        assert response.status_code == 503
        assert response.json() == {"status": "fail", "notes": ["this process is draining"]}
        assert (await client.get("/jobs/health/ready?store=1")).status_code == 503
        response = await client.get("/jobs/health")
        assert response.status_code == 200
        assert response.json()["notes"] == ["this process is draining: it starts no more jobs"]
        assert (await client.get("/jobs/health/live")).status_code == 200
        leave.set()


@scenario
async def a_store_that_is_away_at_start_lets_http_serve(world: World) -> None:
    """Liveness 200, readiness and document 503, and all is well once the store is there."""
    away = world.folder / "not yet there"
    jobs, double = world.doubling(url=f"sqlite:///{away}/jobs.db")
    async with served(world.kit.app(jobs.lifespan, {"/go": posts(double)})) as client:
        assert (await client.get("/jobs/health/live")).status_code == 200
        assert (await client.get("/jobs/health/ready")).status_code == 503
        response = await client.get("/jobs/health")
        assert response.status_code == 503
        assert "the store does not answer" in response.json()["notes"]
        away.mkdir()
        await until(lambda: is_status(client, "/jobs/health/ready", 200))
        assert await result_of(jobs, await client.post("/go")) == 42
        await until(lambda: is_status(client, "/jobs/health", 200))


@scenario
async def an_outage_later_fails_the_document_but_takes_no_process_out(world: World) -> None:
    jobs, double = world.doubling()
    async with served(world.kit.app(jobs.lifespan, {"/go": posts(double)})) as client:
        assert await result_of(jobs, await client.post("/go")) == 42
        assert (await client.get("/jobs/health/ready?store=1")).status_code == 200
        store = inner(jobs).process.store

        async def away(name: str) -> None:
            raise pillion.StoreAway("cut off")

        store.checkpoint = away
        await until(lambda: is_status(client, "/jobs/health/ready?store=1", 503), "?store=1")
        assert (await client.get("/jobs/health/ready")).status_code == 200
        await until(lambda: is_status(client, "/jobs/health", 503), "the failing document")
        assert "the store does not answer" in (await client.get("/jobs/health")).json()["notes"]
        assert (await client.get("/jobs/health/live")).status_code == 200
        store.checkpoint = None
        await until(lambda: is_status(client, "/jobs/health", 200), "recovery")
        assert await result_of(jobs, await client.post("/go")) == 42


@scenario
async def a_store_that_hangs_holds_no_answer_up(world: World) -> None:
    jobs, _ = world.doubling()
    async with served(world.kit.app(jobs.lifespan)) as client:
        await client.get("/jobs/health")
        store = inner(jobs).process.store
        hung = asyncio.Event()
        loop = asyncio.get_running_loop()

        async def hang(name: str) -> None:
            if asyncio.get_running_loop() is loop:
                await hung.wait()

        store.checkpoint = hang
        async with asyncio.timeout(WAIT):
            assert (await client.get("/jobs/health/live")).status_code == 200
            assert (await client.get("/jobs/health/ready")).status_code == 200
            await until(lambda: is_status(client, "/jobs/health/ready?store=1", 503))
            for _ in range(20):  # the first may wait for a fresh sample, the others know better
                await client.get("/jobs/health")
        store.checkpoint = None
        hung.set()


@scenario
async def a_job_that_blocks_its_loop_is_named(world: World) -> None:
    """Requests go on, and the stall shows with the task's name and its length."""
    jobs = world.jobs()

    @jobs.task(name="blocking")
    async def blocking() -> None:
        time.sleep(1.6)

    async with served(world.kit.app(jobs.lifespan)) as client:
        job = await blocking.enqueue()

        async def stalled() -> Any:
            document = (await client.get("/jobs/health")).json()
            return document if document["checks"]["worker"][0]["stalls"] else None

        document = await until(stalled)
        assert document["status"] == "warn"
        assert "by a job that blocks" in document["notes"][0]
        await job.result(timeout=WAIT)
        document = (await client.get("/jobs/health")).json()
        assert document["checks"]["worker"][0]["stalls"]["task blocking"] >= 1.0
        assert "at worst task blocking held one for" in document["notes"][0]


@scenario
async def upkeep_that_somebody_cancels_is_started_again(world: World) -> None:
    jobs, _ = world.doubling()
    async with served(world.kit.app(jobs.lifespan)) as client:
        pulse = inner(jobs).pulse

        def cancel() -> None:
            for task in asyncio.all_tasks(pulse.loop):
                if task.get_name() == "pillion-beat":
                    task.cancel()

        pulse.loop.call_soon_threadsafe(cancel)
        await until(lambda: pulse.supervisor.duties["beat"].restarts == 1 and not pulse.supervisor.duties["beat"].error)
        assert (await client.get("/jobs/health")).json()["status"] == "pass"
        assert world.said("beat was cancelled by somebody else") == 1
