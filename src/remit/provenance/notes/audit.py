"""Whether notes say only what they can know: that a commit added the lines that they attest."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from msgspec import Struct

from remit.core.authorship import NotANote, Note, likely_lines, parse_note
from remit.core.spans import Span, outside
from remit.core.text import shown
from remit.provenance.notes.additions import COMMITS_AT_ONCE, added_lines
from remit.workspace.git import Git
from remit.workspace.notes import Notes
from remit.workspace.refs import AUTHORSHIP

MOST_FINDINGS = 100
"""That are named one by one in one note: it may have any number of entries."""


class NoteFinding(Struct, frozen=True):
    """Something that a note should not say. `code` is NOTE_OVERCLAIMS or NOTE_UNREADABLE."""

    code: str
    commit: str
    message: str
    path: str = ""
    key: str = ""
    lines: str = ""


class Audit(Struct, frozen=True):
    """What was found in so many notes. `absent` are noted commits that this repository does not have."""

    notes: int
    findings: tuple[NoteFinding, ...] = ()
    absent: int = 0


def audit(notes: Notes, commits: Iterable[str] | None = None) -> Audit:
    """Hold the notes of those commits, or all that there are, against what git says each commit added.

    Raises GitError.
    """
    noted = notes.listed(notes.tip())
    wanted = sorted(noted) if commits is None else [commit for commit in dict.fromkeys(commits) if commit in noted]
    here = present(notes.git, wanted)
    asked = [commit for commit in wanted if commit in here]
    found: list[NoteFinding] = []
    for start in range(0, len(asked), COMMITS_AT_ONCE):
        found += audited(notes, asked[start : start + COMMITS_AT_ONCE])
    return Audit(len(asked), tuple(found), len(wanted) - len(asked))


def audited(notes: Notes, commits: list[str]) -> list[NoteFinding]:
    """What is wrong with the notes of a few commits."""
    texts = notes.read(commits)
    found = [
        unreadable(commit, f"it is not there as a blob of {AUTHORSHIP}") for commit in commits if commit not in texts
    ]
    read: dict[str, Note] = {}
    for commit, text in texts.items():
        try:
            read[commit] = parse_note(text.decode())
        except (NotANote, UnicodeError) as error:
            found.append(unreadable(commit, str(error).partition("\n")[0]))
            continue
        if why := malformed(read[commit]):
            found.append(unreadable(commit, why))
    attested = {file.path for note in read.values() for file in note.files}
    likely = {path for note in read.values() for lines in likely_lines(note).values() for path in lines}
    paths = sorted(attested | likely)
    added = {(a.commit, a.path): a.spans for a in added_lines(notes.git, read, paths)} if paths else {}
    return [*found, *(finding for commit, note in read.items() for finding in overclaims(commit, note, added))]


def overclaims(commit: str, note: Note, added: Mapping[tuple[str, str], tuple[Span, ...]]) -> Iterable[NoteFinding]:
    """What a note attests and the commit did not add: one finding a file and key, and not more than `MOST_FINDINGS`."""
    claimed: dict[tuple[str, str], list[Span]] = {}
    for file in note.files:
        for entry in file.entries:
            claimed.setdefault((file.path, entry.key), []).extend(entry.spans)
    for key, lines in likely_lines(note).items():
        for path, spans in lines.items():
            claimed.setdefault((path, key), []).extend(spans)
    found = (
        overclaim(commit, path, key, beyond)
        for (path, key), spans in claimed.items()
        if (beyond := not_added(spans, added.get((commit, path), ())))
    )
    yield from islice(found, MOST_FINDINGS)
    if left := sum(1 for _ in found):
        message = f"the note of {commit[:12]} attests lines that it did not add by {left} more files and keys"
        yield NoteFinding("NOTE_OVERCLAIMS", commit, message)


def not_added(spans: Sequence[Span], added: Sequence[Span]) -> tuple[Span, ...]:
    """The spans, or parts of them, that are no added lines; also those that end before they begin."""
    return (*outside(spans, added), *(span for span in spans if span[0] > span[1]))


def overclaim(commit: str, path: str, key: str, beyond: Sequence[Span]) -> NoteFinding:
    """The finding that a key claims those lines."""
    lines = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in beyond[:MOST_FINDINGS])
    said = f"the note of {commit[:12]} attests lines {shown(lines, 120)} of {shown(path, 200)!r}"
    message = f"{said} to {shown(key, 60)}; that commit did not add them"
    return NoteFinding("NOTE_OVERCLAIMS", commit, message, path, key, lines)


def malformed(note: Note) -> str | None:
    """What in the JSON of a note is of another kind than the form says, so that no reader knows who its keys are."""
    for name in ("prompts", "humans", "sessions"):
        if not isinstance(note.about.get(name, {}), dict):
            return f"its {name!r} is no object"
    return None


def unreadable(commit: str, why: str) -> NoteFinding:
    """The finding that a note cannot be read."""
    return NoteFinding("NOTE_UNREADABLE", commit, f"the note of {commit[:12]} cannot be read: {shown(why, 300)}")


def present(git: Git, commits: Iterable[str]) -> set[str]:
    """Those of the commits that this repository has: a shallow clone, or gc, leaves some out."""
    asked = list(commits)
    names = "".join(f"{commit}\n" for commit in asked).encode()
    out = git.run("cat-file", "--batch-check=%(objecttype)", stdin=names) if asked else b""
    return {name for name, kind in zip(asked, out.splitlines(), strict=True) if kind == b"commit"}
