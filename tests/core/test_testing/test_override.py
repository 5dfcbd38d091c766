"""Entering and leaving an override: what it refuses, restores and closes."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

from pillion import ConfigurationError, Jobs, NotStarted, inject
from pillion.handle import Enqueue
from pillion.task import AsyncTask
from pillion.testing import Testing


async def test_it_is_refused_while_the_lifespan_is_open(url: str) -> None:
    jobs = Jobs(url)
    async with jobs.client():
        with pytest.raises(ConfigurationError, match="before it is entered"), jobs.testing.override():
            pass
    with jobs.testing.override():
        pass


async def test_it_complains_if_the_lifespan_outlives_it(jobs: Jobs) -> None:
    override = jobs.testing.override(run="manual")
    override.__enter__()
    async with jobs.client():
        with pytest.raises(ConfigurationError, match="still open"):
            override.__exit__(None, None, None)
    assert jobs.settings.url.startswith("sqlite")


async def test_the_error_of_the_block_is_not_hidden_by_a_complaint(jobs: Jobs) -> None:
    client = jobs.client()

    async def block() -> None:
        async with jobs.testing.override(run="manual"):
            await client.__aenter__()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await block()
    await client.__aexit__(None, None, None)


@pytest.mark.parametrize("run", ["inline", "manual", "worker"])
def test_settings_and_store_are_restored(jobs: Jobs, run: str) -> None:
    before = jobs.settings
    override = jobs.testing.override(run=run)  # type: ignore[arg-type]
    with override:
        assert jobs.settings.url == "memory://"
    assert jobs.settings is before
    with pytest.raises(ZeroDivisionError), jobs.testing.override(run=run):  # type: ignore[arg-type]
        raise ZeroDivisionError
    assert jobs.settings is before


def test_overrides_nest_and_each_has_its_own_store(jobs: Jobs) -> None:
    ran: list[str] = []

    @jobs.task
    async def note(name: str) -> None:
        ran.append(name)

    with jobs.testing.override(run="manual") as outer:
        note.enqueue_sync("outer")
        with jobs.testing.override(run="inline"):
            note.enqueue_sync("inner")
            assert ran == ["inner"]
        note.enqueue_sync("outer again")
        assert ran == ["inner"]
        assert len(outer.wait_idle()) == 2
    assert ran == ["inner", "outer", "outer again"]


def test_the_wrong_order_of_leaving_is_refused(jobs: Jobs) -> None:
    outer, inner = jobs.testing.override(), jobs.testing.override()
    outer.__enter__()
    inner.__enter__()
    with pytest.raises(ConfigurationError, match="reverse order"):
        outer.__exit__(None, None, None)
    inner.__exit__(None, None, None)
    outer.__exit__(None, None, None)


def test_it_is_entered_once(jobs: Jobs) -> None:
    override = jobs.testing.override()
    with override:
        pass
    with pytest.raises(ConfigurationError, match="again"), override:
        pass


def test_what_cannot_work_is_refused_at_entry(jobs: Jobs) -> None:
    before = jobs.settings
    later = jobs.testing.override(run="later")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="'inline', 'manual', 'worker'"), later:
        pass
    with pytest.raises(ConfigurationError, match="no store serves"), jobs.testing.override("nonsense://"):
        pass
    assert jobs.settings is before


def test_outside_an_override_the_helpers_say_what_to_open(jobs: Jobs) -> None:
    with pytest.raises(ConfigurationError, match="open an override first"):
        jobs.testing.wait_idle()
    with pytest.raises(ConfigurationError, match="open an override first"):
        _ = jobs.testing.clock


async def test_the_helpers_work_from_jobs_as_well_as_from_the_block(jobs: Jobs) -> None:
    @jobs.task
    async def note() -> None: ...

    async with jobs.testing.override(run="manual") as testing:
        await note.options(delay=1).enqueue()
        jobs.testing.clock.advance(1)
        [job] = await jobs.testing.run_until_idle()
        assert job.state == "succeeded"
        assert await testing.run_until_idle() == []


async def test_the_injected_handle_needs_no_lifespan_unless_a_worker_is_to_run(jobs: Jobs) -> None:
    @jobs.task
    async def note() -> None: ...

    enqueue = Enqueue()
    for run in ("inline", "manual"):
        async with jobs.testing.override(run=run):  # type: ignore[arg-type]
            assert (await enqueue(note)).created
    async with jobs.testing.override(run="worker"):
        with pytest.raises(NotStarted):
            await enqueue(note)
    with pytest.raises(NotStarted):
        await enqueue(note)


async def test_several_jobs_are_overridden_each_for_itself(jobs: Jobs, url: str) -> None:
    other = Jobs(url)
    async with jobs.testing.override(), other.testing.override(run="manual"):
        assert jobs.settings.url == other.settings.url == "memory://"

        @jobs.task
        async def now() -> None: ...

        @other.task
        async def later() -> None: ...

        assert (await now.enqueue()).state == "succeeded"
        assert (await later.enqueue()).state == "queued"


def closing(jobs: Jobs, closed: list[str]) -> AsyncTask[[], None]:
    """A task whose resource says where it was closed."""

    @jobs.resource
    async def client() -> AsyncIterator[str]:
        yield "client"
        closed.append(threading.current_thread().name)

    @jobs.task(name="use")
    async def use(client: str = inject(client)) -> None: ...

    return use


async def test_async_with_closes_what_this_loop_opened(jobs: Jobs) -> None:
    closed: list[str] = []
    use = closing(jobs, closed)
    async with jobs.testing.override():
        await use.enqueue()
        assert closed == []
    assert closed == ["MainThread"]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("pillion")]


async def test_with_on_a_running_loop_closes_at_its_next_turns(jobs: Jobs) -> None:
    closed: list[str] = []
    use = closing(jobs, closed)
    with jobs.testing.override():
        await use.enqueue()
    async with asyncio.timeout(5):
        while not closed or [thread for thread in threading.enumerate() if thread.name.startswith("pillion")]:
            await asyncio.sleep(0)
    assert closed == ["MainThread"]


def test_with_on_a_loop_that_ends_at_once_leaves_nothing(jobs: Jobs) -> None:
    closed: list[str] = []
    use = closing(jobs, closed)

    async def main() -> None:
        with jobs.testing.override():
            await use.enqueue()

    asyncio.run(main())
    assert closed == ["MainThread"]


def test_def_tests_leave_the_thread_s_event_loop_alone(jobs: Jobs) -> None:
    @jobs.task
    async def note() -> None: ...

    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        with jobs.testing.override():
            note.enqueue_sync()
        assert asyncio.get_event_loop() is loop
    finally:
        asyncio.set_event_loop(None)
        loop.close()


def test_a_loop_that_was_closed_badly_does_not_keep_the_store_open(jobs: Jobs) -> None:
    @jobs.task
    async def note() -> None: ...

    with jobs.testing.override(run="manual"):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(note.enqueue())
        loop.close()
    gc.collect()


@pytest.fixture
def testing_by_fixture(jobs: Jobs) -> Iterator[Testing]:
    with jobs.testing.override(run="manual") as testing:
        yield testing


async def test_a_def_fixture_serves_async_tests(jobs: Jobs, testing_by_fixture: Testing) -> None:
    @jobs.task
    async def note() -> None: ...

    job = await note.enqueue()
    assert await testing_by_fixture.run_until_idle() == [job]


def test_a_def_fixture_serves_def_tests(jobs: Jobs, testing_by_fixture: Testing) -> None:
    @jobs.task
    def note() -> None: ...

    assert testing_by_fixture.wait_idle() == []
    job = note.enqueue_sync()
    assert testing_by_fixture.wait_idle() == [job]


@pytest.fixture
async def testing_by_async_fixture(jobs: Jobs) -> AsyncIterator[Testing]:
    async with jobs.testing.override() as testing:
        yield testing


async def test_an_async_fixture_serves_async_tests(jobs: Jobs, testing_by_async_fixture: Testing) -> None:
    @jobs.task
    async def note() -> None: ...

    assert (await note.enqueue()).state == "succeeded"
    assert len(await testing_by_async_fixture.run_until_idle()) == 1
