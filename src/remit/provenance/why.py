"""`remit why`: the intent, the session and the edit behind lines, and what surrounded that edit."""

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from remit.core.record import KEY
from remit.core.text import shown
from remit.ledger.index import Index
from remit.provenance.blame import BlamedLine, Blamer, model_of
from remit.workspace.git import GitError

GIT_FATAL = 128
MOST_CAUSES = 50
MOST_DENIALS = 5
MOST_LATER = 20


class NoSuchLines(ValueError):
    """The file is not in the repository, or has no such lines. The message is git's."""


class Passage(Struct, frozen=True):
    """Lines in a row with one origin. `record` names the edit in `causes`; None where none is known."""

    start: int
    end: int
    origin: str
    commit: str
    record: str | None = None


class Denial(Struct, frozen=True):
    """A call that was refused in the same session, on the same file, before the edit."""

    at: str
    code: str
    message: str


class Approval(Struct, frozen=True):
    """A person's yes that the edit rested on."""

    by: str
    words: str = ""
    grant: str | None = None


class Cause(Struct, frozen=True):
    """One edit, with what the ledger knows around it. `at` is ISO 8601, `reasoning` what the agent gave as its own."""

    record: str
    at: str
    tool: str = ""
    command: str = ""
    agent: str | None = None
    model: str | None = None
    session_id: str | None = None
    intent_id: str | None = None
    intent_name: str | None = None
    mutation_class: str | None = None
    in_scope: bool | None = None
    reasoning: str = ""
    denials: tuple[Denial, ...] = ()
    approvals: tuple[Approval, ...] = ()


class Later(Struct, frozen=True):
    """An edit of the file after the newest of the causes."""

    record: str
    at: str
    intent_id: str | None = None
    session_id: str | None = None


class Explanation(Struct, frozen=True):
    """Why the lines of a file are there. `left_out` counts causes beyond the newest 50."""

    path: str
    passages: tuple[Passage, ...]
    causes: tuple[Cause, ...] = ()
    later: tuple[Later, ...] = ()
    left_out: int = 0


def explain(blamer: Blamer, path: str, lines: tuple[int, int] | None = None) -> Explanation:
    """What is behind lines `lines` (1-based, both included) of `path`; None is the whole file.

    Raises NoSuchLines, GitError.
    """
    blamed = blame_lines(blamer, path, lines)
    found = sorted({line.record for line in blamed if line.record}, reverse=True)
    documents = [d for name in found[:MOST_CAUSES] for d in blamer.index.by_id(name)]
    causes = tuple(cause(blamer.index, path, document) for document in documents)
    return Explanation(
        path, passages(blamed), causes, later(blamer.index, path, causes), max(0, len(found) - MOST_CAUSES)
    )


def blame_lines(blamer: Blamer, path: str, lines: tuple[int, int] | None) -> list[BlamedLine]:
    """Those lines with their origin. Raises NoSuchLines, GitError."""
    try:
        return blamer.blame(path, [f"-L{lines[0]},{lines[1]}"] if lines else [])
    except GitError as error:
        if error.code != GIT_FATAL:
            raise
        raise NoSuchLines(error.message.strip().removeprefix("fatal: ")) from error


def passages(lines: Iterable[BlamedLine]) -> tuple[Passage, ...]:
    """Lines in a row that share origin, commit and record, as one."""
    found: list[Passage] = []
    for line in lines:
        last = found[-1] if found else None
        same = last and (last.origin, last.commit, last.record) == (line.origin, line.commit, line.record)
        if last and same and last.end == line.line - 1:
            found[-1] = Passage(last.start, line.line, last.origin, last.commit, last.record)
        else:
            found.append(Passage(line.line, line.line, line.origin, line.commit, line.record))
    return tuple(found)


def cause(index: Index, path: str, document: dict[str, Any]) -> Cause:
    """One mutation record, with what the ledger has around it."""
    body = body_of(document)
    call: dict[str, Any] = body.get("call", {})
    at, session, intent = str(document["timestamp"]), body.get("session_id"), body.get("intent_id")
    return Cause(
        record=str(document["id"]),
        at=at,
        tool=str(call.get("name") or ""),
        command=shown(str(call.get("command") or ""), 500),
        agent=document.get("tool", {}).get("name"),
        model=model_of(document),
        session_id=session,
        intent_id=intent,
        intent_name=name_of(index, intent, at),
        mutation_class=body.get("mutation_class", {}).get("computed"),
        in_scope=body.get("in_scope"),
        reasoning=reasoning(index, session, intent, at),
        denials=denials(index, session, path, at),
        approvals=approvals(index, session, call.get("id"), at),
    )


