"""The policy of health: from facts to findings. Nothing runs here."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pillion.model import QueueRow, WorkerRow
from pillion.web import verdict
from pillion.web.document import View, document
from pillion.web.facts import Gap, Here, LoopFacts, Sample, StoreFacts, WorkerFacts
from pillion.web.watch import PATIENCE, Patience

FINE = WorkerFacts(state="running", loops=[LoopFacts(last_poll=0.5)], last_beat=0.4, certificate=True)
STORE = StoreFacts(kind="sqlite", durability="full", answered=0.5)


def here(worker: WorkerFacts | None = FINE, **facts: Any) -> Here:
    known: dict[str, Any] = {"entered": True, "wanted": True, "joined": True, "certificate_wanted": True}
    return Here(worker=worker, **{**known, **facts})


def fine(**changes: Any) -> WorkerFacts:
    return msgspec.structs.replace(FINE, **changes)


def worker(name: str = "w1", **facts: Any) -> WorkerRow:
    known: dict[str, Any] = {
        "id": name, "host": "host.internal", "pid": 4711, "leaving": False, "dead": False, "lapsed": False,
        "beat_age_us": 400_000, "tasks": ["double"], "queues": ["default"], "report": "{}",
    }  # fmt: skip
    return WorkerRow(**{**known, **facts})


def row(queue: str = "default", task: str = "double", **counts: Any) -> QueueRow:
    known: dict[str, Any] = {"queued": 0, "scheduled": 0, "running": 0, "oldest_us": None}
    return QueueRow(queue=queue, task=task, **{**known, **counts})


def sample(workers: list[WorkerRow], queues: list[QueueRow], cap: int = 10_000) -> Sample:
    return Sample(taken=0.0, workers=workers, queues=queues, cap=cap)


# -- this process ------------------------------------------------------------------------------------------------------


def test_nothing_is_found_where_all_is_well() -> None:
    assert verdict.of_worker(here()) == []
    assert verdict.of_store(here(), STORE) == []
    assert verdict.overall([]) == "pass"


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (here(entered=False), "the lifespan did not run"),
        (here(None), "no worker runs"),
        (here(upkeep_alive=False), "the thread that keeps this process's lease has ended"),
        (here(wrong_schema=True), "schema is of another version"),
        (here(fine(loops=[LoopFacts(), LoopFacts(alive=False)])), "job loop 1 has ended"),
        (here(fine(last_beat=15.1)), "no beat for 15 s"),
        (here(fine(loops=[LoopFacts(last_poll=16.0)])), "job loop 0 has not asked for jobs for 16 s"),
    ],
)
def test_a_process_that_cannot_run_jobs_fails(facts: Here, words: str) -> None:
    findings = verdict.of_worker(facts)
    assert verdict.overall(findings) == "fail"
    assert any(words in finding.text for finding in findings)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (here(fine(state="draining")), "is draining"),
        (here(fine(state="drained", loops=[LoopFacts(alive=False)]), upkeep_alive=False), "is draining"),
        (here(fine(state="starting", last_beat=None), joined=False), "the worker is starting"),
        (here(fine(certificate=False)), "a crash here is noticed after a full lease only"),
        (here(fine(loops=[LoopFacts(lag=2.0, running=3)], running=3)), "has been held for 2.0 s"),
        (here(fine(stalls={"task slow": 4.0, "task b": 1.0}, last_stall=59.0)), "task slow held one for 4.0 s"),
        (here(fine(upkeep={"sweep": 2})), "sweep fails and was started again 2 times"),
        (here(fine(last_beat=8.0)), "no beat for 8 s of a lease of 15 s"),
    ],
)
def test_what_passes_by_itself_or_costs_little_warns(facts: Here, words: str) -> None:
    findings = verdict.of_worker(facts)
    assert verdict.overall(findings) == "warn"
    assert [words in finding.text for finding in findings] == [True]


@pytest.mark.parametrize(
    "facts",
    [
        here(None, wanted=False),
        here(fine(certificate=False), certificate_wanted=False),
        here(fine(stalls={"task slow": 4.0}, last_stall=61.0)),
        # Jobs hold all slots: an idle loop would ask, this one has no reason to.
        here(fine(loops=[LoopFacts(last_poll=600.0, running=32)], running=32)),
        here(fine(last_beat=2.9)),
    ],
)
def test_what_is_as_it_should_be_is_not_told(facts: Here) -> None:
    assert verdict.of_worker(facts) == []


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (here(), None),
        (here(None, wanted=False), None),
        (here(fine(last_beat=99.0)), None),  # an outage of the store takes no process out
        (here(entered=False), "did not run"),
        (here(None), "no worker"),
        (here(fine(state="draining")), "draining"),
        (here(fine(state="drained")), "draining"),
        (here(fine(state="starting"), joined=False), "starting"),
        (here(fine(state="starting")), None),  # it was here before, and goes on under a new id
    ],
)
def test_ready_means_started_and_not_draining(facts: Here, reason: str | None) -> None:
    told = verdict.not_ready(facts)
    assert told is None if reason is None else reason in (told or "")


# -- the store ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "answered", "unanswered", "away"),
    [
        (here(), 0.5, False, False),
        (here(), 0.5, True, False),  # one late answer is no outage
        (here(), 99.0, False, False),  # nobody asked
        (here(fine(last_beat=99.0)), 99.0, True, True),
        (here(fine(last_beat=0.2)), 99.0, True, False),  # the beat got through
        (here(fine(last_beat=9.0, loops=[LoopFacts(trouble=True)])), 9.0, False, True),
        (here(fine(last_beat=9.0, upkeep={"beat": 3})), None, False, True),
        (here(fine(last_beat=None), away=True), None, False, True),
        (here(None, wanted=False), None, True, True),
        (here(None, wanted=False), None, False, False),
    ],
)
def test_the_store_is_away_when_it_gives_trouble_and_answers_nothing(
    facts: Here, answered: float | None, unanswered: bool, away: bool
) -> None:
    store = StoreFacts(kind="sqlite", durability="full", answered=answered, unanswered=unanswered)
    assert verdict.is_away(facts, store) is away
    assert verdict.overall(verdict.of_store(facts, store)) == ("fail" if away else "pass")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("The file system refused it. Writes are slow.", "The file system refused it. Writes are slow."),
        ("/srv/app/jobs.db lies on nfs: move it", "… lies on nfs: move it"),
        ("'sqlite:///:memory:' names no file.", "… names no file."),
        ("postgresql://me:secret@db.internal/shop is slow", "… is slow"),
        ("look at C:\\data\\jobs.db, please", "look at …, please"),
        ("reads and/or writes (mode 0700)", "reads and/or writes (mode 0700)"),
    ],
)
def test_warnings_of_the_store_lose_their_addresses(text: str, told: str) -> None:
    store = StoreFacts(kind="sqlite", durability="full", warnings=[text])
    assert [finding.text for finding in verdict.of_store(here(), store)] == [told]


# -- the fleet and the queues ------------------------------------------------------------------------------------------


def test_queues_without_a_consumer_and_tasks_that_nobody_knows_are_gaps() -> None:
    queues = [
        row(queued=5, oldest_us=1_000_000),
        row(task="other", queued=2, oldest_us=3_000_000),
        row(task="third", running=1),
        row("reports", queued=1, oldest_us=9_500_000),
        row("reports", "other", scheduled=4),
    ]
    assert verdict.gaps(sample([worker()], queues)) == [
        Gap("default", "other", 2, False, 3.0),
        Gap("reports", None, 5, False, 9.5),
    ]


@pytest.mark.parametrize("state", ["leaving", "dead", "lapsed"])
def test_only_workers_that_claim_count_as_consumers(state: str) -> None:
    gone = worker("w1", **{state: True})
    waiting = [row(queued=1, oldest_us=0)]
    assert verdict.gaps(sample([gone], waiting)) == [Gap("default", None, 1, False, 0.0)]
    assert verdict.gaps(sample([gone, worker("w2")], waiting)) == []


def test_a_worker_serves_its_own_pairs_of_queue_and_task_only() -> None:
    workers = [worker("w1", queues=["a"], tasks=["x"]), worker("w2", queues=["b"], tasks=["y"])]
    queues = [row("a", "x", queued=1), row("a", "y", queued=1), row("b", "x", queued=1), row("b", "y", queued=1)]
    assert [(gap.queue, gap.task) for gap in verdict.gaps(sample(workers, queues))] == [("a", "y"), ("b", "x")]


def test_counts_that_reached_the_cap_are_told_as_such() -> None:
    queues = [row("reports", "a", queued=6_000), row("reports", "b", queued=4_000), row("x", queued=9_999)]
    gaps = verdict.gaps(sample([], queues))
    assert gaps == [Gap("reports", None, 10_000, True, None), Gap("x", None, 9_999, False, None)]
    assert [verdict.told(gap) for gap in gaps] == [
        "queue 'reports' has no consumer: 10,000+ jobs wait",
        "queue 'x' has no consumer: 9,999 jobs wait",
    ]


def test_a_lapsed_worker_and_a_fleet_without_workers_warn() -> None:
    told = verdict.of_fleet(here(), sample([worker(), worker("w2", lapsed=True)], []))
    assert [finding.text for finding in told] == [
        "1 worker gave no sign for longer than a lease; their jobs await rescue"
    ]
    assert verdict.of_fleet(here(), sample([], [])) == []
    (finding,) = verdict.of_fleet(here(None, wanted=False), sample([], []))
    assert "worker=False" in finding.text
    assert verdict.of_fleet(here(None, wanted=False), sample([worker()], [])) == []


def test_many_gaps_are_counted_not_listed() -> None:
    found = [Gap(f"q{number}", None, 1, False, None) for number in range(1_000)]
    assert len(verdict.of_gaps(found)) == 21
    assert verdict.of_gaps(found)[-1].text == "980 more queues and tasks that nobody serves"


def test_a_gap_is_told_to_the_log_once_it_lasted_and_again_after_it_was_served() -> None:
    patience = Patience()
    gap, other = Gap("reports", None, 1, False, 1.0), Gap("default", "x", 1, False, 1.0)
    assert patience.outlasted(0.0, [gap]) == []
    assert patience.outlasted(PATIENCE - 1, [gap, other]) == []
    assert patience.outlasted(PATIENCE, [gap, other]) == [gap]
    assert patience.outlasted(PATIENCE + 5, [gap, other]) == []
    assert patience.outlasted(PATIENCE + 10, [gap, other]) == [other]
    assert patience.outlasted(PATIENCE + 11, []) == []
    assert patience.outlasted(PATIENCE + 12, [gap]) == []
    assert patience.outlasted(2 * PATIENCE + 12, [gap]) == [gap]


# -- the document ------------------------------------------------------------------------------------------------------


def view(source: object = "a", **facts: Any) -> View:
    report = '{"running": 3, "certificate": true, "of": "a later version"}'
    found = sample([worker(report=report), worker("w2", report="[1]", dead=True)], [row(queued=2, oldest_us=5)])
    return View(source, here(**facts), STORE, found, 0.5)


def test_the_document_has_one_entry_a_jobs_and_one_a_store() -> None:
    told = document([view(), view(worker=fine(state="draining")), view("b")])
    assert told["status"] == "warn"
    assert told["notes"] == ["this process is draining: it starts no more jobs"]
    assert [entry["status"] for entry in told["checks"]["worker"]] == ["pass", "warn", "pass"]
    assert [entry["componentId"] for entry in told["checks"]["fleet"]] == ["jobs-1", "jobs-3"]
    assert len(told["checks"]["store"]) == len(told["checks"]["queues"]) == 2


def test_the_document_tells_of_the_fleet_without_naming_it() -> None:
    told = document([view()])
    (fleet,) = told["checks"]["fleet"]
    assert (fleet["alive"], fleet["dead"], fleet["running"]) == (1, 1, 3)
    assert fleet["workers"] == [{"state": "alive", "running": 3, "last_beat": 0.4, "certificate": True}]
    text = msgspec.json.encode(told).decode()
    assert "host.internal" not in text
    assert "4711" not in text


def test_the_document_does_without_a_sample() -> None:
    told = document([View("a", here(), STORE, None, None)])
    assert told["status"] == "pass"
    assert told["checks"]["fleet"] == told["checks"]["queues"] == []


def test_long_lists_are_cut_with_the_troubled_first() -> None:
    queues = [row(f"q{number:03}", queued=1) for number in range(500)]
    served = worker(queues=[f"q{number:03}" for number in range(499)])
    told = document([View("a", here(), STORE, sample([served], queues), 0.0)])
    listed = told["checks"]["queues"]
    assert len(listed) == 100
    assert listed[0] == {
        "status": "warn", "queue": "q499", "consumer": False, "queued": 1, "scheduled": 0, "running": 0, "oldest": None,
        "capped": False, "unserved_tasks": [],
    }  # fmt: skip
