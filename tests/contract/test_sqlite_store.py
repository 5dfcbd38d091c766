"""What only the SQLite store promises: URLs, schema versions, the log, locks, groups, plans."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from contract.helpers import sqlite_store
from pillion.clock import ManualClock, SystemClock
from pillion.errors import ConfigurationError, StoreAway, StoreContended, StoreData, WrongSchema
from pillion.model import Report, WorkerInfo
from pillion.store import open_store
from pillion.store.sqlite import connection as connections
from pillion.store.sqlite import log, mounts
from pillion.store.sqlite.desk import Operation
from pillion.store.sqlite.statements import Statements
from pillion.store.sqlite.store import SqliteStore
from pillion.store.sqlite.url import parse
from pillion.testing.contract.rig import LEASE, Rig, job, success


class TestUrls:
    def test_relative_paths_count_from_here_and_now(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        store = open_store("sqlite:///sub/jobs.db")
        monkeypatch.chdir("/")
        assert store.label == f"sqlite:///{tmp_path}/sub/jobs.db"

    @pytest.mark.parametrize(
        ("url", "path"),
        [
            ("sqlite:////srv/jobs.db", "/srv/jobs.db"),
            ("sqlite+aiosqlite:////srv/jobs.db", "/srv/jobs.db"),
            ("sqlite:////srv/my%20jobs.db?timeout=5", "/srv/my jobs.db"),
            ("memory://", None),
            ("sqlite://", None),
            ("sqlite:///:memory:", None),
        ],
    )
    def test_forms(self, url: str, path: str | None) -> None:
        assert parse(url).path == path

    @pytest.mark.parametrize("url", ["sqlite://host/jobs.db", "sqlite:///file:jobs.db?mode=ro", "mysql:///x"])
    def test_refused(self, url: str) -> None:
        with pytest.raises(ConfigurationError):
            parse(url)

    @pytest.mark.parametrize("namespace", ["1a", "a b", "a]b", "ä", "x" * 41])
    def test_namespaces_are_identifiers(self, namespace: str) -> None:
        with pytest.raises(ConfigurationError):
            open_store("memory://", namespace=namespace)

    async def test_building_opens_nothing(self, tmp_path: Path) -> None:
        store = sqlite_store(tmp_path / "jobs.db")
        await store.link()
        assert list(tmp_path.iterdir()) == []

    async def test_memory_is_private_and_says_so(self) -> None:
        one, two = open_store("memory://"), open_store("sqlite://")
        await (await one.link()).enqueue([job("a")])
        assert await (await two.link()).states(["a"]) == {}
        assert any("other processes" in note for note in one.notes)
        assert one.host_folder is None
        await one.aclose()
        await two.aclose()

    async def test_namespaces_share_a_file(self, tmp_path: Path) -> None:
        one, two = sqlite_store(tmp_path / "jobs.db", namespace="a"), sqlite_store(tmp_path / "jobs.db", namespace="b")
        await (await one.link()).enqueue([job("a")])
        assert await (await two.link()).states(["a"]) == {}
        await one.aclose()
        await two.aclose()


class TestSchema:
    async def test_a_newer_version_is_refused_with_the_remedy(self, tmp_path: Path) -> None:
        await self._meta(tmp_path, version="99", serves_from="99")
        store = sqlite_store(tmp_path / "jobs.db")
        with pytest.raises(WrongSchema, match="Upgrade pillion"):
            await store.open()
        with pytest.raises(WrongSchema):
            await (await store.link()).enqueue([job("a")])
        await store.aclose()

    async def test_a_newer_version_that_serves_this_code_is_fine(self, tmp_path: Path) -> None:
        await self._meta(tmp_path, version="2", serves_from="1")
        store = sqlite_store(tmp_path / "jobs.db")
        await store.open()
        await store.aclose()

    async def test_an_unreadable_version_is_refused(self, tmp_path: Path) -> None:
        await self._meta(tmp_path, version="0", serves_from="0")
        store = sqlite_store(tmp_path / "jobs.db")
        with pytest.raises(WrongSchema):
            await store.open()
        await store.aclose()

    async def _meta(self, folder: Path, **values: str) -> None:
        store = sqlite_store(folder / "jobs.db")
        await store.open()
        await store.aclose()
        connection = sqlite3.connect(folder / "jobs.db")
        for name, value in values.items():
            connection.execute("UPDATE meta SET v = ? WHERE k = ?", (value, name))
        connection.commit()
        connection.close()

    async def test_not_a_database(self, tmp_path: Path) -> None:
        (tmp_path / "jobs.db").write_bytes(b"not a database at all, but long enough to look like one" * 50)
        store = sqlite_store(tmp_path / "jobs.db")
        with pytest.raises(StoreAway, match="not an SQLite database"):
            await store.open()
        await store.aclose()

    async def test_a_missing_folder_is_away_until_it_is_there(self, tmp_path: Path) -> None:
        store = sqlite_store(tmp_path / "sub" / "jobs.db")
        with pytest.raises(StoreAway, match="folder"):
            await store.open()
        (tmp_path / "sub").mkdir()
        await store.open()
        await store.aclose()

    async def test_a_replaced_file_is_opened_anew(self, tmp_path: Path) -> None:
        path = tmp_path / "jobs.db"
        async with Rig(lambda: sqlite_store(path)) as rig:
            seat = await rig.worker("w")
            for suffix in ("", "-wal", "-shm"):
                Path(f"{path}{suffix}").rename(tmp_path / f"old{suffix}")
            assert (await seat.beat()).standing == "dead"  # the new file does not know it
            await rig.enqueue(job("a"))
            assert path.exists()


class TestLog:
    async def test_journal_mode_is_read_back(self, tmp_path: Path) -> None:
        store = sqlite_store(tmp_path / "jobs.db")
        await store.open()
        assert any("journal mode wal" in note for note in store.notes)
        connection = sqlite3.connect(tmp_path / "jobs.db")
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        connection.close()
        await store.aclose()

    async def test_a_refused_log_is_told(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("pillion.store.sqlite.store.journal_mode", lambda connection: "delete")
        store = sqlite_store(tmp_path / "jobs.db")
        await store.open()
        assert any("No write-ahead log" in note for note in store.notes)
        await store.aclose()

    async def test_closing_folds_the_log_in(self, tmp_path: Path) -> None:
        store = sqlite_store(tmp_path / "jobs.db")
        await (await store.link()).enqueue([job("a")])
        await store.aclose()
        assert [path.name for path in tmp_path.iterdir()] == ["jobs.db"]

    async def test_a_large_log_is_cut_back_unless_a_reader_stands_in_the_way(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(log.cut_back, "__defaults__", (200_000,))
        path, text = tmp_path / "jobs.db", '"' + "x" * 100_000 + '"'
        async with Rig(lambda: sqlite_store(path)) as rig:
            seat = await rig.worker("w")
            reader = sqlite3.connect(path, isolation_level=None)
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM jobs").fetchone()
            await rig.enqueue(*(job(f"j{n}", args=text) for n in range(5)))
            await seat.beat()
            await seat.pulse.states([])
            assert any("read transaction open" in note for note in rig.store.notes)
            reader.execute("COMMIT")
            reader.close()
            await seat.beat()
            await seat.pulse.states([])
            assert not any("read transaction open" in note for note in rig.store.notes)
            assert Path(f"{path}-wal").stat().st_size == 0

    @pytest.mark.parametrize("durability", ["full", "relaxed"])
    async def test_enqueues_wait_for_the_disk_unless_relaxed(
        self, tmp_path: Path, durability: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        chosen: list[bool] = []
        real = connections.set_synchronous

        def note(connection: sqlite3.Connection, full: bool) -> None:
            real(connection, full)
            level = connection.execute("PRAGMA synchronous").fetchone()[0]
            assert level == (2 if full else 1)
            chosen.append(full)

        monkeypatch.setattr("pillion.store.sqlite.group.set_synchronous", note)
        async with Rig(lambda: sqlite_store(tmp_path / "jobs.db", durability=durability)) as rig:
            seat = await rig.worker("w")
            for n in range(3):
                await rig.enqueue(job(f"j{n}"))
                await seat.settle(*map(success, await seat.claim()))
        full = durability == "full"
        assert chosen == ([False, True] * 3 + [False] if full else [False])


class TestLocks:
    async def test_a_foreign_writer_holds_things_up_but_beats_go_on_afterwards(self, tmp_path: Path) -> None:
        path = tmp_path / "jobs.db"
        async with Rig(lambda: sqlite_store(path)) as rig:
            seat = await rig.worker("w")
            foreign = sqlite3.connect(path, isolation_level=None)
            foreign.execute("BEGIN IMMEDIATE")
            loop = asyncio.get_running_loop()
            enqueue = asyncio.ensure_future(rig.enqueue(job("a")))
            before = loop.time()
            with pytest.raises(StoreContended):
                await seat.beat()
            assert loop.time() - before < 2.5  # at most behind one other attempt
            # Reads and exchanges that find nothing to write need no lock.
            assert (await seat.exchange()).claims == []
            assert await seat.pulse.promote(10) == await seat.pulse.prune(10) == 0
            foreign.execute("ROLLBACK")
            foreign.close()
            assert (await seat.beat()).standing == "alive"
            assert (await enqueue)[0].created

    async def test_a_long_reader_stops_nobody(self, tmp_path: Path) -> None:
        path = tmp_path / "jobs.db"
        async with Rig(lambda: sqlite_store(path)) as rig:
            reader = sqlite3.connect(path, isolation_level=None)
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM jobs").fetchall()
            await rig.enqueue(job("a"))
            reader.execute("COMMIT")
            reader.close()


class TestGroups:
    async def test_a_full_disk_hits_only_who_needs_more_of_it(self, tmp_path: Path) -> None:
        async with Rig(lambda: sqlite_store(tmp_path / "jobs.db")) as rig:
            store = rig.store
            assert isinstance(store, SqliteStore)
            await rig.enqueue(job("a"), job("b"))
            seat = await rig.worker("w")
            first, _ = await seat.claim()
            await store.submit(
                Operation(peek=lambda desk: desk.connection.execute("PRAGMA max_page_count = 40").fetchone())
            )
            client = await rig.client()
            big = client.enqueue([job("big", args='"' + "x" * 400_000 + '"')])
            small, settled = client.enqueue([job("small")]), seat.settle(success(first))
            answers = await asyncio.gather(big, small, settled, seat.beat(), return_exceptions=True)
            assert isinstance(answers[0], StoreAway)
            assert "full" in str(answers[0])
            assert not any(isinstance(answer, BaseException) for answer in answers[1:])
            assert await client.states(["a", "big", "small"]) == {"a": "succeeded", "small": "queued"}

    async def test_an_operation_may_fail_in_any_way(self, tmp_path: Path) -> None:
        async with Rig(lambda: sqlite_store(tmp_path / "jobs.db")) as rig:
            store = rig.store
            assert isinstance(store, SqliteStore)

            def fail(desk: object) -> None:
                raise ZeroDivisionError

            client = await rig.client()
            answers = await asyncio.gather(
                store.submit(Operation(write=fail)), client.enqueue([job("a")]), return_exceptions=True
            )
            assert isinstance(answers[0], ZeroDivisionError)
            assert await client.states(["a"]) == {"a": "queued"}

    async def test_too_big_a_text_is_data(self, tmp_path: Path) -> None:
        async with Rig(lambda: sqlite_store(tmp_path / "jobs.db")) as rig:
            store = rig.store
            assert isinstance(store, SqliteStore)
            await store.submit(
                Operation(peek=lambda desk: desk.connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 100_000))
            )
            with pytest.raises(StoreData):
                await rig.enqueue(job("big", args='"' + "x" * 200_000 + '"'))

    async def test_answers_to_a_closed_loop_are_dropped(self, tmp_path: Path) -> None:
        store = sqlite_store(tmp_path / "jobs.db")
        await store.open()

        def other_loop() -> None:
            loop = asyncio.new_event_loop()
            link = loop.run_until_complete(store.link())
            call = loop.create_task(link.enqueue([job("a")]))
            loop.run_until_complete(asyncio.sleep(0))
            call.cancel()
            loop.run_until_complete(asyncio.wait([call]))
            loop.close()

        await asyncio.to_thread(other_loop)
        link = await store.link()
        await link.enqueue([job("b")])
        assert await link.states(["a", "b"]) == {"a": "queued", "b": "queued"}
        await store.aclose()

    async def test_a_closed_store_says_so(self, tmp_path: Path) -> None:
        store = sqlite_store(tmp_path / "jobs.db")
        link = await store.link()
        await link.enqueue([job("a")])
        await store.aclose()
        await store.aclose()
        with pytest.raises(StoreAway, match="closed"):
            await link.enqueue([job("b")])
        await store.open()
        assert await link.states(["a"]) == {"a": "queued"}
        await store.aclose()


class TestClocks:
    async def test_another_boot_counts_as_lapsed(self, tmp_path: Path) -> None:
        async with Rig(lambda: sqlite_store(tmp_path / "jobs.db")) as rig:
            await rig.enqueue(job("a"))
            old = await rig.worker("old", boot="the boot before")
            await old.claim()
            judge = await rig.worker("judge")
            assert (await judge.beat_on(LEASE * 0.9)).lapsed == []
            assert (await judge.beat_on(LEASE * 0.2)).lapsed == ["old"]
            assert await judge.pulse.condemn("old", "judge")
            assert len(await judge.pulse.orphans(10)) == 1

    async def test_a_jump_of_the_wall_clock_lapses_nobody(self, tmp_path: Path) -> None:
        clock = ManualClock()
        store = SqliteStore(f"sqlite:///{tmp_path}/jobs.db", clock=clock)
        link, pulse = await store.link("w", 0), await store.link("w")
        await pulse.join(
            WorkerInfo(id="w", host="h", boot="b", pid=1, links=1, lease_us=15_000_000, tasks=[], queues=["default"])
        )
        clock.set_wall(clock.wall_us() + 10**12)
        assert (await link.exchange(1, [], [])).standing == "alive"
        assert (await pulse.beat("w", Report())).standing == "alive"
        await store.aclose()


class TestPlans:
    """No statement of the hot path or of the beat may scan the jobs."""

    def test_no_statement_scans_all_jobs(self, tmp_path: Path) -> None:
        store = sqlite_store(tmp_path / "jobs.db")
        desk = store._try_open()
        sql = Statements("")
        texts = {name: sql[name] for name in sql.names}
        texts |= {f"claim{n}{only}": sql.claimable(n, only) for n in (1, 4) for only in (False, True)}
        allowed = {"last_seq"}
        for name, text in texts.items():
            marks = max(text.count("?"), 1)
            plan = self._plan(desk.connection, text, marks)
            scans = [line for line in plan if line.startswith("SCAN") and ("jobs" in line or line.startswith("SCAN j"))]
            scans = [line for line in scans if "USING INDEX" not in line and "USING COVERING INDEX" not in line]
            scans = [line for line in scans if "json_each" not in line]
            assert name in allowed or not scans, (name, plan)
        desk.close()

    def _plan(self, connection: sqlite3.Connection, text: str, marks: int) -> list[str]:
        for count in range(marks, -1, -1):
            try:
                return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {text}", (None,) * count)]
            except sqlite3.ProgrammingError:
                continue
        raise AssertionError(text)


class TestMounts:
    def _mounts(self, folder: Path, *lines: str) -> str:
        path = folder / "mountinfo"
        path.write_text("\n".join(lines) + "\n")
        return str(path)

    def test_kinds(self, tmp_path: Path) -> None:
        mounts_file = self._mounts(
            tmp_path,
            "22 1 0:1 / / rw - overlay overlay rw",
            "23 22 0:2 / /data rw,relatime shared:1 - ext4 /dev/vda rw",
            "24 23 0:3 / /data/net rw - nfs4 server:/x rw",
            "25 23 0:3 / /data/with\\040space rw - fuse.sshfs x rw",
        )
        assert mounts.kind_of("/data/jobs.db", mounts_file) == "ext4"
        assert mounts.kind_of("/database/jobs.db", mounts_file) == "overlay"
        assert mounts.kind_of("/data/with space/jobs.db", mounts_file) == "fuse.sshfs"
        assert mounts.warnings("/data/jobs.db", mounts_file) == []
        assert "nfs4" in mounts.warnings("/data/net/jobs.db", mounts_file)[0]
        assert "volume" in mounts.warnings("/app/jobs.db", mounts_file)[0]
        assert mounts.kind_of("/x", str(tmp_path / "none")) is None


class TestHostFolder:
    def test_it_is_private_and_stable(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        one = sqlite_store(tmp_path / "jobs.db").host_folder
        assert one == sqlite_store(tmp_path / "." / "jobs.db").host_folder
        assert one != sqlite_store(tmp_path / "other.db").host_folder
        assert one is not None
        assert Path(one).stat().st_mode & 0o777 == 0o700

    def test_a_foreign_or_open_folder_is_not_used(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        (tmp_path / "pillion").symlink_to(elsewhere)
        store = SqliteStore(f"sqlite:///{tmp_path}/jobs.db", clock=SystemClock())
        assert store.host_folder is None
        assert any("symlink" in note for note in store.notes)
        (tmp_path / "pillion").unlink()
        (tmp_path / "pillion").mkdir(mode=0o755)
        assert store.host_folder is None
