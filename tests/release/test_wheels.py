"""What is in the wheels, and that they work where nothing else of ours is."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from email.parser import Parser
from pathlib import Path

import pytest

from pillion._version import __version__
from release.commands import run
from release.distributions import ALL, CORE, ROOT, SIBLINGS, Distribution

each = pytest.mark.parametrize("distribution", ALL, ids=lambda d: d.name)


def opened(wheels: Path, distribution: Distribution) -> zipfile.ZipFile:
    return zipfile.ZipFile(wheels / f"{distribution.package}-{__version__}-py3-none-any.whl")


@each
def test_the_wheel_holds_the_package_and_nothing_else(wheels: Path, distribution: Distribution) -> None:
    info = f"{distribution.package}-{__version__}.dist-info/"
    with opened(wheels, distribution) as wheel:
        names = set(wheel.namelist())
    assert {name for name in names if not name.startswith(info)} == distribution.files()
    assert f"{distribution.package}/py.typed" in names
    assert f"{distribution.package}/__init__.py" in names


def test_core_ships_its_sql(wheels: Path) -> None:
    with opened(wheels, CORE) as wheel:
        assert [name for name in wheel.namelist() if name.endswith(".sql")]


@each
def test_the_wheel_carries_licence_and_metadata(wheels: Path, distribution: Distribution) -> None:
    info = f"{distribution.package}-{__version__}.dist-info"
    with opened(wheels, distribution) as wheel:
        assert wheel.read(f"{info}/licenses/LICENSE").decode() == (ROOT / "LICENSE").read_text()
        metadata = Parser().parsestr(wheel.read(f"{info}/METADATA").decode())
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Description-Content-Type"] == "text/markdown"


ALONE = """
import asyncio, importlib.util, sys
import pillion

frameworks = {"fastapi", "litestar", "starlette"}
assert not frameworks & {name.partition(".")[0] for name in sys.modules}
assert not [name for name in frameworks if importlib.util.find_spec(name)], "a framework came with the core"

jobs = pillion.Jobs("sqlite:///jobs.db")

@jobs.task
async def double(n: int) -> int:
    return n * 2

async def main() -> None:
    async with jobs.worker():
        job = await double.enqueue(21)
        print(await job.result(timeout=20))

asyncio.run(main())
"""

IN_FASTAPI = """
import asyncio
from fastapi import FastAPI
from pillion_fastapi import Jobs

jobs = Jobs("sqlite:///jobs.db")

@jobs.task
async def double(n: int) -> int:
    return n * 2

app = FastAPI(lifespan=jobs.lifespan)

async def main() -> None:
    async with app.router.lifespan_context(app):
        job = await double.enqueue(21)
        print(await job.result(timeout=20))

asyncio.run(main())
"""


def output(python: Path, program: str, folder: Path) -> list[str]:
    """The lines that the program prints, run away from the tree so that only what is installed is found."""
    path = folder / "program.py"
    path.write_text(program)
    return run(python, "-W", "error", path, cwd=folder).splitlines()


@pytest.mark.timeout(180)
def test_core_alone_in_a_clean_environment(install: Callable[[str], Path], tmp_path: Path) -> None:
    assert "42" in output(install(""), ALONE, tmp_path)


@pytest.mark.timeout(180)
def test_the_fastapi_extra_brings_the_adapter(install: Callable[[str], Path], tmp_path: Path) -> None:
    python = install("[fastapi]")
    assert "42" in output(python, IN_FASTAPI, tmp_path)
    where = run(
        python, "-c", "import pillion, pillion_fastapi as f, pillion_starlette as s; print(s.__file__, f.__file__)"
    )
    assert str(ROOT) not in where
    assert where.count(str(python.parent.parent)) == len(SIBLINGS)
