"""Async clients belong to one loop: a resource serves routes and jobs at once, and globals are told of at start."""

from __future__ import annotations

import asyncio

import httpx

from servers.harness import Server, Site, until


def _server(site: Site) -> Server:
    server = site.server(app="crossing_app:app", env={"CROSSING_DB": str(site.folder / "other.db")}, wait=False)
    until(lambda: "startup complete" in server.output(), "the server's start")
    return server


async def _forty_and_forty(origin: str) -> tuple[list[int], list[int]]:
    async with httpx.AsyncClient(base_url=origin, timeout=30, limits=httpx.Limits(max_connections=100)) as client:
        started = await client.post("/jobs-that-use", params={"origin": origin, "count": 40})
        routes, results = await asyncio.gather(
            asyncio.gather(*(client.get("/use", params={"origin": origin}) for _ in range(40))),
            asyncio.gather(*(client.get(f"/result/{job_id}") for job_id in started.raise_for_status().json())),
        )
    return [answer.json() for answer in routes], [answer.json() for answer in results]


def test_p18_forty_requests_and_forty_jobs_share_a_client_and_an_engine_as_resources(site: Site) -> None:
    server = _server(site)
    routes, results = asyncio.run(_forty_and_forty(server.base))
    assert routes == [42] * 40
    assert results == [42] * 40


def test_p18_module_level_clients_that_async_tasks_use_are_named_once_at_start(site: Site) -> None:
    server = _server(site)
    told = [line for line in server.output().splitlines() if "belong to one event loop" in line]
    assert len(told) == 1
    assert "crossing_app.module_client (AsyncClient)" in told[0]
    assert "crossing_app.module_engine (AsyncEngine)" in told[0]
    assert "crossing_app.in_job_with_globals" in told[0]
    assert "crossing_app.in_job uses" not in told[0]
