"""The settings of `Jobs`: an argument wins over ``PILLION_…``, that over the default, and each remembers its source."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, cast

from pillion.errors import ConfigurationError
from pillion.options import MAX_NAME, check_text, duration_us
from pillion.policy.retention import Retention
from pillion.policy.retry import Backoff

_NAMESPACE: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,39})?")
DEFAULT_URL: Final = "sqlite:///jobs.db"
LoopChoice = Literal["own", "app"]
Durability = Literal["full", "relaxed"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Settled values; durations in seconds."""

    url: str
    queues: Mapping[str, int | None]  # name -> jobs of it at a time in this process; None: no limit of its own
    concurrency: int
    threads: int
    loops: int
    loop: LoopChoice
    lease: float
    drain_timeout: float
    poll_interval: float
    worker: bool
    require_store: bool
    max_attempts: int
    timeout: float | None  # None: no limit
    backoff: Backoff
    retention: Retention
    namespace: str
    durability: Durability
    certificates: bool
    prefix: str | None
    doubts: Sequence[str] = ()  # what looks like a slip, for the log at start
    changed: Mapping[str, str] = field(default_factory=dict[str, str])  # what differs from the default -> its source


def _whole(minimum: int) -> Callable[[str, Any], int]:
    def check(name: str, value: Any) -> int:
        if isinstance(value, str) and value.strip().isdigit():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
            raise ConfigurationError(f"{name} must be a whole number of at least {minimum}, not {value!r}")
        return value

    return check


def _duration(minimum: float) -> Callable[[str, Any], float]:
    def check(name: str, value: Any) -> float:
        if isinstance(value, str):
            try:
                value = float(value)
            except ValueError:
                raise ConfigurationError(f"{name} must be a number of seconds, not {value!r}") from None
        number = duration_us(name, value) / 1e6
        if number < minimum:
            raise ConfigurationError(f"{name} must be at least {minimum:g} seconds, not {value!r}")
        return number

    return check


def _flag(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("0", "false", "no", "off"):
        return False
    raise ConfigurationError(f"{name} must be true or false, not {value!r}")


def _one_of(*choices: str) -> Callable[[str, Any], Any]:
    def check(name: str, value: Any) -> Any:
        if value not in choices:
            raise ConfigurationError(f"{name} must be one of {', '.join(map(repr, choices))}, not {value!r}")
        return value

    return check


def _queue_and_limit(name: str, part: str) -> tuple[str, int | None]:
    """``reports`` or ``reports:2``, as an environment variable says it."""
    queue, colon, limit = part.rpartition(":")
    return (queue, _whole(1)(f"{name}: the limit of {queue!r}", limit)) if colon else (part, None)


def _queues(name: str, value: Any) -> dict[str, int | None]:
    if isinstance(value, str):
        value = dict(_queue_and_limit(name, part.strip()) for part in value.split(",") if part.strip())
    limits: dict[str, int | None] = (
        dict(cast("Mapping[str, int | None]", value))
        if isinstance(value, Mapping)
        else dict.fromkeys(cast("Iterable[str]", value))
    )
    if not limits:
        raise ConfigurationError(f'{name} must name at least one queue, e.g. queues=("default",)')
    for queue, limit in limits.items():
        check_text(name, queue, MAX_NAME)
        if limit is not None:
            _whole(1)(f"{name}[{queue!r}]", limit)
    return limits


def _timeout(name: str, value: Any) -> float | None:
    number = _duration(0)(name, value)
    return number or None


def _instance(cls: type, example: str) -> Callable[[str, Any], Any]:
    def check(name: str, value: Any) -> Any:
        if not isinstance(value, cls):
            raise ConfigurationError(f"{name} takes a {cls.__name__}, e.g. {name}={example}, not {value!r}")
        return value

    return check


def _namespace(name: str, value: Any) -> str:
    if not isinstance(value, str) or not _NAMESPACE.fullmatch(value):
        raise ConfigurationError(f"{name} is up to 40 letters, digits and underscores, no digit first; not {value!r}")
    return value


def _prefix(name: str, value: Any) -> str | None:
    if value in (None, ""):
        return None
    if not isinstance(value, str) or not value.startswith("/") or value.endswith("/"):
        raise ConfigurationError(f"{name} must start with a slash and not end with one, e.g. '/jobs', or be None")
    return value


def _url(name: str, value: Any) -> str:
    """URLs are taken as people have them: pydantic DSNs, SQLAlchemy URLs (whose `str` hides the password)."""
    render = getattr(value, "render_as_string", None)
    text = str(render(hide_password=False) if callable(render) else value)
    if ":" not in text:
        raise ConfigurationError(f"{name} must be a URL such as {DEFAULT_URL!r}, not {text!r}")
    return text


# name -> (default, check)
_FIELDS: Final[Mapping[str, tuple[Any, Callable[[str, Any], Any]]]] = {
    "url": (DEFAULT_URL, _url),
    "queues": (("default",), _queues),
    "concurrency": (32, _whole(1)),
    "threads": (8, _whole(1)),
    "loops": (1, _whole(1)),
    "loop": ("own", _one_of("own", "app")),
    "lease": (15.0, _duration(1)),
    "drain_timeout": (6.0, _duration(0)),
    "poll_interval": (1.0, _duration(0.01)),
    "worker": (True, _flag),
    "require_store": (False, _flag),
    "max_attempts": (3, _whole(1)),
    "timeout": (3600.0, _timeout),
    "backoff": (Backoff(), _instance(Backoff, "Backoff(base=3)")),
    "retention": (Retention(), _instance(Retention, "Retention(failed=timedelta(days=7))")),
    "namespace": ("", _namespace),
    "durability": ("full", _one_of("full", "relaxed")),
    "certificates": (True, _flag),
    "prefix": ("/jobs", _prefix),
}


def resolve(given: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> Settings:
    """Settle every setting. `given` holds the arguments that were passed; a `url` of None counts as absent.

    Raises `ConfigurationError` that names the setting and where its value came from.
    """
    env = os.environ if environ is None else environ
    values: dict[str, Any] = {}
    changed: dict[str, str] = {}
    for name, (default, check) in _FIELDS.items():
        variable = f"PILLION_{name.upper()}"
        if name in given and not (name == "url" and given[name] is None):
            values[name], source = check(name, given[name]), "argument"
        elif env.get(variable, "") != "" and name not in ("backoff", "retention"):
            values[name], source = check(variable, env[variable]), variable
        else:
            values[name] = check(name, default)
            continue
        if values[name] != check(name, default):
            changed[name] = source
    return Settings(**values, changed=changed, doubts=_doubts(env))


def _doubts(env: Mapping[str, str]) -> list[str]:
    """Variables that look like settings of ours and are none."""
    known = [f"PILLION_{name.upper()}" for name in _FIELDS]
    doubts: list[str] = []
    for name in sorted(env):
        if name.startswith("PILLION_") and name not in known:
            near = difflib.get_close_matches(name, known, 1)
            doubts.append(f"{name} is set but is no setting" + (f"; {near[0]} is one" if near else ""))
    return doubts
