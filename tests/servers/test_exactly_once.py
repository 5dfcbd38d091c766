"""Jobs that nobody disturbs run exactly once, however many processes serve them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from servers.harness import Site

pytestmark = [pytest.mark.servers, pytest.mark.timeout(120)]


def _each_ran_once(site: Site, given: dict[str, str]) -> None:
    assert len(set(given.values())) == len(given), "two jobs got one id"
    for event in ("start", "end"):
        assert Counter(site.ledger.runs(event, given).values()) == {1: len(given)}
    assert {entry.ref for entry in site.ledger.of("start")} == set(given), "a job ran that nobody enqueued"


def test_3000_jobs_through_one_process_run_exactly_once(site: Site, tell: Callable[[str], None]) -> None:
    server = site.server()
    given: dict[str, str] = {}
    for number in range(5):
        given |= server.enqueue("quick", 400, f"async{number}")
        given |= server.enqueue("quick_def", 140, f"def{number}")
    given |= server.enqueue_one_by_one("quick", 300)
    assert len(given) == 3000
    site.ledger.await_all("end", list(given), 60)
    _each_ran_once(site, given)


def test_4000_jobs_through_four_processes_run_exactly_once(site: Site, tell: Callable[[str], None]) -> None:
    server = site.server(workers=4)
    given: dict[str, str] = {}
    for number in range(10):
        given |= server.enqueue("quick", 250, f"async{number}")
        given |= server.enqueue("quick_def", 110, f"def{number}")
    given |= server.enqueue_one_by_one("quick", 400)
    assert len(given) == 4000
    site.ledger.await_all("end", list(given), 60)
    _each_ran_once(site, given)
    starts = site.ledger.of("start")
    shares = sorted(Counter(entry.pid for entry in starts).values())
    seconds = max(entry.at for entry in starts) - min(entry.at for entry in starts)
    tell(f"4,000 jobs over HTTP through --workers 4: {seconds:.1f} s, shares {shares}")
    assert len(shares) == 4, "a process ran none of 4,000 jobs"
