"""Fixtures for tests that run real agents.

Each gives the pinned client; a test that asks for it is skipped, loudly, when the client cannot be had.
"""

import os
import signal
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

from e2e.claude import claude_binary
from e2e.codex import codex_binary
from e2e.gemini import gemini_command
from e2e.qwen import qwen_command
from processes import daemons_of


@pytest.fixture(autouse=True)
def no_daemon_stays(home: Path) -> Generator[None]:
    """The daemon that an agent's hooks started ends with the test: it would see the folder's removal as changes."""
    yield
    for pid in daemons_of(home):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="session")
def claude_code() -> Path:
    """Claude Code's binary."""
    return claude_binary()


@pytest.fixture(scope="session")
def codex_cli() -> Path:
    """Codex CLI's binary."""
    return codex_binary()


@pytest.fixture(scope="session")
def gemini_cli() -> tuple[str, ...]:
    """What starts Gemini CLI."""
    return gemini_command()


@pytest.fixture(scope="session")
def qwen_code() -> tuple[str, ...]:
    """What starts Qwen Code."""
    return qwen_command()
