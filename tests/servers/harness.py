"""Real server processes for tests: started, watched, signalled, and always killed in the end.

Waits are bounded and for events. What jobs did is read from the `Ledger` that they write themselves.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import httpx

from pillion import Job, Jobs

APPS: Final = Path(__file__).parent / "apps"
SCRIPTS: Final = Path(__file__).parent / "scripts"
DEF_TASKS: Final = ("quick_def", "nap_def", "compute", "hold_gil_once", "fork_child")  # of the app
PATIENCE: Final = 20.0  # seconds for what is sure to come, on a busy machine
GRACE: Final = 2.0  # seconds that a drain may take beyond its limit
T = TypeVar("T")


def until(condition: Callable[[], T], what: str, within: float = PATIENCE) -> T:
    """Wait for a true value and return it; fails naming `what` after `within` seconds."""
    deadline = time.monotonic() + within
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:g} s: {what}")
        time.sleep(0.01)
    return value


# -- what jobs wrote ---------------------------------------------------------------------------------------------------


class Entry(NamedTuple):
    """One line of the ledger."""

    event: str
    ref: str
    pid: int
    at: float  # monotonic, the same clock as the test's
    more: Mapping[str, Any]


class Ledger:
    """Reads what jobs append, as it grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entries: list[Entry] = []
        self._offset = 0

    def read(self) -> list[Entry]:
        """All whole lines so far."""
        with suppress(FileNotFoundError), self.path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
            whole = data.rfind(b"\n") + 1
            self._offset += whole
            for line in data[:whole].splitlines():
                more = json.loads(line)
                event, ref, pid, at = (more.pop(name) for name in ("event", "ref", "pid", "t"))
                self._entries.append(Entry(event, ref, pid, at, more))
        return self._entries

    def of(self, event: str, refs: Iterable[str] | None = None) -> list[Entry]:
        """Lines of one event, for `refs` only if given."""
        wanted = None if refs is None else set(refs)
        return [entry for entry in self.read() if entry.event == event and (wanted is None or entry.ref in wanted)]

    def runs(self, event: str, refs: Iterable[str]) -> Counter[str]:
        """How often each of `refs` has a line of `event`, 0 included."""
        counts: Counter[str] = Counter(dict.fromkeys(refs, 0))
        counts.update(entry.ref for entry in self.of(event, counts.keys()))
        return counts

    def await_all(self, event: str, refs: Sequence[str], within: float = PATIENCE) -> None:
        """Wait until each of `refs` has a line of `event`."""
        missing = set(refs)
        seen = 0

        def complete() -> bool:
            nonlocal seen
            entries = self.read()
            missing.difference_update(entry.ref for entry in entries[seen:] if entry.event == event)
            seen = len(entries)
            return not missing

        try:
            until(complete, f"{event!r} of {len(refs)} jobs", within)
        except AssertionError as error:
            raise AssertionError(f"{error}; missing are {len(missing)}: {sorted(missing)[:5]}") from None

    def running(self, pid: int | None = None) -> set[str]:
        """Refs that started (in process `pid`) and did not end there."""
        open_runs: dict[tuple[str, int], int] = {}
        for entry in self.read():
            if entry.event in ("start", "end"):
                key = (entry.ref, entry.pid)
                open_runs[key] = open_runs.get(key, 0) + (1 if entry.event == "start" else -1)
        return {ref for (ref, at), count in open_runs.items() if count > 0 and pid in (None, at)}

    def said(self, pattern: str, pid: int | None = None) -> list[Entry]:
        """What Pillion logged that matches, in process `pid` if given; needs ``LEDGER_LOG``."""
        return [
            entry for entry in self.of("said") if re.search(pattern, entry.more["text"]) and pid in (None, entry.pid)
        ]


# -- processes ---------------------------------------------------------------------------------------------------------


