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
from pillion.failure import safe_repr

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
        name = ""
        try:
            wires: dict[str, Any] = {}
            if signature.simple:
                positional = signature.positional
                if len(args) > len(positional):
                    return self._encode_bound(signature, args, kwargs)
                for (name, dump), value in zip(positional, args, strict=False):
                    wires[name] = dump(value)
                for name, value in kwargs.items():
                    if name in wires or name not in signature.keywords:
                        return self._encode_bound(signature, args, kwargs)
                    wires[name] = signature.keywords[name](value)
                if len(wires) != signature.count and not signature.required <= wires.keys():
                    return self._encode_bound(signature, args, kwargs)
                return self._text(wires)
        except Misfit as misfit:
            raise self._refusal(name, misfit) from None
        except RecursionError:
            raise self._too_deep(name) from None
        return self._encode_bound(signature, args, kwargs)

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
            raise self._outdated(text, "", f"not JSON: {error}") from None
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

    def _encode_bound(self, signature: Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
        """The thorough way: for ``*args`` and ``**kwargs``, and to have Python say what is wrong with a call."""
        injected = self._skip.intersection(kwargs)
        if injected:
            name = min(injected)
            raise ArgumentError(f"`{name}` of task {self._task} is injected in the job: leave it out", name)
        try:
            bound = signature.inspected.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise ArgumentError(f"Task {self._task}{signature.inspected}: {error}") from None
        name = ""
        try:
            return self._text({name: signature.dumps[name](value) for name, value in bound.items()})
        except Misfit:
            pass
        for name, value in bound.items():
            try:
                signature.dumps[name](value)
            except Misfit as misfit:
                raise self._refusal(name, misfit) from None
        raise ArgumentError(f"The arguments of task {self._task} changed while they were encoded")

    def _text(self, wires: dict[str, Any]) -> str:
        try:
            data = _encode(wires)
        except (ValueError, OverflowError) as error:  # also UnicodeEncodeError: a lone surrogate
            raise self._unencodable(wires, error) from None
        if len(data) > MAX_ARGS:
            name = max(wires, key=lambda name: len(_encode(wires[name])))
            raise ArgumentError(
                f"The arguments of task {self._task} take {len(data):,} bytes, more than {MAX_ARGS:,}; "
                f"`{name}` is the largest. Put the data where the job can read it, and pass a path, key or id",
                name,
            )
        return data.decode()

    def _unencodable(self, wires: dict[str, Any], error: Exception) -> ArgumentError:
        for name, wire in wires.items():
            try:
                _encode(wire)
            except (ValueError, OverflowError) as culprit:
                why, error = name, culprit
                break
        else:
            why = next(iter(wires), "")
        if isinstance(error, UnicodeEncodeError):
            text = (
                f"holds U+{ord(error.object[error.start]):04X}, half of a surrogate pair, which is no Unicode text. "
                "Pass bytes (os.fsencode for a file name)"
            )
        else:
            text = f"cannot be written as JSON: {error}"
        return ArgumentError(f"`{why}` of task {self._task} {text}", why)

    def _refusal(self, name: str, misfit: Misfit) -> ArgumentError:
        remedy = advice(misfit.value)
        if misfit.expected == NATURAL and (annotation := annotation_for(misfit.value)):
            remedy = f"annotate the parameter as {annotation}, or pass plain values"
        text = f"Task {self._task}: {_told(name, misfit)}"
        return ArgumentError(f"{text}. {remedy[0].upper()}{remedy[1:]}" if remedy else text, name)

    def _too_deep(self, name: str) -> ArgumentError:
        return ArgumentError(f"`{name}` of task {self._task} is nested too deeply, or contains itself", name or None)

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
