"""Fixtures for tests that run real agents."""

from pathlib import Path

import pytest

from e2e.claude import claude_binary


@pytest.fixture(scope="session")
def claude_code() -> Path:
    """The pinned Claude Code; a test that asks for it is skipped, loudly, when it cannot be had."""
    return claude_binary()
