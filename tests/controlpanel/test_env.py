"""Settings from the environment: each bad value stops the start with a sentence."""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from controlpanel import env


@pytest.fixture
def set_to(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that sets the variable X."""
    monkeypatch.delenv("X_FILE", raising=False)
    return lambda value: monkeypatch.setenv("X", value)


BAD: list[tuple[str, Callable[..., Any], dict[str, Any]]] = [
    ("maybe", env.switch, {"default": "no"}),
    ("LOUD", env.choice, {"default": "INFO", "choices": ("INFO",)}),
    ("panel.example.com", env.panel_url, {}),
    ("https://panel.example.com/path", env.panel_url, {}),
    ("https://ana:secret@panel.example.com", env.panel_url, {}),
    ("https://panel.example.com:https", env.panel_url, {}),
    ("ftp://panel.example.com", env.panel_url, {}),
    ("http://panel.example.com", env.panel_url, {}),
    ("http://10.0.0.3:8000", env.panel_url, {}),
    ("0", env.number, {"default": 5, "least": 1, "most": 9}),
    ("10", env.number, {"default": 5, "least": 1, "most": 9}),
    ("-2", env.number, {"default": 5, "least": 1, "most": 9}),
    ("²", env.number, {"default": 5, "least": 1, "most": 9}),
    ("short", env.secret_key, {"directory": Path("/nonexistent")}),
    ("mysql://db/x", env.database, {"directory": Path("/tmp")}),
    ("nonsense", env.database, {"directory": Path("/tmp")}),
    ("http://broker", env.redis_url, {"socket": Path("/tmp/x.sock")}),
    ("/proc/nothing", env.data_directory, {"default": Path("/tmp")}),
]


@pytest.mark.parametrize(("value", "reader", "options"), BAD)
def test_a_bad_value_is_named(
    set_to: Callable[[str], None], value: str, reader: Callable[..., Any], options: dict[str, Any]
) -> None:
    set_to(value)

    with pytest.raises(ImproperlyConfigured, match=r"^X .*\.$"):
        reader("X", **options)


@pytest.mark.parametrize("value", ["https://panel.example.com", "https://panel.example.com:8443", "http://[::1]:8000"])
def test_how_browsers_reach_the_panel(set_to: Callable[[str], None], value: str) -> None:
    set_to(value + "/")

    found = env.panel_url("X")

    assert found is not None and found.geturl() == value


def test_a_secret_may_come_from_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(env._env.ENVIRON, "files_cache", {})
    (tmp_path / "secret").write_text("$tarts-with-a-dollar-and-is-long-enough\n")
    monkeypatch.setenv("X_FILE", str(tmp_path / "secret"))

    assert env.secret_key("X", directory=tmp_path) == "$tarts-with-a-dollar-and-is-long-enough"


def test_a_file_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("X_FILE", "/nowhere")

    with pytest.raises(ImproperlyConfigured, match="X_FILE"):
        env.text("X")


def test_the_secret_key_is_made_once_and_only_for_us(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("X", raising=False)
    first = env.secret_key("X", directory=tmp_path)

    assert len(first) > 50 and env.secret_key("X", directory=tmp_path) == first
    assert stat.S_IMODE((tmp_path / "secret-key").stat().st_mode) == 0o600


def test_a_cut_short_secret_key_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("X", raising=False)
    (tmp_path / "secret-key").write_text("")

    with pytest.raises(ImproperlyConfigured, match="cut short"):
        env.secret_key("X", directory=tmp_path)


def test_the_data_directory_is_closed_to_others(set_to: Callable[[str], None], tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o755)
    set_to(str(tmp_path / "data"))

    assert stat.S_IMODE(env.data_directory("X", default=tmp_path).stat().st_mode) == 0o700


def test_sqlite_is_the_default_wherever_the_directory_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("X", raising=False)
    found = env.database("X", directory=Path("/data/what? 100%"))

    assert found["NAME"] == "/data/what? 100%/relaunch.sqlite3"
    assert env.SQLITE_OPTIONS["transaction_mode"] == "IMMEDIATE"


def test_postgresql(set_to: Callable[[str], None]) -> None:
    set_to("postgres://relaunch:a%40b@db:5433/panel")
    found = env.database("X", directory=Path("/tmp"))

    assert (found["HOST"], found["PORT"], found["NAME"], found["PASSWORD"]) == ("db", 5433, "panel", "a@b")


def test_the_socket_lies_in_the_data_directory_or_in_a_short_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    deep = Path("/", "d" * 60, "e" * 60)

    assert env.valkey_socket(directory=Path("/data")) == Path("/data/valkey/valkey.sock")
    short = env.valkey_socket(directory=deep)
    assert short.is_relative_to("/run/user/7") and len(os.fsencode(short)) <= 107
    assert short != env.valkey_socket(directory=deep / "other")


def test_a_number(set_to: Callable[[str], None]) -> None:
    assert env.number("X_NOT_SET", default=5, least=1, most=9) == 5
    set_to("9")
    assert env.number("X", default=5, least=1, most=9) == 9
