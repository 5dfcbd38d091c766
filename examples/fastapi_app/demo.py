"""`make demo`: photos are uploaded to this app in four processes, one of them is killed half-way, nothing is lost.

What the jobs did is read from the journal that they write themselves (journal.py), and compared with the ids that the
HTTP client was given. Exits with 1 if anything was lost.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.metadata import distribution
from io import BytesIO
from pathlib import Path
from typing import Final, NamedTuple

import httpx
from PIL import Image

from settings import THUMBNAIL_SIZES

HERE: Final = Path(__file__).resolve().parent
# Two packages that ship a photograph: a lion, and Grace Hopper.
PHOTOGRAPHS: Final = (("ascii-magic", "ascii_magic/tests/lion.jpg"), ("textual-image", "textual_image/gracehopper.jpg"))
SIZE: Final = (800, 600)  # pixels of an upload
CLIENTS: Final = 6  # uploads at a time
MANY: Final = 3  # jobs that a process should be running when it is killed
PATIENCE: Final = 20.0  # seconds without any progress after which the demo gives up


# -- the photos --------------------------------------------------------------------------------------------------------


class Album:
    """As many different photos as wanted: turned, zoomed and mirrored from the photographs that packages ship."""

    def __init__(self) -> None:
        paths = [str(distribution(name).locate_file(path)) for name, path in PHOTOGRAPHS]
        self._negatives = [Image.open(path).convert("RGB") for path in paths]

    def jpeg(self, number: int) -> bytes:
        """The photo of that number; always the same one."""
        chance = random.Random(number)
        negative = self._negatives[number % len(self._negatives)]
        angle, zoom = math.radians(chance.uniform(-10, 10)), chance.uniform(0.5, 0.7)
        scale = zoom * min(negative.width / SIZE[0], negative.height / SIZE[1])
        right, down = scale * math.cos(angle), scale * math.sin(angle)
        mirror = chance.choice((1, -1))
        # Where the middle of the new photo lies on the negative.
        x, y = negative.width * chance.uniform(0.44, 0.56), negative.height * chance.uniform(0.4, 0.46)
        left, top = SIZE[0] / 2, SIZE[1] / 2
        turn = (
            *(mirror * right, down, x - mirror * right * left - down * top),
            *(-mirror * down, right, y + mirror * down * left - right * top),
        )
        image = negative.transform(SIZE, Image.Transform.AFFINE, turn, Image.Resampling.BILINEAR)
        file = BytesIO()
        image.save(file, format="JPEG", quality=80)
        return file.getvalue()


# -- the server --------------------------------------------------------------------------------------------------------


class Server:
    """This app under uvicorn, in several processes, on SQLite in a folder."""

    def __init__(self, folder: Path, processes: int) -> None:
        self.processes = processes
        self.photos = folder / "photos"
        self.log = folder / "server.log"
        self.url = f"http://127.0.0.1:{free_port()}"
        env = {name: value for name, value in os.environ.items() if not name.startswith("PILLION_")}
        env["PILLION_URL"] = f"sqlite:///{folder / 'jobs.db'}"
        env["PHOTOS_FOLDER"] = str(self.photos)
        env["WEBHOOK_URL"] = f"{self.url}/webhooks/thumbnails"
        command = [sys.executable, "-m", "uvicorn", "main:app", "--app-dir", str(HERE), "--no-access-log"]
        command += ["--workers", str(processes), "--port", self.url.rpartition(":")[2]]
        with self.log.open("wb") as log:
            # A session of its own: Ctrl-C reaches this script, which then stops the server.
            self._popen = subprocess.Popen(
                command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def await_ready(self, within: float = 60.0) -> None:
        """Wait until every process serves jobs, as the app's own health says."""
        deadline = time.monotonic() + within
        with httpx.Client(trust_env=False) as client:
            while time.monotonic() < deadline and self._popen.poll() is None:
                with suppress(httpx.TransportError):
                    fleet = client.get(f"{self.url}/jobs/health").json()["checks"]["fleet"]
                    if fleet and fleet[0]["alive"] >= self.processes:
                        return
                time.sleep(0.05)
        sys.exit(f"The server did not start. It said:\n{self.log.read_text()[-3000:]}")

    def stop(self) -> None:
        """Let it drain; after five seconds it is killed."""
        try:
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                self._popen.terminate()
                self._popen.wait(5)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(self._popen.pid, signal.SIGKILL)
            self._popen.wait(5)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


# -- what happened -----------------------------------------------------------------------------------------------------


class Step(NamedTuple):
    """A line of the journal."""

    event: str
    photo: str
    pid: int
    at: float


