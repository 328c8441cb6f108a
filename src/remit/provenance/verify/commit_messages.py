"""Rules on commit messages and notes: RMT008, RMT011 and RMT017."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from remit.core.display_text import sanitise_line
from remit.core.formats.commit_trailers import TrailerFinding
from remit.provenance.notes.audit import audit_notes
from remit.provenance.verify.record_contents import find_leaked_notes
from remit.provenance.verify.rules import RuleFinding, make_finding
from remit.workspace.git.command import Git
from remit.workspace.sharing.authorship_notes import NotesRef


def check_messages(
    git: Git, commits: Sequence[str], judge: Callable[[str], Sequence[TrailerFinding]]
) -> Iterator[RuleFinding]:
    """Yield RMT008 for the commits' messages. Raises GitError."""
    for commit, message in read_commit_messages(git, commits):
        for found in judge(message):
            yield make_finding(
                "RMT008", f"{found.code}: {sanitise_line(found.text, 120)!r}: {found.message}", commit=commit
            )


def read_commit_messages(git: Git, commits: Iterable[str]) -> list[tuple[str, str]]:
    names = "".join(f"{name}\n" for name in commits).encode()
    output = git.run("log", "--no-walk=unsorted", "--stdin", "-z", "--format=%H%n%B", stdin=names) if names else b""
    texts = [text.decode("utf-8", "replace").partition("\n") for text in output.split(b"\0") if text]
    return [(commit, message) for commit, _, message in texts]


def check_notes(
    notes: NotesRef, commits: Sequence[str] | None, patterns: Sequence[re.Pattern[str]]
) -> Iterator[RuleFinding]:
    """Yield RMT017 and RMT011 for the notes. Raises GitError."""
    if not notes.may_have_notes():
        return
    for found in audit_notes(notes, commits).findings:
        yield make_finding("RMT017", found.message, path=found.path, commit=found.commit)
    noted = notes.list_notes(notes.read_tip())
    wanted = [commit for commit in (noted if commits is None else commits) if commit in noted]
    yield from find_leaked_notes(notes.read_notes(wanted).items(), patterns)
