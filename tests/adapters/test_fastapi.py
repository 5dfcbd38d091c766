"""What only FastAPI has: `Depends` in tasks and routes, overrides, routers, WebSockets, OpenAPI."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import fastapi.params
import pytest
from fastapi import (
    APIRouter,
    Body,
    Cookie,
    Depends,
    FastAPI,
    Header,
    HTTPException,
    Query,
    Request,
    Security,
    WebSocket,
)
from fastapi.security import OAuth2PasswordBearer
from starlette.testclient import TestClient

import pillion
from adapters.asgi import WAIT, client_of, lifespan_of, served
from pillion_fastapi import Enqueue, EnqueueSync, Jobs, enqueue, enqueue_sync


@pytest.fixture
def jobs(tmp_path: Path) -> Jobs:
    return Jobs(f"sqlite:///{tmp_path}/jobs.db")


class Client:
    """Something that is opened and closed."""

    def __init__(self, name: str = "real") -> None:
        self.name = name
        self.open = True


def settings() -> dict[str, str]:
    return {"mode": "real"}


async def client(settings: dict[str, str] = Depends(settings)) -> AsyncIterator[Client]:
    made = Client(settings["mode"])
    yield made
    made.open = False


# -- the handle in routes ----------------------------------------------------------------------------------------------


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


# -- Depends in tasks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loop", ["own", "app"])
async def test_jobs_are_given_what_their_defaults_depend_on(tmp_path: Path, loop: Any) -> None:
    jobs = Jobs(f"sqlite:///{tmp_path}/jobs.db", loop=loop)
    seen: list[Client] = []

    @jobs.task(name="async")
    async def async_task(word: str, client: Client = Depends(client)) -> list[Any]:
        seen.append(client)
        return [word, client.name, client.open]

    @jobs.task(name="def")
    def def_task(word: str, client: Client = Depends(client)) -> list[Any]:
        seen.append(client)
        return [word, client.name, client.open]

    async with lifespan_of(FastAPI(lifespan=jobs.lifespan)):
        for task in (async_task, def_task):
            assert await (await task.enqueue("w")).result(timeout=WAIT) == ["w", "real", True]
    assert [client.open for client in seen] == [False, False]
    assert seen[0] is not seen[1]


async def test_annotated_depends_is_read_as_well(jobs: Jobs) -> None:
    class Paging:
        def __init__(self) -> None:
            self.size = 10

    @jobs.task(name="annotated")
    async def annotated(
        word: str,
        client: Annotated[Client, Depends(client)] = pillion.injected,
        paging: Paging = Depends(),
    ) -> list[Any]:
        return [word, client.name, paging.size]

    # The class is local: text annotations cannot be looked up, so FastAPI's bare Depends() needs a real one.
    annotated.fn.__annotations__.update(
        word=str, client=Annotated[Client, Depends(client)], paging=Paging, **{"return": list[Any]}
    )
    async with lifespan_of(FastAPI(lifespan=jobs.lifespan)):
        assert await (await annotated.enqueue("w")).result(timeout=WAIT) == ["w", "real", 10]


async def test_a_dependency_is_made_once_a_job_unless_told_otherwise(jobs: Jobs) -> None:
    made: list[int] = []

    def number() -> int:
        made.append(len(made))
        return made[-1]

    def under(number: int = Depends(number)) -> int:
        return number

    @jobs.task(name="cached")
    async def cached(a: int = Depends(number), b: int = Depends(number), c: int = Depends(under)) -> list[int]:
        return [a, b, c]

    @jobs.task(name="fresh")
    async def fresh(
        a: int = Depends(number), b: int = Depends(number, use_cache=False), c: int = Depends(under)
    ) -> list[int]:
        return [a, b, c]

    async with lifespan_of(FastAPI(lifespan=jobs.lifespan)):
        assert await (await cached.enqueue()).result(timeout=WAIT) == [0, 0, 0]
        assert await (await cached.enqueue()).result(timeout=WAIT) == [1, 1, 1]
        assert await (await fresh.enqueue()).result(timeout=WAIT) == [2, 3, 2]


@pytest.mark.skipif("scope" not in getattr(fastapi.params.Depends, "__annotations__", {}), reason="no scope yet")
async def test_both_scopes_last_as_long_as_the_job(jobs: Jobs) -> None:
    open_now: list[str] = []

    async def request_wide() -> AsyncIterator[str]:
        open_now.append("request")
        yield "request"
        open_now.remove("request")

    def function_wide(outer: str = Depends(request_wide, scope="request")) -> Iterator[str]:
        open_now.append("function")
        yield outer
        open_now.remove("function")

    @jobs.task(name="scoped")
    async def scoped(value: str = Depends(function_wide, scope="function")) -> list[str]:
        return [value, *open_now]

    async with lifespan_of(FastAPI(lifespan=jobs.lifespan)):
        assert await (await scoped.enqueue()).result(timeout=WAIT) == ["request", "request", "function"]
        assert open_now == []


oauth2 = OAuth2PasswordBearer("token")


def needs_a_request(request: Request) -> str:
    return str(request.url)


def needs_a_header(agent: str = Header()) -> str:
    return agent


def needs_a_token(token: str = Depends(oauth2)) -> str:
    return token


def above(value: str = Depends(needs_a_request)) -> str:
    return value


@pytest.mark.parametrize(
    ("marker", "words"),
    [
        (Depends(needs_a_request), "needs_a_request(request): `request` cannot be filled in a job"),
        (Depends(above), "above -> needs_a_request(request)"),
        (Depends(needs_a_header), "needs_a_header(agent): `agent` cannot be filled in a job, which has no header"),
        (Depends(needs_a_token), "needs_a_token -> OAuth2PasswordBearer(request)"),
        (Security(settings, scopes=["admin"]), "which has no request to authorise (Security)"),
        (Query(), "which has no query parameter"),
        (Cookie(), "which has no cookie"),
        (Body(), "which has no request body"),
    ],
)
async def test_what_needs_a_request_is_refused_at_start_with_its_path(jobs: Jobs, marker: Any, words: str) -> None:
    @jobs.task(name="refused")
    async def refused(value: Any = marker) -> None: ...

    with pytest.raises(pillion.ConfigurationError) as caught:
        async with lifespan_of(FastAPI(lifespan=jobs.lifespan)):
            pytest.fail("it must not start")
    assert words in str(caught.value)
    assert str(caught.value).startswith("refused")


@pytest.mark.skipif(
    "max_concurrency" not in getattr(fastapi.params.Depends, "__annotations__", {}), reason="not in this FastAPI"
)
async def test_a_limit_on_requests_is_refused_rather_than_ignored(jobs: Jobs) -> None:
    limited: Any = {"max_concurrency": 2}

    @jobs.task(name="limited")
    async def task(value: dict[str, str] = Depends(settings, **limited)) -> None: ...

    with pytest.raises(pillion.ConfigurationError, match="max_concurrency"):
        jobs.prepare()


async def test_overrides_of_the_app_hold_in_its_jobs_as_they_are_at_each_run(jobs: Jobs) -> None:
    @jobs.task(name="which")
    async def which(client: Client = Depends(client)) -> str:
        return client.name

    app = FastAPI(lifespan=jobs.lifespan)

    @app.get("/which")
    async def route(client: Annotated[Client, Depends(client)]) -> str:
        return client.name

    async def both(http: Any) -> list[str]:
        return [(await http.get("/which")).json(), await (await which.enqueue()).result(timeout=WAIT), await which()]

    async with served(app) as http:
        assert await both(http) == ["real"] * 3
        app.dependency_overrides[client] = lambda: Client("fake")
        assert await both(http) == ["fake"] * 3
        app.dependency_overrides = {settings: lambda: {"mode": "nested"}}  # replaced as a whole, below the generator
        assert await both(http) == ["nested"] * 3
        app.dependency_overrides.clear()
        assert await both(http) == ["real"] * 3


async def test_resources_serve_routes_and_jobs_and_can_be_overridden(jobs: Jobs) -> None:
    @jobs.resource
    async def pool() -> AsyncIterator[Client]:
        made = Client("pool")
        yield made
        made.open = False

    @jobs.task(name="use")
    async def use(pool: Client = Depends(pool)) -> list[Any]:
        return [pool.name, pool.open]

    app = FastAPI(lifespan=jobs.lifespan)
    in_routes: list[Client] = []

    @app.get("/use")
    async def route(pool: Client = Depends(pool)) -> list[Any]:
        in_routes.append(pool)
        return [pool.name, pool.open]

    async with served(app) as http:
        for _ in range(2):
            assert (await http.get("/use")).json() == ["pool", True]
            assert await (await use.enqueue()).result(timeout=WAIT) == ["pool", True]
        assert in_routes[0] is in_routes[1]
        app.dependency_overrides[pool] = lambda: Client("fake")
        assert await (await use.enqueue()).result(timeout=WAIT) == ["fake", True]
    assert not in_routes[0].open, "closed with the loop"


async def test_two_apps_on_one_jobs_both_give_overrides(jobs: Jobs) -> None:
    @jobs.task(name="which")
    async def which(client: Client = Depends(client)) -> str:
        return client.name

    first, second = FastAPI(lifespan=jobs.lifespan), FastAPI(lifespan=jobs.lifespan)
    async with lifespan_of(first), lifespan_of(second):
        second.dependency_overrides[client] = lambda: Client("second's")
        assert await (await which.enqueue()).result(timeout=WAIT) == "second's"


# -- routers and OpenAPI -----------------------------------------------------------------------------------------------


async def test_an_included_router_with_the_lifespan_too_is_counted(jobs: Jobs) -> None:
    router = APIRouter(lifespan=jobs.lifespan)

    @jobs.task(name="double")
    async def double(number: int) -> int:
        return 2 * number

    @router.post("/go")
    async def go(enqueue: Annotated[Enqueue, Depends(enqueue)]) -> str:
        return (await enqueue(double, 21)).id

    app = FastAPI(lifespan=jobs.lifespan)
    app.include_router(router, prefix="/api")
    before = list(app.routes)
    async with served(app) as http:
        assert len(app.routes) == len(before) + 3
        checks = (await http.get("/jobs/health")).json()["checks"]
        assert len(checks["worker"]) == checks["fleet"][0]["alive"] == 1
        job = await jobs.get((await http.post("/api/go")).json())
        assert job is not None
        assert await job.result(timeout=WAIT) == 42
    assert app.routes == before


async def test_health_stands_outside_app_wide_dependencies_and_openapi(jobs: Jobs) -> None:
    def locked() -> None:
        raise HTTPException(401)

    app = FastAPI(lifespan=jobs.lifespan, dependencies=[Depends(locked)])

    @app.get("/{path:path}")
    async def caught(path: str) -> str:
        return path

    async with served(app) as http:
        assert (await http.get("/else")).status_code == 401
        for path in ("/jobs/health", "/jobs/health/live", "/jobs/health/ready"):
            assert (await http.get(path)).status_code == 200
        assert list((await http.get("/openapi.json")).json()["paths"]) == ["/{path}"]


async def test_health_behind_a_dependency_of_the_users(jobs: Jobs) -> None:
    def key(key: str = "") -> None:
        if key != "open sesame":
            raise HTTPException(403)

    app = FastAPI(lifespan=jobs.lifespan)
    app.include_router(jobs.router(dependencies=[Depends(key)]), prefix="/ops")
    async with served(app) as http:
        for path in ("/health", "/health/live", "/health/ready"):
            assert (await http.get(f"/ops/jobs{path}")).status_code == 403
            response = await http.get(f"/ops/jobs{path}", params={"key": "open sesame"})
            assert response.status_code == 200
            assert response.headers["content-type"] == "application/health+json"
            assert (await http.get(f"/jobs{path}")).status_code == 404, "no open one besides"
        assert (await http.get("/openapi.json")).json()["paths"] == {}


async def test_a_router_may_have_a_prefix_of_its_own_and_show_in_openapi(jobs: Jobs) -> None:
    app = FastAPI(lifespan=jobs.lifespan)
    app.include_router(jobs.router("/queue", include_in_schema=True))
    async with served(app) as http:
        assert (await http.get("/queue/health/live")).status_code == 200
        assert sorted((await http.get("/openapi.json")).json()["paths"]) == [
            "/queue/health",
            "/queue/health/live",
            "/queue/health/ready",
        ]


async def test_a_users_health_route_in_an_included_router_wins(jobs: Jobs, caplog: pytest.LogCaptureFixture) -> None:
    inner, outer = APIRouter(prefix="/health"), APIRouter(prefix="/jobs")

    @inner.get("")
    async def own() -> str:
        return "own"

    @inner.get("/{check}")
    async def checks(check: str) -> str:
        return check

    outer.include_router(inner)
    app = FastAPI(lifespan=jobs.lifespan)
    app.include_router(outer)
    async with served(app) as http:
        assert (await http.get("/jobs/health")).json() == "own"
        assert (await http.get("/jobs/health/live")).json() == {"status": "pass"}
        assert (await http.get("/jobs/health/other")).json() == "other"
    said = [record.getMessage() for record in caplog.records if "is a route of this app" in record.getMessage()]
    assert [text.partition(" ")[0] for text in said] == ["/jobs/health"]


def test_a_websocket_of_the_same_path_hides_no_health_route(jobs: Jobs) -> None:
    router = APIRouter()

    @router.websocket("/health")
    async def talk(socket: WebSocket) -> None:
        await socket.accept()
        await socket.close()

    app = FastAPI(lifespan=jobs.lifespan)
    app.include_router(router, prefix="/jobs")
    with TestClient(app) as http:
        assert http.get("/jobs/health").json()["status"] == "pass"
        with http.websocket_connect("/jobs/health"):
            pass


def test_a_test_client_on_a_thread_of_its_own(jobs: Jobs) -> None:
    """A `TestClient` in a thread that is not the main one: what pytest plugins do."""
    app = FastAPI(lifespan=jobs.lifespan)
    errors: list[BaseException] = []

    def run() -> None:
        try:
            with TestClient(app) as http:
                assert http.get("/jobs/health/ready").status_code == 200
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(WAIT)
    assert not errors


async def test_a_lifespan_of_the_users_own_with_state(jobs: Jobs) -> None:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[dict[str, str]]:
        async with jobs.lifespan(app):
            yield {"engine": "on"}

    app = FastAPI(lifespan=lifespan)
    async with served(app) as http:
        assert (await http.get("/jobs/health/ready")).status_code == 200
