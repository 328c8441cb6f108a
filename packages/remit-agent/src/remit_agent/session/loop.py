"""The loop of Remit's own agent: turn after turn until the run ends or waits for a person. The file to read first.

1. Every call of the newest turn gets its result (`calls.py`; after a crash `reconcile.py`). No other step runs calls:
   a continued run and a resumed run take the same path.
2. The run ends if it is complete, cancelled, out of its limits, or stuck (`limits.py`).
3. The changes since the last request are appended (`context/tail.py`).
4. The conversation is made to fit the model's window (`context/condensing.py`).
5. The model is asked (`model_requests.py`). The request goes out when the lines before are on disk, and the whole
   turn is in the journal before a call of the turn runs.

Each event is a line of the journal; the history is folded from the lines (`journal/history.py`).
"""

import hashlib

import msgspec

from remit_agent.models.messages import CallResult, ModelTurn, UserInput
from remit_agent.models.port import CompletionRequest, ProviderError, ToolSchema
from remit_agent.session import context
from remit_agent.session.calls import accept_turn, run_calls
from remit_agent.session.journal.lines import AskedLine, EndedLine, TurnLine, UserLine
from remit_agent.session.limits import find_reached_limit, find_stuck_reason
from remit_agent.session.model_requests import stream_turn
from remit_agent.session.reconcile import reconcile_calls
from remit_agent.session.run import Run

COMPLETE_REMARK = "You called no tool. Call attempt_completion if the task is done, or a tool that brings it on."
LENGTH_REMARK = "Your turn reached the output limit and was cut. Take smaller steps."


async def take_turns(run: Run) -> EndedLine | None:
    """Take turns until the run ends; None if it waits for a person's words. Raises OSError if the journal cannot be
    written.
    """
    while True:
        await settle_calls(run)
        if run.cancel.is_set():
            return None
        ended = await find_end(run)
        if ended is not None:
            return ended
        if run.history.waits_for_words and not remark_on_silence(run):
            return None
        await context.append_tail(run)
        await fit_window(run)
        try:
            turn, milliseconds = await ask_model(run)
        except ProviderError as error:
            if error.kind == "window" and run.condensed_turn != run.history.turn_count:
                # The provider refused the request: its window is smaller than the request's estimated size.
                run.window = min(run.window or 1 << 62, context.estimate_request(run.history, *build_prompt(run)))
                await condense(run)
                continue
            return run.end("stuck" if error.kind == "window" else "failed", f"{error.kind}: {error}")
        run.append(TurnLine(turn=accept_turn(turn, run.history.calls), ms=milliseconds))
        run.publish_status()


async def settle_calls(run: Run) -> None:
    """Give every call of the newest turn a result."""
    if run.is_resumed:
        await reconcile_calls(run)
    if calls := run.history.unanswered_calls:
        await run_calls(run, calls)


async def find_end(run: Run) -> EndedLine | None:
    history = run.history
    if history.completion is not None:
        return run.end("completed", history.completion)
    limit = find_reached_limit(run.spending, run.limits, run.minutes)
    if limit is not None and not (history.waits_for_words and not run.until_completion):
        return run.end("stopped", limit)
    if stuck := find_stuck_reason(history):
        reply = await run.ask_person("limit", f"{stuck}. What should it do?")
        if reply.words is None:
            return None if run.cancel.is_set() else run.end("stuck", stuck)
        run.append(UserLine(text=reply.words))
    if run.until_completion and history.waits_for_words and history.silent_count > 1:
        return run.end("answered", history.last_turn.text if history.last_turn else "")
    return None


def remark_on_silence(run: Run) -> bool:
    turn = run.history.last_turn
    if turn is None or turn.stop in ("cancelled", "refusal"):
        return False
    if turn.stop == "length":
        run.append(UserLine(text=LENGTH_REMARK, by="remit"))
    elif run.until_completion:
        run.append(UserLine(text=COMPLETE_REMARK, by="remit"))
    return bool(run.history.undelivered)


# The request


def build_prompt(run: Run) -> tuple[str, tuple[ToolSchema, ...]]:
    """Return the system prompt and the tools of the mode, built once, with equal bytes for each request."""
    key = (run.history.mode, run.provider.id)
    if key not in run.prompts:
        run.prompts[key] = run.toolbox.build_system(*key), run.toolbox.list_schemas(*key)
    return run.prompts[key]


def build_request(run: Run) -> CompletionRequest:
    """Return the next request: equal bytes for equal history and files."""
    system, tools = build_prompt(run)
    conversation = run.history.conversation
    shown = (item for item in conversation if isinstance(item, UserInput | CallResult))
    images = {image.sha256: run.folder.read_image(image.sha256) for item in shown for image in item.images}
    return CompletionRequest(system, tools, conversation, images)


async def ask_model(run: Run) -> tuple[ModelTurn, int]:
    """Return the model's whole turn, or the part streamed before a cancel. Raises ProviderError."""
    request = build_request(run)
    tokens = context.estimate_request(run.history, request.system, request.tools)
    prompt_hash = hashlib.sha256(request.system.encode()).hexdigest()
    tools_hash = hashlib.sha256(msgspec.json.encode(request.tools)).hexdigest()
    run.append(AskedLine(prompt_sha256=prompt_hash, tools_sha256=tools_hash, tokens=tokens))
    await run.access.run_in_thread(run.journal.sync)
    return await stream_turn(run, request)


# The window


async def fit_window(run: Run) -> None:
    if run.window is None and run.history.turn_count:
        run.window = await run.access.run_in_thread(lambda: run.provider.window)
    if (
        run.window is None
        or context.estimate_request(run.history, *build_prompt(run)) < context.SHORTEN_AT * run.window
    ):
        return
    if shortening := context.plan_shortening(run.history, run.window):
        run.append(shortening)
    is_full = context.estimate_request(run.history, *build_prompt(run)) >= context.CONDENSE_AT * run.window
    if is_full and run.condensed_turn != run.history.turn_count:
        await condense(run)


async def condense(run: Run) -> None:
    """Replace the conversation by a summary, once for a request and only by a good one."""
    history = run.history
    run.condensed_turn = history.turn_count
    keeps = await run.access.run(lambda gate: context.collect_keeps(gate, run.session, history))
    try:
        summary, _ = await stream_turn(run, context.make_summary_request(history, run.window or context.DEFAULT_WINDOW))
    except ProviderError:
        return
    if taken := context.take_summary(history, summary.text, keeps):
        run.append(taken)
        run.greeting = "compact"
        await context.append_tail(run)
