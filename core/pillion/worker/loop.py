"""A job loop: an event loop in a thread of its own that claims, runs and settles jobs.

One exchange with the store a cycle: outcomes go in, claims come out. While an exchange is in flight the next
outcomes gather. An exchange is never cancelled; unanswered, it is repeated under its number.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import random
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from pillion import failure
from pillion.errors import StoreAway, StoreContended, StoreData
from pillion.model import FINAL, Claim, Exchanged, Kind, Settlement, Want
from pillion.policy import transitions
from pillion.process import Scope
from pillion.store.base import Link
from pillion.worker.attempt import Attempt
from pillion.worker.outbox import Outbox
from pillion.worker.threads import DaemonExecutor

if TYPE_CHECKING:
    from pillion.worker.identity import Identity
    from pillion.worker.runtime import Runtime

log = logging.getLogger("pillion")
_EAGER: Final = sys.version_info >= (3, 12)
_WIDE_EVERY: Final = 1.0  # seconds between exchanges that ask for suspects and for kinds that no task of ours has
_RECONCILE_EVERY: Final = 10.0  # seconds between comparisons of what runs here with what the store shows
_FIRST_PAUSE: Final = 0.02  # seconds before an unanswered exchange is repeated; doubles up to the last
_LAST_PAUSE: Final = 1.0
_ALL_KINDS: Final[tuple[Kind, ...]] = ("async", "thread", "app")


class JobLoop:
    """Loop number `index` of this process's worker."""

    def __init__(self, runtime: Runtime, index: int) -> None:
        self._runtime = runtime
        self.index = index
        self.running: dict[int, Attempt] = {}
        self.seen_at = time.monotonic()  # when the loop last took a turn, for the watchdog
        self.trouble: str | None = None  # why the last exchange was not answered
        self.exchanges = 0
        self.last_answer = 0.0  # monotonic; 0: none yet
        self._outbox = Outbox()
        self._identity: Identity | None = None
        self._link: Link | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._scope: Scope | None = None
        self._sleeper: asyncio.Future[None] | None = None
        self._signalled = False  # a wake-up from another thread is on its way
        self._look = True  # there may be something to claim
        self._nudges = 0
        self._closing = False
        self._wide_at = 0.0
        self._reconcile_at = 0.0
        self._main: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run_thread, name=f"pillion-loop-{index}", daemon=True)

    # -- from other threads --------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop, once the thread runs."""
        return self._loop

    @property
    def alive(self) -> bool:
        """False once the thread has ended."""
        return self._thread.is_alive()

    @property
    def idle(self) -> bool:
        """True while it sleeps for want of work."""
        return self._sleeper is not None

    @property
    def pending(self) -> int:
        """Outcomes not handed in yet."""
        return len(self._outbox)

    def signal(self) -> None:
        """Wake the loop; cheap when a wake-up is on its way already."""
        if not self._signalled and self._loop is not None:
            self._signalled = True
            try:
                self._loop.call_soon_threadsafe(self._signal_arrived)
            except RuntimeError:  # closed
                self._signalled = False

    def nudge(self) -> None:
        """There may be something to claim."""
        self._nudges += 1
        self._look = True
        self.signal()

    def request_close(self) -> None:
        """End the loop once its outcomes are handed in; from any thread, returns at once."""
        self._closing = True
        self.signal()

    def abandon(self) -> None:
        """End it now: an exchange that nobody answers is given up with the process."""
        if self._loop is not None and self._main is not None:
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._main.cancel)

    # -- the thread ----------------------------------------------------------------------------------------

    def _run_thread(self) -> None:
        loop = self._runtime.new_event_loop()
        asyncio.set_event_loop(loop)
        loop.set_default_executor(DaemonExecutor(self._runtime.settings.threads, f"pillion-io-{self.index}"))
        self._loop = loop
        self._main = loop.create_task(self._serve(), name="pillion-exchange")
        try:
            while not self._main.done():
                try:
                    loop.run_until_complete(self._main)
                except (SystemExit, KeyboardInterrupt):  # left by foreign code on the loop: entered again
                    log.warning("something on job loop %d raised SystemExit; it goes on", self.index)
                except asyncio.CancelledError:
                    break
        finally:
            self._wind_up(loop)

    def _wind_up(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            if self._scope is not None:
                loop.run_until_complete(self._runtime.process.close_scope(self._scope))
            left = [task for task in asyncio.all_tasks(loop) if not task.done()]
            for task in left:
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.wait(left, timeout=0.5))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        except Exception:
            log.exception("job loop %d did not end cleanly", self.index)
        finally:
            asyncio.set_event_loop(None)
            loop.close()

    def _signal_arrived(self) -> None:
        self._signalled = False
        self._wake()

    def _wake(self) -> None:
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    def turn(self) -> None:
        """The watchdog's question: the loop takes a turn."""
        self.seen_at = time.monotonic()

    # -- cycles ----------------------------------------------------------------------------------------------

    async def _serve(self) -> None:
        self._scope = self._runtime.process.scope()
        self._scope.users += 1
        while not self._closing:
            identity = self._runtime.identity
            if identity is None or identity.dead:
                await self._sleep()
                continue
            self._identity = identity
            link = self._link = await self._runtime.process.store.link(identity.id, self.index)
            hints = asyncio.create_task(self._follow(link), name="pillion-hints")
            try:
                await self._cycles(identity, link)
            finally:
                hints.cancel()
                await asyncio.wait([hints], timeout=1.0)
                self._link = None
                await link.aclose()

    async def _follow(self, link: Link) -> None:
        async for hint in link.hints():
            if hint == "ready":
                self._nudges += 1
                self._look = True
                self._wake()
            else:
                self._runtime.process.waits.look_again()

    async def _cycles(self, identity: Identity, link: Link) -> None:
        runtime, slots, outbox = self._runtime, self._runtime.slots, self._outbox
        number = 0
        while not (self._closing and not outbox):
            if identity.dead:
                outbox.clear()
                return
            now = time.monotonic()
            if now >= self._reconcile_at:
                await self._reconcile(link)
                self._reconcile_at = now + _RECONCILE_EVERY
            batch = outbox.take()
            wants: list[Want] = []
            if (self._look or batch) and not runtime.draining and not self._closing:
                wide = now >= self._wide_at
                if wide:
                    self._wide_at = now + _WIDE_EVERY
                wants = slots.reserve(_ALL_KINDS if wide else runtime.kinds, suspect=wide)
            if not batch and not wants:
                await self._sleep()
                continue
            nudges = self._nudges
            number += 1
            settled = [settlement for settlement, _ in batch]
            try:
                answer = await self._exchange(link, number, settled, wants)
            except StoreData:
                slots.settle(wants, ())
                number = await self._one_by_one(link, number, settled)
                continue
            slots.settle(wants, answer.claims)
            self._answered(batch, answer)
            more = _more(wants, answer.claims, settled)
            if answer.claims:
                self._start_all(answer.claims, identity)
            if wants:
                self._look = more or self._nudges != nudges
            else:
                self._look = self._look or more
            if answer.standing == "dead":
                runtime.bury(identity)
            elif answer.standing == "lapsed":
                self._look = False  # the next beat revives the lease and nudges

    async def _exchange(
        self, link: Link, number: int, settled: Sequence[Settlement], wants: Sequence[Want]
    ) -> Exchanged:
        """One exchange, repeated under its number until it is answered. Raises only `StoreData`."""
        pause = _FIRST_PAUSE
        while True:
            try:
                answer = await link.exchange(number, settled, wants, self._runtime.only)
            except (StoreAway, StoreContended) as error:
                if self.trouble is None:
                    log.warning("the store cannot be used now (%s); outcomes are kept and handed in again", error)
                self.trouble = str(error)
                await asyncio.sleep(pause * (0.5 + random.random()))
                pause = min(pause * 2, _LAST_PAUSE)
            else:
                if self.trouble is not None:
                    log.warning("the store can be used again")
                    self.trouble = None
                    self._reconcile_at = 0.0
                self.exchanges += 1
                self.last_answer = time.monotonic()
                return answer

    async def _one_by_one(self, link: Link, number: int, settled: Sequence[Settlement]) -> int:
        """Hand in alone what the store refused together; the culprit goes in as failed. The last number used."""
        for settlement in settled:
            number += 1
            try:
                await self._exchange(link, number, [settlement], ())
            except StoreData as error:
                log.error("the store refused the outcome of a job (%s); it is recorded as failed", type(error).__name__)
                number += 1
                await self._exchange(link, number, [_refused(settlement, self._runtime.runner.retention)], ())
        return number

    def _answered(self, batch: Sequence[tuple[Settlement, str]], answer: Exchanged) -> None:
        if not batch:
            return
        self._runtime.count(settlement for settlement, _ in batch)
        if answer.refused:
            log.warning("%d outcomes came too late: those jobs run elsewhere by now", len(answer.refused))
        if self._runtime.process.waits:
            self._runtime.process.waits.ended(job_id for settlement, job_id in batch if settlement.state in FINAL)
        delays = [settlement.delay_us for settlement, _ in batch if settlement.state == "scheduled"]
        if delays:
            self._runtime.scheduled_in(min(delays))

    async def _sleep(self) -> None:
        """Until woken, or for one poll interval; then look at the store again."""
        if self._loop is None:
            return
        self._sleeper = self._loop.create_future()
        if self._signalled or len(self._outbox):  # came between the last look and now
            self._sleeper = None
            await asyncio.sleep(0)
            return
        interval = self._runtime.settings.poll_interval * (0.9 + 0.2 * random.random())
        timer = self._loop.call_later(interval, self._poll)
        self._tell_idle(True)
        try:
            await self._sleeper
        finally:
            timer.cancel()
            self._sleeper = None
            self._tell_idle(False)

    def _tell_idle(self, idle: bool) -> None:
        """Siblings wake an idle process for jobs that they cannot take themselves."""
        if self._link is not None:
            self._link.idle(idle and not self._runtime.draining)

    def _poll(self) -> None:
        self._look = True
        self._wide_at = 0.0
        self._wake()

    async def _reconcile(self, link: Link) -> None:
        """Compare what runs here with what the store shows under this link (a lost answer, a changed store)."""
        try:
            held = {claim.seq: claim for claim in await link.held()}
        except (StoreAway, StoreContended):
            return
        pending = {settlement.seq for settlement, _ in self._outbox.peek()}
        for seq, claim in held.items():
            if seq not in self.running and seq not in pending:
                self._outbox.put(transitions.released(claim, self._runtime.runner.retention), claim.id)
        for seq, attempt in list(self.running.items()):
            if seq not in held or held[seq].ticket != attempt.claim.ticket:
                log.warning("job %s of %s is no longer ours in the store; asking it to stop", attempt.claim.id, attempt.claim.task)
                attempt.ask_soon("lost")

    # -- attempts ----------------------------------------------------------------------------------------------

    def _start_all(self, claims: Sequence[Claim], identity: Identity) -> None:
        runtime = self._runtime
        for claim in claims:
            task = runtime.find(claim.task)
            if task is None or runtime.draining:
                if task is None:
                    runtime.met_unknown(claim.task)
                runtime.slots.free(claim)
                self._outbox.put(transitions.released(claim, runtime.runner.retention), claim.id)
                continue
            attempt = Attempt(claim, task, identity.id)
            self.running[claim.seq] = attempt
            kind = runtime.kind_of(task)
            if kind == "async":
                self._spawn(attempt)
            elif kind == "app":
                runtime.start_on_app(attempt, self._finish_elsewhere)
            elif task.injected:
                self._spawn(attempt, in_thread=True)
            else:
                attempt.thread = True
                runtime.threads.submit(_ThreadRun(runtime.runner, attempt, self._finish_elsewhere))

    def _spawn(self, attempt: Attempt, in_thread: bool = False) -> None:
        assert self._loop is not None and self._scope is not None
        attempt.loop = self._loop
        resources = self._scope.resources
        run = (
            self._runtime.runner.in_thread_with_injection(attempt, resources, self._runtime.threads, self._finish)
            if in_thread
            else self._runtime.runner.on_loop(attempt, resources, self._finish)
        )
        coroutine = new_task(run, self._loop)
        if not coroutine.done():
            attempt.coroutine = coroutine
            timeout = self._runtime.runner.timeout(attempt)
            if timeout is not None and not in_thread:
                attempt.timer = self._loop.call_later(timeout, attempt.timed_out)

    def _finish(self, attempt: Attempt, settlement: Settlement) -> None:
        """An attempt's code has ended, on this loop."""
        if attempt.timer is not None:
            attempt.timer.cancel()
        self._ended(attempt, settlement)
        self._wake()

    def _finish_elsewhere(self, attempt: Attempt, settlement: Settlement) -> None:
        """An attempt's code has ended, on another thread."""
        self._ended(attempt, settlement)
        self.signal()

    def _ended(self, attempt: Attempt, settlement: Settlement) -> None:
        claim = attempt.claim
        self.running.pop(claim.seq, None)
        self._runtime.slots.free(claim)
        if self._identity is not None and attempt.worker == self._identity.id:
            self._outbox.put(settlement, claim.id)
        if settlement.error is not None:
            self._runtime.tell_failure(attempt, settlement)


