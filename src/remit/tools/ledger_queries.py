"""The tools that read the ledger: records, and the reason behind lines."""

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
from remit.provenance.why.explain import Explainer as Telling
from remit.provenance.why.explain import blame_lines
from remit.provenance.why.explanation import Explanation, Talk
from remit.provenance.why.explanation_text import render_explanation
from remit.tools.conversations import conversations
from remit.tools.result import Caller, ToolAnswer, ToolText

LINE_RANGE = re.compile(r"(\d{1,9})(?:\s*[-,]\s*(\d{1,9}))?")


MAX_CAUSES, MAX_SAID = 5, 3
MAX_TEXT_CHARS, MAX_DIFF_CHARS = 1000, 4000
"""Of an explanation, what a model is given."""


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
    """Records, newest first."""
    with open_index(gate.workspace.state, gate.workspace.log_folder) as index:
        found = find_matching_records(gate, index, given)[: given.limit]
    return ToolAnswer("\n".join(map(record_line, found)) or "No such record.", {"success": True, "records": found})


def find_matching_records(gate: Gate, index: Index, given: QueryTraces) -> list[dict[str, Any]]:
    """The records that fit all that was given. Raises ValueError."""
    words = [given.text] if given.text else []
    since = parse_time(given.since, datetime.now(UTC)) if given.since else None
    path = str(RepoPath.parse(given.path, str(gate.workspace.root))) if given.path else None
    if given.line is not None:
        if path is None:
            raise ValueError("line needs a path; expected for example path 'src/app.py' and line 42")
        blamed = blame_lines(Blamer(gate.workspace, index, gate.contents), path, (given.line, given.line))
        found = [document for line in blamed if line.record for document in index.find_by_id_prefix(line.record)]
    elif given.content_hash is not None:
        found = index.find_by_content_hash(given.content_hash, limit=1000)
    else:
        return index.find(intent_id=given.intent_id, path=path, words=words, since=since, limit=given.limit)
    fitting = [document for document in found if matches_query(document, given, path, since)]
    return search_documents(fitting, words) if words else fitting


def matches_query(document: dict[str, Any], given: QueryTraces, path: str | None, since: str | None) -> bool:
    """Whether a record found by its line or hash fits the rest of the query too."""
    body: dict[str, Any] = document["metadata"][KEY]
    files: list[dict[str, Any]] = body.get("files", [])
    return (
        (given.intent_id is None or body.get("intent_id") == given.intent_id)
        and (path is None or given.line is not None or any(f.get("path") == path for f in files))
        and (since is None or str(document["timestamp"]) >= since)
    )


def record_line(document: dict[str, Any]) -> str:
    """One record on one line."""
    body: dict[str, Any] = document["metadata"][KEY]
    call: dict[str, Any] = body.get("call", {})
    files: list[dict[str, Any]] = body.get("files", [])
    what = [str(f.get("path")) for f in files] or [str(call.get("command") or " ".join(call.get("paths", [])))]
    said = sanitise_line(f"{call.get('name', '')} {', '.join(what)}".strip(), 160)
    at = str(document["timestamp"])[:19]
    return f"{document['id']} {at} {body.get('event')} {body.get('intent_id') or '-'} {said}".rstrip()


def explain_lines(gate: Gate, caller: Caller, given: ExplainLines) -> ToolAnswer:
    """What is behind those lines."""
    path = str(RepoPath.parse(given.path, str(gate.workspace.root)))
    with open_index(gate.workspace.state, gate.workspace.log_folder) as index:
        blamer = Blamer(gate.workspace, index, gate.contents)
        telling = Telling(blamer, gate.contents, partial(conversations, gate), gate.rules.document)
        found = telling.explain(path, parse_line_range(given.line))
    return ToolAnswer(render_explanation(found), {"success": True, "why": to_builtins(shorten_explanation(found))})


def shorten_explanation(found: Explanation) -> Explanation:
    """As much of it as a model should have to read; `remit why --json` has all."""
    causes = tuple(
        replace(c, diff=c.diff and c.diff[:MAX_DIFF_CHARS], talk=shorten_talk(c.talk))
        for c in found.causes[:MAX_CAUSES]
    )
    left_out = found.left_out + len(found.causes) - len(causes)
    return replace(found, causes=causes, left_out=left_out)


def shorten_talk(talk: Talk | None) -> Talk | None:
    """A conversation with the last things said, and no text too long."""
    if talk is None:
        return None
    said = tuple(replace(one, text=one.text[:MAX_TEXT_CHARS]) for one in talk.said[-MAX_SAID:])
    texts = {name: getattr(talk, name)[:MAX_TEXT_CHARS] for name in ("prompt", "task", "answer")}
    return replace(talk, said=said, **texts)


def parse_line_range(line: int | str | None) -> tuple[int, int] | None:
    """First and last line of `42`, `"42"` or `"42-50"`; None for the whole file. Raises ValueError."""
    if line is None:
        return None
    found = LINE_RANGE.fullmatch(str(line).strip())
    if found is None:
        raise ValueError(f"{str(line)[:60]!r} names no lines; expected 42 or 42-50")
    start, end = int(found[1]), int(found[2] or found[1])
    if not 1 <= start <= end:
        raise ValueError(f"{str(line)[:60]!r} names no lines; expected the first one, from 1, before the last")
    return start, end
