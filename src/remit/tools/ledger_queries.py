"""The tools that read the ledger: `query_traces` and `why`."""

import re
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

from msgspec import Meta, Struct, to_builtins
from msgspec.structs import replace

from remit.core.display_text import sanitise_line
from remit.core.record import KEY
from remit.core.scope.repopath import RepoPath
from remit.gate.gate import Gate
from remit.ledger.index.index import Index, open_index
from remit.ledger.index.search import search_documents
from remit.ledger.parse_time import parse_time
from remit.provenance.blame.blame import Blamer
from remit.provenance.why.explain import Explainer, blame_lines
from remit.provenance.why.explanation import Explanation, Talk
from remit.provenance.why.explanation_text import render_explanation
from remit.tools.conversations import conversations
from remit.tools.result import Caller, ToolAnswer, ToolText

LINE_RANGE = re.compile(r"(\d{1,9})(?:\s*[-,]\s*(\d{1,9}))?")

MAX_CAUSES, MAX_TALK_ENTRIES = 5, 3
MAX_TEXT_CHARS, MAX_DIFF_CHARS = 1000, 4000
"""Limits of an explanation for a model."""


class QueryTraces(Struct, frozen=True, forbid_unknown_fields=True):
    """Search the ledger of what agents did in this repository; the newest records first."""

    intent_id: ToolText | None = None
    path: ToolText | None = None
    line: Annotated[int, Meta(ge=1)] | None = None
    content_hash: ToolText | None = None
    text: ToolText | None = None
    since: ToolText | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 20


class ExplainLines(Struct, frozen=True, forbid_unknown_fields=True):
    """Tell why lines are there: the intent, session and edit behind them. `line` is 42, or a range such as 42-50."""

    path: ToolText
    line: int | ToolText | None = None


def query_traces(gate: Gate, caller: Caller, given: QueryTraces) -> ToolAnswer:
    with open_index(gate.workspace.state, gate.workspace.log_folder) as index:
        documents = find_matching_records(gate, index, given)[: given.limit]
    text = "\n".join(map(record_line, documents)) or "No such record."
    return ToolAnswer(text, {"success": True, "records": documents})


def find_matching_records(gate: Gate, index: Index, given: QueryTraces) -> list[dict[str, Any]]:
    """Return the records that match the query, newest first. Raises ValueError."""
    words = [given.text] if given.text else []
    since = parse_time(given.since, datetime.now(UTC)) if given.since else None
    path = str(RepoPath.parse(given.path, str(gate.workspace.root))) if given.path else None
    if given.line is not None:
        if path is None:
            raise ValueError("line needs a path; expected for example path 'src/app.py' and line 42")
        lines = blame_lines(Blamer(gate.workspace, index, gate.contents), path, (given.line, given.line))
        documents = [document for line in lines if line.record for document in index.find_by_id_prefix(line.record)]
    elif given.content_hash is not None:
        documents = index.find_by_content_hash(given.content_hash, limit=1000)
    else:
        return index.find(intent_id=given.intent_id, path=path, words=words, since=since, limit=given.limit)
    matching = [document for document in documents if matches_query(document, given, path, since)]
    return search_documents(matching, words) if words else matching


def matches_query(document: dict[str, Any], given: QueryTraces, path: str | None, since: str | None) -> bool:
    """Return whether a record, found by line or hash, matches the other fields of the query."""
    body: dict[str, Any] = document["metadata"][KEY]
    files: list[dict[str, Any]] = body.get("files", [])
    return (
        (given.intent_id is None or body.get("intent_id") == given.intent_id)
        and (path is None or given.line is not None or any(f.get("path") == path for f in files))
        and (since is None or str(document["timestamp"]) >= since)
    )


def record_line(document: dict[str, Any]) -> str:
    body: dict[str, Any] = document["metadata"][KEY]
    call: dict[str, Any] = body.get("call", {})
    files: list[dict[str, Any]] = body.get("files", [])
    targets = [str(f.get("path")) for f in files] or [str(call.get("command") or " ".join(call.get("paths", [])))]
    action = sanitise_line(f"{call.get('name', '')} {', '.join(targets)}".strip(), 160)
    at = str(document["timestamp"])[:19]
    return f"{document['id']} {at} {body.get('event')} {body.get('intent_id') or '-'} {action}".rstrip()


def explain_lines(gate: Gate, caller: Caller, given: ExplainLines) -> ToolAnswer:
    path = str(RepoPath.parse(given.path, str(gate.workspace.root)))
    with open_index(gate.workspace.state, gate.workspace.log_folder) as index:
        blamer = Blamer(gate.workspace, index, gate.contents)
        explainer = Explainer(blamer, gate.contents, partial(conversations, gate), gate.rules.document)
        explanation = explainer.explain(path, parse_line_range(given.line))
    data = {"success": True, "why": to_builtins(shorten_explanation(explanation))}
    return ToolAnswer(render_explanation(explanation), data)


def shorten_explanation(explanation: Explanation) -> Explanation:
    """Shorten an explanation for a model; `remit why --json` prints it in full."""
    causes = tuple(
        replace(c, diff=c.diff and c.diff[:MAX_DIFF_CHARS], talk=shorten_talk(c.talk))
        for c in explanation.causes[:MAX_CAUSES]
    )
    left_out = explanation.left_out + len(explanation.causes) - len(causes)
    return replace(explanation, causes=causes, left_out=left_out)


def shorten_talk(talk: Talk | None) -> Talk | None:
    """Shorten a conversation to its last entries."""
    if talk is None:
        return None
    said = tuple(replace(entry, text=entry.text[:MAX_TEXT_CHARS]) for entry in talk.said[-MAX_TALK_ENTRIES:])
    texts = {name: getattr(talk, name)[:MAX_TEXT_CHARS] for name in ("prompt", "task", "answer")}
    return replace(talk, said=said, **texts)


def parse_line_range(line: int | str | None) -> tuple[int, int] | None:
    """Return first and last line of `42` or `42-50`; None for the whole file. Raises ValueError."""
    if line is None:
        return None
    match = LINE_RANGE.fullmatch(str(line).strip())
    if match is None:
        raise ValueError(f"{str(line)[:60]!r} names no lines; expected 42 or 42-50")
    start, end = int(match[1]), int(match[2] or match[1])
    if not 1 <= start <= end:
        raise ValueError(f"{str(line)[:60]!r} names no lines; expected the first one, from 1, before the last")
    return start, end
