"""Ids are unique, sort by time, and tell when they were made."""

from __future__ import annotations

import os
import threading
import time

import pytest

from pillion import ids


def test_an_id_is_26_characters_of_the_alphabet() -> None:
    made = ids.new_id()
    assert len(made) == ids.LENGTH == 26
    assert set(made) <= set(ids.ALPHABET)


def test_ids_of_later_milliseconds_sort_later(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for milliseconds in (0, 1, 31, 32, 1_700_000_000_000, 2**48 - 1):
        monkeypatch.setattr(time, "time_ns", lambda now=milliseconds: now * 1_000_000)
        made.append(ids.new_id())
        assert ids.millis(made[-1]) == milliseconds
    assert made == sorted(made)


def test_ids_made_by_threads_at_once_differ() -> None:
    made: list[str] = []
    threads = [threading.Thread(target=lambda: made.extend(ids.new_id() for _ in range(5000))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 20_000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forked_children_do_not_repeat_their_parents_ids() -> None:
    ids.new_id()
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writer, "".join(ids.new_id() for _ in range(100)).encode())
        os._exit(0)
    os.close(writer)
    own = {ids.new_id() for _ in range(100)}
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    theirs = {text[start : start + 26] for start in range(0, len(text), 26)}
    assert len(theirs) == 100
    assert not own & theirs


@pytest.mark.parametrize("text", ["", "short", "u" * 26])
def test_what_is_no_id_tells_no_time(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        ids.millis(text)
