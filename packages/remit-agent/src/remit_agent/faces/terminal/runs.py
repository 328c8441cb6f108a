"""Runs as `remit run` opens them from the words of its command line; the list of runs, exports, keys, the prompt. A run
is exported without secrets: as Markdown, as JSON Lines, or as the three files of Roo Code.
"""

import asyncio
import os
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import click
import msgspec
from msgspec import json
from msgspec.structs import replace

from remit.cli.output import FINDINGS, INTERRUPT, REFUSED, UNAVAILABLE, USAGE, Failure, emit, open_gate, say, warn
from remit.cli.person_only import is_below_agent, require_person
from remit.cli.screen import has_colour, relative_time
from remit.core.acts import Act
from remit.core.redaction import redact
from remit.core.untrusted_input import sanitise_line
from remit.gate.containment.rewrite_call import describe_floor
from remit.gate.gate import Gate
from remit.gate.intents.refusals import IntentRefused
from remit.gate.machine import Environment
from remit.servers.environment import read_environment
from remit_agent.faces.agent import ImageFile, RunRequest, make_toolbox, open_run
from remit_agent.faces.terminal.arguments import RunArguments
from remit_agent.faces.terminal.blocks import BlockRenderer
from remit_agent.faces.terminal.plain import LineFace, OutputClosed, print_block, print_json
from remit_agent.models.endpoints import EXAMPLE_MODEL, KeyringFailed, ModelNotOpened, NoKey, store_key
from remit_agent.models.extra import ExtraMissing
from remit_agent.models.messages import CallResult, ModelTurn, TextPart, ToolCallPart
from remit_agent.models.providers import SCRIPTED, check_model
from remit_agent.session.events import RunEvent, describe_line
from remit_agent.session.journal.file import JournalError, RunDirectory, read_first_and_last_line, read_journal
from remit_agent.session.journal.history import RunHistory
from remit_agent.session.journal.lines import AnyLine, EndedLine, ResultLine, RunLimits, RunLine, TurnLine, UserLine
from remit_agent.session.modes import find_modes
from remit_agent.session.session import RunSummary, Session, SessionOptions, find_run
from remit_agent.tools.gate_access import GateAccess
from remit_agent.tools.mcp_client import McpConnections

EXIT_CODES = {"completed": 0, "answered": 0, "stopped": FINDINGS, "stuck": FINDINGS, "cancelled": INTERRUPT}
IMAGE_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}
MAX_IMAGE_BYTES = 5 * 1024 * 1024
MAX_LISTED_CHARS = 60


@contextmanager
def name_failures() -> Generator[None]:
    """Turn what keeps a run from being opened into a Failure with the next step."""
    try:
        yield
    except (ExtraMissing, NoKey, ModelNotOpened) as error:
        raise Failure.from_error(error, "NO_MODEL") from error
    except IntentRefused as error:
        violation = error.violation
        raise Failure(violation.error_type, violation.error, fix="remit intent list", exit_code=REFUSED) from error
    except JournalError as error:
        raise Failure("NO_RUN", str(error), fix="remit run --list") from error


# --- the run ---------------------------------------------------------------------------------------------------


def run_lines(arguments: RunArguments) -> int:
    """Run with a face of lines, and return the exit code."""
    request = make_request(arguments)
    try:
        with name_failures():
            return asyncio.run(follow_lines(request, arguments))
    except OutputClosed as error:
        if str(error):
            warn(f"the run was stopped: standard output cannot be written: {error}")
        return FINDINGS


async def follow_lines(request: RunRequest, arguments: RunArguments) -> int:
    session = await open_run(request, os.environ, make_environment(arguments))
    say(f"remit: {describe_floor(session.run.access.gate)}", err=True)
    is_coloured = has_colour("auto", os.environ, is_terminal=sys.stdout.isatty())
    renderer = BlockRenderer(session.run.access.gate.workspace.root, None, is_coloured=is_coloured)
    printed = partial(print_json, with_streams=arguments.takes_json)
    show = printed if arguments.as_json else partial(print_block, renderer)
    face = LineFace(session, show, answers_by_flag=arguments.yes_within_scope)
    try:
        async with session:
            if request.options.until_completion:
                ended = await face.run_to_end(0)
            else:
                ended = await (face.converse_in_json(0) if arguments.takes_json else face.converse(0))
    except asyncio.CancelledError:
        if face.ended is None:
            history, cost = session.run.history, session.run.spending.cost
            show(RunEvent("ended", EndedLine(state="cancelled", usage=history.usage, cost=cost)))
        raise
    finally:
        if face.ended is None:
            say(describe_resume(session), err=True)
    return choose_exit_code(ended, is_conversation=not request.options.until_completion)


def make_environment(arguments: RunArguments) -> Environment:
    return replace(read_environment(), has_floor=not arguments.without_floor)


def describe_resume(session: Session) -> str:
    return f"go on with: remit run --resume {session.run.folder.id}"


