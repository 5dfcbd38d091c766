"""The README's Python runs as it is written.

A comment on the line above a block says what is done with it:

    <!-- test: check app.py -->        written to app.py and type-checked
    <!-- test: import app.py -->       … and imported
    <!-- test: run script.py -->       … and run
    <!-- test: pytest test_app.py -->  … and given to pytest

All files lie in one folder, so a later block may import an earlier one; a name used again adds to its file. Types are
checked by mypy --strict, as in a user's project: against what is installed, without this repository's settings.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from release.commands import run
from release.distributions import ROOT

README = ROOT / "README.md"
LOOP_SCOPE = "asyncio_default_fixture_loop_scope=function"  # pytest-asyncio warns when nothing is said
MODES = ("check", "import", "run", "pytest")


class Block(NamedTuple):
    mode: str
    name: str
    code: str


def blocks(text: str) -> list[Block]:
    found = []
    for match in re.finditer(r"^<!-- test:(.*?)-->\n+(.*?\n)", text, re.MULTILINE):
        mode, _, name = match[1].strip().partition(" ")
        assert mode in MODES, f"not understood: {match[0]!r}; see {Path(__file__).name}"
        assert name.endswith(".py"), f"no file name: {match[0]!r}; see {Path(__file__).name}"
        assert match[2] == "```python\n", f"no Python block follows {match[0]!r}"
        code, fence, _ = text[match.end() :].partition("\n```\n")
        assert fence, f"the block of {name} has no end"
        found.append(Block(mode, name, code + "\n"))
    return found


BLOCKS = blocks(README.read_text() + "\n") if README.exists() else []
ONCE = list({(block.mode, block.name): block for block in BLOCKS if block.mode != "check"})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("readme")
    for block in BLOCKS:
        with (folder / block.name).open("a") as file:
            file.write(block.code)
    return folder


def test_the_readme_has_snippets_under_test() -> None:
    assert BLOCKS or not README.exists(), f"mark its Python blocks; how is told in {Path(__file__).name}"


def test_the_snippets_pass_mypy_strict(folder: Path) -> None:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("types are checked in the environment that has the lint tools")
    names = sorted({block.name for block in BLOCKS})
    if names:
        run(sys.executable, "-m", "mypy", "--strict", "--cache-dir", folder / ".mypy", *names, cwd=folder)


@pytest.mark.parametrize(("mode", "name"), ONCE, ids=str)
def test_the_snippet_works(mode: str, name: str, folder: Path) -> None:
    command = {
        "import": ["-c", f"import {name.removesuffix('.py')}"],
        "run": [name],
        "pytest": ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", LOOP_SCOPE, name],
    }
    run(sys.executable, "-W", "error", *command[mode], cwd=folder)
