"""SIGKILL: what a dead process ran is run again by its siblings, at once, and nothing else is touched."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable

import pytest

from servers.harness import Server, Site, alive, until

pytestmark = [pytest.mark.servers, pytest.mark.chaos, pytest.mark.timeout(120)]

PROMPT = 1.0  # seconds from a process's death to the restart of its jobs, with certificates


def _busy_process(site: Site, server: Server, jobs: int) -> tuple[int, set[str]]:
    """A process that runs at least `jobs` jobs, and their refs."""

    def look() -> tuple[int, set[str]] | None:
        for pid in server.pids():
            held = site.ledger.running(pid)
            if len(held) >= jobs:
                return pid, held
        return None

    return until(look, f"a process with {jobs} running jobs")


def _restarts(site: Site, refs: set[str], victim: int) -> dict[str, tuple[float, int]]:
    """When and where each of `refs` started first after its run in `victim`."""
    found: dict[str, tuple[float, int]] = {}
    for entry in site.ledger.of("start", refs):
        if entry.pid != victim:
            found.setdefault(entry.ref, (entry.at, entry.pid))
    return found


def test_jobs_of_a_killed_process_restart_within_a_second_on_an_original_sibling(
    site: Site, tell: Callable[[str], None]
) -> None:
    """At the default lease of 15 s: the sibling needs no lease, it sees that the process is gone."""
    server = site.server(workers=4)
    originals = set(server.pids())
    given = server.enqueue("nap", 40, seconds=3)
    site.ledger.await_all("start", list(given))
    victim, held = _busy_process(site, server, 8)
    os.kill(victim, signal.SIGKILL)
    killed = time.monotonic()
    until(lambda: len(_restarts(site, held, victim)) == len(held), "restart of all jobs", 14)
    restarts = _restarts(site, held, victim)
    worst = max(at for at, _ in restarts.values()) - killed
    tell(f"SIGKILL of one of four with {len(held)} jobs: all restarted after {worst:.3f} s")
    assert worst <= PROMPT
    assert {pid for _, pid in restarts.values()} <= originals - {victim}, "rescued by the process that replaced it"

    site.ledger.await_all("end", list(given))
    jobs = dict(zip(given, site.await_states(list(given.values()), "succeeded"), strict=True))
    for ref, job in jobs.items():
        assert (job.losses, job.failures, job.releases) == ((1, 0, 0) if ref in held else (0, 0, 0))
        assert [attempt.outcome for attempt in job.history] == (["lost"] if ref in held else []) + ["succeeded"]
    starts, ends = site.ledger.runs("start", given), site.ledger.runs("end", given)
    assert set(ends.values()) == {1}
    assert {ref: count for ref, count in starts.items() if count != 1} == dict.fromkeys(held, 2), "others were touched"


def test_rescued_jobs_that_one_sibling_has_no_slots_for_wake_the_next(site: Site) -> None:
    """Nobody polls meanwhile: what the rescuer cannot take itself it passes on by waking others."""
    server = site.server(workers=4, poll_interval=30, concurrency=10)
    originals = set(server.pids())
    given = server.enqueue("nap", 20, seconds=4)
    site.ledger.await_all("start", list(given))
    victim, held = _busy_process(site, server, 8)
    given |= site.enqueue("nap", 5, "more", seconds=4)  # none of the others has room for all that the victim holds
    site.ledger.await_all("start", list(given))
    held = site.ledger.running(victim)
    os.kill(victim, signal.SIGKILL)
    killed = time.monotonic()
    until(lambda: len(_restarts(site, held, victim)) == len(held), "restart of all jobs", 14)
    restarts = _restarts(site, held, victim)
    assert max(at for at, _ in restarts.values()) - killed <= PROMPT
    assert {pid for _, pid in restarts.values()} <= originals - {victim}


def test_def_jobs_of_a_killed_process_restart_within_a_second_too(site: Site) -> None:
    server = site.server(workers=4)
    originals = set(server.pids())
    given = server.enqueue("nap_def", 16, seconds=3)
    site.ledger.await_all("start", list(given))
    victim, held = _busy_process(site, server, 2)
    os.kill(victim, signal.SIGKILL)
    killed = time.monotonic()
    until(lambda: len(_restarts(site, held, victim)) == len(held), "restart of all jobs", 14)
    restarts = _restarts(site, held, victim)
    assert max(at for at, _ in restarts.values()) - killed <= PROMPT
    assert {pid for _, pid in restarts.values()} <= originals - {victim}
    site.ledger.await_all("end", list(given))
    assert set(site.ledger.runs("end", given).values()) == {1}


def test_without_certificates_the_rescue_takes_a_lease(site: Site) -> None:
    """The proof that the certificate is what makes the rescue prompt: without it the same kill waits for the lease."""
    lease = 3
    server = site.server(workers=2, certificates=0, lease=lease)
    time.sleep(lease)  # a process may declare others dead only after a whole lease of its own beats
    given = server.enqueue("nap", 12, seconds=2.5)
    site.ledger.await_all("start", list(given))
    victim, held = _busy_process(site, server, 1)
    os.kill(victim, signal.SIGKILL)
    killed = time.monotonic()
    until(lambda: len(_restarts(site, held, victim)) == len(held), "restart of all jobs", 5 * lease)
    first = min(at for at, _ in _restarts(site, held, victim).values()) - killed
    assert first > PROMPT, "rescued without a certificate before the lease was over: what did the other test prove?"
    assert first > lease - 1.0  # its last beat came up to a fifth of a lease earlier
    site.ledger.await_all("end", list(given))
    jobs = site.await_states(list(given.values()), "succeeded")
    assert Counter(job.losses for job in jobs) == Counter({0: len(given) - len(held), 1: len(held)})


def test_after_the_death_of_every_process_a_new_start_runs_all_their_jobs(site: Site) -> None:
    """SIGKILL of the whole server, the parent too, with 48 jobs running: all come back, each once."""
    server = site.server(workers=4)
    given = server.enqueue("nap", 48, seconds=2)
    until(lambda: len(site.ledger.running()) == 48, "48 running jobs")
    server.signal_group(signal.SIGKILL)
    server.await_exit()
    until(lambda: not any(alive(pid) for pid in server.pids()), "the end of all processes")
    assert not site.ledger.of("end")

    again = site.server(workers=2)
    site.ledger.await_all("end", list(given))
    jobs = site.await_states(list(given.values()), "succeeded")
    assert set(site.ledger.runs("start", given).values()) == {2}
    assert set(site.ledger.runs("end", given).values()) == {1}
    assert {(job.losses, job.failures) for job in jobs} == {(1, 0)}
    # They were there before the server answered: the first of them started without a lease's wait.
    starts = [entry.at for entry in site.ledger.of("start", given) if entry.pid in again.pids()]
    assert min(starts) - again.started_at < 12


def test_a_job_that_kills_its_process_drags_no_neighbour_down(site: Site, tell: Callable[[str], None]) -> None:
    """os.abort() beside 31 sleepers: it is given up at the cap of losses, they all succeed, few processes die."""
    server = site.server(workers=4)
    sleepers = server.enqueue("nap", 31, seconds=1)
    (killer,) = server.enqueue("kill_process", 1, after=0.4).values()
    began = time.monotonic()
    site.ledger.await_all("end", list(sleepers), 60)
    site.await_states(list(sleepers.values()), "succeeded", within=30)
    (job,) = site.await_states([killer], "failed", within=30)
    deaths = len(site.ledger.of("abort"))
    tell(f"a job that aborts its process beside 31 sleepers: {deaths} deaths, {time.monotonic() - began:.1f} s in all")
    assert job.losses == 3
    assert job.error is not None
    assert deaths <= 4
    assert server.get("/ping").status_code == 200


def test_killing_a_rescuer_loses_nothing(site: Site) -> None:
    """Who rescues belongs to nobody. Two processes die one after the other, the second while it has just
    taken over from the first; the rest goes on without either."""
    server = site.server(workers=4, concurrency=8)
    given = server.enqueue("nap", 20, seconds=0.8)
    until(lambda: len(site.ledger.running()) == 20, "20 running jobs")
    first, held = _busy_process(site, server, 8)
    os.kill(first, signal.SIGKILL)
    restarts = until(lambda: _restarts(site, held, first), "the first rescued job", 14)
    second = next(iter(restarts.values()))[1]
    os.kill(second, signal.SIGKILL)
    site.ledger.await_all("end", list(given), 40)
    jobs = site.await_states(list(given.values()), "succeeded")
    assert set(site.ledger.runs("end", given).values()) == {1}
    assert all(job.failures == 0 and job.losses <= 2 for job in jobs)


def test_a_rescue_needs_no_free_slot(site: Site) -> None:
    """Seen elsewhere: the sweep is no job. Siblings whose slots are all taken still free a dead process's jobs."""
    server = site.server(workers=3, concurrency=4)
    given = server.enqueue("nap", 12, seconds=4)
    until(lambda: len(site.ledger.running()) == 12, "12 running jobs")
    victim, held = _busy_process(site, server, 1)
    assert len(held) == 4
    os.kill(victim, signal.SIGKILL)
    killed = time.monotonic()
    site.await_states([given[ref] for ref in held], "queued", "running", within=5)
    until(lambda: {job.losses for job in site.jobs([given[ref] for ref in held])} == {1}, "4 losses", 2.5)
    assert time.monotonic() - killed < 4, "they waited for a slot"
    site.ledger.await_all("end", list(given), 40)


