"""`Jobs`: the one object a user builds. A thin front over tasks, settings, the store and the worker."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pillion import settings as _settings
from pillion.desk import Desk
from pillion.errors import ConfigurationError
from pillion.ground import Ground
from pillion.inject import Injector, MarkerReader
from pillion.job import Job
from pillion.lifecycle import Lifecycle
from pillion.options import Seconds
from pillion.policy.retention import Retention
from pillion.policy.retry import Backoff
from pillion.process import Process
from pillion.registry import Registry
from pillion.resource import Resource, ResourceDecorator
from pillion.settings import Durability, LoopChoice, Settings
from pillion.task import Bound, TaskDecorator
from pillion.worker.runtime import Runtime

if TYPE_CHECKING:
    from pillion.testing import Testing

T = TypeVar("T")
_BATCH = 1000  # jobs an atomic step of `enqueue_many`


class Jobs:
    """Tasks, a store and the settings of the worker. Importing or building it opens nothing.

    ``url`` names the store: ``sqlite:///jobs.db``, or ``memory://`` in tests; None reads ``PILLION_URL`` and falls
    back to ``sqlite:///jobs.db``. Every other setting is keyword-only; an argument wins over ``PILLION_<NAME>``, that
    over the default. Raises `ConfigurationError` for a setting that cannot work.

    queues: the queues this process serves, or a mapping of queue to how many of its jobs may run here at a time.
    concurrency: async jobs at a time. threads: ``def`` jobs at a time. loops: job loops.
    loop: ``"own"`` runs async jobs on loops of their own, ``"app"`` on the app's.
    lease: seconds without a beat after which a process is taken for dead.
    drain_timeout: seconds that running jobs have to end at shutdown. poll_interval: seconds.
    worker: False for a process that only enqueues. require_store: True fails the start when the store is away.
    max_attempts: failures before a job is failed for good. timeout: seconds a job may run; 0: no limit.
    """

    marker_readers: ClassVar[Sequence[MarkerReader]] = ()  # a framework's own markers, in its package's subclass

    def __init__(
        self,
        url: object = None,
        *,
        queues: Iterable[str] | Mapping[str, int | None] | None = None,
        concurrency: int | None = None,
        threads: int | None = None,
        loops: int | None = None,
        loop: LoopChoice | None = None,
        lease: Seconds | None = None,
        drain_timeout: Seconds | None = None,
        poll_interval: Seconds | None = None,
        worker: bool | None = None,
        require_store: bool | None = None,
        max_attempts: int | None = None,
        timeout: Seconds | None = None,
        backoff: Backoff | None = None,
        retention: Retention | None = None,
        namespace: str | None = None,
        durability: Durability | None = None,
        certificates: bool | None = None,
        prefix: str | None = "",
    ) -> None:
        given = {
            name: value
            for name, value in locals().items()
            if name not in ("self", "prefix", "given") and value is not None
        }
        if prefix != "":
            given["prefix"] = prefix
        self._grounds = [Ground(_settings.resolve(given))]  # the last one counts; tests add theirs
        self._tasks = Registry()
        self._injector = Injector(self.marker_readers)
        self._resources: list[Resource[Any]] = []
        self._lifecycle = Lifecycle(self._this_process, self._build_runtime)
        self._desk = Desk(
            self._this_process,
            lambda: self._lifecycle.runtime,
            self._tasks,
            self._injector,
            self.settings.retention,
            self.settings.poll_interval,
        )
        self._desk.started = lambda: self._lifecycle.entered > 0

    # -- declaring -------------------------------------------------------------------------------------------

    @property
    def task(self) -> TaskDecorator:
        """``@jobs.task`` or ``@jobs.task(max_attempts=5, timeout=30, …)``: register a function as a task."""
        return TaskDecorator(self._desk, self._tasks.add)

    @property
    def resource(self) -> ResourceDecorator:
        """``@jobs.resource``: what is opened once per event loop and closed with it, for routes and jobs alike."""
        return ResourceDecorator(self._desk, self._resources.append)

    # -- using -----------------------------------------------------------------------------------------------

    async def enqueue_many(self, bounds: Iterable[Bound[T]]) -> list[Job[T]]:
        """Store many bound calls, in order, atomically per thousand. Handles in the same order.

        Raises what `task.enqueue` raises; the thousands before the one that raised are stored.
        """
        jobs: list[Job[T]] = []
        batch: list[Bound[T]] = []
        for bound in bounds:
            batch.append(bound)
            if len(batch) == _BATCH:
                jobs.extend(await self._desk.enqueue_bound(batch))
                batch = []
        if batch:
            jobs.extend(await self._desk.enqueue_bound(batch))
        return jobs

    async def get(self, job_id: str) -> Job[Any] | None:
        """The job of that id as it is now, or None."""
        row = await self._desk.read(job_id)
        return None if row is None else Job(self._desk, row.id, row.task, created=False, row=row)

    @asynccontextmanager
    async def worker(self) -> AsyncGenerator[None]:
        """Run a worker in this process while the context is open, without a web server; the exit drains it."""
        self.prepare()
        async with self._lifecycle.enter(worker=True):
            yield

    @asynccontextmanager
    async def client(self) -> AsyncGenerator[None]:
        """Open the store for this loop without running jobs; the exit closes it."""
        async with self._lifecycle.enter(worker=False):
            yield

    def begin_drain(self) -> None:
        """Stop starting jobs in this process now, as a signal would; the open context's exit waits for the rest.

        For servers that tell their children nothing, and preStop hooks. Without a worker it does nothing.
        """
        runtime = self._lifecycle.runtime
        if runtime is not None:
            runtime.begin_drain("asked to")

    def lifespan(self, app: Any) -> AbstractAsyncContextManager[None]:
        """Framework packages add this. Raises `ConfigurationError` that names the right one."""
        framework = type(app).__module__.partition(".")[0]
        package = f"pillion_{framework}" if framework in ("fastapi", "litestar") else "pillion_starlette"
        raise ConfigurationError(f"pillion.Jobs knows no framework: write `from {package} import Jobs` for this app")

    @property
    def settings(self) -> Settings:
        """The settled values; durations in seconds."""
        return self._grounds[-1].settings

    @property
    def testing(self) -> Testing:
        """For tests: another store for a while, jobs run inline or on demand, what was enqueued, waiting until idle."""
        from pillion.testing import Testing

        return Testing(self._grounds, self._desk, self._lifecycle, self._tasks)

    # -- inside ------------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Resolve every task's annotations and injections now. Raises `ConfigurationError` that names the place."""
        for task in self._tasks.tasks():
            task.resolve()
        for resource in self._resources:
            resource.check()

    def _build_runtime(self) -> Runtime | None:
        ground = self._grounds[-1]
        return Runtime(ground.settings, ground.process(), self._tasks, self._desk.inject) if ground.workers else None

    def _this_process(self) -> Process:
        return self._grounds[-1].process()
