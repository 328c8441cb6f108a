"""Whether notes say only what they can know: that a commit added the lines that they attest."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from msgspec import Struct

from remit.core.diff.line_spans import Span, subtract_spans
from remit.core.display_text import sanitise_line
from remit.core.formats.authorship_notes import InvalidNote, Note, parse_note, read_likely_lines
from remit.provenance.notes.added_lines import COMMITS_AT_ONCE, find_additions_to_paths
from remit.workspace.git.command import Git
from remit.workspace.git.refs import NOTES_REF
from remit.workspace.sharing.authorship_notes import NotesRef

MAX_FINDINGS = 100
"""That are named one by one in one note: it may have any number of entries."""


class NoteFinding(Struct, frozen=True):
    """Something that a note should not say. `code` is NOTE_OVERCLAIMS or NOTE_UNREADABLE."""

    code: str
    commit: str
    message: str
    path: str = ""
    key: str = ""
    lines: str = ""


class AuditResult(Struct, frozen=True):
    """What was found in so many notes. `absent` are noted commits that this repository does not have."""

    notes: int
    findings: tuple[NoteFinding, ...] = ()
    absent: int = 0


def audit_notes(notes: NotesRef, commits: Iterable[str] | None = None) -> AuditResult:
    """Hold the notes of those commits, or all that there are, against what git says each commit added.

    Raises GitError.
    """
    noted = notes.list_notes(notes.read_tip())
    wanted = sorted(noted) if commits is None else [commit for commit in dict.fromkeys(commits) if commit in noted]
    here = present_commits(notes.git, wanted)
    asked = [commit for commit in wanted if commit in here]
    found: list[NoteFinding] = []
    for start in range(0, len(asked), COMMITS_AT_ONCE):
        found += audit_batch(notes, asked[start : start + COMMITS_AT_ONCE])
    return AuditResult(len(asked), tuple(found), len(wanted) - len(asked))


def audit_batch(notes: NotesRef, commits: list[str]) -> list[NoteFinding]:
    """What is wrong with the notes of a few commits."""
    texts = notes.read_notes(commits)
    found = [
        make_unreadable(commit, f"it is not there as a blob of {NOTES_REF}")
        for commit in commits
        if commit not in texts
    ]
    read: dict[str, Note] = {}
    for commit, text in texts.items():
        try:
            read[commit] = parse_note(text.decode())
        except (InvalidNote, UnicodeError) as error:
            found.append(make_unreadable(commit, str(error).partition("\n")[0]))
            continue
        if why := find_malformed_part(read[commit]):
            found.append(make_unreadable(commit, why))
    attested = {file.path for note in read.values() for file in note.files}
    likely = {path for note in read.values() for lines in read_likely_lines(note).values() for path in lines}
    paths = sorted(attested | likely)
    added = {(a.commit, a.path): a.spans for a in find_additions_to_paths(notes.git, read, paths)} if paths else {}
    return [*found, *(finding for commit, note in read.items() for finding in find_overclaims(commit, note, added))]


def find_overclaims(
    commit: str, note: Note, added: Mapping[tuple[str, str], tuple[Span, ...]]
) -> Iterable[NoteFinding]:
    """What a note attests and the commit did not add: one finding a file and key, and not more than `MAX_FINDINGS`."""
    claimed: dict[tuple[str, str], list[Span]] = {}
    for file in note.files:
        for entry in file.entries:
            claimed.setdefault((file.path, entry.key), []).extend(entry.spans)
    for key, lines in read_likely_lines(note).items():
        for path, spans in lines.items():
            claimed.setdefault((path, key), []).extend(spans)
    found = (
        make_overclaim(commit, path, key, beyond)
        for (path, key), spans in claimed.items()
        if (beyond := spans_not_added(spans, added.get((commit, path), ())))
    )
    yield from islice(found, MAX_FINDINGS)
    if left := sum(1 for _ in found):
        message = f"the note of {commit[:12]} attests lines that it did not add by {left} more files and keys"
        yield NoteFinding("NOTE_OVERCLAIMS", commit, message)


def spans_not_added(spans: Sequence[Span], added: Sequence[Span]) -> tuple[Span, ...]:
    """The spans, or parts of them, that are no added lines; also those that end before they begin."""
    return (*subtract_spans(spans, added), *(span for span in spans if span[0] > span[1]))


def make_overclaim(commit: str, path: str, key: str, beyond: Sequence[Span]) -> NoteFinding:
    """The finding that a key claims those lines."""
    lines = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in beyond[:MAX_FINDINGS])
    said = f"the note of {commit[:12]} attests lines {sanitise_line(lines, 120)} of {sanitise_line(path, 200)!r}"
    message = f"{said} to {sanitise_line(key, 60)}; that commit did not add them"
    return NoteFinding("NOTE_OVERCLAIMS", commit, message, path, key, lines)


def find_malformed_part(note: Note) -> str | None:
    """What in the JSON of a note is of another kind than the form says, so that no reader knows who its keys are."""
    for name in ("prompts", "humans", "sessions"):
        if not isinstance(note.metadata.get(name, {}), dict):
            return f"its {name!r} is no object"
    return None


def make_unreadable(commit: str, why: str) -> NoteFinding:
    """The finding that a note cannot be read."""
    return NoteFinding(
        "NOTE_UNREADABLE", commit, f"the note of {commit[:12]} cannot be read: {sanitise_line(why, 300)}"
    )


def present_commits(git: Git, commits: Iterable[str]) -> set[str]:
    """Those of the commits that this repository has: a shallow clone, or gc, leaves some out."""
    asked = list(commits)
    names = "".join(f"{commit}\n" for commit in asked).encode()
    out = git.run("cat-file", "--batch-check=%(objecttype)", stdin=names) if asked else b""
    return {name for name, kind in zip(asked, out.splitlines(), strict=True) if kind == b"commit"}
