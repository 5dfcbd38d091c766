"""A job loop: an event loop in a thread of its own that claims, runs and settles jobs.

One exchange with the store a cycle: outcomes go in, claims come out. While an exchange is in flight the next
outcomes gather.
"""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pillion.model import Claim, Kind, Settlement, Want
from pillion.policy.claims import more_expected
from pillion.process import Scope
from pillion.store.base import Link
from pillion.worker import logbook
from pillion.worker.attempt import Attempt
from pillion.worker.attempts import Attempts
from pillion.worker.exchanges import Exchanges
from pillion.worker.threads import DaemonExecutor

if TYPE_CHECKING:
    from pillion.worker.identity import Identity
    from pillion.worker.runtime import Runtime

log = logging.getLogger("pillion")
_WIDE_EVERY: Final = 1.0  # seconds between exchanges that ask for suspects and for kinds that no task of ours has
_COMPARE_EVERY: Final = 10.0  # seconds between comparisons of what runs here with what the store shows
_FIRST_PAUSE: Final = 0.05  # seconds before cycles that broke off are taken up again; doubles up to the last
_LAST_PAUSE: Final = 2.0
_ALL_KINDS: Final[tuple[Kind, ...]] = ("async", "thread", "app")


class JobLoop:
    """Loop number `index` of this process's worker."""

    def __init__(self, runtime: Runtime, index: int) -> None:
        self._runtime = runtime
        self.index = index
        self.seen_at = time.monotonic()  # when the loop last took a turn, for the watchdog
        self.loop: asyncio.AbstractEventLoop | None = None  # once the thread runs
        self._attempts = Attempts(runtime, self._wake, self.signal)
        self._exchanges: Exchanges | None = None
        self._identity: Identity | None = None  # whose numbers `_exchanges` counts
        self._link: Link | None = None
        self._scope: Scope | None = None
        self._sleeper: asyncio.Future[None] | None = None
        self._signalled = False  # a wake-up from another thread is on its way
        self._look = True  # there may be something to claim
        self._empty_looks = 0  # in a row
        self._told_idle = False  # siblings know that this process would take more
        self._nudges = 0
        self._closing = False
        self._abandoned = False
        self._broken: str | None = None  # why the cycles broke off; None: they turn
        self._flying = 0  # outcomes on their way to the store
        self._wide_at = 0.0
        self._compare_at = 0.0
        self._main: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run_thread, name=f"pillion-loop-{index}", daemon=True)

    # -- from other threads --------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def running(self) -> set[Attempt]:
        """Attempts whose code has not ended."""
        return self._attempts.running

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
        return len(self._attempts.outbox) + self._flying

    @property
    def last_answer(self) -> float:
        """The monotonic instant of the last answered exchange; 0: none yet."""
        return self._exchanges.last_answer if self._exchanges else 0.0

    @property
    def trouble(self) -> bool:
        """True while the store does not answer."""
        return self._broken is not None or (self._exchanges is not None and self._exchanges.trouble is not None)

    def signal(self) -> None:
        """Wake the loop; cheap when a wake-up is on its way already."""
        if not self._signalled and self.loop is not None:
            self._signalled = True
            try:
                self.loop.call_soon_threadsafe(self._signal_arrived)
            except RuntimeError:  # closed
                self._signalled = False

    def nudge(self) -> None:
        """There may be something to claim."""
        self._look_anew()
        self.signal()

    def _look_anew(self) -> None:
        """There may be something to claim, in any queue."""
        self._nudges += 1
        self._empty_looks = 0
        self._look = True

    def request_close(self) -> None:
        """End the loop once all code has ended and its outcomes are handed in; returns at once."""
        self._closing = True
        self.signal()

    def abandon(self) -> None:
        """End it now: an exchange that nobody answers is given up with the process."""
        self._abandoned = True
        if self.loop is not None and self._main is not None:
            with suppress(RuntimeError):
                self.loop.call_soon_threadsafe(self._main.cancel)

    def turn(self) -> None:
        """The watchdog's question, on the loop: it takes a turn."""
        self.seen_at = time.monotonic()

    # -- the thread ----------------------------------------------------------------------------------------

    def _run_thread(self) -> None:
        loop = self._runtime.new_event_loop()
        asyncio.set_event_loop(loop)
        loop.set_default_executor(DaemonExecutor(self._runtime.settings.threads, f"pillion-io-{self.index}"))
        self.loop = loop
        pause = _FIRST_PAUSE
        try:
            while not self._abandoned and not self._serve_on(loop):
                # Something that is no trouble of the store's, or foreign code that cancelled what it did not own.
                loop.run_until_complete(asyncio.sleep(pause))
                pause = min(pause * 2, _LAST_PAUSE)
        except Exception:
            log.exception("job loop %d ended unexpectedly", self.index)
        finally:
            self._wind_up(loop)

    def _serve_on(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Run cycles until the loop is to close: True. False: they broke off, and are to be taken up again."""
        main = self._main = loop.create_task(self._serve(loop), name="pillion-exchange")
        try:
            while not main.done():
                try:
                    loop.run_until_complete(main)
                except (SystemExit, KeyboardInterrupt):  # left by foreign code on the loop: entered again
                    log.warning("something on job loop %d raised SystemExit; the loop goes on", self.index)
        except asyncio.CancelledError:
            if not self._abandoned:
                log.error("somebody cancelled job loop %d itself; it goes on", self.index)
            return False
        except Exception as error:
            log.exception("job loop %d broke off; it goes on", self.index)
            self._broken = str(error)
            return False
        return True

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

    # -- cycles ----------------------------------------------------------------------------------------------

    async def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        runtime = self._runtime
        if self._scope is None:
            self._scope = runtime.process.scope()
            self._scope.users += 1
        while not self._closing:
            identity = runtime.identity
            if identity is None or identity.dead:
                await self._sleep(loop)
                continue
            self._attempts.under(identity.id)
            self._link = await runtime.process.store.link(identity.id, self.index)
            # Numbers only grow under one name, also when the cycles are taken up again.
            number = self._exchanges.number if self._exchanges and self._identity is identity else 0
            self._identity = identity
            self._exchanges = Exchanges(self._link, lambda: runtime.only, runtime.runner.retention, number)
            self._compare_at = time.monotonic() + _COMPARE_EVERY
            hints = loop.create_task(self._follow(self._link), name="pillion-hints")
            try:
                await self._cycles(loop, identity, self._exchanges)
            finally:
                hints.cancel()
                await asyncio.wait([hints], timeout=1.0)
                link, self._link = self._link, None
                self._told_idle = False
                await link.aclose()

    async def _follow(self, link: Link) -> None:
        async for hint in link.hints():
            if hint == "ready":
                self._look_anew()
                self._wake()
            else:
                self._runtime.process.waits.look_again()

    async def _cycles(self, loop: asyncio.AbstractEventLoop, identity: Identity, exchanges: Exchanges) -> None:
        runtime, slots, outbox = self._runtime, self._runtime.slots, self._attempts.outbox
        assert self._scope is not None
        resources = self._scope.resources
        while not (self._closing and not outbox and not self.running):
            if identity.dead:
                outbox.clear()
                return
            if exchanges.interrupted or time.monotonic() >= self._compare_at:
                await self._compare(exchanges)
            batch = outbox.take()
            wants = self._wants(bool(batch))
            if not batch and not wants:
                await self._rest(loop)
                continue
            nudges = self._nudges
            settled = [settlement for settlement, _ in batch]
            self._flying = len(batch)
            try:
                answer = await exchanges.exchange(settled, wants)
            except BaseException:
                slots.settle(wants, ())
                outbox.put_back(batch)
                raise
            finally:
                self._flying = 0
            if _buried(identity):  # declared dead while the answer was under way: what it brought runs elsewhere
                slots.settle(wants, ())
                outbox.clear()
                return
            slots.settle(wants, answer.claims)
            self._broken = None
            if batch:
                self._settled(batch, answer.refused)
            if answer.claims:
                self._attempts.start(answer.claims, loop, resources)
                if _buried(identity):  # … or while they were started
                    self._attempts.abandon()
            self._decide_look(wants, answer.claims, settled, nudges)
            if answer.standing == "dead":
                runtime.bury(identity)
            elif answer.standing == "lapsed":
                self._look = False  # the next beat revives the lease and nudges

    def _wants(self, settling: bool) -> list[Want]:
        """What to ask for: nothing while draining, or when the last look found nothing and none came since."""
        runtime = self._runtime
        if runtime.draining or self._closing or not (self._look or settling):
            return []
        now = time.monotonic()
        wide = now >= self._wide_at
        if wide:
            self._wide_at = now + _WIDE_EVERY
        return runtime.slots.reserve(runtime.runnable(_ALL_KINDS if wide else runtime.kinds), suspect=wide)

    def _decide_look(
        self, wants: Sequence[Want], claims: Sequence[Claim], settled: Sequence[Settlement], nudges: int
    ) -> None:
        more = more_expected(wants, claims, settled)
        if not wants:
            self._look = self._look or more
            return
        # A look that asked for a suspect, or had fewer slots than there are queues, has not seen all: it goes on.
        seen = {want.queue for want in wants if not want.suspect}
        if self._nudges == nudges:  # else it was set back meanwhile
            self._empty_looks = 0 if claims else self._empty_looks + 1
        queues = len(self._runtime.settings.queues)
        unseen = len(seen) < queues and self._empty_looks <= queues
        self._look = more or unseen or self._nudges != nudges or any(want.suspect for want in wants)

    async def _compare(self, exchanges: Exchanges) -> None:
        held = await exchanges.held()
        if held is not None:
            self._attempts.compare(held)
            exchanges.interrupted = False
        self._compare_at = time.monotonic() + _COMPARE_EVERY

    def _settled(self, batch: Sequence[tuple[Settlement, str]], refused: Sequence[int]) -> None:
        runtime = self._runtime
        runtime.count(settlement for settlement, _ in batch)
        logbook.tell_outcomes(batch)
        if refused:
            log.warning("%d outcomes came too late: those jobs run elsewhere by now", len(refused))
        if runtime.process.waits:  # one that was to wait again may have been cancelled by a wish
            runtime.process.waits.ended(job_id for _, job_id in batch)
        for settlement, _ in batch:
            if settlement.state == "scheduled":
                runtime.scheduled_in(settlement.delay_us)

    async def _rest(self, loop: asyncio.AbstractEventLoop) -> None:
        """Nothing to hand in and nothing to ask for: every slot is taken, or the queues were empty."""
        runtime = self._runtime
        full = self._look or runtime.draining or self._closing or not runtime.slots.have_room(runtime.kinds)
        if full or self._told_idle:
            if full:
                self.tell_idle(False)
            await self._sleep(loop)
        else:
            # What became ready before siblings know us as idle woke somebody else: look once more.
            self.tell_idle(True)
            self._look_anew()

    async def _sleep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Until woken, or for one poll interval; then look at the store again."""
        if self._signalled or self._attempts.outbox:  # came between the last look and now
            await asyncio.sleep(0)
            return
        self._sleeper = loop.create_future()
        interval = self._runtime.settings.poll_interval * (0.9 + 0.2 * random.random())
        timer = loop.call_later(interval, self._poll)
        try:
            await self._sleeper
        finally:
            timer.cancel()
            self._sleeper = None

    def _poll(self) -> None:
        self._look_anew()
        self._wide_at = 0.0
        self._wake()

    def tell_idle(self, idle: bool) -> None:
        """Siblings wake an idle process for jobs that they cannot take themselves. From any thread."""
        idle = idle and not self._runtime.draining
        if self._link is not None and idle != self._told_idle:
            self._told_idle = idle
            self._link.idle(idle)


def _buried(identity: Identity) -> bool:
    """Whether another thread has declared it dead meanwhile."""
    return identity.dead