def test_a_lost_job_is_tried_again_and_its_history_says_why(site: Site) -> None:
    """Seen elsewhere: attempts were configured, the process died, and the job went straight to failed."""
    server = site.server(workers=2)
    given = server.enqueue("nap_five", 1, seconds=2)
    ((ref, job_id),) = given.items()
    site.ledger.await_all("start", [ref])
    os.kill(site.ledger.of("start")[0].pid, signal.SIGKILL)
    site.ledger.await_all("end", [ref])
    (job,) = site.await_states([job_id], "succeeded")
    assert [attempt.outcome for attempt in job.history] == ["lost", "succeeded"]
    assert [attempt.number for attempt in job.history] == [1, 2]
    assert job.history[0].worker != job.history[1].worker


def test_a_unique_key_does_not_outlive_the_crash_of_its_holder(site: Site) -> None:
    """Seen elsewhere: a lock survived its holder and every later enqueue was refused until somebody deleted it."""
    server = site.server(workers=2)
    first = server.post("/keyed/nap/one", {"seconds": 1.5}, key="report").json()
    assert first["created"]
    site.ledger.await_all("start", ["one"])
    assert server.post("/keyed/nap/two", {"seconds": 0}, key="report").json() == {"id": first["id"], "created": False}
    os.kill(site.ledger.of("start")[0].pid, signal.SIGKILL)
    until(lambda: len(site.ledger.of("start", ["one"])) == 2, "the second run", 14)

    def again() -> bool:
        # The killed process's connection may be accepted once more by nobody: any answer counts.
        answer = server.post("/keyed/nap/two", {"seconds": 0}, key="report").json()
        return answer["id"] == first["id"] and not answer["created"]

    assert again(), "the key was free while its holder ran"
    site.await_states([first["id"]], "succeeded")
    third = server.post("/keyed/nap/three", {"seconds": 0}, key="report").json()
    assert third["created"]
    site.ledger.await_all("end", ["three"])
    assert not site.ledger.of("start", ["two"])


