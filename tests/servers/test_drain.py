"""The signal starts the drain: nothing starts after the `draining` line, what can end ends, the rest goes back."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress

import httpx
import pytest

from servers.harness import GRACE, Server, Site, until

pytestmark = [pytest.mark.servers, pytest.mark.timeout(90)]

SLACK = 1.0  # seconds for a busy machine to notice that a process has gone


def _draining(site: Site, server: Server) -> dict[int, float]:
    """When each process of `server` said that it drains."""
    return {entry.pid: entry.at for entry in site.ledger.said("^draining") if entry.pid in server.pids()}


def _none_started_after_the_line(site: Site, server: Server) -> None:
    lines = _draining(site, server)
    assert lines, "no process said that it drains"
    late = [
        (entry.ref, f"{entry.at - lines[entry.pid]:.3f} s after the line")
        for entry in site.ledger.of("start")
        if entry.pid in lines and entry.at > lines[entry.pid]
    ]
    assert not late


def _run_again(site: Site, ids: Iterable[str], **settings: object) -> None:
    """A new server ends what the old one left."""
    server = site.server(env={"LONGEST_NAP": "0.05"}, **settings)
    site.await_states(list(ids), "succeeded")
    server.signal(signal.SIGTERM)
    server.await_exit()


def test_short_jobs_end_and_nothing_starts_after_the_line(site: Site) -> None:
    """SIGTERM amid a stream of jobs shorter than the drain: all that run end, the process goes with the longest."""
    server = site.server()
    given = server.enqueue("nap", 300, seconds=0.5)
    given |= server.enqueue("nap_def", 100, seconds=0.5)
    given |= server.enqueue("nap_app", 200, seconds=0.5)
    until(lambda: len(site.ledger.of("end")) > 80, "some ended jobs")
    sent = server.signal(signal.SIGTERM)
    assert server.await_exit() == -signal.SIGTERM
    assert time.monotonic() - sent < 0.5 + GRACE
    _none_started_after_the_line(site, server)
    assert not site.ledger.running(), "a running job did not end"
    started = {entry.ref for entry in site.ledger.of("start")}
    assert len(started) < len(given), "all had started before the signal: the test proved nothing"

    _run_again(site, given.values())
    assert set(site.ledger.runs("start", given).values()) == {1}
    jobs = site.jobs(list(given.values()))
    assert {(job.failures, job.losses) for job in jobs} == {(0, 0)}


@pytest.mark.parametrize("task", ["quick", "quick_def", "compute"])
def test_nothing_starts_after_the_line_amid_many_tiny_jobs(site: Site, task: str) -> None:
    """The same where a job starts every fraction of a millisecond, or threads fight for the interpreter."""
    server = site.server()
    args = {"rounds": 20_000} if task == "compute" else {}
    given: dict[str, str] = {}
    for number in range(10):
        given |= site.enqueue(task, 1000, f"{task}-{number}", **args)
    until(lambda: len(site.ledger.of("end")) > 100, "some ended jobs")
    server.signal(signal.SIGTERM)
    assert server.await_exit() == -signal.SIGTERM
    _none_started_after_the_line(site, server)
    assert not site.ledger.running()
    assert len(site.ledger.of("start")) < len(given), "all had started before the signal: the test proved nothing"


def test_nothing_starts_after_the_line_when_jobs_block_their_loop(site: Site) -> None:
    """Jobs that were claimed together wait behind one that blocks; those that had not begun go back."""
    server = site.server()
    given = server.enqueue("block", 6, seconds=1)
    until(lambda: site.ledger.of("start"), "the first job")
    sent = server.signal(signal.SIGTERM)
    server.await_exit()
    assert time.monotonic() - sent < 1.0 + GRACE + SLACK
    _none_started_after_the_line(site, server)
    assert not site.ledger.running()
    _run_again(site, given.values())
    assert set(site.ledger.runs("start", given).values()) == {1}


@pytest.mark.parametrize("workers", [1, 2])
def test_long_jobs_go_back_within_the_limit_and_run_after_the_restart(site: Site, workers: int) -> None:
    """Seen elsewhere: jobs longer than the drain, async and def, on either loop, one that swallows a cancellation.
    The process goes within the limit and its grace; they are handed back free of charge."""
    limit = 2
    server = site.server(workers=workers, drain_timeout=limit)
    given = server.enqueue("nap", 12, seconds=60)
    given |= server.enqueue("nap_def", 4, seconds=60)
    given |= server.enqueue("nap_app", 4, seconds=60)
    given |= server.enqueue("stubborn", 2, seconds=60)
    site.ledger.await_all("start", list(given))
    sent = server.signal(signal.SIGTERM)
    server.await_exit()
    passing_on = 0.5 if workers > 1 else 0.0  # uvicorn's parent looks at its signals so often
    assert limit - 0.5 < time.monotonic() - sent < limit + GRACE + passing_on + SLACK
    assert not site.ledger.of("end")
    _none_started_after_the_line(site, server)

    _run_again(site, given.values())
    for job in site.jobs(list(given.values())):
        assert (job.failures, job.losses, job.releases) == (0, 0, 1), job.task
        assert [attempt.outcome for attempt in job.history] == ["released", "succeeded"]
    assert set(site.ledger.runs("end", given).values()) == {1}


def test_a_kill_in_mid_drain_still_costs_the_jobs_nothing(site: Site) -> None:
    """The platform's patience was shorter than the drain. The process had said that it leaves, so nothing is a loss."""
    server = site.server(drain_timeout=20)
    given = server.enqueue("nap", 10, seconds=60) | server.enqueue("nap_def", 4, seconds=60)
    site.ledger.await_all("start", list(given))
    server.signal(signal.SIGTERM)
    until(lambda: _draining(site, server), "the draining line")
    time.sleep(0.3)
    server.signal_group(signal.SIGKILL)
    server.await_exit()
    _run_again(site, given.values())
    for job in site.jobs(list(given.values())):
        assert (job.failures, job.losses, job.releases) == (0, 0, 1)