def name_of(index: Index, intent_id: str | None, at: str) -> str | None:
    """What the intent was called then."""
    found = index.find(event="intent_changed", intent_id=intent_id, until=at, limit=1) if intent_id else []
    return str(body_of(found[0]).get("name") or "") or None if found else None


def reasoning(index: Index, session: str | None, intent_id: str | None, at: str) -> str:
    """What the agent said when it selected the intent."""
    if session is None or intent_id is None:
        return ""
    found = index.find(event="intent_selected", session_id=session, intent_id=intent_id, until=at, limit=1)
    return str(body_of(found[0]).get("reasoning") or "") if found else ""


def denials(index: Index, session: str | None, path: str, at: str) -> tuple[Denial, ...]:
    """What was refused to the session on that file before, the newest first."""
    if session is None:
        return ()
    found = index.find(event="denied", session_id=session, path=path, until=at, limit=MOST_DENIALS)
    return tuple(denial(document) for document in found)


def denial(document: dict[str, Any]) -> Denial:
    """A denial in short."""
    violation: dict[str, Any] = body_of(document).get("violation", {})
    message = shown(str(violation.get("error", "")), 300)
    return Denial(str(document["timestamp"]), str(violation.get("error_type")), message)


def approvals(index: Index, session: str | None, call_id: str | None, at: str) -> tuple[Approval, ...]:
    """The yeses that the call was let through by."""
    if session is None or not call_id:
        return ()
    uses = index.find(event="tool_use", session_id=session, until=at, limit=50)
    use = next((body_of(d) for d in uses if body_of(d).get("call", {}).get("id") == call_id), None)
    decision: dict[str, Any] = use.get("decision", {}) if use else {}
    if not decision.get("approved_by"):
        return ()
    answers = index.find(event="approval_answered", session_id=session, until=at, limit=1)
    said: dict[str, Any] = body_of(answers[0]).get("approval", {}) if answers else {}
    words = str(said.get("words") or "") if said.get("answer") == "allow" else ""
    return (Approval(str(decision["approved_by"]), words, decision.get("grant")),)


def later(index: Index, path: str, causes: Iterable[Cause]) -> tuple[Later, ...]:
    """What changed the file after the newest cause, the newest first."""
    newest = max((c.record for c in causes), default=None)
    if newest is None:
        return ()
    found = [m for m in index.mutations_of(path) if m.id > newest]
    return tuple(Later(m.id, m.at, m.intent_id, m.session_id) for m in reversed(found[-MOST_LATER:]))


def body_of(document: dict[str, Any]) -> dict[str, Any]:
    """Remit's part of a record."""
    return document["metadata"][KEY]


def in_words(found: Explanation) -> str:
    """The explanation for people and models."""
    causes = {c.record: c for c in found.causes}
    lines = [passage_line(found.path, p, causes.get(p.record or "")) for p in found.passages]
    for one in found.causes:
        lines += ["", *cause_lines(one)]
    if found.left_out:
        lines.append(f"… and {found.left_out} older edits")
    if found.later:
        lines.append(f"The file was edited {len(found.later)} more times since; newest {found.later[0].at[:19]}.")
    return "\n".join(lines) or f"{found.path} has no lines"


def passage_line(path: str, passage: Passage, known: Cause | None) -> str:
    """Where lines came from, on one line."""
    span = f"{passage.start}" if passage.start == passage.end else f"{passage.start}-{passage.end}"
    who = f"{known.agent or 'an agent'}, {known.intent_id or 'no intent'}" if known else "nobody that Remit saw"
    commit = "not committed" if not passage.commit.strip("0") else passage.commit[:8]
    edit = f", edit {passage.record[-12:]}" if passage.record else ""
    return f"{shown(path)}:{span}  {passage.origin}  {who}  ({commit}{edit})"


def cause_lines(one: Cause) -> list[str]:
    """One edit, a few lines."""
    intent = f"{one.intent_id} {shown(one.intent_name or '')}".strip() if one.intent_id else "no intent"
    who = f"{one.agent or 'an agent'}{f' ({one.model})' if one.model else ''}"
    lines = [
        f"edit {one.record[-12:]}  {one.at[:19]}  {shown(f'{one.tool} {one.command}'.strip(), 120)}",
        f"  by       {who}, session {shown(one.session_id or '?', 80)}",
        f"  intent   {intent}",
    ]
    if one.reasoning:
        lines.append(f"  because  {shown(one.reasoning, 500)}")
    lines += [f"  refused  {d.at[:19]} {d.code}: {d.message}" for d in one.denials]
    lines += [f"  allowed  by {a.by}{f': {shown(a.words)}' if a.words else ''}" for a in one.approvals]
    return lines