def test_a_forked_child_does_not_hide_the_death_of_its_parent(site: Site) -> None:
    """Seen elsewhere: a child that a job forked inherits the lock's descriptor, and would keep it alive."""
    server = site.server(workers=2)
    forks = server.enqueue("fork_child", 2, seconds=20)
    site.ledger.await_all("forked", list(forks))
    children = [entry.more["child"] for entry in site.ledger.of("forked")]
    parent = site.ledger.of("forked")[0].pid
    site.await_states(list(forks.values()), "succeeded")
    given = server.enqueue("nap", 64, seconds=3)
    site.ledger.await_all("start", list(given))
    held = site.ledger.running(parent)
    assert held
    os.kill(parent, signal.SIGKILL)
    killed = time.monotonic()
    until(lambda: not alive(parent), "the end of the parent")
    assert any(alive(child) for child in children)
    until(lambda: len(_restarts(site, held, parent)) == len(held), "restart of all jobs", 14)
    # All 32 slots of the only sibling are taken: they wait for its own jobs, not for a lease.
    jobs = site.jobs([given[ref] for ref in held])
    assert {job.losses for job in jobs} == {1}
    lost_at = [job.history[0].ended.timestamp() for job in jobs]
    assert max(lost_at) - (time.time() - (time.monotonic() - killed)) <= PROMPT


def test_the_servers_watchdog_kill_costs_one_attempt_and_the_job_runs_elsewhere(site: Site) -> None:
    """Seen elsewhere: a job keeps the interpreter's lock, the server's parent gets no answer and kills the process."""
    site.server("--timeout-worker-healthcheck", "2", workers=2)
    marker = site.folder / "held-once"
    given = site.enqueue("hold_gil_once", 1, "held", seconds=9, marker=str(marker))
    ((ref, job_id),) = given.items()
    site.ledger.await_all("end", [ref], 30)
    starts = site.ledger.of("start", [ref])
    assert len(starts) == 2
    assert starts[0].pid != starts[1].pid
    (job,) = site.await_states([job_id], "succeeded")
    assert (job.losses, job.failures) == (1, 0)
    assert not alive(starts[0].pid)
