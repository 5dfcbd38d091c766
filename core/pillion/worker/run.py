"""From a claim to a settlement: decode, inject, call, encode. Whatever a job raises ends here."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import random
import time
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from pillion import failure
from pillion.errors import ArgumentError, Draining
from pillion.model import Settlement
from pillion.policy import transitions
from pillion.policy.retention import Retention
from pillion.policy.retry import Backoff
from pillion.worker import crossing
from pillion.worker.attempt import CURRENT, Attempt

if TYPE_CHECKING:
    from pillion.resource import LoopResources
    from pillion.task import Task
    from pillion.worker.threads import DaemonThreads


_CHAIN: Final = 50  # exceptions looked at in one chain


log = logging.getLogger("pillion")


class Injection(Protocol):
    """Resolves a task's injected parameters for one run."""

    async def __call__(
        self, task: Task[..., Any], stack: AsyncExitStack, resources: LoopResources
    ) -> dict[str, Any]: ...


class Runner:
    """Runs attempts by the rules of one `Jobs`; the same for every loop and thread."""

    def __init__(
        self, inject: Injection, max_attempts: int, timeout: float | None, backoff: Backoff, retention: Retention
    ) -> None:
        self._inject = inject
        self._max_attempts = max_attempts
        self._timeout = timeout
        self._backoff = backoff
        self.retention = retention
        self.draining = False  # set once: from then on no code begins

    def timeout(self, attempt: Attempt) -> float | None:
        """Seconds that this attempt may run; None: no limit. A task's 0 means no limit too."""
        own = attempt.task.timeout_us
        return self._timeout if own is None else own / 1e6 or None

    async def on_loop(
        self, attempt: Attempt, resources: LoopResources, finish: Callable[[Attempt, Settlement], None]
    ) -> None:
        """Run an async task on this loop and hand its settlement to `finish`."""
        CURRENT.set(attempt)
        attempt.begun = True
        task = attempt.task
        try:
            self._check_may_begin(attempt)
            args, kwargs = task.codec.decode(attempt.claim.args)
            if task.injected:
                value = await self._with_injection(task, args, kwargs, resources)
            else:
                value = await task.fn(*args, **kwargs)
        except GeneratorExit:  # the loop is gone, and this coroutine with it: nobody is there to be told
            raise
        except BaseException as error:  # SystemExit and KeyboardInterrupt too: failures of this job
            settlement = self.ended_by(attempt, error)
        else:
            settlement = transitions.succeeded(attempt.claim, task.codec.encode_result(value), self.retention)
        finish(attempt, settlement)

    async def _with_injection(
        self, task: Task[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], resources: LoopResources
    ) -> Any:
        raised: BaseException | None = None
        value: Any = None
        async with AsyncExitStack() as stack:
            kwargs.update(await self._inject(task, stack, resources))
            try:
                value = await task.fn(*args, **kwargs)
            except BaseException as error:
                raised = error
                raise
        if raised is not None:  # a dependency swallowed it; the job failed all the same
            raise raised
        return value

    async def in_thread_with_injection(
        self,
        attempt: Attempt,
        resources: LoopResources,
        threads: DaemonThreads,
        finish: Callable[[Attempt, Settlement], None],
    ) -> None:
        """Run a `def` task on a thread, its injected values opened and closed on this loop."""
        attempt.begun = True
        settlements: list[Settlement] = []
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            self._check_may_begin(attempt)
            async with AsyncExitStack() as stack:
                injected = await self._inject(attempt.task, stack, resources)
                attempt.thread = True
                threads.submit(self._thread_run(attempt, injected, settlements, done))
                while not done.done():  # a thread cannot be stopped: its slot is kept until it has ended
                    with suppress(asyncio.CancelledError):
                        await asyncio.shield(done)
                await done
        except GeneratorExit:
            raise
        except BaseException as error:
            settlement = self.ended_by(attempt, error)
        else:
            settlement = settlements[0]
        finish(attempt, settlement)

    def _thread_run(
        self,
        attempt: Attempt,
        injected: dict[str, Any],
        settlements: list[Settlement],
        done: asyncio.Future[None],
    ) -> Callable[[], None]:
        loop = asyncio.get_running_loop()

        def collect(_attempt: Attempt, settlement: Settlement) -> None:
            settlements.append(settlement)

        def work() -> None:
            contextvars.Context().run(self.in_thread, attempt, injected, collect)
            with suppress(RuntimeError):  # the loop is closed: the process is ending
                loop.call_soon_threadsafe(done.set_result, None)

        return work

    def in_thread(
        self, attempt: Attempt, injected: dict[str, Any] | None, finish: Callable[[Attempt, Settlement], None]
    ) -> None:
        """Run a `def` task on the calling thread."""
        task = attempt.task
        CURRENT.set(attempt)
        attempt.since = time.monotonic()
        try:
            self._check_may_begin(attempt)
            args, kwargs = task.codec.decode(attempt.claim.args)
            if injected:
                kwargs.update(injected)
            value = task.fn(*args, **kwargs)
            if isinstance(value, CoroutineType):  # a lambda or wrapper around an async function
                value.close()
                raise TypeError(
                    f"{task.name} is a `def` that returned a coroutine, which nobody awaits: make it `async def`"
                )
        except BaseException as error:
            settlement = self.ended_by(attempt, error)
        else:
            settlement = transitions.succeeded(attempt.claim, task.codec.encode_result(value), self.retention)
        finish(attempt, settlement)

    def _check_may_begin(self, attempt: Attempt) -> None:
        """Raises `CancelledError` if the attempt was asked to stop before its code began, or if nothing may begin.

        Claims wait: for their loop while another job blocks it, for a thread, for the app's loop. Between the claim and
        this moment the drain may have said that no job starts.
        """
        if self.draining and attempt.stop is None:
            attempt.stop = "drain"
        if attempt.stop is not None:
            raise asyncio.CancelledError

    def ended_by(self, attempt: Attempt, error: BaseException) -> Settlement:
        """The settlement of an attempt that raised `error`. Never raises: the job would run for ever."""
        try:
            return self._decide(attempt, error)
        except Exception:  # a backoff of the user's own, say
            log.exception("what becomes of job %s could not be decided; it is failed", attempt.claim.id)
            text = failure.describe(error, note="Pillion could not decide about another try; see its log")
            return transitions.failed(
                attempt.claim,
                text,
                max_attempts=1,
                backoff=self._backoff,
                random=random.random,
                retention=self.retention,
                final=True,
            )

    def _decide(self, attempt: Attempt, error: BaseException) -> Settlement:
        claim, task = attempt.claim, attempt.task
        note = None
        final = False
        # What we asked for is what happened, whatever the code's clean-up raised on its way.
        if attempt.stop == "cancel":
            return transitions.cancelled(claim, self.retention)
        if attempt.stop in ("drain", "lost"):
            return transitions.released(claim, self.retention)
        if isinstance(error, asyncio.CancelledError):
            if attempt.stop == "timeout":
                error = TimeoutError(f"the job ran longer than its timeout of {self.timeout(attempt):g} s")
            else:
                note = "the job's own code raised CancelledError; nobody had cancelled the job"
        elif self.draining and _comes_of_the_drain(error):
            return transitions.released(claim, self.retention)
        elif crossing.is_crossing(error):
            # The write may have happened already: trying again blindly could repeat it.
            note, final = crossing.NOTE, True
        elif isinstance(error, ArgumentError) and error.parameter is None and _undecodable(error):
            final = True
        return transitions.failed(
            claim,
            failure.describe(error, note=note),
            max_attempts=task.max_attempts or self._max_attempts,
            backoff=task.retry or self._backoff,
            random=random.random,
            retention=self.retention,
            final=final,
        )


def _comes_of_the_drain(error: BaseException) -> bool:
    """True if a wait that this process's drain ended is at the bottom of it: a deploy never costs an attempt."""
    seen: list[BaseException] = []
    todo: list[BaseException | None] = [error]
    while todo and len(seen) < _CHAIN:
        each = todo.pop()
        if each is None or any(each is known for known in seen):
            continue
        if isinstance(each, Draining):
            return True
        seen.append(each)
        todo += (each.__cause__, each.__context__)
        if isinstance(each, BaseExceptionGroup):
            todo += cast("BaseExceptionGroup[BaseException]", each).exceptions
    return False


def _undecodable(error: ArgumentError) -> bool:
    """True if the stored text is no JSON at all: no version of the task could ever read it."""
    cause = error.__cause__
    return isinstance(cause, ValueError) and type(cause).__name__ == "DecodeError"
