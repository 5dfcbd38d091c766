from __future__ import annotations

from servers.fixtures import pytest_terminal_summary, site, tell

__all__ = ["pytest_terminal_summary", "site", "tell"]
