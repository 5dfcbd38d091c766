"""Job ids: made by the caller's process, so that a repeated enqueue is recognised.

An id is 26 characters in the manner of a ULID: ten for the wall clock's millisecond (ids sort by the
time they were made), sixteen of randomness. Nothing orders jobs by it: the store gives a sequence number.
"""

from __future__ import annotations

import os
import time
from typing import Final

ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: no i, l, o, u
LENGTH: Final = 26
_RANDOM: Final = bytes(ord(ALPHABET[byte & 31]) for byte in range(256))

_stamp: tuple[int, str] = (-1, "")  # the last millisecond and its ten characters


def new_id() -> str:
    """A new id. 80 random bits come from the system each time, so that forked children never repeat one."""
    global _stamp
    now_ms = time.time_ns() // 1_000_000
    made_ms, prefix = _stamp
    if made_ms != now_ms:
        prefix = _time_prefix(now_ms)
        _stamp = (now_ms, prefix)  # one assignment: threads may race, none sees half of it
    return prefix + os.urandom(16).translate(_RANDOM).decode("ascii")


def millis(job_id: str) -> int:
    """When an id was made: milliseconds since the epoch, by its maker's clock. Raises `ValueError` if it is none."""
    if len(job_id) < LENGTH:
        raise ValueError(f"{job_id!r} is no job id")
    value = 0
    for character in job_id[:10]:
        value = value << 5 | ALPHABET.index(character)
    return value


def _time_prefix(now_ms: int) -> str:
    return "".join(ALPHABET[(now_ms >> shift) & 31] for shift in range(45, -1, -5))
