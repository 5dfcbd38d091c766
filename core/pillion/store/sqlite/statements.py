"""The SQL texts under a namespace. A text is the same object each time: sqlite3 caches what it compiled by text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Final

Value = str | int | None

_NAME: Final = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_ROWS: Final = re.compile(r"(\([?, ]+\)) /\* rows \*/")
_SIZES: Final = (1, 4, 16, 64, 256)  # rows of one statement; more go in several

_READY: Final = """SELECT seq, id, task, queue, kind, suspect, key, attempt, failures, losses, releases, args, headers
FROM [jobs] WHERE state = 2 AND hold IS NULL AND queue = ? AND kind = ? AND suspect = ?{only}
ORDER BY prio DESC, seq LIMIT ?"""

_CLAIMABLE: Final = """{look}, (SELECT json_group_array(json_array(seq, ?, id, task, queue, kind, suspect,
key IS NOT NULL, attempt + 1, failures, losses, releases, args, headers)) FROM ({ready}))"""


@cache
def read_sql(name: str) -> str:
    """The text of a file beside this one."""
    return files("pillion.store.sqlite").joinpath(name).read_text("utf-8")


class Statements:
    """Texts by name (``sql["beat"]``), for `rows` of a size, and the claim for so many wants."""

    def __init__(self, namespace: str) -> None:
        self._prefix = f"[{namespace}"
        parts = _NAME.split(read_sql("statements.sql"))
        self._texts = {
            name: self.named(re.sub(r"^--.*$", "", text, flags=re.MULTILINE).strip())
            for name, text in zip(parts[1::2], parts[2::2], strict=True)
        }
        self._sized: dict[tuple[str, int], str] = {}
        self._claims: dict[tuple[int, bool], str] = {}

    def named(self, text: str) -> str:
        """`text` with the namespace in front of its bracketed names."""
        return text.replace("[", self._prefix)

    @property
    def names(self) -> list[str]:
        """All names."""
        return list(self._texts)

    def __getitem__(self, name: str) -> str:
        return self._texts[name]

    def rows(self, name: str, count: int) -> tuple[str, int]:
        """The text of `name` for at least one and at most `count` rows, padded; and how many rows it takes."""
        size = next((size for size in _SIZES if size >= count), _SIZES[-1])
        text = self._sized.get((name, size))
        if text is None:
            text = _ROWS.sub(lambda match: ", ".join([match[1]] * size), self._texts[name])
            self._sized[name, size] = text
        return text, size

    def rows_within(self, name: str, count: int) -> tuple[str, int]:
        """The text of `name` for as many rows as a statement takes without padding, and how many that are."""
        size = next(size for size in reversed(_SIZES) if size <= count)
        return self.rows(name, size)

    def claimable(self, wants: int, only: bool) -> str:
        """``link_standing`` and, as one JSON text more, what `wants` wants may claim, in their order."""
        text = self._claims.get((wants, only))
        if text is None:
            ready = self.named(_READY.format(only=" AND task IN (SELECT value FROM json_each(?))" if only else ""))
            # A LIMIT of its own for each part of a union needs the part to be a subquery.
            union = ready if wants == 1 else " UNION ALL ".join([f"SELECT * FROM ({ready})"] * wants)
            text = self._claims[wants, only] = _CLAIMABLE.format(look=self["link_standing"], ready=union)
        return text


def padded(values: list[Value], rows: int, width: int, size: int) -> Sequence[Value]:
    """`values` of `rows` rows, filled up with NULLs for a statement of `size` rows."""
    if size > rows:
        values.extend([None] * ((size - rows) * width))
    return values
