"""`CallCodec`: one task's calls and results to JSON text and back, by the task's signature."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

import msgspec

from pillion.codec.advice import advice, annotation_for, seen
from pillion.codec.natural import LABEL as NATURAL
from pillion.codec.results import ResultCodec
from pillion.codec.shapes import Misfit, is_a
from pillion.codec.signature import Signature
from pillion.errors import ArgumentError
from pillion.failure import keep_start, safe_repr, type_name

MAX_ARGS: Final = 2 * 1024 * 1024  # bytes of JSON; a megabyte of bytes is 1.4 of these
MAX_SHOWN: Final = 500  # bytes of stored arguments in an error's text

_EMPTY: Final = "{}"
_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


class CallCodec:
    """Encodes calls of `fn`, strictly by its annotations.

    Annotations are resolved at first use, or by `resolve()`. Parameters in `skip` are injected: they are
    no arguments. Values are taken as they are at the call; changing them afterwards has no effect.
    """

    def __init__(self, fn: Callable[..., Any], *, task: str, skip: Collection[str] = ()) -> None:
        self._fn = fn
        self._task = task
        self._skip = frozenset(skip)
        self._made: Signature | None = None
        self._results: ResultCodec | None = None

    def resolve(self) -> None:
        """Raises `ConfigurationError`, naming the parameter whose annotation cannot be used."""
        self._signature()
        self._result_codec()

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """The call as a JSON object by parameter name. Omitted arguments are not stored: defaults apply in the job.

        Raises `ArgumentError`.
        """
        signature = self._made or self._signature()
        if not args and not kwargs and not signature.required:
            return _EMPTY
        dumps = signature.dumps
        wires: dict[str, Any] = {}
        name = ""
        try:
            for name, value in self._bind(signature, args, kwargs).items():
                wires[name] = dumps[name](value)
            data = _encode(wires)
        except Misfit as misfit:
            raise self._refusal(name, misfit) from None
        except ArgumentError:
            raise
        except RecursionError:
            raise self._problem(name, "is nested too deeply, or contains itself") from None
        except UnicodeEncodeError as error:  # only the encoder looks into texts
            raise self._broken_text(wires, error) from None
        except Exception as error:  # the value's own code runs here: properties, iterators, validators
            raise self._problem(name, f"could not be read: {type_name(error)}: {_said(error)}") from error
        if len(data) > MAX_ARGS:
            raise self._too_large(wires, len(data))
        return data.decode()

    def decode(self, text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The call again, as ``(args, kwargs)`` that are the caller's own.

        Raises `ArgumentError` if the text no longer fits the signature; it shows both.
        """
        signature = self._made or self._signature()
        if text == _EMPTY and not signature.required:
            return (), {}
        name = ""
        try:
            wires: Any = _decode(text)
            if not is_a(wires, dict):
                raise Misfit("a JSON object by parameter name", wires)
            values: dict[str, Any] = {}
            loads = signature.loads
            for name, wire in wires.items():
                if name not in loads:
                    raise Misfit("a parameter of this task", name, "is none (any more)")
                values[name] = loads[name](wire)
            if len(values) != signature.count and not signature.required <= values.keys():
                name = min(signature.required - values.keys())
                raise Misfit("a value", None, "is missing")
        except (msgspec.MsgspecError, UnicodeError) as error:
            raise self._outdated(text, "", f"not JSON: {error}") from error
        except Misfit as misfit:
            raise self._outdated(text, name, _told(name, misfit)) from None
        except RecursionError:
            raise self._outdated(text, name, "nested too deeply") from None
        return ((), values) if signature.simple_call else signature.call(values)

    def encode_result(self, value: Any) -> str | None:
        """The result as JSON text, None for None. Never raises: what has no form in JSON becomes marked text."""
        return None if value is None else self._result_codec().encode(value)

    def decode_result(self, text: str | None) -> Any:
        """The result by the return annotation; as plain JSON values where it does not fit it. Never raises."""
        return None if text is None else self._result_codec().decode(text)

    def _signature(self) -> Signature:
        if self._made is None:
            self._made = Signature(self._fn, self._task, self._skip)
        return self._made

    def _result_codec(self) -> ResultCodec:
        if self._results is None:
            self._results = ResultCodec(self._fn, self._task)
        return self._results

    def _bind(self, signature: Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The given arguments by parameter name. Raises `ArgumentError`, in Python's own words."""
        if signature.simple and len(args) <= len(signature.positional):
            bound = dict(zip(signature.positional, args, strict=False))
            if kwargs:
                count = len(bound) + len(kwargs)
                bound.update(kwargs)
                if len(bound) != count or not signature.keywords.issuperset(kwargs):
                    return self._bind_thoroughly(signature, args, kwargs)
            if len(bound) == signature.count or signature.required <= bound.keys():
                return bound
        return self._bind_thoroughly(signature, args, kwargs)

    def _bind_thoroughly(
        self, signature: Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        injected = self._skip.intersection(kwargs)
        if injected:
            name = min(injected)
            raise ArgumentError(f"`{name}` of task {self._task} is injected in the job: leave it out", name)
        try:
            bound = signature.inspected.bind(*args, **kwargs).arguments
            if absent := signature.required - bound.keys():  # seen on 3.13.0: positional-only beside **kwargs
                raise TypeError(f"missing a required argument: {min(absent)!r}")
            return bound
        except TypeError as error:
            raise ArgumentError(f"Task {self._task}{signature.inspected}: {error}") from None

    def _refusal(self, name: str, misfit: Misfit) -> ArgumentError:
        remedy = "" if misfit.why else advice(misfit.value)
        if misfit.expected == NATURAL and (annotation := annotation_for(misfit.value)):
            remedy = f"to have it arrive as it is, annotate the parameter as {annotation}"
        text = f"Task {self._task}: {_told(name, misfit)}"
        return ArgumentError(f"{text}. {remedy[0].upper()}{remedy[1:]}" if remedy else text, name)

    def _problem(self, name: str, what: str) -> ArgumentError:
        return ArgumentError(f"`{name}` of task {self._task} {what}", name)

    def _broken_text(self, wires: dict[str, Any], error: UnicodeEncodeError) -> ArgumentError:
        name = next((name for name, wire in wires.items() if not _encodes(wire)), "")
        code = ord(error.object[error.start])
        return self._problem(
            name,
            f"holds U+{code:04X}, half of a surrogate pair, which is no Unicode text. "
            "Pass bytes (os.fsencode for a file name)",
        )

    def _too_large(self, wires: dict[str, Any], size: int) -> ArgumentError:
        name = max(wires, key=lambda name: len(_encode(wires[name])))
        return ArgumentError(
            f"The arguments of task {self._task} take {size:,} bytes, more than {MAX_ARGS:,}; `{name}` is the largest. "
            "Put the data where the job can read it, and pass a path, key or id",
            name,
        )

    def _outdated(self, text: str, name: str, why: str) -> ArgumentError:
        signature = safe_repr(str(self._signature().inspected), MAX_SHOWN)[1:-1]
        stored = safe_repr(text, MAX_SHOWN)[1:-1]
        return ArgumentError(
            f"The stored arguments do not fit task {self._task} any more: {why}. "
            f"It takes {signature}, stored was {stored}",
            name or None,
        )


def _told(name: str, misfit: Misfit) -> str:
    where = f"`{name}{misfit.path}`" if name else "the call"
    if misfit.why:
        return f"{where} takes {misfit.expected}; {seen(misfit.value)} {misfit.why}"
    return f"{where} takes {misfit.expected}, not {seen(misfit.value)}"


def _encodes(wire: Any) -> bool:
    try:
        _encode(wire)
    except UnicodeEncodeError:
        return False
    return True


def _said(error: Exception) -> str:
    try:
        return keep_start(str(error), 200)
    except Exception:
        return "it cannot be shown"
