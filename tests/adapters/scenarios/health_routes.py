"""Where the health routes are, and what goes before them."""

from __future__ import annotations

from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from adapters.asgi import client_of, lifespan_of, served
from adapters.kits import everything
from adapters.scenarios.world import World, posts, result_of, scenario


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