def choose_exit_code(ended: EndedLine | None, *, is_conversation: bool) -> int:
    if ended is None:
        return 0 if is_conversation else INTERRUPT
    if ended.state == "failed":
        return USAGE if ended.reason.startswith("auth:") else UNAVAILABLE
    return EXIT_CODES[ended.state]


# --- what is asked ---------------------------------------------------------------------------------------------


def make_request(arguments: RunArguments) -> RunRequest:
    """Return the run that the command line asks for. Raises Failure."""
    gate = open_configured_gate(arguments.repo)
    settings = gate.rules.config.run
    forked, place = split_fork(arguments.fork)
    resumed = forked if arguments.fork is not None else arguments.resume
    is_conversation = arguments.is_terminal or arguments.takes_json
    words = (arguments.task or "").strip() if arguments.takes_json else read_task(arguments.task)
    if resumed is None and not words and not is_conversation:
        raise Failure("USAGE", "there is no task, and no terminal to ask for one", fix="remit run 'what to do'")
    mode = choose_mode(gate, arguments.mode)
    with name_failures():
        model_id = choose_model(gate, arguments.model, resumed)
        check_model(model_id, os.environ)
    return RunRequest(
        folder=Path.cwd() if arguments.repo == Path() else arguments.repo.resolve(),
        model_id=model_id,
        options=SessionOptions(
            mode=mode,
            intent=arguments.intent_id,
            limits=RunLimits(arguments.max_turns or settings.max_turns, arguments.max_cost or settings.max_cost_usd),
            until_completion=not is_conversation,
            has_person=is_conversation and not is_below_agent(),
            version=version("remit"),
        ),
        task=words,
        images=load_images(arguments.images),
        resumed=resumed,
        is_fork=arguments.fork is not None,
        fork_at=place,
        window=settings.window,
    )


def open_configured_gate(repo: Path) -> Gate:
    """Open the gate. Raises Failure also for a remit.toml that cannot be used: its `[run]` is not passed over."""
    gate = open_gate(repo)
    if gate.rules.config_error:
        raise Failure("CONFIG_INVALID", gate.rules.config_error, fix="repair it by hand; `remit doctor` checks it")
    return gate


def read_task(task: str | None) -> str:
    if task == "-" or (task is None and not sys.stdin.isatty()):
        try:
            return sys.stdin.buffer.read().decode().strip()
        except UnicodeDecodeError as error:
            fix = "the task has to be UTF-8"
            raise Failure("USAGE", f"the task on standard input cannot be read: {error.reason}", fix=fix) from error
    return (task or "").strip()


def split_fork(fork: str | None) -> tuple[str | None, int | None]:
    name, colon, place = (fork or "").rpartition(":")
    if not colon:
        return fork, None
    if not place.isdecimal():
        raise Failure("USAGE", f"--fork: {place!r} is no line of a run", fix="as in --fork RUN:12")
    return name, int(place)


def choose_model(gate: Gate, given: str | None, resumed: str | None) -> str:
    """Return the model: as given, of the run that goes on, of REMIT_MODEL, of `[run] model`. Raises Failure."""
    known = given
    if known is None and resumed is not None:
        first, _ = read_first_and_last_line(find_run(gate.workspace, resumed))
        known = first.model if isinstance(first, RunLine) else None
    known = known or os.environ.get("REMIT_MODEL")
    if known:
        return known
    configured = gate.rules.config.run.model
    if configured is None:
        fix = f"--model {EXAMPLE_MODEL}, or REMIT_MODEL, or `[run] model` in remit.toml"
        raise Failure("NO_MODEL", "no model is named", fix=fix)
    if configured.startswith(SCRIPTED):
        # A script is a program of the repository's own: a person starts it by its name.
        raise Failure("NO_MODEL", "`[run] model` names a script", fix="name it with --model")
    return configured


def choose_mode(gate: Gate, given: str | None) -> str:
    """Return the mode: as given, else of `[run] mode`. Raises Failure for a mode that the repository has not."""
    mode, modes = given or gate.rules.config.run.mode, find_modes(gate.workspace.root)
    if mode not in modes:
        raise Failure("USAGE", f"there is no mode {mode!r}", fix=f"one of {', '.join(modes)}")
    return mode


def load_images(paths: tuple[Path, ...]) -> tuple[ImageFile, ...]:
    """Return the images. Raises Failure for a file that is none."""
    found: list[ImageFile] = []
    for path in paths:
        kind = IMAGE_TYPES.get(path.suffix.lower())
        if kind is None or path.stat().st_size > MAX_IMAGE_BYTES:
            fix = f"{', '.join(IMAGE_TYPES)} up to {MAX_IMAGE_BYTES >> 20} MB"
            raise Failure("NOT_AN_IMAGE", f"{str(path)!r} is no image that models take", fix=fix)
        found.append(ImageFile(path.name, kind, path.read_bytes()))
    return tuple(found)


# --- besides runs ----------------------------------------------------------------------------------------------


