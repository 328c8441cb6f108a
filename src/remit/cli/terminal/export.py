"""A run in a form that others read, without secrets: Markdown, JSON Lines, or the three files of Roo Code."""

from collections.abc import Iterator
from typing import Any, cast

import msgspec
from msgspec import json

from remit.cli.terminal.blocks import BlockRenderer
from remit.core.redaction import redact
from remit.host.events import describe_line
from remit.host.journal.file import RunDirectory, read_journal
from remit.host.journal.history import RunHistory
from remit.host.journal.lines import AnyLine, EndedLine, ResultLine, TurnLine, UserLine
from remit.host.messages import CallResult, ModelTurn, TextPart, ToolCallPart


def export_run(folder: RunDirectory, form: str) -> Iterator[str]:
    """Yield the lines of the export. As `roo` it is one JSON object with a key for each of the three files."""
    lines = read_journal(folder)
    if form == "jsonl":
        yield from (redact_document(msgspec.to_builtins(line)).decode() for line in lines)
    elif form == "md":
        yield from (redact(block) for block in write_markdown(folder, lines))
    else:
        yield json.format(redact_document(write_roo(lines))).decode()


def redact_document(document: dict[str, Any]) -> bytes:
    """Return the document as JSON without secrets. Each text is masked by itself: in JSON, the `n` of an escaped line
    end would hide where a secret begins. The whole is masked again: names beside texts tell secrets too.
    """
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
