"""`Jobs.testing`: what tests ask of a `Jobs`."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from typing import Any

from pillion.desk import Desk
from pillion.errors import ConfigurationError
from pillion.ground import Ground
from pillion.job import Job
from pillion.lifecycle import Lifecycle
from pillion.process import Process
from pillion.registry import Registry
from pillion.testing.capture import Capture, captured
from pillion.testing.clocks import MovableClock
from pillion.testing.idle import Stagehand
from pillion.testing.override import Override
from pillion.testing.staged import Run, Staged


class Testing:
    """Test helpers of one `Jobs`, found as `Jobs.testing`. All but `override` and `capture` need an open override."""

    __test__ = False  # no test class, whatever pytest makes of the name

    def __init__(self, grounds: list[Ground], desk: Desk, lifecycle: Lifecycle, tasks: Registry) -> None:
        self._grounds = grounds
        self._desk = desk
        self._lifecycle = lifecycle
        self._tasks = tasks

    def override(
        self,
        url: str = "memory://",
        *,
        run: Run = "inline",
        clock: MovableClock | None = None,
        raise_errors: bool = False,
    ) -> Override:
        """Put another store under the jobs, and another way to run them, for a ``with`` or ``async with`` block.

        run: ``"inline"``: each enqueue runs its job to the first outcome before it returns. ``"manual"``: jobs stay
        queued until `run_until_idle` or `wait_idle`. ``"worker"``: a real worker runs in the lifespan, as in
        production. The first two run jobs on the caller's loop, need no lifespan, and go the whole way through codec,
        store, injection and retries.
        clock: what the store takes for the time. By default one that stands still, and with a worker one that goes
        on; both move with ``testing.clock.advance(seconds)``. Timeouts of jobs count real time.
        raise_errors: let what jobs raise come out of `enqueue` (inline) or of `run_until_idle` and `wait_idle`
        (manual), after their outcomes are stored. Otherwise it is in ``job.error`` and in the log only.

        Overrides nest; each has its own store. Raises `ConfigurationError` while the lifespan is open already.

        >>> from pillion import Jobs
        >>> jobs = Jobs()
        >>> @jobs.task(name="greet")
        ... def greet(name: str) -> str:
        ...     return f"hello {name}"
        >>> with jobs.testing.override(run="manual") as testing:
        ...     job = greet.enqueue_sync("Ada")
        ...     [ended] = testing.wait_idle()
        >>> ended == job, ended.state
        (True, 'succeeded')
        """
        return Override(
            lambda below: Staged(below, url, run, clock, raise_errors),
            self,
            self._grounds,
            self._desk,
            self._lifecycle,
            self._tasks,
        )

    def capture(self, *, store: bool = True) -> AbstractContextManager[Capture]:
        """Collect the jobs that are enqueued in a ``with`` block, in any thread; duplicates of a unique key are none.

        With ``store=False`` nothing reaches any store and nothing runs: handles are made up, and unique keys unchecked.

        >>> from pillion import Jobs
        >>> jobs = Jobs()
        >>> @jobs.task(name="greet")
        ... def greet(name: str) -> None: ...
        >>> with jobs.testing.capture(store=False) as enqueued:
        ...     _ = greet.options(delay=60).enqueue_sync("Ada")
        >>> [(job.task.name, job.arguments, job.delay.total_seconds()) for job in enqueued]
        [('greet', {'name': 'Ada'}, 60.0)]
        """
        return captured(self._desk, self._tasks, self._grounds[-1].process(), store=store)

    @property
    def clock(self) -> MovableClock:
        """The store's clock; ``advance(seconds)`` moves it on. Raises `ConfigurationError` outside an override."""
        return self._staged().clock

    async def run_until_idle(self, *, advance: bool = False, timeout: float = 10.0) -> list[Job[Any]]:
        """Run what is due, or wait for the worker to do so, until nothing is queued, running or due.

        Without a worker jobs run one at a time: higher priority first, then in the order of enqueue. What waits for a
        later moment, retries too, stays: move ``clock``, or let ``advance=True`` move it from one to the next until
        none is left. timeout: seconds of real time; a job that still runs is handed back then. Jobs in queues that are
        not served here stay queued, and the log says so.

        Returns the jobs of this override that ran or ended since the last call, in the order of enqueue, each as it is
        now. Raises `TimeoutError` that lists what still waits, and `NotStarted` if only a worker could run it and
        there is none.
        """
        staged = self._staged()
        hand = Stagehand(staged, self._desk, self._lifecycle, self._tasks)
        work = hand.await_worker if staged.workers else hand.run_due
        await work(advance=advance, deadline=time.monotonic() + timeout)
        await hand.tell_unserved()
        scope = await staged.process().borrowed()
        rows = await staged.report(await scope.client.link())
        return [Job(self._desk, row.id, row.task, row=row) for row in rows]

    def wait_idle(self, *, advance: bool = False, timeout: float = 10.0) -> list[Job[Any]]:
        """`run_until_idle` for ``def`` tests: blocks the calling thread. Refuses to block a running loop."""
        process: Process = self._staged().process()
        return process.run_blocking(
            lambda: self.run_until_idle(advance=advance, timeout=timeout),
            timeout=None,
            instead="await testing.run_until_idle()",
        )

    def _staged(self) -> Staged:
        ground = self._grounds[-1]
        if not isinstance(ground, Staged):
            raise ConfigurationError("open an override first: `with jobs.testing.override() as testing:`")
        return ground
