"""Facts about this host."""

from __future__ import annotations

import platform
import sys
from functools import cache
from pathlib import Path


@cache
def boot_id() -> str:
    """What tells this boot of the host from others: its monotonic clock counts from there.

    Where the system has no such id, the host's name stands in: a reboot then shows as a clock that went back.
    """
    try:
        text = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        text = ""
    return text or f"{sys.platform}:{platform.node()}"
