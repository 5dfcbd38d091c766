"""This process's worker: its loops, threads and pulse, from start to end."""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from pillion import eager
from pillion.announce import announce, be_seen
from pillion.errors import StoreAway
from pillion.host import boot_id
from pillion.model import Kind, Settlement, WorkerInfo
from pillion.policy import transitions
from pillion.process import Process
from pillion.settings import Settings
from pillion.worker import advice, status
from pillion.worker.attempt import Attempt
from pillion.worker.drain import GRACE, Drain
from pillion.worker.identity import Identity
from pillion.worker.loop import JobLoop
from pillion.worker.pulse import Pulse
from pillion.worker.run import Injection, Runner
from pillion.worker.signals import WATCHER
from pillion.worker.slots import Slots
from pillion.worker.threads import DaemonThreads

if TYPE_CHECKING:
    from pillion.task import Task

log = logging.getLogger("pillion")
_WAITS: Final = 1.0  # seconds that the start waits for the store
_INSISTS: Final = 10.0  # … when it is required
_AT_LEAST: Final = 0.5  # seconds for closing after a drain that used up its time
_UNKNOWN_TOLD: Final = 20  # names of unknown tasks that the log is told
_STEP: Final = 0.005  # seconds between looks at threads that are ending
_LINGER: Final = 0.1  # seconds between looks at code that outlives the drain


