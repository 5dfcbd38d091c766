"""FastAPI: lifespans and health routes beside included routers, app-wide dependencies and OpenAPI."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import pytest
from fastapi import (
    APIRouter,
    Depends,
    FastAPI,
    HTTPException,
    WebSocket,
)
from starlette.testclient import TestClient

from adapters.asgi import WAIT, served
from pillion_fastapi import Enqueue, Jobs, enqueue


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
