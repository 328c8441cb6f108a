"""One Chromium for all test modules of a process: Playwright starts once in it."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager

from playwright.sync_api import Browser, sync_playwright

STARTED: list[Browser] = []


@contextmanager
def open_chromium(program: str, flags: list[str]) -> Generator[Browser]:
    """Yield the browser that another module started, or start it."""
    with ExitStack() as ending:
        if not STARTED:
            playwright = ending.enter_context(sync_playwright())
            STARTED.append(playwright.chromium.launch(executable_path=program, args=flags))
            ending.callback(lambda: STARTED.pop().close())
        yield STARTED[0]
