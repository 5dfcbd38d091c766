"""What kind of file system a path lies on, and what that means for SQLite."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

MOUNTS: Final = "/proc/self/mountinfo"

# fmt: off
_NETWORK: Final = frozenset({
    "9p", "afs", "ceph", "cifs", "coda", "fakeowner", "glusterfs", "gpfs", "grpcfuse", "lustre", "ncpfs",
    "nfs", "nfs4", "ocfs2", "orangefs", "osxfs", "prl_fs", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs",
})
# fmt: on
_ESCAPE: Final = re.compile(r"\\([0-7]{3})")


def kind_of(path: str, mounts: str = MOUNTS) -> str | None:
    """The type of the file system that holds (or would hold) `path`; None where that cannot be told."""
    try:
        lines = Path(mounts).read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return None
    real = os.path.realpath(path)
    best, found = -1, None
    for line in lines:
        left, dash, right = line.partition(" - ")
        fields = left.split()
        if not dash or len(fields) < 5 or not right:
            continue
        point = _ESCAPE.sub(lambda match: chr(int(match[1], 8)), fields[4])
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        # Of mounts at the same place, the last one covers the others.
        if inside and len(point) >= best:
            best, found = len(point), right.split()[0]
    return found


def is_shared(kind: str | None) -> bool:
    """True for file systems that other hosts may see, or that only imitate a local one."""
    return kind is not None and (kind in _NETWORK or kind.startswith("fuse."))


def warnings(path: str, mounts: str = MOUNTS) -> list[str]:
    """What to tell people about a database at `path`: nothing for a local disk."""
    kind = kind_of(path, mounts)
    if is_shared(kind):
        text = (
            f"The database lies on {kind}, where SQLite's locks cannot be relied on: it may be damaged, above all with "
            "more than one host. Put it on a local disk, or use Postgres or Redis."
        )
    elif kind == "overlay":
        text = (
            "The database lies in the container's own layer: jobs vanish with the container. "
            "Put it on a volume, as in sqlite:////data/jobs.db."
        )
    else:
        return []
    return [text]
