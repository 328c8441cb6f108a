"""A request to a model: streamed to the listeners, tried again after a failure that may pass, cancelled at once.

The providers' libraries retry nothing by themselves: two layers of waiting would multiply.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from remit_agent.models import port
from remit_agent.models.messages import ModelTurn, TextPart
from remit_agent.session.events import RetryWait, StreamedCall, StreamedText
from remit_agent.session.run import Run

MAX_TRIES = 8
MAX_TOTAL_S = 600.0
MAX_WAIT_S = 60.0

T = TypeVar("T")


async def retry_request(
    attempt: Callable[[], Awaitable[T]],
    announce: Callable[[port.ProviderError, float, int], None],
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
        except port.ProviderError as error:
            wait = error.retry_after_s
            if wait is None:
                wait = min(MAX_WAIT_S, 2.0 ** (number - 1)) * (0.75 + jitter() / 2)
            if error.kind not in port.RETRIED_KINDS or number == MAX_TRIES or clock() - started + wait > MAX_TOTAL_S:
                raise
            announce(error, wait, number)
            await sleep(wait)
    raise AssertionError("unreachable")


async def stream_turn(run: Run, request: port.CompletionRequest) -> tuple[ModelTurn, int]:
    """Stream one turn, with retries; a cancel closes the connection and keeps the text so far."""
    started, streamed = time.monotonic(), list[str]()

    async def attempt() -> ModelTurn:
        streamed.clear()
        if run.cancel.is_set():  # before there was a request to close
            raise asyncio.CancelledError
        async with run.provider.stream(request) as deltas:
            async for delta in deltas:
                match delta:
                    case port.WholeTurn():
                        return delta.turn
                    case port.TextDelta():
                        streamed.append(delta.text)
                        run.publish_passing("text", StreamedText(delta.text))
                    case port.ThoughtDelta():
                        run.publish_passing("thought", StreamedText(delta.text))
                    case port.CallDelta():
                        call = StreamedCall(delta.index, delta.id, delta.tool, delta.json)
                        run.publish_passing("call", call)
        raise port.ProviderError("truncated", "the stream ended without the end of the turn")

    def announce(error: port.ProviderError, seconds: float, number: int) -> None:
        run.publish_passing("retracted", None)
        run.publish_passing("waiting", RetryWait(f"{error.kind}: {error}", seconds, number))

    run.request = asyncio.ensure_future(retry_request(attempt, announce))
    try:
        turn = await run.request
    except asyncio.CancelledError:
        if not run.cancel.is_set():
            raise
        text = "".join(streamed)
        turn = ModelTurn((TextPart(text),) if text else (), "cancelled", run.provider.id)
    finally:
        run.request = None
    return turn, int((time.monotonic() - started) * 1000)
