"""Review of changes by a person: hunks marked as reviewed, and comments for the agent.

Marks are kept by the hunk's id, which depends on its path and lines: a hunk that changes is no longer reviewed.
"""

import json
from collections.abc import Sequence

from msgspec import Struct

from remit.core.call import SessionKey
from remit.core.record import Body
from remit.core.untrusted_input import sanitise_line, sanitise_text
from remit.gate.context import WorkspaceContext
from remit.gate.people.messages import MAX_MESSAGE_CHARS, PendingMessages
from remit.gate.state.workspace_state import State

REVIEWED_FACT, RECORDS_FACT = "reviewed_hunks", "reviewed_records"
COMMENTS_HEAD = "Remit: a person reviewed your changes"
MAX_MARKS = 5000  # the newest ones are kept


class ReviewRefused(ValueError):
    """Comments that cannot be sent; the message is the reason."""


class ReviewComment(Struct, frozen=True):
    """A comment on lines of a file. `line` is 0 for a removal."""

    path: str
    line: int
    text: str
    quote: str = ""


def list_reviewed(state: State) -> list[str]:
    return json.loads(state.read_fact(REVIEWED_FACT) or "[]")


def list_reviewed_records(state: State) -> list[str]:
    """Return the records of which a hunk is marked as reviewed."""
    return json.loads(state.read_fact(RECORDS_FACT) or "[]")


def mark_reviewed(state: State, hunk_ids: Sequence[str], records: Sequence[str], *, reviewed: bool) -> None:
    """Mark hunks, and the records behind them, as reviewed or not."""
    with state.transaction():
        for fact, names in ((REVIEWED_FACT, hunk_ids), (RECORDS_FACT, records)):
            others = [name for name in json.loads(state.read_fact(fact) or "[]") if name not in names]
            marked = [*others, *(names if reviewed else ())]
            state.put_fact(fact, json.dumps(marked[-MAX_MARKS:]))


def send_comments(context: WorkspaceContext, session: SessionKey, comments: Sequence[ReviewComment]) -> str:
    """Leave the comments as one message for a session, which gets it with its next answer or prompt, and record it;
    return the message. Raises ReviewRefused, StateError.
    """
    known = context.state.find_session(session)
    if known is None:
        raise ReviewRefused(f"no session {session.session_id[:80]!r} is known here")
    message = format_comments(comments)
    messages = PendingMessages(context.state)
    waiting = sum(map(len, messages.load_messages(session).values()))
    if waiting + len(message) > MAX_MESSAGE_CHARS:
        raise ReviewRefused(
            f"the message has {len(message)} characters, and {waiting} wait for the session already: "
            f"together at most {MAX_MESSAGE_CHARS} fit"
        )
    detail = {"by": "person", "agent": known.agent, "notes": message}
    body = Body(event="review_sent", intent_id=known.intent_id, session_id=session.session_id, detail=detail)
    context.recorder.append_or_spool([context.recorder.make_record(body)])
    messages.add_message(session, message)
    return message


def has_waiting_comments(state: State, session: SessionKey) -> bool:
    """Return whether a session has not yet got comments that were sent to it."""
    return any(COMMENTS_HEAD in text for text in PendingMessages(state).load_messages(session).values())


def format_comments(comments: Sequence[ReviewComment]) -> str:
    many = len(comments) != 1
    lines = [f"{COMMENTS_HEAD} and has {len(comments) if many else 'a'} comment{'s' * many}."]
    for number, comment in enumerate(comments, 1):
        place = sanitise_line(comment.path, 300) + (f":{comment.line}" if comment.line else "")
        lines.append(f"{number}. {place}: {sanitise_text(comment.text).strip()}")
        if comment.quote:
            lines.append(f"   the line: {sanitise_line(comment.quote, 200)}")
    return "\n".join(lines)
