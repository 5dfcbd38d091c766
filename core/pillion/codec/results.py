"""Results of jobs as JSON text. Nothing here raises: a job that did its work has succeeded."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

import msgspec

from pillion.codec.compiler import Compiler
from pillion.codec.hints import Hints, unwrap
from pillion.codec.natural import AnyShape, natural
from pillion.codec.shapes import Shape, is_a
from pillion.failure import safe_repr, type_name

MAX_RESULT: Final = 2 * 1024 * 1024  # bytes of JSON
MAX_TEXT: Final = 2 * 1024  # bytes of text that stand for a result without a form in JSON
TEXT: Final = "$text"  # the two keys of such a result
TYPE: Final = "$type"

_log: Final = logging.getLogger("pillion")
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


class ResultCodec:
    """Results by the return annotation of `fn`; by their own type where there is none or it is not kept."""

    def __init__(self, fn: Callable[..., Any], task: str) -> None:
        self._task = task
        self._shape = _return_shape(fn)
        self._told = False

    def encode(self, value: Any) -> str:
        try:
            data = _encode(self._wire(value))
            if len(data) <= MAX_RESULT:
                return data.decode()
            why = f"takes {len(data):,} bytes, more than {MAX_RESULT:,}"
        except BaseException as error:  # the value's own code may run, and SystemExit would end the worker
            why = "has no form in JSON"
            _log.debug("The result of task %s could not be encoded", self._task, exc_info=error)
        self._tell(value, why)
        return _encode({TEXT: safe_repr(value, MAX_TEXT), TYPE: type_name(value)}).decode()

    def decode(self, text: str) -> Any:
        try:
            wire = _decode(text)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return text
        if is_a(wire, dict) and wire.keys() == {TEXT, TYPE}:
            return wire[TEXT]
        try:
            return self._shape.load(wire)
        except Exception:  # the annotation changed, or was not kept
            return wire

    def _wire(self, value: Any) -> Any:
        try:
            return self._shape.dump(value)
        except Exception:  # not what the annotation says
            pass
        try:
            return natural(value)
        except Exception:
            return Compiler().shape(type(value)).dump(value)

    def _tell(self, value: Any, why: str) -> None:
        if not self._told:
            self._told = True
            _log.warning(
                "Result of task %s (%s) %s; its text is kept instead. Return data, or None",
                self._task,
                type_name(value),
                why,
            )


def _return_shape(fn: Callable[..., Any]) -> Shape:
    try:
        hint = unwrap(Hints(fn).get("return"))
        return Compiler().shape(hint)
    except Exception:  # no annotation, or one that cannot be used: the value's own type decides
        return AnyShape()
