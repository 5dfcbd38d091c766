from __future__ import annotations

from servers.fixtures import site, tell

__all__ = ["site", "tell"]
