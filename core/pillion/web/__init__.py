"""Health for any framework: from plain state to plain data and a verdict. Adapters turn an `Answer` into a response."""

from pillion.web.health import MEDIA_TYPE, Answer, Health, detail, live, ready

__all__ = ["MEDIA_TYPE", "Answer", "Health", "detail", "live", "ready"]
