"""What is published: core, and every folder of integrations/ that has a pyproject.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Distribution:
    folder: Path
    metadata: dict[str, Any]  # the [project] table

    @property
    def name(self) -> str:
        return str(self.metadata["name"])

    @property
    def package(self) -> str:
        return self.name.replace("-", "_")

    @property
    def requirements(self) -> list[str]:
        extras = self.metadata.get("optional-dependencies", {})
        return [*self.metadata["dependencies"], *(line for lines in extras.values() for line in lines)]

    def files(self) -> set[str]:
        """The package's files as they lie in the tree, relative to the distribution's folder."""
        found = (self.folder / self.package).rglob("*")
        return {str(f.relative_to(self.folder)) for f in found if f.is_file() and "__pycache__" not in f.parts}


def load(pyproject: Path) -> Distribution:
    return Distribution(pyproject.parent, tomllib.loads(pyproject.read_text())["project"])


CORE = load(ROOT / "core/pyproject.toml")
SIBLINGS = [load(path) for path in sorted(ROOT.glob("integrations/*/pyproject.toml"))]
ALL = [CORE, *SIBLINGS]
