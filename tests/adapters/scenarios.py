"""What must hold under every framework: one list. `test_scenarios.py` runs each under each kit.

Plain functions run on no loop: they are about threads, signals, or several loops.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import os
import signal
import socket
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.testclient import TestClient

import pillion
import pillion_starlette
from adapters.asgi import WAIT, client_of, lifespan_of, served, until
from adapters.kits import Kit, everything
from pillion.adapter import Enqueue


@dataclass
class World:
    """What a scenario is given."""

    kit: Kit
    folder: Path
    caplog: pytest.LogCaptureFixture

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder}/jobs.db"

    def jobs(self, url: str | None = None, **settings: Any) -> pillion_starlette.Jobs:
        return self.kit.jobs(url or self.url, **settings)

    def doubling(self, **settings: Any) -> tuple[pillion_starlette.Jobs, Any]:
        """Jobs with one task, and that task."""
        jobs = self.jobs(**settings)

        @jobs.task(name="double")
        async def double(number: int) -> int:
            return 2 * number

        return jobs, double

    def said(self, words: str) -> int:
        """How many log records contain these words."""
        return sum(words in record.getMessage() for record in self.caplog.records)


Scenario = Callable[[World], Any]
SCENARIOS: list[Scenario] = []


def scenario(function: Scenario) -> Scenario:
    SCENARIOS.append(function)
    return function


def runs_on_a_loop(function: Scenario) -> bool:
    return inspect.iscoroutinefunction(function)


def posts(task: Any) -> Callable[[Enqueue, Request], Any]:
    """A route that enqueues `task` with 21 and gives the job's id."""

    async def handler(enqueue: Enqueue, request: Request) -> Any:
        return (await enqueue(task, 21)).id

    return handler


async def result_of(jobs: Any, response: httpx.Response) -> Any:
    """What the job returned whose id a route gave."""
    assert response.status_code == 200, response.text
    job = await jobs.get(response.json())
    assert job is not None
    return await job.result(timeout=WAIT)


def our_threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("pillion")}


# -- enqueue from routes -----------------------------------------------------------------------------------------------


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
    """Pitfall 29: httpx.ASGITransport runs no lifespan."""
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
    """Pitfall 27."""
    jobs, double = world.doubling()
    root = world.kit.app(None, mounts={"/sub": world.kit.app(jobs.lifespan, {"/go": posts(double)})})
    async with served(root) as client:
        with pytest.raises(pillion.NotStarted, match="outermost app") as caught:
            await client.post("/sub/go")
        assert world.kit.line in str(caught.value)


@scenario
async def a_job_runs_though_the_route_raised_after_enqueueing(world: World) -> None:
    """Pitfall 86."""
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
    """Pitfall 15."""
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
    """Pitfall 26: BaseHTTPMiddleware cancels what hangs on a request whose client is gone."""
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


# -- lifespans ---------------------------------------------------------------------------------------------------------


@scenario
async def a_users_lifespan_with_ours_innermost_closes_after_the_drain(world: World) -> None:
    """Pitfall 28."""
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
    """Pitfall 59."""
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


# -- loops, threads, signals -------------------------------------------------------------------------------------------


@scenario
def a_test_client_runs_the_app_in_another_thread(world: World) -> None:
    """Pitfall 87: the whole lifespan on a thread that is not the main one."""
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
    """Pitfall 30: two `asyncio.run` and a TestClient thread in a row, in one process."""
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
    """Pitfall 11: the server's handler still runs, and everything is as before once the lifespan ended."""
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
            await until(lambda: _is(client, "/jobs/health/ready", 503))
            assert (await client.get("/jobs/health/live")).status_code == 200
        assert [signal.getsignal(number) for number in signals] == [servers_own] * 2

    before = [signal.getsignal(number) for number in signals]
    try:
        asyncio.run(serve())
    finally:
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)


async def _is(client: httpx.AsyncClient, path: str, status: int) -> bool:
    return (await client.get(path)).status_code == status


# -- health: where the routes are --------------------------------------------------------------------------------------


@scenario
async def health_comes_before_catch_alls_and_static_mounts(world: World) -> None:
    (world.folder / "index.html").write_text("static")
    for last in (
        Mount("/", app=StaticFiles(directory=world.folder, html=True)),
        Route("/{path:path}", everything),
        Mount("/jobs", app=Starlette(routes=[Route("/{path:path}", everything)])),
    ):
        jobs, _ = world.doubling()
        app = world.kit.app(jobs.lifespan)
        app.routes.append(last)
        async with served(app) as client:
            for path in ("/jobs/health", "/jobs/health/live", "/jobs/health/ready"):
                response = await client.get(path)
                assert response.status_code == 200, path
                assert response.headers["content-type"] == "application/health+json"
                assert response.json()["status"] == "pass"
        assert not world.said("is a route of this app")


