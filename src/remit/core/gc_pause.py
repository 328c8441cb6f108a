"""The cycle collector of Python, kept away while many values are made of which none is in a cycle."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def pause_gc() -> Generator[None]:
    """Keep the collector from looking through millions of rows again and again: it takes up to a third of the whole."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()
