"""The public names: what is promised, all there, all explained. A change here is a change for users: CHANGELOG.md."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path
from types import ModuleType

import pytest

from release.distributions import ALL, ROOT, SIBLINGS, Distribution

PUBLISHED = Path(__file__).with_name("surface.txt")
MODULES = sorted({distribution.package for distribution in ALL} | {"pillion.testing"})

each = pytest.mark.parametrize("name", MODULES)


def test_the_public_names_are_the_promised_ones() -> None:
    now = {f"{module}.{name}" for module in MODULES for name in importlib.import_module(module).__all__}
    promised = set(PUBLISHED.read_text().split())
    assert now - promised == set(), f"new public names: add them to {PUBLISHED.relative_to(ROOT)}"
    assert promised - now == set(), "public names are gone"


@each
def test_each_public_name_is_there(name: str) -> None:
    module = importlib.import_module(name)
    assert [public for public in module.__all__ if not hasattr(module, public)] == []
    assert len(set(module.__all__)) == len(module.__all__)


@each
def test_nothing_else_looks_public(name: str) -> None:
    module = importlib.import_module(name)
    strays = [
        stray
        for stray, value in vars(module).items()
        if not stray.startswith("_")
        and stray not in module.__all__
        and not isinstance(value, ModuleType)
        and getattr(value, "__module__", "") != "__future__"
    ]
    assert strays == []


@each
def test_each_public_name_is_explained(name: str) -> None:
    module = importlib.import_module(name)
    things = {public: getattr(module, public) for public in module.__all__}
    silent = [
        public
        for public, thing in things.items()
        if (inspect.isclass(thing) or inspect.isroutine(thing)) and not (thing.__doc__ or "").strip()
    ]
    assert module.__doc__
    assert silent == []


@each
def test_public_methods_of_public_classes_are_explained(name: str) -> None:
    module = importlib.import_module(name)
    silent = []
    for public in module.__all__:
        thing = getattr(module, public)
        if not inspect.isclass(thing) or not thing.__module__.startswith("pillion"):
            continue
        for attribute, value in vars(thing).items():
            function = getattr(value, "__func__", value)  # a property may be plain from its name
            if not attribute.startswith("_") and inspect.isfunction(function) and not inspect.getdoc(function):
                silent.append(f"{public}.{attribute}")
    assert silent == []


@pytest.mark.parametrize("distribution", SIBLINGS, ids=lambda d: d.name)
def test_adapters_use_public_names_only(distribution: Distribution) -> None:
    used = set()
    for path in (distribution.folder / distribution.package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("pillion"):
                used |= {(node.module, alias.name) for alias in node.names}
    private = []
    for module, name in used:
        offered = getattr(importlib.import_module(module), "__all__", None)
        if module.partition(".")[0] != distribution.package and (
            name.startswith("_") or name not in (offered or [name])
        ):
            private.append(f"{module}.{name}")
    assert private == []
