"""Where and with what a run was made."""

from __future__ import annotations

import os
import platform
import sqlite3
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bench.systems import SYSTEMS, system


def describe(folder: Path) -> dict[str, Any]:
    """Machine, versions and the settings of each side."""
    systems = {name: system(name) for name in SYSTEMS}
    packages = {package for each in systems.values() for package in each.packages} | {"fastapi", "uvicorn", "httptools"}
    return {
        "machine": {
            "cpu": _cpu(),
            "cpus": os.cpu_count(),
            "load_before": os.getloadavg()[0],
            "system": platform.platform(),
            "file_system": _file_system(folder),
        },
        "versions": {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version}
        | {package: _version(package) for package in sorted(packages)},
        "systems": {
            name: {
                "delivery": each.delivery,
                "durability": each.durability,
                "settings": each.settings,
                "note": each.note,
            }
            for name, each in systems.items()
        },
    }


def text(about: dict[str, Any]) -> str:
    """The same as a few lines."""
    machine, versions = about["machine"], about["versions"]
    where = f"{machine['cpu']}, {machine['cpus']} CPUs; {machine['system']}; {machine['file_system']}"
    lines = [
        f"{where}; load before: {machine['load_before']:.2f}",
        ", ".join(f"{name} {number}" for name, number in versions.items()),
    ]
    for name, each in about["systems"].items():
        note = f" ({each['note']})" if each["note"] else ""
        lines.append(f"{name}: {each['settings']}; {each['durability']}; delivery: {each['delivery']}{note}")
    return "\n".join(lines)


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "from this tree"


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _file_system(folder: Path) -> str:
    best, kind = "", "unknown"
    try:
        mounts = Path("/proc/mounts").read_text().splitlines()
    except OSError:
        return kind
    for line in mounts:
        _, point, found, *_ = line.split(" ")
        if str(folder.resolve()).startswith(point) and len(point) > len(best):
            best, kind = point, found
    return kind
