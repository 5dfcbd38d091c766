"""Settings: an argument wins over the environment, that over the default."""

from datetime import timedelta
from typing import Any

import pytest

from pillion import ConfigurationError
from pillion.settings import resolve


def test_an_argument_wins_over_the_environment_and_that_over_the_default() -> None:
    settings = resolve({"loops": 2}, {"PILLION_LOOPS": "3", "PILLION_THREADS": "5"})
    assert (settings.loops, settings.threads, settings.concurrency) == (2, 5, 32)
    assert settings.changed == {"loops": "argument", "threads": "PILLION_THREADS"}


def test_without_a_url_the_environment_decides_and_then_a_file() -> None:
    assert resolve({"url": None}, {}).url == "sqlite:///jobs.db"
    assert resolve({"url": None}, {"PILLION_URL": "memory://"}).url == "memory://"


def test_the_environment_names_queues_and_their_limits() -> None:
    assert resolve({}, {"PILLION_QUEUES": "default, reports:2"}).queues == {"default": None, "reports": 2}


def test_durations_are_seconds_or_timedeltas() -> None:
    assert resolve({"lease": timedelta(minutes=1), "drain_timeout": 2}, {}).lease == 60.0


def test_a_timeout_of_zero_is_no_limit() -> None:
    assert resolve({"timeout": 0}, {}).timeout is None


def test_a_url_object_that_hides_its_password_in_str_is_rendered_whole() -> None:
    class Url:
        def render_as_string(self, hide_password: bool) -> str:
            return "postgresql://u:***@h/d" if hide_password else "postgresql://u:secret@h/d"

    assert "secret" in resolve({"url": Url()}, {}).url


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"loops": 0}, "loops must be a whole number of at least 1"),
        ({"threads": 2.5}, "threads must be a whole number"),
        ({"lease": 0.5}, "lease must be at least 1 seconds"),
        ({"drain_timeout": float("nan")}, "drain_timeout"),
        ({"queues": ()}, "at least one queue"),
        ({"queues": {"a": 0}}, r"queues\['a'\] must be a whole number"),
        ({"loop": "main"}, "loop must be one of 'own', 'app'"),
        ({"prefix": "jobs/"}, "prefix must start with a slash"),
        ({"url": "jobs.db"}, "url must be a URL"),
        ({"durability": "none"}, "durability must be one of"),
    ],
)
def test_what_cannot_work_is_refused_with_the_settings_name(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        resolve(given, {})


def test_a_wrong_environment_variable_is_named_as_such() -> None:
    with pytest.raises(ConfigurationError, match="PILLION_LOOPS must be a whole number"):
        resolve({}, {"PILLION_LOOPS": "many"})
