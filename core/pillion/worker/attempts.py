"""The attempts of one job loop: started from claims, ended by settlements in the outbox."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from pillion import eager
from pillion.model import Claim, Settlement
from pillion.policy import transitions
from pillion.worker import logbook
from pillion.worker.attempt import Attempt
from pillion.worker.outbox import Outbox

if TYPE_CHECKING:
    from pillion.resource import LoopResources
    from pillion.worker.runtime import Runtime

log = logging.getLogger("pillion")


class Attempts:
    """`wake` tells the loop of an outcome, on the loop; `signal` does so from another thread."""

    def __init__(self, runtime: Runtime, wake: Callable[[], None], signal: Callable[[], None]) -> None:
        self._runtime = runtime
        self._wake = wake
        self._signal = signal
        self._worker = ""  # the id under which this loop claims now
        self.running: set[Attempt] = set()  # until the code has ended, whatever became of the claim meanwhile
        self.outbox = Outbox()

    def under(self, worker: str) -> None:
        """Claims come under this worker id from now on; outcomes of an earlier one are dropped."""
        self._worker = worker

    def start(self, claims: Sequence[Claim], loop: asyncio.AbstractEventLoop, resources: LoopResources) -> None:
        """Start what was claimed; while draining, and for unknown tasks, hand it back."""
        runtime = self._runtime
        for claim in claims:
            task = runtime.find(claim.task)
            if task is None or runtime.draining:
                if task is None:
                    runtime.met_unknown(claim.task)
                runtime.slots.free(claim)
                self.outbox.put(transitions.released(claim, runtime.runner.retention), claim.id)
                continue
            attempt = Attempt(claim, task, self._worker)
            self.running.add(attempt)
            try:
                self._begin(attempt, loop, resources)
            except Exception as error:  # no thread can be had, say: this job's trouble, not that of the others
                if attempt in self.running:
                    self._ended(attempt, runtime.runner.ended_by(attempt, error))

    def _begin(self, attempt: Attempt, loop: asyncio.AbstractEventLoop, resources: LoopResources) -> None:
        runtime, task = self._runtime, attempt.task
        kind = runtime.kind_of(task)
        if kind == "async":
            self._spawn(attempt, loop, runtime.runner.on_loop(attempt, resources, self._finish))
        elif kind == "app":
            runtime.start_on_app(attempt, self._finish_elsewhere)
        elif task.injected:
            run = runtime.runner.in_thread_with_injection(attempt, resources, runtime.threads, self._finish)
            self._spawn(attempt, loop, run)
        else:
            attempt.thread = True
            runtime.threads.submit(_ThreadRun(runtime.runner.in_thread, attempt, self._finish_elsewhere))

    def compare(self, held: Sequence[Claim]) -> None:
        """Bring what runs here and what the store shows under this link together.

        What is not known here goes back free of charge; what the store no longer shows is asked to stop.
        """
        # A number never repeats on a link, so (seq, ticket) tells one claim of a job from its next.
        ours = {(attempt.claim.seq, attempt.claim.ticket): attempt for attempt in self._current()}
        pending = {(settlement.seq, settlement.ticket) for settlement, _ in self.outbox.peek()}
        shown = {(claim.seq, claim.ticket) for claim in held}
        for claim in held:
            key = (claim.seq, claim.ticket)
            if key not in ours and key not in pending:
                self.outbox.put(transitions.released(claim, self._runtime.runner.retention), claim.id)
        for key, attempt in ours.items():
            if key not in shown and key not in pending and attempt.stop is None:
                claim = attempt.claim
                log.warning("job %s of %s is no longer ours in the store; it is asked to stop", claim.id, claim.task)
                attempt.ask_soon("lost")

    def abandon(self) -> None:
        """The present id was declared dead: ask what was claimed under it to stop."""
        for attempt in self._current():
            if attempt.stop is None:
                attempt.ask_soon("lost")

    def _current(self) -> list[Attempt]:
        """Those claimed under the present id: what ran when an earlier one was declared dead is not ours any more."""
        return [attempt for attempt in list(self.running) if attempt.worker == self._worker]

    def _spawn(self, attempt: Attempt, loop: asyncio.AbstractEventLoop, run: Coroutine[Any, Any, None]) -> None:
        attempt.loop = loop
        coroutine = eager.start(run, loop, contextvars.Context())
        if not coroutine.done():
            attempt.coroutine = coroutine
            if not eager.EAGER:  # cancelled by foreign code before its first step, it would end unseen
                coroutine.add_done_callback(partial(self._never_began, attempt))
            timeout = self._runtime.runner.timeout(attempt)
            if timeout is not None and not attempt.thread:
                attempt.timer = loop.call_later(timeout, attempt.timed_out)

    def _never_began(self, attempt: Attempt, _coroutine: asyncio.Task[None]) -> None:
        if not attempt.begun and attempt in self.running:
            self._finish(attempt, self._runtime.runner.ended_by(attempt, asyncio.CancelledError()))

    def _finish(self, attempt: Attempt, settlement: Settlement) -> None:
        """An attempt's code has ended, on this loop."""
        if attempt.timer is not None:
            attempt.timer.cancel()
        self._ended(attempt, settlement)
        self._wake()

    def _finish_elsewhere(self, attempt: Attempt, settlement: Settlement) -> None:
        """An attempt's code has ended, on another thread; a timer it has lives there too."""
        if attempt.timer is not None:
            attempt.timer.cancel()
        self._ended(attempt, settlement)
        self._signal()

    def _ended(self, attempt: Attempt, settlement: Settlement) -> None:
        claim = attempt.claim
        # The outcome first: who sees that nothing runs any more may count on finding it in the outbox.
        if attempt.worker == self._worker:
            self.outbox.put(settlement, claim.id)
        self.running.discard(attempt)
        self._runtime.slots.free(claim)
        if settlement.error is not None:
            logbook.tell_failure(attempt, settlement)


class _ThreadRun:
    """A `def` job's run as a plain callable; lighter than a closure a job."""

    __slots__ = ("_attempt", "_finish", "_run")

    def __init__(self, run: Callable[..., None], attempt: Attempt, finish: Callable[..., None]) -> None:
        self._run = run
        self._attempt = attempt
        self._finish = finish

    def __call__(self) -> None:
        contextvars.Context().run(self._run, self._attempt, None, self._finish)
