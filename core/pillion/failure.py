"""Exceptions as data: what a failed attempt leaves behind, as bounded JSON text.

Whatever a job raises is somebody else's code: its ``__str__``, its notes and its chain of causes may
raise, recurse or be huge. Nothing of that may harm the worker, so every step here has a plainer one to
fall back on.
"""

from __future__ import annotations

import os
import traceback
from types import TracebackType
from typing import Final

import msgspec

MAX_TRACEBACK: Final = 16 * 1024  # bytes of UTF-8; the end is kept, where the error is
MAX_MESSAGE: Final = 2 * 1024  # bytes of UTF-8
MAX_NOTE: Final = 2 * 1024  # bytes of UTF-8
MAX_TYPE: Final = 300  # bytes of UTF-8

_HERE: Final = os.path.dirname(os.path.abspath(__file__)) + os.sep
_CUT: Final = "… "


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """One exception, as text. ``note`` is a remedy of ours, for errors whose cause we recognise."""

    type: str  # qualified name, without the module for builtins
    message: str = ""
    traceback: str = ""
    note: str | None = None


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(Failure)


def describe(error: BaseException, *, note: str | None = None) -> str:
    """`error` as JSON text of a `Failure`. Never raises, never more than about 130 kB (usually 2)."""
    failure = Failure(
        type=keep_start(type_name(error), MAX_TYPE),
        message=keep_start(_message(error), MAX_MESSAGE),
        traceback=keep_end(_traceback(error), MAX_TRACEBACK),
        note=None if note is None else keep_start(note, MAX_NOTE),
    )
    return _encoder.encode(failure).decode()


def read(text: str) -> Failure:
    """What `describe` wrote. Text of another hand is kept as the message, so that reading never raises."""
    try:
        return _decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError):
        return Failure(type="Unknown", message=keep_start(text, MAX_MESSAGE))


def type_name(value: object) -> str:
    """``module.Class`` of `value`, the bare name for builtins. Never raises."""
    try:
        cls = type(value)
        module, name = str(cls.__module__), str(cls.__qualname__)
    except BaseException:  # a metaclass may do anything
        return "Unknown"
    return name if module == "builtins" else f"{module}.{name}"


def safe_repr(value: object, limit: int = 200) -> str:
    """``repr(value)`` in at most `limit` bytes of clean text; a failing one becomes ``<module.Class object>``."""
    try:
        text = repr(value)
    except BaseException:  # also SystemExit: it would end the worker, not the job
        text = f"<{type_name(value)} object>"
    return keep_start(text, limit)


def clean(text: str) -> str:
    """`text` without what some store cannot hold: NUL and lone surrogates become U+FFFD."""
    if "\0" in text:
        text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def keep_start(text: str, limit: int) -> str:
    """The beginning of `text`, cleaned, in at most `limit` bytes of UTF-8."""
    data = clean(text[: limit + 1]).encode()
    if len(data) <= limit:
        return data.decode()
    room = limit - len(_CUT.encode())
    return data[:room].decode(errors="ignore") + _CUT.strip()


def keep_end(text: str, limit: int) -> str:
    """The end of `text`, cleaned, in at most `limit` bytes of UTF-8."""
    data = clean(text[-(limit + 1) :]).encode()
    if len(data) <= limit:
        return data.decode()
    room = limit - len(_CUT.encode())
    return _CUT + data[len(data) - room :].decode(errors="ignore")


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:
        return f"<the message of {type_name(error)} could not be read>"


def _traceback(error: BaseException) -> str:
    """The traceback without the worker's own frames in front, in the richest form that works."""
    try:
        frames = _their_frames(error.__traceback__)
        return "".join(traceback.format_exception(type(error), error, frames))
    except BaseException:
        pass
    try:  # without the chain of causes, notes and message: any of them may be what failed
        frames = _their_frames(error.__traceback__)
        return "".join(["Traceback (most recent call last):\n", *traceback.format_tb(frames), type_name(error)])
    except BaseException:
        return type_name(error)


def _their_frames(frames: TracebackType | None) -> TracebackType | None:
    """Skip leading frames of this package; keep all if there are no others (an error of our own)."""
    first = frames
    while first is not None:
        if not first.tb_frame.f_code.co_filename.startswith(_HERE):
            return first
        first = first.tb_next
    return frames


def text(type_: str, message: str) -> str:
    """A failure without an exception behind it, as JSON text."""
    return _encoder.encode(Failure(type=type_, message=message)).decode()
