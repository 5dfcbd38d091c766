"""`make demo`, with fewer photos."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path
from types import ModuleType

import pytest

from servers.harness import Running, Site, until

EXAMPLE = Path(__file__).parents[2] / "examples" / "fastapi_app"

pytestmark = pytest.mark.servers


@pytest.fixture
def temporary(site: Site) -> Path:
    """The demo's folder for temporary files."""
    folder = site.folder / "temporary"
    folder.mkdir()
    return folder


def demo(site: Site, temporary: Path, *args: str) -> Running:
    return Running(
        site,
        [sys.executable, str(EXAMPLE / "demo.py"), *args],
        {**site.environment({}), "TMPDIR": str(temporary)},
    )


def servers(temporary: Path) -> list[int]:
    """Processes that work in that folder."""
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"PHOTOS_FOLDER={temporary}/" in environ.read_text(errors="replace"):
                found.append(int(environ.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.chaos
@pytest.mark.timeout(150)
def test_the_demo_kills_a_process_loses_nothing_and_leaves_nothing(site: Site, temporary: Path) -> None:
    running = demo(site, temporary, "--photos", "40")
    code = running.await_exit(140)
    output = running.output()
    assert code == 0, output
    table = dict(re.findall(r"^  ([a-z ]+?) {2,}(\d+)\b", output, re.MULTILINE))
    assert table["uploads accepted"] == "40"
    assert table["done"] == "40"
    assert table["lost"] == "0"
    assert "SIGKILL" in output
    assert "killed" in output.partition("jobs per process")[2], "the killed process ran no job"
    assert not list(temporary.iterdir())
    assert not servers(temporary)


@pytest.mark.timeout(120)
def test_ctrl_c_ends_the_demo_and_its_server(site: Site, temporary: Path) -> None:
    running = demo(site, temporary, "--photos", "5000")
    running.await_output("ready in", 60)
    assert servers(temporary)
    running.signal(signal.SIGINT)
    assert running.await_exit(30) == 130, running.output()
    until(lambda: not servers(temporary), "the server's processes are gone")
    assert "Traceback" not in running.output()
    assert not list(temporary.iterdir())


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """demo.py, imported as it imports: from its own folder."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    for name in ("demo", "settings"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import demo as imported

    for name in ("demo", "settings"):
        monkeypatch.delitem(sys.modules, name)
    return imported


def test_the_demo_would_notice_a_loss(module: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = module.Journal(tmp_path / "none")
    uploads = module.Uploads(None, "", accepted=["whole", "unfinished", "untold", "unseen", "fileless"])

    def step(event: str, photo: str, pid: int = 1, at: float = 0.0) -> None:
        journal.steps.append(module.Step(event, photo, pid, at))

    for photo in ("whole", "untold", "fileless"):
        step("started", photo)
        step("finished", photo)
        (tmp_path / photo).mkdir()
        for size in module.THUMBNAIL_SIZES[photo == "fileless" :]:
            (tmp_path / photo / f"{size}.webp").touch()
    step("webhook", "whole")
    step("webhook", "fileless")
    step("started", "unfinished", 2, 5.0)
    step("started", "unfinished", 1, 5.25)
    lost = module.report(journal, uploads, module.Kill(2, 5.0), tmp_path)
    assert lost == 4
    text = capsys.readouterr().out
    assert re.search(r"^  lost +4$", text, re.MULTILINE), text
    assert re.search(r"^  run more than once +1\b", text, re.MULTILINE), text
    assert re.search(r"^  from kill to rescue +0\.25 s", text, re.MULTILINE), text
