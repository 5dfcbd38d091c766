"""What scenarios are given and share. Each is a function of a `World`; `test_scenarios.py` runs it under each kit."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import Request

import pillion_starlette
from adapters.asgi import WAIT
from adapters.kits import Kit
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


def inner(jobs: Any) -> Any:
    """The worker that runs, for what only a test would do to it."""
    runtime = jobs._lifecycle.runtime
    assert runtime is not None
    return runtime


async def is_status(client: httpx.AsyncClient, path: str, status: int) -> bool:
    """True if `client` is answered so."""
    return (await client.get(path)).status_code == status