class Site:
    """A folder with a database and a ledger; servers come and go on it."""

    def __init__(self, folder: Path, **settings: object) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder / 'jobs.db'}"
        self.ledger = Ledger(folder / "ledger")
        self.settings = settings  # of every process, as PILLION_…
        self.env: dict[str, str] = {}
        self.processes: list[Running] = []
        # Sockets live here, and their paths must be short.
        self.runtime = tempfile.mkdtemp(prefix="pl-", dir="/tmp")
        self._numbers = itertools.count(1)

    def environment(self, settings: Mapping[str, object]) -> dict[str, str]:
        """What a process is started with: no setting but ours."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("PILLION_")}
        if "PYTHONPATH" in env:
            env["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, env["PYTHONPATH"].split(os.pathsep)))
        env.update(PILLION_URL=self.url, LEDGER=str(self.ledger.path), LEDGER_LOG="1", XDG_RUNTIME_DIR=self.runtime)
        env.update(PYTHONUNBUFFERED="1", **self.env)
        for name, value in {**self.settings, **settings}.items():
            env[f"PILLION_{name.upper()}"] = str(value)
        return env

    def server(
        self,
        *args: str,
        workers: int = 1,
        app: str = "servers_app:app",
        app_dir: Path = APPS,
        wait: bool = True,
        env: Mapping[str, str] | None = None,
        **settings: object,
    ) -> Server:
        """Start uvicorn; unless `wait` is False, return when all its processes run the app."""
        port = _free_port()
        command = [sys.executable, "-m", "uvicorn", app, "--app-dir", str(app_dir), "--port", str(port), *args]
        if workers > 1:
            command += ["--workers", str(workers)]
        server = Server(self, command, {**self.environment(settings), **(env or {})}, port, workers)
        if wait:
            server.await_ready()
        return server

    def script(self, name: str, *args: object, **settings: object) -> Running:
        """Start a script of `tests/servers/scripts`."""
        env = self.environment(settings)
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(APPS), env.get("PYTHONPATH", "")]))
        return Running(self, [sys.executable, str(SCRIPTS / name), *map(str, args)], env)

    def jobs(self, ids: Sequence[str]) -> list[Job[Any]]:
        """The jobs as the store shows them now, in the order of `ids`."""

        async def read() -> list[Job[Any]]:
            jobs = Jobs(self.url, worker=False)
            async with jobs.client():
                found = [await jobs.get(job_id) for job_id in ids]
            assert all(found), "the store forgot a job"
            return [job for job in found if job is not None]

        return asyncio.run(read())

    def enqueue(self, task: str, count: int, label: str, **args: object) -> dict[str, str]:
        """Enqueue from this test's own process, with no server's help; job id by ref."""
        jobs = Jobs(self.url, worker=False)
        # The kind is part of the row: a `def` task has a `def` stand-in.
        stand_in = _stand_in_def if task in DEF_TASKS else _stand_in
        handle: Any = jobs.task(name=f"servers_app.{task}")(stand_in)

        async def send() -> list[str]:
            async with jobs.client():
                return [job.id for job in await jobs.enqueue_many(handle.bind(ref, **args) for ref in refs)]

        refs = [f"{label}-{number}" for number in range(count)]
        return dict(zip(refs, asyncio.run(send()), strict=True))

    def await_states(self, ids: Sequence[str], *states: str, within: float = PATIENCE) -> list[Job[Any]]:
        """Wait until each of `ids` is in one of `states`; the jobs."""
        deadline = time.monotonic() + within
        while True:
            found = self.jobs(ids)
            counts = Counter(job.state for job in found)
            if set(counts) <= set(states):
                return found
            if time.monotonic() > deadline:
                raise AssertionError(
                    f"not within {within:g} s: all jobs {' or '.join(states)}; they are {dict(counts)}"
                )
            time.sleep(0.1)

    def next_log(self) -> Path:
        return self.folder / f"log-{next(self._numbers)}"

    def close(self) -> None:
        """Kill what is left and show its output (pytest prints it for a failed test)."""
        for process in self.processes:
            process.end()
        for process in self.processes:
            print(f"--- {process.log.name}: {' '.join(process.command[1:5])} … -> {process.code()}")
            print(process.output()[-6000:])
        shutil.rmtree(self.runtime, ignore_errors=True)


class Running:
    """A process in a group of its own, its output in a file."""

    def __init__(self, site: Site, command: list[str], env: Mapping[str, str]) -> None:
        self.site = site
        self.command = command
        self.log = site.next_log()
        self.started_at = time.monotonic()
        with self.log.open("wb") as log:
            self.popen = subprocess.Popen(
                command,
                cwd=site.folder,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        site.processes.append(self)

    @property
    def pid(self) -> int:
        return self.popen.pid

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def code(self) -> int | None:
        """The exit code; negative: the signal it died of; None: it runs."""
        return self.popen.poll()

    def signal(self, number: signal.Signals) -> float:
        """Send to this process alone; the instant."""
        os.kill(self.pid, number)
        return time.monotonic()

    def signal_group(self, number: signal.Signals) -> float:
        """Send to this process and all its children, as a terminal does; the instant."""
        os.killpg(self.pid, number)
        return time.monotonic()

    def await_exit(self, within: float = PATIENCE) -> int:
        """Wait for the process's end; its exit code."""
        try:
            return self.popen.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"did not exit within {within:g} s") from None

    def await_output(self, text: str, within: float = PATIENCE) -> str:
        """Wait until the output holds `text`; all of it."""
        until(lambda: text in self.output(), f"{text!r} in the output", within)
        return self.output()

    def end(self) -> None:
        """Kill the whole group, whatever is left of it."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGCONT)
            os.killpg(self.pid, signal.SIGKILL)
        self.popen.wait(PATIENCE)


class Server(Running):
    """A uvicorn server on a port of its own."""

    def __init__(self, site: Site, command: list[str], env: Mapping[str, str], port: int, workers: int) -> None:
        self._known = {entry.pid for entry in site.ledger.of("up")}
        super().__init__(site, command, env)
        self.base = f"http://127.0.0.1:{port}"
        # No connection is kept: each request may reach any of the processes.
        self.http = httpx.Client(
            base_url=self.base,
            timeout=PATIENCE,
            trust_env=False,
            limits=httpx.Limits(max_keepalive_connections=0),
        )
        self.workers = workers

    def pids(self) -> list[int]:
        """The processes that run the app, in the order in which they came up; the dead among them."""
        return [entry.pid for entry in self.site.ledger.of("up") if entry.pid not in self._known]

    def await_ready(self, within: float = 40.0) -> None:
        """Wait until every process has run its start-up and HTTP answers."""

        def ready() -> bool:
            if self.code() is not None:
                raise AssertionError(f"the server ended with {self.code()} at its start:\n{self.output()[-3000:]}")
            if len(self.pids()) < self.workers:
                return False
            try:
                return self.get("/ping").status_code == 200
            except httpx.TransportError:
                return False

        until(ready, f"{self.workers} processes up", within)

    # -- HTTP ------------------------------------------------------------------------------------------------

    def get(self, path: str, timeout: float = PATIENCE, **params: Any) -> httpx.Response:
        """One request over a connection of its own, so that any process may answer."""
        return self.http.get(path, params=params, timeout=timeout)

    def post(self, path: str, body: object = None, **params: Any) -> httpx.Response:
        """The same with a body of JSON; no server error is expected."""
        response = self.http.post(path, json={} if body is None else body, params=params)
        assert response.status_code < 500, response.text
        return response

    def end(self) -> None:
        super().end()
        self.http.close()

    def enqueue(self, task: str, count: int, label: str = "", **args: object) -> dict[str, str]:
        """Enqueue `count` jobs in one request; job id by ref."""
        refs = [f"{label or task}-{number}" for number in range(count)]
        answer = self.post(f"/many/{task}", {"refs": refs, "args": args})
        assert answer.status_code == 202, answer.text
        return dict(zip(refs, answer.json()["ids"], strict=True))

    def enqueue_one_by_one(
        self, task: str, count: int, label: str = "", threads: int = 8, **args: object
    ) -> dict[str, str]:
        """Enqueue `count` jobs with a request each, from several clients at once; job id by ref."""

        def send(ref: str) -> tuple[str, str]:
            answer = self.post(f"/one/{task}/{ref}", args)
            assert answer.status_code == 202, answer.text
            return ref, answer.json()["id"]

        with ThreadPoolExecutor(threads) as pool:
            return dict(pool.map(send, [f"{label or task}-one-{number}" for number in range(count)]))


async def _stand_in(ref: str, seconds: float = 0.0) -> None: ...


def _stand_in_def(ref: str, seconds: float = 0.0, rounds: int = 0, marker: str = "") -> None: ...


def alive(pid: int) -> bool:
    """Is there such a process that has not ended?"""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
