"""Arguments and results to JSON text and back, by a task's signature."""

from __future__ import annotations

from pillion.codec.call import MAX_ARGS, CallCodec

__all__ = ["MAX_ARGS", "CallCodec"]