class Journal:
    """Follows the file in which jobs note what they do."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self.steps: list[Step] = []

    def read(self) -> None:
        """Take in the lines that are new."""
        with suppress(FileNotFoundError), self._path.open("rb") as file:
            file.seek(self._offset)
            text = file.read()
            text = text[: text.rfind(b"\n") + 1]
            self._offset += len(text)
            self.steps += [Step(**json.loads(line)) for line in text.splitlines()]

    def photos(self, event: str) -> set[str]:
        """Those with a line of that event."""
        return {step.photo for step in self.steps if step.event == event}

    def running(self) -> dict[int, set[str]]:
        """By process, the photos whose job started there and did not finish."""
        found: dict[int, set[str]] = {}
        for step in self.steps:
            if step.event == "started":
                found.setdefault(step.pid, set()).add(step.photo)
            elif step.event == "finished":
                found.get(step.pid, set()).discard(step.photo)
        return found


@dataclass
class Uploads:
    """What the HTTP client knows."""

    album: Album
    url: str
    accepted: list[str] = field(default_factory=list)  # ids of photos, as the app answered
    refused: list[str] = field(default_factory=list)  # why
    repeated: int = 0  # uploads that were cut off and sent again
    stopped: threading.Event = field(default_factory=threading.Event)

    def send(self, client: httpx.Client, number: int) -> None:
        """Upload one photo. Cut off in the middle, it is sent again, as any client would."""
        files = {"file": (f"{number}.jpg", self.album.jpeg(number), "image/jpeg")}
        deadline = time.monotonic() + PATIENCE
        while not self.stopped.is_set():
            try:
                answer = client.post(f"{self.url}/photos", files=files)
                answer.raise_for_status()
                self.accepted.append(answer.json()["photo"])
                return
            except httpx.HTTPError as error:
                if not isinstance(error, httpx.TransportError) or time.monotonic() > deadline:
                    self.refused.append(str(error))
                    return
                self.repeated += 1
                self.stopped.wait(0.05)


@contextmanager
def uploading(uploads: Uploads, count: int) -> Iterator[None]:
    """Send `count` photos in the background, several at a time; each over a connection of its own."""
    limits = httpx.Limits(max_keepalive_connections=0)
    with (
        httpx.Client(timeout=PATIENCE, limits=limits, trust_env=False) as client,
        ThreadPoolExecutor(CLIENTS) as pool,
    ):
        for number in range(count):
            pool.submit(uploads.send, client, number)
        try:
            yield
        finally:
            uploads.stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)


# -- the show ----------------------------------------------------------------------------------------------------------


class Progress:
    """A line that stays in its place on a terminal; elsewhere one each second."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._live = sys.stdout.isatty()
        self._start = time.monotonic()
        self._shown = 0.0

    def show(self, uploaded: int, made: int, arrived: int, *, last: bool = False) -> None:
        now = time.monotonic()
        if not last and now - self._shown < (0.1 if self._live else 1.0):
            return
        self._shown = now
        total, width = self._total, len(str(self._total))
        text = (
            f"  {now - self._start:4.1f} s   uploaded {uploaded:{width}}/{total}   "
            f"thumbnails {made:{width}}/{total}   webhooks {arrived:{width}}/{total}"
        )
        print(f"\r{text}\x1b[K" if self._live else text, end="\n" if last or not self._live else "", flush=True)

    def say(self, text: str) -> None:
        """A line that stays."""
        print(f"\r{text}\x1b[K" if self._live else text, flush=True)


@dataclass
class Kill:
    """The process that was killed, and when."""

    pid: int
    at: float


def watch(journal: Journal, uploads: Uploads, total: int) -> Kill | None:
    """Follow the work to its end, and kill a process at half-time. Stops when nothing goes on any more."""
    progress = Progress(total)
    kill: Kill | None = None
    known, changed = 0, time.monotonic()
    while time.monotonic() - changed < PATIENCE:
        journal.read()
        made, arrived = journal.photos("finished"), journal.photos("webhook")
        if kill is None and len(made) >= total // 2:
            # The busiest process, as soon as one is in the middle of several jobs; later on any job will do.
            pid, photos = max(journal.running().items(), key=lambda item: len(item[1]))
            if len(photos) >= (1 if len(made) >= 0.7 * total else MANY):
                os.kill(pid, signal.SIGKILL)
                kill = Kill(pid, time.time())
                progress.say(f"  process {pid} was killed (SIGKILL) in the middle of {jobs(len(photos))}")
        accepted = list(uploads.accepted)
        if known != (known := len(accepted) + len(journal.steps)):
            changed = time.monotonic()
        done = len(accepted) + len(uploads.refused) == total and (made & arrived).issuperset(accepted)
        progress.show(len(accepted), len(made), len(arrived), last=done)
        if done:
            break
        time.sleep(0.02)
    return kill


