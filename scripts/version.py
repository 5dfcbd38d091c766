"""Print the version, or set it everywhere: `python scripts/version.py 0.2.0`.

The number stands in core's `_version.py`, in each sibling's pyproject.toml, and in every pin between siblings. It is
written out in all of them so that each file reads on its own; `tests/release` holds them equal.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "core/pillion/_version.py"
PROJECTS = [ROOT / "core/pyproject.toml", *sorted(ROOT.glob("integrations/*/pyproject.toml"))]


def current() -> str:
    match = re.search(r'^__version__ = "(.+)"$', SOURCE.read_text(), re.MULTILINE)
    assert match, SOURCE
    return match[1]


def set_version(new: str) -> None:
    old = re.escape(current())
    places = rf'(?m)(^__version__ = "|^version = "|"pillion(?:-\w+)?==){old}(?=")'
    for path in (SOURCE, *PROJECTS):
        path.write_text(re.sub(places, rf"\g<1>{new}", path.read_text()))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        if not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", sys.argv[1]):
            sys.exit(f"not a version: {sys.argv[1]} (write 1.2.3, 1.2.3a1, 1.2.3b1 or 1.2.3rc1)")
        set_version(sys.argv[1])
    print(current())
