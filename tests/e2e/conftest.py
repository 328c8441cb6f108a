"""Fixtures for tests that run real agents.

Each gives the pinned client; a test that asks for it is skipped, loudly, when the client cannot be had.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from e2e.claude import claude_binary
from e2e.codex import codex_binary
from e2e.gemini import gemini_command
from e2e.qwen import qwen_command

CHROMIUM_FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]


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


@pytest.fixture(scope="session")
def launch_chromium() -> Iterator[Callable[..., Browser]]:
    """Start a browser with more flags. One driver for all: a process has room for one."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("THE CONSOLE IS NOT TESTED IN A BROWSER: there is no chromium on this machine")
    with sync_playwright() as playwright:
        yield lambda *flags: playwright.chromium.launch(executable_path=program, args=[*CHROMIUM_FLAGS, *flags])


@pytest.fixture(scope="session")
def chromium(launch_chromium: Callable[..., Browser]) -> Iterator[Browser]:
    browser = launch_chromium()
    yield browser
    browser.close()
