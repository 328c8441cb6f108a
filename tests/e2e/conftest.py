"""Fixtures for tests that run real agents.

Each gives the pinned client; a test that asks for it is skipped, loudly, when the client cannot be had.
"""

from pathlib import Path

import pytest

from e2e.claude import claude_binary
from e2e.codex import codex_binary
from e2e.gemini import gemini_command
from e2e.qwen import qwen_command


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
