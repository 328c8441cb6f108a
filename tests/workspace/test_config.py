"""`remit.toml`: read, or said to be broken."""

import os
from pathlib import Path

import pytest

from remit.core.config import Config
from remit.workspace.place.config import MAX_CONFIG_BYTES, ConfigError, read_config


def test_no_file_is_no_configuration_and_an_empty_one_is_the_default(tmp_path: Path) -> None:
    assert read_config(tmp_path / "remit.toml") is None
    (tmp_path / "remit.toml").write_text("")
    assert read_config(tmp_path / "remit.toml") == Config()


BROKEN = [
    b"mode = 'off'",
    b"mode = 3",
    b"[[",
    b"unknown = 1",
    b"[share]\nlog = 'all'",
    b"\xff",
    b"\0",
    b"a" * (MAX_CONFIG_BYTES + 1),
    b"a = " + b"[" * 5000,
]


@pytest.mark.parametrize("content", BROKEN, ids=lambda c: repr(c[:20]))
def test_a_broken_file_is_said_to_be_broken(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "remit.toml").write_bytes(content)
    with pytest.raises(ConfigError):
        read_config(tmp_path / "remit.toml")


@pytest.mark.parametrize("kind", ["folder", "fifo"])
def test_what_is_no_file_is_said_to_be_none(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "remit.toml"
    if kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    with pytest.raises(ConfigError, match="not a file"):
        read_config(path)