def report(journal: Journal, uploads: Uploads, kill: Kill | None, photos: Path) -> int:
    """Print the table; how many uploads were lost."""
    accepted = set(uploads.accepted)
    done = {
        photo
        for photo in journal.photos("finished") & journal.photos("webhook")
        if all((photos / photo / f"{size}.webp").exists() for size in THUMBNAIL_SIZES)
    }
    runs = Counter(step.photo for step in journal.steps if step.event == "started")
    shares = Counter(step.pid for step in journal.steps if step.event == "finished")
    first = {step.pid: step.at for step in reversed(journal.steps) if step.event == "started"}
    print()
    row("uploads accepted", len(accepted))
    if uploads.refused:
        row("uploads refused", len(uploads.refused), uploads.refused[0].partition("\n")[0])
    row("done", len(accepted & done), "thumbnails on disk, webhook arrived")
    row("lost", len(accepted - done))
    row("run more than once", sum(runs[photo] > 1 for photo in accepted), "in the killed process, then in another")
    if uploads.repeated:
        row("uploads sent again", uploads.repeated, "their connection broke with the killed process")
    name = "jobs per process"
    for pid in sorted(first, key=first.__getitem__):
        note = "" if kill is None else ", killed" if pid == kill.pid else ", new" if first[pid] > kill.at else ""
        row(name, shares[pid], f"process {pid}{note}")
        name = ""
    if kill and (rescues := rescued(journal, kill)):
        row("from kill to rescue", f"{max(rescues):.2f} s", f"{jobs(len(rescues))} cut off, until the last ran again")
    return len(accepted - done)


def rescued(journal: Journal, kill: Kill) -> list[float]:
    """For each job that the kill interrupted, the seconds until another process started it."""
    interrupted = journal.running()[kill.pid]
    again: dict[str, float] = {}
    for step in journal.steps:
        if step.event == "started" and step.photo in interrupted and step.pid != kill.pid:
            again.setdefault(step.photo, step.at - kill.at)
    return list(again.values())


def jobs(count: int) -> str:
    return "1 job" if count == 1 else f"{count} jobs"


def row(name: str, value: object, note: str = "") -> None:
    print(f"  {name:20} {value:>8}   {note}".rstrip())


def show(folder: Path, total: int, processes: int) -> int:
    """The demo, in a folder of its own; the exit code."""
    print(f"{total} photos are uploaded to a FastAPI app. Jobs inside its {processes} processes make thumbnails and")
    print("call a webhook. Half-way, one of the processes is killed.\n")
    start = time.monotonic()
    server = Server(folder, processes)
    try:
        server.await_ready()
        print(
            f"  uvicorn main:app --workers {processes}   on one SQLite file; ready in {time.monotonic() - start:.1f} s"
        )
        journal, uploads = Journal(server.photos / "journal.jsonl"), Uploads(Album(), server.url)
        with uploading(uploads, total):
            kill = watch(journal, uploads, total)
        lost = report(journal, uploads, kill, server.photos)
    finally:
        server.stop()
    if lost or uploads.refused:
        print(f"\nNOT AS IT SHOULD BE: {lost} lost, {len(uploads.refused)} refused.")
        print(f"The journal and the server's log are in {folder}")
        return 1
    if kill is None:
        print("\nNo process was killed: too few photos to catch one at work. Try --photos 100")
        return 1
    print("\nNothing was lost. Why: README.md, “What happens on a crash and on a deploy”. To play with the app:")
    print("  cd examples/fastapi_app && ../../.venv/bin/uvicorn main:app --workers 4")
    print("  then open http://127.0.0.1:8000/docs and http://127.0.0.1:8000/jobs/health")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description="Photos in, one process killed, nothing lost.")
    parser.add_argument("--photos", type=int, default=300, metavar="N", help="how many are uploaded (300)")
    parser.add_argument("--processes", type=int, default=4, metavar="N", help="of the server (4; at least 2)")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # cleaned up like Ctrl-C
    folder = Path(tempfile.mkdtemp(prefix="pillion-demo-"))
    code = 0
    try:
        code = show(folder, max(options.photos, 2), max(options.processes, 2))
    except KeyboardInterrupt:
        print("\nStopped; the server and its files are gone.")
        code = 130
    finally:
        if code != 1:
            shutil.rmtree(folder, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
