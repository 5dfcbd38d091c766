"""Importing a package, building `Jobs` and declaring tasks opens nothing: no thread, file, socket or signal handler."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

WATCH = """
import json, os, signal, sys, threading, time
import asyncio, logging{framework}

ACTS = {{
    "os.exec", "os.fork", "os.mkdir", "os.posix_spawn", "os.putenv", "os.remove", "os.rename", "socket.__new__",
    "sqlite3.connect", "subprocess.Popen",
}}
CODE = (".py", ".pyc", ".so", ".pyd")
acts = []

def watch(event, args):
    if event in ACTS or (event == "open" and not str(args[0]).endswith(CODE)):
        acts.append([event, repr(args)])

def handlers():
    return [signal.getsignal(number) for number in signal.valid_signals()]

start = threading.Thread.start
threading.Thread.start = lambda self: (acts.append(["thread", self.name]), start(self))[1]
before = handlers(), sorted(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else []
sys.addaudithook(watch)
begun = time.process_time()
import {package}
took = time.process_time() - begun
modules = sorted(sys.modules)

jobs = {package}.Jobs("sqlite:///jobs.db")

@jobs.resource
async def number():
    yield 1

@jobs.task(max_attempts=2)
async def one(n: int) -> int:
    return n

@jobs.task
def two(n: int) -> int:
    return n

after = handlers(), sorted(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else []
print(json.dumps({{
    "acts": [act for act in acts if "/proc/self/fd" not in act[1]],
    "threads": [thread.name for thread in threading.enumerate()],
    "handlers": before[0] == after[0],
    "files": before[1] == after[1],
    "left": os.listdir(),
    "took": took,
    "modules": modules,
}}))
"""


def watched(package: str, folder: Path) -> Any:
    framework = package.removeprefix("pillion").replace("_", ", ")
    done = subprocess.run(
        [sys.executable, "-B", "-W", "error", "-c", WATCH.format(package=package, framework=framework)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.mark.parametrize("package", ["pillion", "pillion_starlette", "pillion_fastapi"])
def test_importing_and_declaring_opens_nothing(package: str, tmp_path: Path) -> None:
    seen = watched(package, tmp_path)
    assert seen["acts"] == []
    assert seen["threads"] == ["MainThread"]
    assert seen["handlers"], "a signal handler was changed"
    assert seen["files"], "a file or socket stayed open"
    assert seen["left"] == []


def test_core_imports_no_framework_and_nothing_that_may_not_be_needed(tmp_path: Path) -> None:
    loaded = set(watched("pillion", tmp_path)["modules"])
    unwanted = {"fastapi", "litestar", "starlette", "pydantic", "sqlalchemy", "httpx", "uvloop", "pytest", "sqlite3"}
    assert loaded & unwanted == set()


def test_importing_core_is_quick(tmp_path: Path) -> None:
    # Once to compile, as an installer does. On top of asyncio and logging, which every server has loaded already; CPU
    # time and the best of five, for a busy machine.
    subprocess.run([sys.executable, "-c", "import pillion"], check=True)
    assert min(watched("pillion", tmp_path)["took"] for _ in range(5)) < 0.2  # s
