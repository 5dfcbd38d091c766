"""Job states as the integers that rows hold."""

from __future__ import annotations

from typing import Final

from pillion.model import State

STATES: Final[tuple[State, ...]] = ("waiting", "scheduled", "queued", "running", "succeeded", "failed", "cancelled")
CODE: Final[dict[State, int]] = {state: code for code, state in enumerate(STATES)}
