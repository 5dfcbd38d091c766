"""The server goes on serving, whatever its jobs and its database do; and says how it is."""

from __future__ import annotations

import json
import socket
import sqlite3
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from servers.harness import Server, Site, until

pytestmark = [pytest.mark.servers, pytest.mark.timeout(90)]


def _times(server: Server, path: str, seconds: float) -> list[float]:
    """How long requests took, one after another on one connection, for `seconds`."""
    taken: list[float] = []
    with httpx.Client(base_url=server.base, trust_env=False, timeout=20) as client:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            began = time.monotonic()
            assert client.get(path).status_code == 200
            taken.append(time.monotonic() - began)
            time.sleep(0.005)
    return taken


def test_requests_do_not_wait_for_async_jobs_that_block(site: Site, tell: Callable[[str], None]) -> None:
    """Seen elsewhere: a blocking call in `async def` froze every request as long as it blocked. Here jobs in all slots
    block, longer than the lease at that, and no request waits for one of them."""
    block = 1.5
    server = site.server(lease=1, concurrency=4)
    idle = _times(server, "/ping", 2)
    given = server.enqueue("block", 4, seconds=block)
    until(lambda: site.ledger.of("start"), "the first job")
    blocked = _times(server, "/ping", 2.5 * block)
    tell(
        f"/ping beside blocking async jobs: median {statistics.median(blocked) * 1000:.1f} ms, worst "
        f"{max(blocked) * 1000:.0f} ms; idle {statistics.median(idle) * 1000:.1f} and {max(idle) * 1000:.0f} ms"
    )
    assert len(blocked) > 50
    assert max(blocked) < block / 2
    until(lambda: site.ledger.said("servers_app.block has held job loop"), "a warning that names the task")
    document = server.get("/jobs/health").json()
    stalls = document["checks"]["worker"][0]["stalls"]
    assert stalls.get("task servers_app.block", 0) >= 1, stalls
    site.ledger.await_all("end", list(given), 40)
    assert set(site.ledger.runs("start", given).values()) == {1}, "a lease was lost while the loop was blocked"
    assert {job.losses for job in site.jobs(list(given.values()))} == {0}


def test_def_jobs_do_not_use_up_the_servers_threads(site: Site) -> None:
    """Seen elsewhere: sync background work ran in the server's own pool of 40 threads; sync routes waited for it."""
    nap = 4.0
    server = site.server(threads=50)
    given = server.enqueue("nap_def", 50, seconds=nap)
    site.ledger.await_all("start", list(given))
    with ThreadPoolExecutor(8) as pool:
        began = time.monotonic()
        answers = list(pool.map(lambda _: server.get("/ping-def").status_code, range(60)))
        took = time.monotonic() - began
    assert set(answers) == {200}
    assert len(site.ledger.running()) == 50, "the jobs had ended: the test proved nothing"
    assert took < nap


def test_a_client_that_goes_away_does_not_take_its_job_along(site: Site) -> None:
    """Seen elsewhere: clients close right after the response, or before it; the job was cancelled with the request."""
    server = site.server()
    host, port = server.http.base_url.host, server.http.base_url.port
    assert port is not None
    body = json.dumps({"seconds": 1}).encode()
    for number in range(10):
        with socket.create_connection((host, port)) as connection:
            connection.sendall(
                f"POST /one/nap/gone-{number} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n".encode()
                + body
            )
            if number % 2:
                connection.recv(1)
    site.ledger.await_all("end", [f"gone-{number}" for number in range(10)])
    assert set(site.ledger.runs("start", [f"gone-{number}" for number in range(10)]).values()) == {1}


def test_cancelling_ends_what_can_be_ended(site: Site) -> None:
    """Seen elsewhere: aborting did nothing visible for queued, deferred and running jobs."""
    server = site.server(concurrency=1)
    running = server.enqueue("nap", 1, "running", seconds=30)
    site.ledger.await_all("start", list(running))
    queued = server.enqueue("nap", 1, "queued", seconds=0)
    (thread,) = server.enqueue("nap_def", 1, "thread", seconds=2).values()
    until(lambda: site.ledger.of("start", ["thread-0"]), "the thread's job")
    for job_id in (*running.values(), *queued.values(), thread):
        server.post(f"/cancel/{job_id}")
    site.await_states([*running.values(), *queued.values()], "cancelled", within=5)
    site.await_states([thread], "succeeded", "cancelled")  # a thread cannot be stopped
    assert not site.ledger.of("start", queued)
    assert not site.ledger.of("end", running)
    assert site.ledger.of("end", ["thread-0"])


def _verdict(server: Server) -> tuple[int, str, list[str]]:
    answer = server.get("/jobs/health")
    document = answer.json()
    return answer.status_code, document["status"], document["notes"]


def test_health_of_a_healthy_server_passes_and_names_no_secrets(site: Site) -> None:
    server = site.server(workers=2)
    site.ledger.await_all("end", list(server.enqueue("quick", 10)))
    status, verdict, notes = until(lambda: (found := _verdict(server))[1] == "pass" and found, "health passes")  # type: ignore[misc]
    assert (status, verdict, notes) == (200, "pass", [])
    text = server.get("/jobs/health").text
    assert str(site.folder) not in text
    assert socket.gethostname() not in text or len(socket.gethostname()) < 3
    assert server.get("/jobs/health/live").status_code == 200
    assert server.get("/jobs/health/ready").status_code == 200
    assert server.get("/jobs/health/ready", store=1).status_code == 200


