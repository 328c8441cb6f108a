"""Retries of requests to a model: which failures are tried again, after how long, and when to give up.

The providers' libraries retry nothing by themselves: two layers of waiting would multiply.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from remit.host.models.port import RETRIED_KINDS, ProviderError

MAX_TRIES = 8
MAX_TOTAL_S = 600.0
MAX_WAIT_S = 60.0

T = TypeVar("T")


async def retry_request(
    attempt: Callable[[], Awaitable[T]],
    announce: Callable[[ProviderError, float, int], None],
    *,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
    jitter: Callable[[], float] = random.random,
) -> T:
    """Return the attempt's answer. Failures that may pass are tried again after 1, 2, 4 … 60 s, or after the time that
    the server names; `announce` gets the failure, the wait and the number of the try. Raises ProviderError.
    """
    started = clock()
    for number in range(1, MAX_TRIES + 1):
        try:
            return await attempt()
        except ProviderError as error:
            wait = error.retry_after_s
            if wait is None:
                wait = min(MAX_WAIT_S, 2.0 ** (number - 1)) * (0.75 + jitter() / 2)
            if error.kind not in RETRIED_KINDS or number == MAX_TRIES or clock() - started + wait > MAX_TOTAL_S:
                raise
            announce(error, wait, number)
            await sleep(wait)
    raise AssertionError("unreachable")
