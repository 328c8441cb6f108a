"""Summary of commits: their messages, and authors, intents and sessions of the added lines."""

import re
from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from remit.core.intent import IntentsDocument
from remit.core.untrusted_input import quote_path
from remit.provenance.blame.blame import Blamer
from remit.provenance.blame.blamed_line import BlamedLine
from remit.provenance.notes.added_lines import find_additions
from remit.provenance.notes.note_writer import resolve_commits
from remit.provenance.origins.blame_porcelain import path_from_workspace
from remit.provenance.why.conversation_store import AgentSession, OpenConversations
from remit.provenance.why.explanation import CommitDetails
from remit.workspace.git.command import Git, GitError

MAX_COMMITS = 200
MAX_FILES = 400


MAX_COMMITS_OF_LINES = 5
PULL_REQUEST_PATTERNS = (
    re.compile(r"\AMerge pull request #(\d{1,9})\b"),
    re.compile(r"\AMerged in .{1,200} \(pull request #(\d{1,9})\)"),
    re.compile(r"\A[^\n]{0,500}\(#(\d{1,9})\)[ \t]*$", re.MULTILINE),
    re.compile(r"^See merge request .{0,200}!(\d{1,9})[ \t]*$", re.MULTILINE),
)
"""Messages of hosting sites: GitHub merges, Bitbucket merges, GitHub squashes and rebases, GitLab merges."""

COMMIT_FORMAT = "--format=%H%x00%an%x00%aI%x00%B%x00"


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
    """Lines added by some commits. `lines` counts by origin; `grades` counts the agents' lines by evidence grade.
    `commits` are the newest 200. `left_out` counts files beyond the first 400, whose lines are not counted.
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
    # 1. The added lines, of files in the workspace.
    prefix, additions = blamer.attributor.prefix, list(find_additions(blamer.git, names))
    by_path: dict[str, list[BlamedLine]] = {}
    for addition in additions[:MAX_FILES]:
        own, path = by_path.setdefault(addition.path, []), path_from_workspace(addition.path, prefix)
        if addition.path.startswith(prefix.folder):
            ranges = [f"-L{first},{last}" for first, last in addition.spans]
            own += (n for n in blamer.blame(path, [*ranges, addition.commit]) if n.commit == addition.commit)
    # 2. Their intents and sessions, with the first text by a person.
    all_lines = [line for own in by_path.values() for line in own]
    by_agents = [line for line in all_lines if line.origin in ("ai", "mixed")]
    by_session = Counter((line.agent or "", line.session_id) for line in by_agents if line.session_id).most_common()
    by_intent = Counter(line.intent_id for line in by_agents if line.intent_id).most_common()
    intent_names = {intent.id: intent.name for intent in document.intents} if document else {}
    prompts: dict[str, str] = {}
    if open_conversations is not None and by_session:
        with open_conversations([AgentSession(*session) for session, _ in by_session]) as conversations:
            for (_, session), _ in by_session:
                entries = conversations.entries_of_session(session)
                texts = (entry.text for entry in entries if entry.role == "user" and entry.text.strip())
                prompts[session] = next(texts, "")
    return CommitSummary(
        commits=tuple(details for name in names[:MAX_COMMITS] if (details := describe_commit(blamer.git, name))),
        lines=dict(Counter(line.origin for line in all_lines)),
        grades=dict(Counter(line.grade or "" for line in by_agents)),
        files=tuple(
            CommitFileShare(
                quote_path(path),
                dict(Counter(line.origin for line in own)),
                tuple(sorted({line.intent_id for line in own if line.intent_id})),
            )
            for path, own in by_path.items()
        ),
        intents=tuple(IntentShare(intent, intent_names.get(intent, ""), count) for intent, count in by_intent),
        sessions=tuple(SessionShare(*pair, count, prompts.get(pair[1], "")) for pair, count in by_session),
        left_out=max(0, len(additions) - MAX_FILES),
    )


def describe_commits(git: Git, shas: Iterable[str]) -> tuple[CommitDetails, ...]:
    """Return the commits of lines; those of zeros are uncommitted."""
    shown = [sha for sha in dict.fromkeys(shas) if sha.strip("0")][:MAX_COMMITS_OF_LINES]
    return tuple(commit for sha in shown if (commit := describe_commit(git, sha)))


def describe_commit(git: Git, sha: str) -> CommitDetails | None:
    found = read_message(git, sha)
    if found is None:
        return None
    name, author, at, message = found
    request = parse_pull_request(message)
    try:
        options = ("--first-parent", "--ancestry-path", "--merges")
        merges = [] if request else git.text("rev-list", *options, f"{name}..HEAD", "--").split()
        is_brought = merges and git.text("rev-list", "-n", "1", name, f"^{merges[-1]}^1", "--")
    except GitError:
        merges, is_brought = [], ""
    if is_brought and (merge := read_message(git, merges[-1])):
        request = parse_pull_request(merge[3])
    return CommitDetails(name, message.partition("\n")[0], author, at, request)


def parse_pull_request(message: str) -> int | None:
    matches = (pattern.search(message) for pattern in PULL_REQUEST_PATTERNS)
    return next((int(match[1]) for match in matches if match), None)


def read_message(git: Git, sha: str) -> tuple[str, str, str, str] | None:
    """Return name, author, time and message of a commit; None if git fails."""
    try:
        output = git.run("show", "-s", COMMIT_FORMAT, sha, "--").decode("utf-8", "replace")
    except GitError:
        return None
    name, author, at, message, *_ = [*output.split("\0"), "", "", ""]
    return (name.strip(), author, at, message.strip()) if name.strip() else None
