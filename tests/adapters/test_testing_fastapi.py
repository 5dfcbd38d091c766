"""Testing a FastAPI app as the README tells it: jobs inline, on demand, or by a real worker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import httpx
import pytest
from fastapi import Depends, FastAPI
from fastapi.testclient import TestClient

from pillion import NotStarted
from pillion_fastapi import Enqueue, EnqueueSync, Jobs, enqueue, enqueue_sync


@dataclass
class Shop:
    """The app under test, and what its jobs did."""

    jobs: Jobs
    app: FastAPI
    sent: list[str] = field(default_factory=list)


async def mailer() -> AsyncIterator[str]:
    yield "mailer"


def shop(path: Path) -> Shop:
    jobs = Jobs(f"sqlite:///{path}")
    app = FastAPI(lifespan=jobs.lifespan)
    made = Shop(jobs, app)

    @jobs.task(name="send_receipt", max_attempts=2)
    async def send_receipt(order: int, mailer: str = Depends(mailer)) -> str:
        if order < 0:
            raise ValueError(f"no order {order}")
        made.sent.append(f"{mailer}: {order}")
        return f"receipt for {order}"

    @jobs.task(name="resize")
    def resize(order: int) -> None:
        made.sent.append(f"resized {order}")

    @app.post("/orders/{order}/receipt", status_code=202)
    async def receipt(order: int, enqueue: Annotated[Enqueue, Depends(enqueue)]) -> dict[str, str]:
        return {"job": (await enqueue(send_receipt, order)).id}

    @app.post("/orders/{order}/image", status_code=202)
    def image(order: int, enqueue: Annotated[EnqueueSync, Depends(enqueue_sync)]) -> dict[str, str]:
        return {"job": enqueue(resize, order).id}

    @app.post("/orders/{order}/reminder", status_code=202)
    async def reminder(order: int, enqueue: Annotated[Enqueue, Depends(enqueue)]) -> dict[str, str]:
        return {"job": (await enqueue(send_receipt.options(delay=3600), order)).id}

    @app.get("/jobs/{job_id}/state")
    async def state(job_id: str) -> dict[str, Any]:
        job = await jobs.get(job_id)
        return {"state": job and job.state}

    return made


@pytest.fixture(autouse=True)
def no_thread_stays() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(2.0)
    assert set(threading.enumerate()) <= before


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Shop]:
    path = tmp_path / "production.db"
    yield shop(path)
    assert not path.exists()


def test_inline_the_job_has_run_when_the_response_is_there(made: Shop) -> None:
    with made.jobs.testing.override(run="inline"), TestClient(made.app) as client:
        job = client.post("/orders/7/receipt").json()["job"]
        assert client.get(f"/jobs/{job}/state").json() == {"state": "succeeded"}
        assert client.post("/orders/8/image").status_code == 202
    assert made.sent == ["mailer: 7", "resized 8"]


def test_inline_needs_no_lifespan(made: Shop) -> None:
    with made.jobs.testing.override(run="inline"):
        client = TestClient(made.app)
        assert client.post("/orders/7/receipt").status_code == 202
        assert client.post("/orders/8/image").status_code == 202
    assert made.sent == ["mailer: 7", "resized 8"]


async def test_inline_works_through_an_asgi_transport(made: Shop) -> None:
    transport = httpx.ASGITransport(app=made.app)
    client = httpx.AsyncClient(transport=transport, base_url="http://app")
    async with made.jobs.testing.override(run="inline"), client:
        assert (await client.post("/orders/7/receipt")).status_code == 202
        assert (await client.post("/orders/8/image")).status_code == 202
    assert made.sent == ["mailer: 7", "resized 8"]


def test_inline_an_error_of_the_job_is_not_one_of_the_route(made: Shop) -> None:
    with made.jobs.testing.override(run="inline") as testing, TestClient(made.app) as client:
        assert client.post("/orders/-1/receipt").status_code == 202
        [job] = testing.wait_idle(advance=True)
        assert job.state == "failed"
        assert job.error is not None
        assert job.error.message == "no order -1"


def test_inline_an_error_of_the_job_comes_out_on_demand(made: Shop) -> None:
    client = TestClient(made.app)
    with made.jobs.testing.override(run="inline", raise_errors=True), pytest.raises(ValueError, match="no order -1"):
        client.post("/orders/-1/receipt")


def test_replaced_dependencies_reach_the_job(made: Shop) -> None:
    made.app.dependency_overrides[mailer] = lambda: "fake"
    with made.jobs.testing.override(run="inline"), TestClient(made.app) as client:
        client.post("/orders/7/receipt")
    assert made.sent == ["fake: 7"]


@pytest.mark.parametrize("lifespan", [True, False])
def test_manual_jobs_run_on_demand(made: Shop, lifespan: bool) -> None:
    client = TestClient(made.app)
    with made.jobs.testing.override(run="manual") as testing:
        if lifespan:
            client.__enter__()
        client.post("/orders/7/receipt")
        client.post("/orders/8/image")
        assert made.sent == []
        assert [job.state for job in testing.wait_idle()] == ["succeeded", "succeeded"]
        assert made.sent == ["mailer: 7", "resized 8"]
        if lifespan:
            client.__exit__(None, None, None)


@pytest.mark.parametrize("run", ["inline", "manual"])
def test_health_is_served_as_for_a_process_that_only_enqueues(made: Shop, run: Any) -> None:
    with made.jobs.testing.override(run=run), TestClient(made.app) as client:
        assert client.get("/jobs/health/ready").status_code == 200
        assert client.get("/jobs/health").status_code == 200


def test_manual_jobs_outlive_the_lifespan(made: Shop) -> None:
    with made.jobs.testing.override(run="manual") as testing:
        with TestClient(made.app) as client:
            client.post("/orders/7/receipt")
        testing.wait_idle()
    assert made.sent == ["mailer: 7"]


def test_a_delay_passes_with_the_clock(made: Shop) -> None:
    with made.jobs.testing.override(run="manual") as testing, TestClient(made.app) as client:
        job = client.post("/orders/7/reminder").json()["job"]
        testing.wait_idle()
        assert client.get(f"/jobs/{job}/state").json() == {"state": "scheduled"}
        testing.clock.advance(3600)
        testing.wait_idle()
        assert client.get(f"/jobs/{job}/state").json() == {"state": "succeeded"}


def test_a_real_worker_is_waited_for(made: Shop) -> None:
    with made.jobs.testing.override(run="worker") as testing, TestClient(made.app) as client:
        for order in range(20):
            client.post(f"/orders/{order}/receipt")
        client.post("/orders/-1/receipt")
        states = [job.state for job in testing.wait_idle(advance=True)]
        assert states == ["succeeded"] * 20 + ["failed"]
        assert client.get("/jobs/health").json()["status"] == "warn"  # jobs in memory end with the process
    assert sorted(made.sent) == sorted(f"mailer: {order}" for order in range(20))


def test_what_a_route_enqueues_can_be_captured_without_running_anything(made: Shop) -> None:
    client = TestClient(made.app)
    with made.jobs.testing.capture(store=False) as enqueued:
        client.post("/orders/7/receipt")
        client.post("/orders/8/image")
    assert [(job.task.name, job.arguments) for job in enqueued] == [
        ("send_receipt", {"order": 7}),
        ("resize", {"order": 8}),
    ]
    assert made.sent == []


def test_without_lifespan_and_override_the_error_says_what_to_do(made: Shop) -> None:
    client = TestClient(made.app)
    with pytest.raises(NotStarted, match=r"with TestClient\(app\) as client"):
        client.post("/orders/7/receipt")


@pytest.mark.parametrize("run", ["inline", "manual", "worker"])
def test_one_module_level_object_serves_loop_after_loop(made: Shop, run: Any) -> None:
    async def enqueue_one(order: int) -> None:
        async with made.jobs.client():
            task = next(iter(enqueued)).task
            await task.enqueue(order)

    with made.jobs.testing.capture(store=False) as enqueued:
        TestClient(made.app).post("/orders/0/receipt")
    with made.jobs.testing.override(run=run) as testing:
        asyncio.run(enqueue_one(1))
        asyncio.run(enqueue_one(2))
        with TestClient(made.app) as client:
            client.post("/orders/3/receipt")
            assert [job.state for job in testing.wait_idle()] == ["succeeded"] * 3
        with TestClient(made.app) as client:
            client.post("/orders/4/image")
            assert [job.state for job in testing.wait_idle()] == ["succeeded"]
    assert sorted(made.sent) == ["mailer: 1", "mailer: 2", "mailer: 3", "resized 4"]
