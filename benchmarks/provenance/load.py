"""Other work on the machine, for as long as a block runs."""

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def busy(count: int) -> Generator[None]:
    """So many processes that do nothing but turn."""
    running = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()
