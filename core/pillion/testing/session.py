"""A worker that lives for one call. It claims jobs one at a time and runs each on the running loop.

Everything that decides about a job is what runs it in production: the store, `Runner` and the numbered exchanges.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import secrets
import socket
from collections.abc import Sequence
from types import TracebackType
from typing import Final, get_args

from pillion.desk import Desk
from pillion.ground import Ground
from pillion.host import boot_id
from pillion.model import FINAL, Claim, Kind, Report, Settlement, Want, WorkerInfo
from pillion.policy import transitions
from pillion.process import Scope
from pillion.registry import Registry
from pillion.store.base import Link
from pillion.worker.attempt import Attempt
from pillion.worker.exchanges import Exchanges
from pillion.worker.run import Runner
from pillion.worker.threads import DaemonThreads

log = logging.getLogger("pillion")

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_LEASE_US: Final = 100 * 366 * 86_400 * 1_000_000  # a century: moving the clock must not end it
_BATCH: Final = 1000  # due jobs made ready in one step
_STOP: Final = 1.0  # seconds that jobs have to end when their run is given up


class Session:
    """Enter it to join the store, leave it to hand back what has not ended."""

    def __init__(self, ground: Ground, desk: Desk, tasks: Registry) -> None:
        settings = ground.settings
        self.queues = tuple(settings.queues)
        self.errors: list[tuple[Claim, BaseException]] = []  # what jobs raised, in order
        self.due_in_us: int | None = None  # until the next scheduled job, as of the last claim
        self._retention = settings.retention
        self._process = ground.process()
        self._tasks = tasks
        self._runner = _Listening(
            desk.inject, settings.max_attempts, settings.timeout, settings.backoff, settings.retention
        )
        self._runner.errors = self.errors
        self._id = "t" + secrets.token_hex(8)
        self._only: Sequence[str] = ()
        self._attempts: dict[int, Attempt] = {}
        self._runs: set[asyncio.Task[None]] = set()
        self._unwanted: set[int] = set()  # seqs that somebody wishes cancelled

    async def __aenter__(self) -> Session:
        self._scope: Scope = await self._process.borrowed()
        store = self._process.store
        await store.open()
        self.link: Link = await store.link(self._id, 0)
        self._exchanges = Exchanges(self.link, lambda: self._only, self._retention)
        await self.link.join(
            WorkerInfo(
                id=self._id,
                host=socket.gethostname(),
                boot=boot_id(),
                pid=os.getpid(),
                links=1,
                lease_us=_LEASE_US,
                tasks=list(self._tasks),
                queues=list(self.queues),
            )
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for attempt in self._attempts.values():
            attempt.ask("drain")
        if self._runs:
            await asyncio.wait(self._runs, timeout=_STOP)
        await self.link.leave(self._id)
        await self.link.aclose()

    async def claim(self, wants: Sequence[Want], only: Sequence[str] | None = None) -> list[Claim]:
        """What is due now, of the wants and of these tasks (None: all that are known)."""
        await self.link.promote(_BATCH)
        self._only = list(self._tasks) if only is None else only
        answer = await self._exchanges.exchange((), wants)
        self.due_in_us = answer.due_in_us
        return answer.claims

    async def hand_back(self, claims: Sequence[Claim]) -> None:
        """Give back, free of charge, what was claimed and not started."""
        if claims:
            await self._exchanges.exchange([transitions.released(claim, self._retention) for claim in claims], ())

    def start(self, claim: Claim) -> asyncio.Task[None]:
        """Run a claimed job; the task ends once its outcome is stored."""
        run = asyncio.get_running_loop().create_task(self._run(claim), name=f"pillion-test-{claim.id}")
        self._runs.add(run)
        run.add_done_callback(self._runs.discard)
        return run

    async def hear_wishes(self) -> None:
        """Ask those jobs to end that somebody wishes cancelled."""
        orders = await self.link.beat(self._id, Report())
        self._unwanted.update(orders.cancels)
        for seq in orders.cancels:
            attempt = self._attempts.get(seq)
            if attempt is not None and attempt.stop is None:
                attempt.ask("cancel")

    async def _run(self, claim: Claim) -> None:
        attempt = Attempt(claim, self._tasks[claim.task], self._id)
        if claim.seq in self._unwanted:
            attempt.stop = "cancel"
        self._attempts[claim.seq] = attempt
        try:
            settlement = await self._outcome(attempt)
        finally:
            del self._attempts[claim.seq]
        await self._exchanges.exchange([settlement], ())
        if settlement.state in FINAL:
            self._process.waits.ended([claim.id])

    async def _outcome(self, attempt: Attempt) -> Settlement:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Settlement] = loop.create_future()

        def finish(_attempt: Attempt, settlement: Settlement) -> None:
            if not ended.done():
                ended.set_result(settlement)

        resources = self._scope.resources
        attempt.loop = loop
        if attempt.task.kind != "thread":
            run = self._runner.on_loop(attempt, resources, finish)
            attempt.coroutine = loop.create_task(run, context=contextvars.Context())
            if (timeout := self._runner.timeout(attempt)) is not None:
                attempt.timer = loop.call_later(timeout, attempt.timed_out)
            try:
                return await ended
            finally:
                if attempt.timer is not None:
                    attempt.timer.cancel()
        # A thread of its own: a `def` job may enqueue another one inline, and wait for it.
        threads = DaemonThreads(1, "pillion-test-job")
        run = self._runner.in_thread_with_injection(attempt, resources, threads, finish)
        attempt.coroutine = loop.create_task(run, context=contextvars.Context())
        try:
            return await ended
        finally:
            threads.close(_STOP if ended.done() else 0.0)


class _Listening(Runner):
    """Keeps what jobs raised, and logs it with its traceback."""

    errors: list[tuple[Claim, BaseException]]

    def ended_by(self, attempt: Attempt, error: BaseException) -> Settlement:
        settlement = super().ended_by(attempt, error)
        if settlement.error is not None:
            self.errors.append((attempt.claim, error))
            log.warning("job %s of %s raised", attempt.claim.id, attempt.task.name, exc_info=error)
        return settlement
