"""Several processes on one SQLite file: creation, claims, wake-ups, forks."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
from pathlib import Path

import pytest

from contract.helpers import finish, sqlite_store, start
from pillion.testing.contract.rig import job

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="one process there")


@pytest.mark.timeout(120)
def test_processes_race_to_create_the_schema(tmp_path: Path) -> None:
    code = """
    async def main():
        opened = store()
        await opened.open()
        link = await opened.link()
        assert (await link.enqueue([job(name)]))[0].created
        await opened.aclose()
    sys.stdin.readline()
    asyncio.run(main())
    """
    for attempt in range(3):
        path = tmp_path / f"{attempt}.db"
        processes = [start(code, path, f"j{n}") for n in range(8)]
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        finish(processes)
        connection = sqlite3.connect(path)
        assert connection.execute("SELECT count(*) FROM meta WHERE k = 'version'").fetchone() == (1,)
        assert connection.execute("SELECT count(*) FROM jobs").fetchone() == (8,)
        connection.close()


@pytest.mark.timeout(120)
async def test_each_job_is_claimed_once_by_many_processes(tmp_path: Path) -> None:
    path, count = tmp_path / "jobs.db", 4_000
    store = sqlite_store(path)
    await store.open()
    link = await store.link()
    await link.enqueue([job(f"j{n}") for n in range(count)])
    code = """
    async def main():
        opened = store()
        await opened.open()
        link, pulse = await opened.link(name, 0), await opened.link(name)
        await pulse.join(info())
        ids, settled, number = [], [], 0
        while True:
            number += 1
            answer = await link.exchange(number, settled, [Want("default", "async", False, 16)])
            assert not answer.refused and answer.standing == "alive"
            ids += [claim.id for claim in answer.claims]
            settled = [done(claim) for claim in answer.claims]
            if not settled:
                break
        print(" ".join(ids))
        await opened.aclose()
    asyncio.run(main())
    """
    outputs = await asyncio.to_thread(finish, [start(code, path, f"w{n}") for n in range(8)])
    ids = [name for output in outputs for name in output.split()]
    assert len(ids) == len(set(ids)) == count
    assert set((await link.states(ids)).values()) == {"succeeded"}
    await store.aclose()


@pytest.mark.timeout(120)
async def test_no_locked_error_reaches_anyone(tmp_path: Path) -> None:
    """Enqueue, claim and finish flat out from several processes, with beats: all go through."""
    path = tmp_path / "jobs.db"
    code = """
    async def main():
        opened = store()
        await opened.open()
        client, link, pulse = await opened.link(), await opened.link(name, 0), await opened.link(name)
        await pulse.join(info())
        settled, worst, done_count = [], 0.0, 0
        for number in range(1, 151):
            before = time.monotonic()
            await client.enqueue([job(f"{name}-{number}-{n}") for n in range(2)])
            worst = max(worst, time.monotonic() - before)
            answer = await link.exchange(number, settled, [Want("default", "async", False, 4)])
            settled = [done(claim) for claim in answer.claims]
            done_count += len(settled)
            if number % 20 == 0:
                before = time.monotonic()
                assert (await pulse.beat(name, Report())).standing == "alive"
                assert time.monotonic() - before < 2
        print(done_count, worst)
        await opened.aclose()
    asyncio.run(main())
    """
    outputs = await asyncio.to_thread(finish, [start(code, path, f"w{n}") for n in range(6)])
    assert sum(int(output.split()[0]) for output in outputs) == 6 * 150 * 2


async def test_an_enqueue_wakes_an_idle_process(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    code = """
    async def main():
        opened = store()
        await opened.open()
        link, pulse = await opened.link(name, 0), await opened.link(name)
        await pulse.join(info())
        hints = link.hints()
        link.idle(True)
        print("idle", flush=True)
        async for hint in hints:
            if hint == "ready":
                break
        answer = await link.exchange(1, [], [Want("default", "async", False, 4)])
        print(answer.claims[0].id, flush=True)
        await link.aclose()
        await opened.aclose()
    asyncio.run(main())
    """
    process = start(code, path)
    assert process.stdout is not None
    assert await asyncio.to_thread(process.stdout.readline) == "idle\n"
    store = sqlite_store(path)
    await store.open()
    await (await store.link()).enqueue([job("a")])
    assert (await asyncio.to_thread(finish, [process]))[0].strip() == "a"
    folder = store.host_folder
    await store.aclose()
    assert folder is not None
    assert [name for name in os.listdir(folder) if name.startswith("wake-")] == []


async def test_only_one_of_the_idle_is_woken(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    stores = [sqlite_store(path) for _ in range(3)]
    heard = [0, 0, 0]
    tasks = []

    async def listen(at: int) -> None:
        link = await stores[at].link(f"w{at}", 0)
        hints = link.hints()
        link.idle(True)
        try:
            async for _ in hints:
                heard[at] += 1
        finally:
            await link.aclose()

    for at, store in enumerate(stores):
        await store.open()
        tasks.append(asyncio.ensure_future(listen(at)))
    await asyncio.sleep(0)
    sender = sqlite_store(path)
    await (await sender.link()).enqueue([job("a")])
    async with asyncio.timeout(5):
        while sum(heard) == 0:
            await asyncio.sleep(0.001)
    await (await sender.link()).states(["a"])  # one more turn of everything
    assert sum(heard) == 1
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for store in [*stores, sender]:
        await store.aclose()


async def test_a_dead_process_is_cleared_away(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    code = """
    async def main():
        opened = store()
        await opened.open()
        link = await opened.link(name, 0)
        hints = link.hints()
        link.idle(True)
        print("idle", flush=True)
        os.kill(os.getpid(), 9)
    asyncio.run(main())
    """
    process = start(code, path)
    await asyncio.to_thread(process.communicate)
    store = sqlite_store(path)
    folder = store.host_folder
    assert folder is not None

    def files() -> list[str]:
        return [name for name in os.listdir(folder) if name.startswith("wake-")]

    assert len(files()) == 1
    await (await store.link()).enqueue([job("a")])
    await store.aclose()
    assert files() == []


def test_a_forked_child_opens_its_own(tmp_path: Path) -> None:
    code = """
    opened = store()

    async def enqueue(id):
        link = await opened.link()
        return await link.enqueue([job(id)])

    async def close():
        await opened.aclose()

    asyncio.run(enqueue("before"))
    children = []
    for n in range(4):
        pid = os.fork()
        if pid == 0:
            for k in range(20):
                asyncio.run(enqueue(f"child{n}-{k}"))
            asyncio.run(close())
            os._exit(0)
        children.append(pid)
        asyncio.run(enqueue(f"parent{n}"))
    for pid in children:
        assert os.waitpid(pid, 0)[1] == 0
    asyncio.run(enqueue("after"))
    asyncio.run(close())
    """
    path = tmp_path / "jobs.db"
    finish([start(code, path)])
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM jobs").fetchone() == (1 + 4 * 20 + 4 + 1,)
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


@pytest.mark.skipif(not os.path.exists("/proc/locks"), reason="reads /proc/locks")
def test_a_forked_child_holds_locks_of_its_own(tmp_path: Path) -> None:
    """SQLite remembers locks per process; a child that inherits that memory would not lock at all."""
    code = """
    opened = store()

    async def enqueue(id):
        await (await opened.link()).enqueue([job(id)])

    asyncio.run(enqueue("before"))
    pid = os.fork()
    if pid == 0:
        asyncio.run(enqueue("child"))
        inode = str(os.stat(path).st_ino)
        with open("/proc/locks") as locks:
            found = [line.split() for line in locks]
        mine = [line for line in found if line[4] == str(os.getpid()) and line[5].endswith(":" + inode)]
        os._exit(0 if mine else 3)
    assert os.waitpid(pid, 0)[1] == 0
    asyncio.run(opened.aclose())
    """
    finish([start(code, tmp_path / "jobs.db")])


def test_an_unclosed_store_keeps_no_interpreter_alive(tmp_path: Path) -> None:
    code = """
    opened = store()

    async def main():
        await (await opened.link()).enqueue([job("a")])

    asyncio.run(main())
    print("end")
    """
    assert finish([start(code, tmp_path / "jobs.db")], timeout=10) == ["end\n"]
    connection = sqlite3.connect(tmp_path / "jobs.db")
    assert connection.execute("SELECT id FROM jobs").fetchall() == [("a",)]
    connection.close()


async def test_a_killed_writer_leaves_nothing_half_done(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    code = """
    async def main():
        opened = store()
        link = await opened.link()
        for n in range(10_000):
            await link.enqueue([job(f"{n}-{k}") for k in range(10)])
            print(n, flush=True)
    asyncio.run(main())
    """
    process = start(code, path)
    assert process.stdout is not None
    for _ in range(20):
        await asyncio.to_thread(process.stdout.readline)
    process.kill()
    rest, _ = await asyncio.to_thread(process.communicate)
    told = 20 + len(rest.split())
    store = sqlite_store(path)
    link = await store.link()
    rows = await link.states([f"{n}-{k}" for n in range(told + 5) for k in range(10)])
    assert len(rows) % 10 == 0
    assert len(rows) >= (told - 1) * 10
    await store.aclose()