@scenario
async def a_users_route_of_the_same_path_wins_and_is_logged(world: World) -> None:
    for own in (
        Route("/jobs/health", everything),
        Mount("/jobs", routes=[Route("/health", everything), Route("/else", everything)]),
        Mount("/jobs", routes=[Mount("/health", app=everything_below)]),
    ):
        world.caplog.clear()
        jobs, _ = world.doubling()
        app = world.kit.app(jobs.lifespan)
        app.routes.append(own)
        async with served(app) as client:
            assert "caught" in (await client.get("/jobs/health", follow_redirects=True)).text
            assert (await client.get("/jobs/health/live")).json() == {"status": "pass"}
        assert world.said("/jobs/health is a route of this app") == 1


async def everything_below(scope: Any, receive: Any, send: Any) -> None:
    await (await everything(Request(scope)))(scope, receive, send)


@scenario
async def a_users_route_with_another_method_hides_nothing(world: World) -> None:
    jobs, double = world.doubling()
    async with served(world.kit.app(jobs.lifespan, {"/jobs/health": posts(double)})) as client:
        assert (await client.get("/jobs/health")).json()["status"] == "pass"
        assert await result_of(jobs, await client.post("/jobs/health")) == 42


@scenario
async def another_prefix_or_none(world: World) -> None:
    jobs, _ = world.doubling(prefix="/internal/queue")
    async with served(world.kit.app(jobs.lifespan)) as client:
        assert (await client.get("/internal/queue/health/live")).status_code == 200
        assert (await client.get("/jobs/health/live")).status_code == 404
    jobs, _ = world.doubling(prefix=None)
    app = world.kit.app(jobs.lifespan)
    before = len(app.routes)
    async with lifespan_of(app):
        assert len(app.routes) == before


@scenario
async def routes_placed_by_hand_are_the_only_ones(world: World) -> None:
    jobs, _ = world.doubling()
    app = world.kit.app(jobs.lifespan)
    app.routes.append(Mount("/ops", routes=jobs.routes()))
    before = len(app.routes)
    async with client_of(app) as client:
        assert (await client.get("/ops/jobs/health/live")).status_code == 200
        for path in ("/ops/jobs/health", "/ops/jobs/health/ready"):
            response = await client.get(path)
            assert response.status_code == 503
            assert response.json()["notes"] == ["the lifespan did not run in this process"]
        async with lifespan_of(app):
            assert len(app.routes) == before
            assert (await client.get("/ops/jobs/health")).json()["status"] == "pass"
            assert (await client.get("/jobs/health")).status_code == 404


# -- health: what it says ----------------------------------------------------------------------------------------------


def inner(jobs: Any) -> Any:
    """The worker that runs, for what only a test would do to it."""
    runtime = jobs._lifecycle.runtime
    assert runtime is not None
    return runtime


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
    """Pitfall 83."""
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
    """Pitfall 12: HTTP lives, the worker does not."""
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
    """Pitfall 80: liveness 200, readiness and document 503, and all is well once the store is there."""
    away = world.folder / "not yet there"
    jobs, double = world.doubling(url=f"sqlite:///{away}/jobs.db")
    async with served(world.kit.app(jobs.lifespan, {"/go": posts(double)})) as client:
        assert (await client.get("/jobs/health/live")).status_code == 200
        assert (await client.get("/jobs/health/ready")).status_code == 503
        response = await client.get("/jobs/health")
        assert response.status_code == 503
        assert "the store does not answer" in response.json()["notes"]
        away.mkdir()
        await until(lambda: _is(client, "/jobs/health/ready", 200))
        assert await result_of(jobs, await client.post("/go")) == 42
        await until(lambda: _is(client, "/jobs/health", 200))


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
        await until(lambda: _is(client, "/jobs/health/ready?store=1", 503), "?store=1")
        assert (await client.get("/jobs/health/ready")).status_code == 200
        await until(lambda: _is(client, "/jobs/health", 503), "the failing document")
        assert "the store does not answer" in (await client.get("/jobs/health")).json()["notes"]
        assert (await client.get("/jobs/health/live")).status_code == 200
        store.checkpoint = None
        await until(lambda: _is(client, "/jobs/health", 200), "recovery")
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
            await until(lambda: _is(client, "/jobs/health/ready?store=1", 503))
            for _ in range(20):  # the first may wait for a fresh sample, the others know better
                await client.get("/jobs/health")
        store.checkpoint = None
        hung.set()


@scenario
async def a_job_that_blocks_its_loop_is_named(world: World) -> None:
    """Pitfall 5: requests go on, and the stall shows with the task's name and its length."""
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
