"""The open document: states, counts and reasons. No hosts, addresses, paths, error texts or arguments.

Its shape follows the draft of ``application/health+json``: a status, notes, and checks that are lists, so that
several `Jobs` of one app stand side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from pillion.model import WorkerRow
from pillion.web import verdict
from pillion.web.facts import Finding, Gap, Here, Sample, StoreFacts, WorkerFacts

_LISTED: Final = 100  # workers, queues, tasks of a queue
_report = msgspec.json.Decoder(WorkerFacts)


@dataclass(frozen=True, slots=True)
class View:
    """What one `Jobs` shows. Those of one app that share a store (the same `source`) show its fleet and queues once."""

    source: object
    here: Here
    store: StoreFacts
    sample: Sample | None
    sample_age: float | None


def document(views: Sequence[View]) -> dict[str, Any]:
    """The whole document of an app with these `Jobs`."""
    findings: list[Finding] = []
    checks: dict[str, list[dict[str, Any]]] = {"worker": [], "store": [], "fleet": [], "queues": []}
    shown: set[object] = set()
    for number, view in enumerate(views):
        label = {"componentId": f"jobs-{number + 1}"} if len(views) > 1 else {}
        found = verdict.of_worker(view.here)
        checks["worker"].append({**label, "status": verdict.overall(found), **_worker(view.here)})
        if view.source not in shown:
            shown.add(view.source)
            found += _of_source(view, checks, label)
        findings.extend(found)
    return {
        "status": verdict.overall(findings),
        "notes": list(dict.fromkeys(finding.text for finding in findings)),
        "checks": checks,
    }


def _of_source(view: View, checks: dict[str, list[dict[str, Any]]], label: dict[str, Any]) -> list[Finding]:
    of_store = verdict.of_store(view.here, view.store)
    of_fleet = verdict.of_fleet(view.here, view.sample)
    gaps = verdict.gaps(view.sample) if view.sample else []
    checks["store"].append({**label, "status": verdict.overall(of_store), **_store(view)})
    if view.sample is not None:
        checks["fleet"].append({**label, "status": verdict.overall(of_fleet), **_fleet(view.sample)})
        checks["queues"].extend({**label, **queue} for queue in _queues(view.sample, gaps))
    return [*of_store, *of_fleet, *verdict.of_gaps(gaps)]


def _worker(here: Here) -> dict[str, Any]:
    worker = here.worker
    if worker is None:
        return {"state": "off" if here.entered and not here.wanted else "not started"}
    return {
        "state": worker.state,
        "running": worker.running,
        "slots": {kind: {"used": slots.used, "of": slots.of} for kind, slots in worker.slots.items()},
        "loops": [
            {"alive": loop.alive, "lag": loop.lag, "running": loop.running, "last_poll": loop.last_poll}
            for loop in worker.loops
        ],
        "last_beat": worker.last_beat,
        "lease": here.lease,
        "certificate": worker.certificate,
        "outcomes": dict(worker.outcomes),
        "stalls": dict(worker.stalls),
        "uptime": worker.uptime,
    }


def _store(view: View) -> dict[str, Any]:
    store = view.store
    return {
        "kind": store.kind,
        "durability": store.durability,
        "answers": not verdict.is_away(view.here, store),
        "sampled": view.sample_age,
    }


def _fleet(sample: Sample) -> dict[str, Any]:
    states = [_standing(worker) for worker in sample.workers]
    reports = [_read(worker) for worker in sample.workers]
    counts = {state: states.count(state) for state in ("alive", "leaving", "lapsed", "dead")}
    told = zip(states, sample.workers, reports, strict=True)
    living = [(state, worker, report) for state, worker, report in told if state != "dead"]
    return {
        **counts,
        "running": sum(report.running for _, _, report in living),
        "workers": [
            {
                "state": state,
                "running": report.running,
                "last_beat": round(worker.beat_age_us / 1e6, 3),
                "certificate": report.certificate,
            }
            for state, worker, report in living[:_LISTED]
        ],
    }


def _standing(worker: WorkerRow) -> Literal["alive", "leaving", "lapsed", "dead"]:
    if worker.dead:
        return "dead"
    if worker.lapsed:
        return "lapsed"
    return "leaving" if worker.leaving else "alive"


def _read(worker: WorkerRow) -> WorkerFacts:
    """What a worker reports of itself; nothing if it is of a version that says it otherwise."""
    try:
        return _report.decode(worker.report)
    except msgspec.MsgspecError:
        return WorkerFacts()


def _queues(sample: Sample, gaps: Sequence[Gap]) -> list[dict[str, Any]]:
    full = verdict.Full(sample)
    unserved = {(gap.queue, gap.task) for gap in gaps}
    queues: dict[str, dict[str, Any]] = {}
    for worker in filter(verdict.serves, sample.workers):
        for name in worker.queues:
            queues.setdefault(name, _empty(name))
    for row in sample.queues:
        queue = queues.setdefault(row.queue, _empty(row.queue))
        oldest = None if row.oldest_us is None else round(row.oldest_us / 1e6, 3)
        queue["queued"] += row.queued
        queue["scheduled"] += row.scheduled
        queue["running"] += row.running
        queue["oldest"] = max((age for age in (queue["oldest"], oldest) if age is not None), default=None)
        if (row.queue, row.task) in unserved:
            queue["unserved_tasks"].append(row.task)
    for queue in queues.values():
        name = queue["queue"]
        if (name, None) in unserved:
            queue.update(status="warn", consumer=False)
        elif queue["unserved_tasks"]:
            queue["status"] = "warn"
        queue["unserved_tasks"] = queue["unserved_tasks"][:_LISTED]
        queue["capped"] = full.queued(name) or full.scheduled or full.running
    ranked = sorted(queues.values(), key=lambda queue: (queue["status"] == "pass", queue["queue"]))
    return ranked[:_LISTED]


def _empty(name: str) -> dict[str, Any]:
    return {
        "status": "pass",
        "queue": name,
        "consumer": True,
        "queued": 0,
        "scheduled": 0,
        "running": 0,
        "oldest": None,  # age of the oldest that is due
        "capped": False,  # there may be more than was counted
        "unserved_tasks": [],
    }