def keep_key(provider: str) -> None:
    """Store a key typed by a person or read from a pipe."""
    require_person(Act.STORE_KEY)
    key = click.prompt(f"Key for {provider}", hide_input=True) if sys.stdin.isatty() else sys.stdin.readline()
    if not key.strip():
        raise Failure("USAGE", "there is no key on standard input")
    try:
        store_key(provider, key.strip())
    except (KeyringFailed, ExtraMissing) as error:
        raise Failure.from_error(error, "NO_KEYRING", exit_code=UNAVAILABLE) from error
    say(f"stored for {provider}", err=True)


def print_runs(repo: Path, *, as_json: bool) -> None:
    summaries = Session.list(open_gate(repo).workspace)
    emit(summaries, as_json, [describe_run(summary) for summary in summaries] or ["no runs"])


def describe_run(summary: RunSummary) -> str:
    when = relative_time(summary.changed_at, time.time())
    task = sanitise_line(summary.task, MAX_LISTED_CHARS)
    return f"{summary.id}  {when}  {summary.state}  {summary.mode}  {sanitise_line(summary.model, 40)}  {task}"


def print_export(repo: Path, run_id: str, form: str) -> None:
    with name_failures():
        folder: RunDirectory = find_run(open_gate(repo).workspace, run_id)
        emit(None, False, export_run(folder, form))


def print_prompt(arguments: RunArguments) -> None:
    """Print the system prompt and the tools: what every request of the mode begins with."""
    gate = open_configured_gate(arguments.repo)
    mode, model = choose_mode(gate, arguments.mode), choose_model(gate, arguments.model, None)
    access = GateAccess(gate.workspace.root, read_environment())
    try:
        toolbox = make_toolbox(access, McpConnections.of_gate(access.gate))
        tools = [json.format(json.encode(tool)).decode() for tool in toolbox.list_schemas(mode, model)]
        emit(None, False, [toolbox.build_system(mode, model), *tools])
    finally:
        access.close()


def export_run(folder: RunDirectory, form: str) -> Iterator[str]:
    lines = read_journal(folder)
    if form == "jsonl":
        yield from (redact_document(msgspec.to_builtins(line)).decode() for line in lines)
    elif form == "md":
        yield from (redact(block) for block in write_markdown(folder, lines))
    else:
        yield json.format(redact_document(write_roo(lines))).decode()


def redact_document(document: dict[str, Any]) -> bytes:
    return redact(json.encode(redact_texts(document)).decode()).encode()


def redact_texts(value: Any) -> Any:
    match value:
        case str():
            return redact(value)
        case dict():
            return {redact(str(key)): redact_texts(item) for key, item in cast("dict[object, Any]", value).items()}
        case list() | tuple():
            return [redact_texts(item) for item in cast("list[Any]", value)]
        case _:
            return value


def write_markdown(folder: RunDirectory, lines: tuple[AnyLine, ...]) -> Iterator[str]:
    renderer, history = BlockRenderer(folder.path, None, is_coloured=False), RunHistory()
    yield f"# Run {folder.id}\n"
    for line in lines:
        history.add(line)
        event = describe_line(line, history)
        if event is None or not (block := renderer.render(event)):
            continue
        is_prose = isinstance(line, TurnLine | UserLine | EndedLine)
        yield f"{block}\n" if is_prose else f"```\n{block}\n```\n"


def write_roo(lines: tuple[AnyLine, ...]) -> dict[str, Any]:
    history = RunHistory(lines)
    started, last = history.started, lines[-1]
    said = [message for line in lines if (message := write_ui_message(line)) is not None]
    return {
        "api_conversation_history.json": [write_api_message(item) for item in history.conversation],
        "ui_messages.json": said,
        "task_metadata.json": {
            "id": started.run if started else "",
            "task": started.task if started else "",
            "mode": history.mode,
            "model": history.model,
            "startedAt": started.at if started else last.at,
            "endedAt": last.at,
            "intent": started.intent if started else None,
            "usage": msgspec.to_builtins(history.usage),
            "cost": history.cost,
        },
    }


def write_api_message(item: object) -> dict[str, Any]:
    match item:
        case ModelTurn():
            content = [write_part(part) for part in item.parts if isinstance(part, TextPart | ToolCallPart)]
            return {"role": "assistant", "content": content}
        case CallResult():
            result = {"type": "tool_result", "tool_use_id": item.id, "content": item.text}
            return {"role": "user", "content": [{**result, **({} if item.kind == "done" else {"is_error": True})}]}
        case _:
            return {"role": "user", "content": [{"type": "text", "text": getattr(item, "text", "")}]}


def write_part(part: TextPart | ToolCallPart) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    return {"type": "tool_use", "id": part.id, "name": part.tool, "input": part.arguments or {}}


def write_ui_message(line: AnyLine) -> dict[str, Any] | None:
    known = {"ts": int(line.at * 1000), "type": "say"}
    match line:
        case UserLine():
            return {**known, "say": "user_feedback", "text": line.text}
        case TurnLine():
            return {**known, "say": "text", "text": line.turn.text} if line.turn.text else None
        case ResultLine():
            return {**known, "say": "tool", "text": line.text}
        case EndedLine(state="completed"):
            return {**known, "say": "completion_result", "text": line.reason}
        case _:
            return None