class Runtime:
    """Everything that runs jobs in this process for one `Jobs`."""

    def __init__(
        self, settings: Settings, process: Process, tasks: Mapping[str, Task[..., Any]], inject: Injection
    ) -> None:
        self.settings = settings
        self.process = process
        self.started = False  # the start is over: from now on nothing is fatal
        self.draining = False
        self.identity: Identity | None = None
        self.own_ids: set[str] = set()
        self.only: tuple[str, ...] | None = None  # names to claim; None: the store knows no others
        self.signals_note: str | None = None
        self.done: Counter[str] = Counter()  # outcomes since the start
        self.started_at = time.time()
        self._tasks = tasks
        self._told_unknown: set[str] = set()
        self._kinds: tuple[Kind, ...] = ()
        self._kinds_of = -1  # how many names there were when the kinds were last looked up
        self.app_loop: asyncio.AbstractEventLoop | None = None
        self.runner = Runner(inject, settings.max_attempts, settings.timeout, settings.backoff, settings.retention)
        limits: dict[Kind, int] = {
            "async": settings.concurrency,
            "thread": settings.threads,
            "app": settings.concurrency,
        }
        self.slots = Slots(limits, settings.queues, settings.loops)
        self.threads = DaemonThreads(settings.threads, "pillion-job")
        self.loops = [JobLoop(self, index) for index in range(settings.loops)]
        self.pulse = Pulse(self)
        self.drain = Drain(self)

    # -- start and stop, on the app's loop -------------------------------------------------------------------

    async def start(self) -> None:
        """Start the worker. Waits for the store a second at most, unless `require_store` insists.

        Raises `WrongSchema` and other `ConfigurationError`, or `StoreAway` if the store is required and away.
        """
        self.app_loop = asyncio.get_running_loop()
        be_seen()
        self.process.waits.resume()
        self.process.hold()
        self.pulse.start()
        try:
            await self._registered()
        except BaseException:
            self.pulse.end()
            await self._until(lambda: not self.pulse.alive, 2.0)
            await self.process.unhold()
            raise
        for loop in self.loops:
            loop.start()
        self.started = True
        self.signals_note = WATCHER.add(self)
        announce(status.start_line(self))
        tasks = list(dict.fromkeys(self._tasks.values()))
        for note in (*self.process.store.warnings, *advice.warnings(self.settings, tasks, self.kind_of)):
            log.warning("%s", note)

    async def stop(self) -> None:
        """Drain, unless a signal began it already, and end all threads; within the drain timeout and two seconds."""
        self.begin_drain("shutdown")
        await self._until(self.drain.done.is_set, self.settings.drain_timeout + GRACE)
        WATCHER.remove(self)
        # One bound for all that follows; what does not end by then are daemon threads, left behind.
        over = max(self.drain.began + self.settings.drain_timeout + GRACE, time.monotonic() + _AT_LEAST)
        for loop in self.loops:
            loop.request_close()
        await self._until(
            lambda: not any(loop.alive for loop in self.loops), _share(over, 0.1 if self.running() else 1.5)
        )
        if self.running():
            self.pulse.linger()
            return
        for loop in self.loops:
            if loop.alive:
                loop.abandon()
        self.threads.close(0.0)
        self.pulse.end()
        await self._until(lambda: not self.pulse.alive, _share(over, 1.0))
        self.process.waits.resume()
        with suppress(TimeoutError):
            async with asyncio.timeout(max(over - time.monotonic(), _STEP)):
                await self.process.unhold()

    def left(self) -> float:
        """Seconds that closing what jobs and routes used may take, after `stop`."""
        return max(self.drain.began + self.settings.drain_timeout + GRACE - time.monotonic(), _AT_LEAST)

    async def _registered(self) -> None:
        """Wait until this process is registered, so that the first request finds it ready; bounded."""
        insists = self.settings.require_store
        deadline = time.monotonic() + (_INSISTS if insists else _WAITS)
        # A pulse that ended never will be.
        while self.identity is None and self.pulse.alive and time.monotonic() < deadline:
            await asyncio.sleep(_STEP)
        if self.pulse.fatal is not None:
            raise self.pulse.fatal
        if insists and not self.pulse.opened.is_set():
            raise StoreAway(f"the store cannot be reached ({self.pulse.away}) and require_store=True insists on it")

    async def outlive(self) -> None:
        """Code that cannot be stopped goes on: beat for it, hand in its outcome, and only then end. On the pulse.

        If the process is gone first, its certificate frees the job.
        """
        while self.running() or any(loop.alive for loop in self.loops):
            await asyncio.sleep(_LINGER)
        self.threads.close(0.0)

    async def _until(self, holds: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not holds() and time.monotonic() < deadline:
            await asyncio.sleep(_STEP)

    def begin_drain(self, reason: str) -> None:
        """Start draining; from any thread, once."""
        self.drain.begin(reason)

    def hurry_drain(self) -> None:
        """End the drain as soon as may be."""
        self.drain.hurry()

    def await_drained(self) -> None:
        """Block until drained; bounded."""
        self.drain.wait()

    # -- what loops and duties ask -----------------------------------------------------------------------------

    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        """A loop for jobs: uvloop's where it is installed."""
        try:
            import uvloop
        except ImportError:
            return asyncio.new_event_loop()
        return uvloop.new_event_loop()

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds under which jobs of our tasks are stored. (Where one runs is `kind_of`'s to say.)"""
        if self._kinds_of != len(self._tasks):  # a task may be registered late
            self._kinds_of = len(self._tasks)
            self._kinds = tuple(dict.fromkeys(task.kind for task in self._tasks.values()))
        return self._kinds

    def runnable(self, kinds: Sequence[Kind]) -> Sequence[Kind]:
        """Those of `kinds` that can run: none of the app's loop once that is closed."""
        if self.app_loop is not None and not self.app_loop.is_closed():
            return kinds
        gone = ("app", "async") if self.settings.loop == "app" else ("app",)
        return [kind for kind in kinds if kind not in gone]

    def find(self, name: str) -> Task[..., Any] | None:
        """The task of that name or alias."""
        return self._tasks.get(name)

    def task_names(self) -> list[str]:
        """All names served here, aliases included."""
        return list(self._tasks)

    def kind_of(self, task: Task[..., Any]) -> Kind:
        """Where a task runs in this process."""
        if task.kind == "async" and self.settings.loop == "app":
            return "app"
        return task.kind

    def only_known(self, names: Iterable[str]) -> None:
        """Claim by name from now on if the store knows names that this process does not serve."""
        own = set(self._tasks)
        self.only = None if own.issuperset(names) else tuple(sorted(own))

    def met_unknown(self, name: str) -> None:
        """A job of a task that this process does not know was claimed: leave such jobs to others."""
        if name not in self._told_unknown and len(self._told_unknown) < _UNKNOWN_TOLD:
            self._told_unknown.add(name)
            log.warning(
                "no task is called %r in this process, so it leaves such jobs to others; if it is to run them, import "
                "the module that defines the task where the app is made, or keep an old name with aliases=[…]",
                name,
            )
        self.only = tuple(sorted(self._tasks))

    def running(self) -> list[Attempt]:
        """All attempts whose code has not ended."""
        return [attempt for loop in self.loops for attempt in list(loop.running)]

    def cancel(self, seq: int) -> None:
        """Somebody wishes a running job cancelled."""
        for attempt in self.running():
            if attempt.claim.seq == seq and attempt.stop is None and self._is_ours(attempt):
                attempt.ask_soon("cancel")

    def _is_ours(self, attempt: Attempt) -> bool:
        return self.identity is not None and attempt.worker == self.identity.id

    def nudge(self) -> None:
        """There may be something to claim: an idle loop looks, or all look at their next turn."""
        for loop in self.loops:
            if loop.idle:
                loop.nudge()
                return
        for loop in self.loops:
            loop.nudge()

    def scheduled_in(self, delay_us: int) -> None:
        """A job is due in `delay_us`; from any thread."""
        self.pulse.call(self.pulse.timers.due_in, delay_us / 1e6)

    def count(self, settlements: Iterable[Settlement]) -> None:
        """Outcomes that the store has taken."""
        self.done.update(settlement.outcome for settlement in settlements)

    def rescued(self, jobs: int) -> None:
        """Jobs of dead workers that were moved by this one."""
        self.done["rescued"] += jobs
        self.nudge()

    def describe(self, identity: Identity) -> WorkerInfo:
        """The registration row."""
        return WorkerInfo(
            id=identity.id,
            host=socket.gethostname(),
            boot=boot_id(),
            pid=os.getpid(),
            links=self.settings.loops,
            lease_us=round(self.settings.lease * 1e6),
            tasks=self.task_names(),
            queues=list(self.settings.queues),
        )

    def joined(self, identity: Identity) -> None:
        """The worker is registered: the loops may claim."""
        self.own_ids.add(identity.id)
        self.identity = identity
        for loop in self.loops:
            loop.nudge()

    def bury(self, identity: Identity) -> None:
        """This worker was declared dead: cancel what can be cancelled, keep the slots of the rest, start anew."""
        if identity.dead:
            return
        identity.dead = True
        log.warning("this process was taken for dead (it was frozen, or the store was away); its jobs run elsewhere")
        for attempt in self.running():
            if attempt.worker == identity.id:
                attempt.ask_soon("lost")
        for loop in self.loops:
            loop.signal()
        self.pulse.call(self.pulse.beat.soon)

    def start_on_app(self, attempt: Attempt, finish: Callable[[Attempt, Settlement], None]) -> None:
        """Run an attempt on the app's own loop."""
        app_loop = self.app_loop
        assert app_loop is not None
        attempt.loop = app_loop

        def begin() -> None:
            scope = self.process.scope()
            run = self.runner.on_loop(attempt, scope.resources, finish)
            coroutine = eager.start(run, app_loop, contextvars.Context())
            if not coroutine.done():
                attempt.coroutine = coroutine
                timeout = self.runner.timeout(attempt)
                if timeout is not None:
                    attempt.timer = app_loop.call_later(timeout, attempt.timed_out)

        try:
            app_loop.call_soon_threadsafe(begin)
        except RuntimeError:  # that loop is closed, though another context keeps the worker: `runnable` asks no more
            finish(attempt, transitions.released(attempt.claim, self.runner.retention))

    def report(self) -> str:
        """What the beat says of this worker, as JSON."""
        return json.dumps(status.of(self), separators=(",", ":"))


def _share(over: float, most: float) -> float:
    """Seconds for one step of what has to be over at the monotonic instant `over`: half of what is left, at `most`."""
    return min(most, max((over - time.monotonic()) / 2, _STEP))