class _ThreadRun:
    """A job's run as a plain callable; lighter than a closure a job."""

    __slots__ = ("_attempt", "_finish", "_runner")

    def __init__(self, runner: Any, attempt: Attempt, finish: Any) -> None:
        self._runner = runner
        self._attempt = attempt
        self._finish = finish

    def __call__(self) -> None:
        contextvars.Context().run(self._runner.in_thread, self._attempt, None, self._finish)


def new_task(run: Any, loop: asyncio.AbstractEventLoop) -> asyncio.Task[None]:
    """A task in a clean context, started at once where Python can (3.12)."""
    if _EAGER:
        return asyncio.Task(run, loop=loop, context=contextvars.Context(), eager_start=True)
    return asyncio.Task(run, loop=loop, context=contextvars.Context())


def _more(wants: Sequence[Want], claims: Sequence[Claim], settled: Sequence[Settlement]) -> bool:
    """Another exchange at once may bring more: a want was filled, or a settlement made a job ready."""
    if any(settlement.state == "queued" for settlement in settled):
        return True
    if not claims:
        return False
    counts: dict[tuple[str, Kind, bool], int] = {}
    for claim in claims:
        sort = (claim.queue, claim.kind, claim.suspect)
        counts[sort] = counts.get(sort, 0) + 1
    return any(counts.get((want.queue, want.kind, want.suspect), 0) >= want.slots for want in wants)


def _refused(settlement: Settlement, retention: Any) -> Settlement:
    error = failure.text("StoreData", "the store refused this job's outcome; see the log of its process")
    return Settlement(
        seq=settlement.seq,
        ticket=settlement.ticket,
        outcome="failed",
        state="failed",
        failures=1,
        keyed=settlement.keyed,
        error=error,
        keep_us=retention.keep_us("failed"),
    )