def test_health_fails_when_a_job_loop_is_gone_while_http_lives(site: Site) -> None:
    """Seen elsewhere: the health endpoint only proved that HTTP answers."""
    server = site.server(workers=1, app="broken_app:app")
    assert server.get("/jobs/health").status_code == 200
    assert server.post("/break").status_code == 200
    found = until(lambda: (seen := _verdict(server))[0] == 503 and seen, "health fails", 3)  # type: ignore[misc]
    assert found[1] == "fail"
    assert found[2], "no reason is given"
    assert server.get("/ping").status_code == 200
    assert server.get("/jobs/health/live").status_code == 200


def test_jobs_that_nobody_serves_show_in_health(site: Site) -> None:
    """Seen elsewhere: an enqueue succeeded, nothing consumed it, and nothing hinted at that."""
    server = site.server()
    site.enqueue("unheard_of", 3, "nobody")
    found = until(lambda: (seen := _verdict(server))[1] != "pass" and seen, "health says so", 15)  # type: ignore[misc]
    assert found[:2] == (200, "warn")
    queue = server.get("/jobs/health").json()["checks"]["queues"][0]
    assert queue["unserved_tasks"] == ["servers_app.unheard_of"]
    assert queue["queued"] == 3
    assert not site.ledger.of("start")


def test_a_database_that_is_locked_at_the_start_keeps_no_server_from_serving(site: Site) -> None:
    """Seen elsewhere: the queue's store was away at boot and the web server did not come up, or never recovered."""
    other = sqlite3.connect(site.folder / "jobs.db", isolation_level=None)
    other.execute("PRAGMA journal_mode=WAL")
    other.execute("BEGIN EXCLUSIVE")
    server = site.server()
    assert server.get("/ping").status_code == 200
    assert server.get("/jobs/health/live").status_code == 200
    assert server.get("/jobs/health/ready", store=1).status_code == 503
    assert server.get("/jobs/health").status_code == 503
    other.execute("ROLLBACK")
    other.close()
    until(lambda: server.get("/jobs/health/ready", store=1).status_code == 200, "ready once the store is there")
    given = server.enqueue("quick", 5)
    site.ledger.await_all("end", list(given))


def test_a_store_that_is_required_and_away_fails_the_start(site: Site) -> None:
    """The strict way: for those who would rather not come up than come up without jobs."""
    other = sqlite3.connect(site.folder / "jobs.db", isolation_level=None)
    other.execute("PRAGMA journal_mode=WAL")
    other.execute("BEGIN EXCLUSIVE")
    server = site.server(wait=False, require_store=1)
    assert server.await_exit(30) != 0
    assert "require_store=True insists" in server.output()
    other.close()


def test_a_database_of_another_version_stops_the_start_and_says_what_to_do(site: Site) -> None:
    """A failing start stops the whole server, so it must be for good reason and say which."""
    site.enqueue("nap", 1, "old")
    with sqlite3.connect(site.folder / "jobs.db") as database:
        database.execute("UPDATE meta SET v = '999' WHERE k IN ('version', 'serves_from')")
    database.close()
    server = site.server(wait=False)
    assert server.await_exit() != 0
    assert "PILLION_URL" in server.output()
    assert "version" in server.output()


def test_an_enqueue_says_within_its_deadline_that_the_database_is_locked(site: Site) -> None:
    """Seen elsewhere: the request hung for as long as the store did. Meanwhile the server answers everything else."""
    server = site.server()
    site.ledger.await_all("end", list(server.enqueue("quick", 1)))
    other = sqlite3.connect(site.folder / "jobs.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        with ThreadPoolExecutor(1) as pool:
            sent = time.monotonic()
            enqueueing = pool.submit(server.http.post, "/one/quick/late", json={})
            while not enqueueing.done():
                began = time.monotonic()
                assert server.get("/ping").status_code == 200
                assert server.get("/jobs/health/live").status_code == 200
                assert time.monotonic() - began < 2.0
            assert enqueueing.result().status_code == 500  # the app lets the error through
            assert 4.0 < time.monotonic() - sent < 7.0
    finally:
        other.execute("ROLLBACK")
        other.close()
    assert "StoreUnavailable" in server.output() or "EnqueueUnknown" in server.output()
    given = server.enqueue("quick", 5, "afterwards")
    site.ledger.await_all("end", list(given))


def test_a_database_in_memory_says_at_the_start_that_processes_do_not_share_it(site: Site) -> None:
    """Seen elsewhere: an in-memory URL gave every worker a queue of its own, in silence."""
    site.url = "memory://"
    server = site.server(workers=2)
    until(lambda: len(site.ledger.said("other processes do not see them")) >= 2, "a warning of each process")
    given = server.enqueue("quick", 5)
    site.ledger.await_all("end", list(given))