def test_a_sibling_takes_over_what_a_draining_process_hands_back(site: Site) -> None:
    """One of four is told to go, as an orchestrator or `kill` does; the others run what it could not end."""
    server = site.server(workers=2, drain_timeout=0.5)
    given = server.enqueue("nap", 40, seconds=2.5)
    site.ledger.await_all("start", list(given))
    leaving = max(server.pids(), key=lambda pid: len(site.ledger.running(pid)))
    held = site.ledger.running(leaving)
    os.kill(leaving, signal.SIGTERM)
    site.ledger.await_all("end", list(given), 30)
    for ref, job in zip(given, site.await_states(list(given.values()), "succeeded"), strict=True):
        assert (job.failures, job.losses, job.releases) == (0, 0, int(ref in held))
    assert set(site.ledger.runs("end", given).values()) == {1}


@contextmanager
def _open_stream(site: Site, server: Server) -> Iterator[Callable[[], None]]:
    """A client that reads a stream; the stream ends when what is yielded is called, at the latest with the context."""
    file = site.folder / "end-of-stream"
    reading = threading.Event()

    def read() -> None:
        url = server.base + "/stream"
        with suppress(httpx.HTTPError), httpx.stream("GET", url, params={"until": str(file)}, timeout=None) as answer:
            for _ in answer.iter_raw():
                reading.set()

    client = threading.Thread(target=read)
    client.start()
    try:
        assert reading.wait(10)
        yield file.touch
    finally:
        file.touch()
        client.join(10)


def test_an_open_stream_does_not_keep_the_worker_claiming(site: Site) -> None:
    """The server calls the lifespan's exit only after its connections have closed, which may be never."""
    server = site.server()
    with _open_stream(site, server) as end_stream:
        given = server.enqueue("nap", 64, seconds=1)
        until(lambda: len(site.ledger.running()) == 32, "32 running jobs")
        server.signal(signal.SIGTERM)
        drained = until(lambda: site.ledger.said("^drained"), "the end of the drain, stream or not", 8)[0].at
        until(lambda: time.monotonic() - drained > 2.5, "some polls more")
        _none_started_after_the_line(site, server)
        waiting = [given[ref] for ref, count in site.ledger.runs("start", given).items() if count == 0]
        assert waiting
        assert server.code() is None, "the open stream did not hold the server: the test proved nothing"
        assert not site.ledger.running()
        assert {job.state for job in site.jobs(waiting)} == {"queued"}
        end_stream()
        assert server.await_exit(5) == -signal.SIGTERM
    _run_again(site, given.values())
    assert set(site.ledger.runs("start", given).values()) == {1}


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "idle"])
def test_a_second_interrupt_loses_nothing(site: Site, stream: bool) -> None:
    """With connections open, a second Ctrl-C makes uvicorn leave without `lifespan.shutdown`; without them it waits
    for that. Either way the drain does not wait any longer: what runs is handed back now."""
    server = site.server(drain_timeout=20)
    with _open_stream(site, server) if stream else nullcontext():
        given = server.enqueue("nap", 40, seconds=60) | server.enqueue("nap_def", 12, seconds=60)
        until(lambda: len(site.ledger.running()) == 40, "all slots in use")
        server.signal_group(signal.SIGINT)
        until(lambda: _draining(site, server), "the draining line")
        time.sleep(0.3)
        sent = server.signal_group(signal.SIGINT)
        server.await_exit()
        assert time.monotonic() - sent < GRACE + SLACK
    _run_again(site, given.values())
    for job in site.jobs(list(given.values())):
        assert (job.failures, job.losses) == (0, 0)
    assert set(site.ledger.runs("end", given).values()) == {1}


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_signal_ends_an_idle_server_at_once(site: Site, number: signal.Signals, loop: str) -> None:
    """Seen elsewhere: the library's handlers replaced the server's, so Ctrl-C left a hung process."""
    server = site.server("--loop", loop)
    sent = server.signal(number)
    code = server.await_exit()
    assert time.monotonic() - sent < GRACE + SLACK
    assert code in (0, -number)
    (down,) = site.ledger.of("down")
    assert down.more["same_handlers"], "after the lifespan other handlers are installed than before it"


