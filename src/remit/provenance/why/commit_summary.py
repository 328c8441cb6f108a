"""Who wrote the lines that commits added, under which intents and in which sessions."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from remit.core.intent import IntentsDocument
from remit.core.text import quoted_path
from remit.provenance.blame.blame import Blamer
from remit.provenance.blame.blamed_line import BlamedLine
from remit.provenance.notes.additions import Addition, additions
from remit.provenance.notes.notes import commits_in
from remit.provenance.why.commits import Commit, commit
from remit.provenance.why.intents_then import named
from remit.provenance.why.talk import Session
from remit.provenance.why.why import Opening
from remit.workspace.git import GitError

MAX_COMMITS = 200
MAX_FILES = 400


class FileShare(Struct, frozen=True):
    """One file's added lines by origin (`ai`, `human`, `mixed`, `unknown`), and the intents of the agents' lines."""

    path: str
    lines: dict[str, int]
    intents: tuple[str, ...] = ()


class IntentShare(Struct, frozen=True):
    """The added lines of one intent. `name` is the intent's name now; empty where it is gone."""

    intent_id: str
    name: str
    lines: int


class SessionShare(Struct, frozen=True):
    """The added lines of one session. `prompt` is the first text that a person wrote to it, where that is kept."""

    agent: str
    session_id: str
    lines: int
    prompt: str = ""


class CommitSummary(Struct, frozen=True):
    """The lines that some commits added.

    `lines` counts them by origin; `grades` counts the agents' lines by evidence grade. `commits` are the newest 200.
    `left_out` counts files beyond the first 400, whose lines are not counted.
    """

    commits: tuple[Commit, ...]
    lines: dict[str, int]
    grades: dict[str, int]
    files: tuple[FileShare, ...]
    intents: tuple[IntentShare, ...]
    sessions: tuple[SessionShare, ...]
    left_out: int = 0


class NoSuchCommit(ValueError):
    """The name is neither a commit nor a range. The message is git's."""


def summarize_commits(
    blamer: Blamer, wanted: str, document: IntentsDocument | None = None, listen: Opening | None = None
) -> CommitSummary:
    """Return who wrote the lines that `wanted` added: a commit, or a range such as `main..HEAD`.

    `listen` opens the conversations that first prompts are read from. Raises NoSuchCommit, GitError.
    """
    try:
        names = commits_in(blamer.git, wanted)
    except GitError as error:
        raise NoSuchCommit(error.message.strip().removeprefix("fatal: ")) from error
    added = list(additions(blamer.git, names))
    lines = {addition: added_lines(blamer, addition) for addition in added[:MAX_FILES]}
    everything = [line for own in lines.values() for line in own]
    by_agents = [line for line in everything if line.origin in ("ai", "mixed")]
    by_session = Counter((line.agent or "", line.session_id) for line in by_agents if line.session_id).most_common()
    prompts = first_prompts(listen, [Session(agent, session) for (agent, session), _ in by_session])
    return CommitSummary(
        commits=tuple(found for name in names[:MAX_COMMITS] if (found := commit(blamer.git, name))),
        lines=dict(Counter(line.origin for line in everything)),
        grades=dict(Counter(line.grade or "" for line in by_agents)),
        files=tuple(file_shares(lines)),
        intents=tuple(
            IntentShare(intent_id, intent.name if (intent := named(document, intent_id)) else "", count)
            for intent_id, count in Counter(line.intent_id for line in by_agents if line.intent_id).most_common()
        ),
        sessions=tuple(
            SessionShare(agent, session, count, prompts.get(session, "")) for (agent, session), count in by_session
        ),
        left_out=max(0, len(added) - MAX_FILES),
    )


def added_lines(blamer: Blamer, addition: Addition) -> list[BlamedLine]:
    """Return the lines that the commit added to the file, with their origins."""
    prefix = blamer.attribution.prefix
    if not addition.path.startswith(prefix):
        return []
    ranges = [f"-L{first},{last}" for first, last in addition.spans]
    blamed = blamer.blame(addition.path.removeprefix(prefix), [*ranges, addition.commit]) if ranges else []
    return [line for line in blamed if line.commit == addition.commit]


def file_shares(lines: Mapping[Addition, list[BlamedLine]]) -> Iterator[FileShare]:
    """Yield one share for each file, in the order of the first commit that added to it."""
    by_path: dict[str, list[BlamedLine]] = {}
    for addition, own in lines.items():
        by_path.setdefault(addition.path, []).extend(own)
    for path, own in by_path.items():
        intents = sorted({line.intent_id for line in own if line.intent_id})
        yield FileShare(quoted_path(path), dict(Counter(line.origin for line in own)), tuple(intents))


def first_prompts(listen: Opening | None, sessions: Sequence[Session]) -> dict[str, str]:
    """Return by session id the first text that a person wrote to it, where a conversation is kept."""
    if listen is None or not sessions:
        return {}
    with listen(sessions) as conversations:
        spoken = {session.id: conversations.of_session(session.id) for session in sessions}
    asked = {
        name: (one.text for one in said if one.role == "user" and one.text.strip()) for name, said in spoken.items()
    }
    return {name: next(texts, "") for name, texts in asked.items()}
