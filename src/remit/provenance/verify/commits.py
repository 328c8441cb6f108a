"""What the rules say of commit messages and notes: RMT008, RMT011 and RMT017."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from remit.core.text import shown
from remit.core.trailers import TrailerFinding
from remit.provenance.notes.audit import audit
from remit.provenance.verify.rules import Finding, finding
from remit.provenance.verify.secrets import leaked_notes
from remit.workspace.git import Git
from remit.workspace.notes import Notes


def of_messages(
    git: Git, commits: Sequence[str], judge: Callable[[str], Sequence[TrailerFinding]]
) -> Iterator[Finding]:
    """What the messages of these commits should not say of agents. Raises GitError."""
    for commit, message in messages_of(git, commits):
        for one in judge(message):
            yield finding("RMT008", f"{one.code}: {shown(one.text, 120)!r}: {one.message}", commit=commit)


def messages_of(git: Git, commits: Iterable[str]) -> list[tuple[str, str]]:
    """The messages of these commits. Raises GitError."""
    names = "".join(f"{name}\n" for name in commits).encode()
    out = git.run("log", "--no-walk=unsorted", "--stdin", "-z", "--format=%H%n%B", stdin=names) if names else b""
    texts = [text.decode("utf-8", "replace").partition("\n") for text in out.split(b"\0") if text]
    return [(commit, message) for commit, _, message in texts]


def of_notes(notes: Notes, commits: Sequence[str] | None, patterns: Sequence[re.Pattern[str]]) -> Iterator[Finding]:
    """What notes say that they cannot know, or should not. Raises GitError."""
    if not notes.there():
        return
    for found in audit(notes, commits).findings:
        yield finding("RMT017", found.message, path=found.path, commit=found.commit)
    noted = notes.listed(notes.tip())
    wanted = [commit for commit in (noted if commits is None else commits) if commit in noted]
    yield from leaked_notes(notes.read(wanted).items(), patterns)