def test_an_interrupt_from_a_terminal_reaches_all_and_ends_all(site: Site) -> None:
    """Ctrl-C goes to parent and children alike, and the parent passes on a SIGTERM after it."""
    server = site.server(workers=2)
    given = server.enqueue("nap", 20, seconds=1)
    site.ledger.await_all("start", list(given))
    sent = server.signal_group(signal.SIGINT)
    assert server.await_exit() == 0
    assert time.monotonic() - sent < 6 + GRACE + SLACK
    assert not site.ledger.running()
    assert set(site.ledger.runs("end", given).values()) == {1}


def test_deploys_cost_no_attempt(site: Site) -> None:
    """Seen elsewhere: three restarts during one job with max_attempts=2; cancellations used to count as tries."""
    ((ref, job_id),) = site.enqueue("nap_two", 1, "deployed", seconds=60).items()
    for restart in range(1, 4):
        server = site.server(drain_timeout=0.5)
        until(lambda count=restart: len(site.ledger.of("start", [ref])) == count, f"run {restart}")  # type: ignore[misc]
        server.signal(signal.SIGTERM)
        server.await_exit()
    _run_again(site, [job_id])
    (job,) = site.jobs([job_id])
    assert (job.failures, job.losses, job.releases, job.attempts) == (0, 0, 3, 4)


def test_replacing_processes_one_at_a_time_runs_each_job_once(site: Site) -> None:
    """On SIGHUP uvicorn's parent replaces its children one by one; old and new run side by side meanwhile."""
    server = site.server(workers=2)
    originals = set(server.pids())
    given: dict[str, str] = {}
    server.signal(signal.SIGHUP)
    number = 0
    while len(server.pids()) < 4 or number < 20:
        given |= site.enqueue("nap", 20, f"wave-{number}", seconds=0.3)
        number += 1
        time.sleep(0.1)
        assert number < 300, "the children were not replaced"
    site.ledger.await_all("end", list(given))
    assert set(site.ledger.runs("start", given).values()) == {1}
    assert {entry.pid for entry in site.ledger.of("start")} > originals
    assert {(job.failures, job.losses) for job in site.jobs(list(given.values()))} == {(0, 0)}


@pytest.mark.parametrize(
    ("args", "settings"),
    [((), {"loops": 3}), ((), {"loop": "app"}), (("--loop", "asyncio"), {})],
    ids=["three job loops", "on the app's loop", "asyncio's loop"],
)
def test_jobs_run_once_across_a_deploy_in_other_set_ups_too(
    site: Site, args: tuple[str, ...], settings: dict[str, object]
) -> None:
    server = site.server(*args, **settings)
    given: dict[str, str] = {}
    for number in range(4):
        given |= site.enqueue("nap", 500, f"nap-{number}", seconds=0.02)
        given |= site.enqueue("nap_def", 50, f"def-{number}", seconds=0.02)
    until(lambda: len(site.ledger.of("end")) > 200, "some ended jobs")
    server.signal(signal.SIGTERM)
    server.await_exit()
    _none_started_after_the_line(site, server)
    assert not site.ledger.running()
    assert len(site.ledger.of("start")) < len(given), "all had started before the signal: the test proved nothing"
    site.server(*args, **settings)
    site.ledger.await_all("end", list(given))
    assert set(site.ledger.runs("start", given).values()) == {1}


