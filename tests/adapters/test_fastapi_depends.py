"""FastAPI: `Depends` in tasks, overrides, and what only a request could serve."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated, Any

import fastapi.params
import pytest
from fastapi import (
    Body,
    Cookie,
    Depends,
    FastAPI,
    Header,
    Query,
    Request,
    Security,
)
from fastapi.security import OAuth2PasswordBearer

import pillion
from adapters.asgi import WAIT, lifespan_of, served
from pillion_fastapi import Jobs


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
