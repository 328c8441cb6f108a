"""Runs coroutines in tests whose thread may already have a running event loop: a browser's driver leaves one there."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def run_coroutine(work: Coroutine[Any, Any, T]) -> T:
    """Return the coroutine's result, from an event loop in a thread of its own."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, work).result()