def test_a_thread_that_outlives_the_drain_keeps_its_lease_and_ends_its_job(site: Site) -> None:
    """The drain cannot stop it, and an open stream keeps its process for over a lease: no sibling may take it."""
    lease = 2
    server = site.server(lease=lease, drain_timeout=0.5)
    with _open_stream(site, server) as end_stream:
        ((ref, job_id),) = server.enqueue("nap_def", 1, seconds=3.5 * lease).items()
        site.ledger.await_all("start", [ref])
        sibling = site.server(lease=lease)
        server.signal(signal.SIGTERM)
        until(lambda: site.ledger.said("^drained"), "the end of the drain")
        site.ledger.await_all("end", [ref])
        (job,) = site.await_states([job_id], "succeeded")
        assert (job.attempts, job.losses, job.releases) == (1, 0, 0)
        assert server.code() is None, "the open stream did not hold the server: the test proved nothing"
        end_stream()
    assert len(site.ledger.of("start")) == 1
    server.await_exit(5)
    assert sibling.get("/ping").status_code == 200


def test_a_request_in_flight_can_still_enqueue_while_the_process_drains(site: Site) -> None:
    """The server lets running requests end; what they enqueue is stored, and runs after the restart."""
    server = site.server()
    answers: list[httpx.Response] = []
    client = threading.Thread(target=lambda: answers.append(server.post("/late/nap/late-0", {"seconds": 0})))
    client.start()
    until(lambda: site.ledger.of("asked"), "the request")
    server.signal(signal.SIGTERM)
    server.await_exit()
    client.join(5)
    (answer,) = answers
    assert answer.status_code == 202
    assert not site.ledger.of("start")
    _run_again(site, [answer.json()["id"]])
    assert site.ledger.runs("start", ["late-0"])["late-0"] == 1


def test_one_signal_drains_every_jobs_object_of_the_process(site: Site) -> None:
    """They share one watcher. The lifespan cannot be left while the stream is open: it is the signal that counts."""
    server = site.server(app="two_jobs_app:app")
    with _open_stream(site, server):
        server.post("/other/other-0", {"seconds": 1})
        site.ledger.await_all("start", ["other-0", *server.enqueue("nap", 1, seconds=1)])
        server.signal(signal.SIGTERM)
        until(lambda: len(site.ledger.said("^draining")) == 2, "both drain", 5)
        until(lambda: len(site.ledger.said("^drained")) == 2, "both have drained", 5)
        assert not site.ledger.running()
    server.await_exit(5)


def test_a_request_that_waits_for_a_result_ends_with_the_drain(site: Site) -> None:
    """It must not hold the server open for as long as the job runs elsewhere."""
    server = site.server(drain_timeout=1)
    (job_id,) = server.enqueue("nap", 1, seconds=60).values()
    answers: list[httpx.Response | httpx.HTTPError] = []

    def wait() -> None:
        try:
            answers.append(server.get(f"/result/{job_id}", timeout=60))
        except httpx.HTTPError as error:
            answers.append(error)

    client = threading.Thread(target=wait)
    client.start()
    until(lambda: site.ledger.of("start"), "the job")
    sent = server.signal(signal.SIGTERM)
    server.await_exit()
    assert time.monotonic() - sent < 1 + GRACE + SLACK
    client.join(5)
    assert len(answers) == 1


def test_start_and_drain_lines_show_under_plain_uvicorn(site: Site) -> None:
    """Seen elsewhere: nobody configured logging. The start line names the absolute path of a relative URL and the
    drain limit."""
    site.url = "sqlite:///queue/../jobs.db"
    (site.folder / "queue").mkdir()
    server = site.server(env={"LEDGER_LOG": ""}, drain_timeout=3, threads=5)
    given = server.enqueue("nap", 3, seconds=0.5)
    site.ledger.await_all("start", list(given))
    server.signal(signal.SIGTERM)
    server.await_exit()
    lines = [line for line in server.output().splitlines() if "pillion" in line]
    start = next(line for line in lines if "runs jobs of" in line)
    assert str(site.folder / "jobs.db") in start
    assert "3 s" in start
    assert "threads=5 (PILLION_THREADS)" in start
    assert any("draining (SIGTERM)" in line and "3 running" in line for line in lines)
    assert any("drained in" in line for line in lines)
