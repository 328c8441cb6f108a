"""Summary of commits: authors, intents and sessions of the added lines."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from remit.core.display_text import quote_path
from remit.core.intent import IntentsDocument
from remit.provenance.blame.blame import Blamer
from remit.provenance.blame.blamed_line import BlamedLine
from remit.provenance.notes.added_lines import Addition, find_additions
from remit.provenance.notes.note_writer import resolve_commits
from remit.provenance.why.causes import find_intent_by_id
from remit.provenance.why.commit_details import CommitDetails, describe_commit
from remit.provenance.why.conversations import AgentSession
from remit.provenance.why.explain import OpenConversations
from remit.workspace.git.command import GitError

MAX_COMMITS = 200
MAX_FILES = 400


class CommitFileShare(Struct, frozen=True):
    """Added lines of one file by origin (`ai`, `human`, `mixed`, `unknown`), and the intents of the agents' lines."""

    path: str
    lines: dict[str, int]
    intents: tuple[str, ...] = ()


class IntentShare(Struct, frozen=True):
    """Added lines of one intent. `name` is the current name; empty if the intent is gone."""

    intent_id: str
    name: str
    lines: int


class SessionShare(Struct, frozen=True):
    """Added lines of one session. `prompt` is the first text by a person, if kept."""

    agent: str
    session_id: str
    lines: int
    prompt: str = ""


class CommitSummary(Struct, frozen=True):
    """Lines added by some commits.

    `lines` counts by origin; `grades` counts the agents' lines by evidence grade. `commits` are the newest 200.
    `left_out` counts files beyond the first 400, whose lines are not counted.
    """

    commits: tuple[CommitDetails, ...]
    lines: dict[str, int]
    grades: dict[str, int]
    files: tuple[CommitFileShare, ...]
    intents: tuple[IntentShare, ...]
    sessions: tuple[SessionShare, ...]
    left_out: int = 0


class NoSuchCommit(ValueError):
    """The name is neither a commit nor a range. The message is git's."""


def summarize_commits(
    blamer: Blamer,
    wanted: str,
    document: IntentsDocument | None = None,
    open_conversations: OpenConversations | None = None,
) -> CommitSummary:
    """Return the authors of the lines that `wanted` added: a commit, or a range such as `main..HEAD`.

    `open_conversations` gives access to first prompts. Raises NoSuchCommit, GitError.
    """
    try:
        names = resolve_commits(blamer.git, wanted)
    except GitError as error:
        raise NoSuchCommit(error.message.strip().removeprefix("fatal: ")) from error
    additions = list(find_additions(blamer.git, names))
    lines = {addition: blame_addition(blamer, addition) for addition in additions[:MAX_FILES]}
    all_lines = [line for own in lines.values() for line in own]
    by_agents = [line for line in all_lines if line.origin in ("ai", "mixed")]
    by_session = Counter((line.agent or "", line.session_id) for line in by_agents if line.session_id).most_common()
    prompts = read_first_prompts(
        open_conversations, [AgentSession(agent, session) for (agent, session), _ in by_session]
    )
    return CommitSummary(
        commits=tuple(details for name in names[:MAX_COMMITS] if (details := describe_commit(blamer.git, name))),
        lines=dict(Counter(line.origin for line in all_lines)),
        grades=dict(Counter(line.grade or "" for line in by_agents)),
        files=tuple(share_by_file(lines)),
        intents=tuple(
            IntentShare(intent_id, intent.name if (intent := find_intent_by_id(document, intent_id)) else "", count)
            for intent_id, count in Counter(line.intent_id for line in by_agents if line.intent_id).most_common()
        ),
        sessions=tuple(
            SessionShare(agent, session, count, prompts.get(session, "")) for (agent, session), count in by_session
        ),
        left_out=max(0, len(additions) - MAX_FILES),
    )


def blame_addition(blamer: Blamer, addition: Addition) -> list[BlamedLine]:
    prefix = blamer.attributor.prefix
    if not addition.path.startswith(prefix):
        return []
    ranges = [f"-L{first},{last}" for first, last in addition.spans]
    blamed = blamer.blame(addition.path.removeprefix(prefix), [*ranges, addition.commit]) if ranges else []
    return [line for line in blamed if line.commit == addition.commit]


def share_by_file(lines: Mapping[Addition, list[BlamedLine]]) -> Iterator[CommitFileShare]:
    by_path: dict[str, list[BlamedLine]] = {}
    for addition, own in lines.items():
        by_path.setdefault(addition.path, []).extend(own)
    for path, own in by_path.items():
        intents = sorted({line.intent_id for line in own if line.intent_id})
        yield CommitFileShare(quote_path(path), dict(Counter(line.origin for line in own)), tuple(intents))


def read_first_prompts(
    open_conversations: OpenConversations | None, sessions: Sequence[AgentSession]
) -> dict[str, str]:
    """Return by session id the first text by a person, if a conversation is kept."""
    if open_conversations is None or not sessions:
        return {}
    with open_conversations(sessions) as conversations:
        entries_by_session = {session.id: conversations.entries_of_session(session.id) for session in sessions}
    prompts = {
        name: (entry.text for entry in entries if entry.role == "user" and entry.text.strip())
        for name, entries in entries_by_session.items()
    }
    return {name: next(texts, "") for name, texts in prompts.items()}
