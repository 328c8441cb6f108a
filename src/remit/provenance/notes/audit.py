"""Audit of authorship notes: a note may attest only lines that its commit added."""

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
"""Findings listed per note, which may have any number of entries."""


class NoteFinding(Struct, frozen=True):
    """A false or unreadable claim of a note. `code` is NOTE_OVERCLAIMS or NOTE_UNREADABLE."""

    code: str
    commit: str
    message: str
    path: str = ""
    key: str = ""
    lines: str = ""


class AuditResult(Struct, frozen=True):
    """Findings in a number of notes. `absent` counts noted commits missing from the repository."""

    notes: int
    findings: tuple[NoteFinding, ...] = ()
    absent: int = 0


def audit_notes(notes: NotesRef, commits: Iterable[str] | None = None) -> AuditResult:
    """Compare the notes of those commits, or every note, with the lines git says each commit added. Raises GitError."""
    noted = notes.list_notes(notes.read_tip())
    wanted = sorted(noted) if commits is None else [commit for commit in dict.fromkeys(commits) if commit in noted]
    present = present_commits(notes.git, wanted)
    audited = [commit for commit in wanted if commit in present]
    findings: list[NoteFinding] = []
    for start in range(0, len(audited), COMMITS_AT_ONCE):
        findings += audit_batch(notes, audited[start : start + COMMITS_AT_ONCE])
    return AuditResult(len(audited), tuple(findings), len(wanted) - len(audited))


def audit_batch(notes: NotesRef, commits: list[str]) -> list[NoteFinding]:
    """Return the findings in the notes of a few commits."""
    texts = notes.read_notes(commits)
    findings = [
        make_unreadable(commit, f"it is not there as a blob of {NOTES_REF}")
        for commit in commits
        if commit not in texts
    ]
    parsed: dict[str, Note] = {}
    for commit, text in texts.items():
        try:
            parsed[commit] = parse_note(text.decode())
        except (InvalidNote, UnicodeError) as error:
            findings.append(make_unreadable(commit, str(error).partition("\n")[0]))
            continue
        if why := find_malformed_part(parsed[commit]):
            findings.append(make_unreadable(commit, why))
    attested = {file.path for note in parsed.values() for file in note.files}
    likely = {path for note in parsed.values() for lines in read_likely_lines(note).values() for path in lines}
    paths = sorted(attested | likely)
    added = {(a.commit, a.path): a.spans for a in find_additions_to_paths(notes.git, parsed, paths)} if paths else {}
    return [
        *findings,
        *(finding for commit, note in parsed.items() for finding in find_overclaims(commit, note, added)),
    ]


def find_overclaims(
    commit: str, note: Note, added: Mapping[tuple[str, str], tuple[Span, ...]]
) -> Iterable[NoteFinding]:
    """Yield claims that the commit did not add: one finding per file and key, up to `MAX_FINDINGS`."""
    claimed: dict[tuple[str, str], list[Span]] = {}
    for file in note.files:
        for entry in file.entries:
            claimed.setdefault((file.path, entry.key), []).extend(entry.spans)
    for key, lines in read_likely_lines(note).items():
        for path, spans in lines.items():
            claimed.setdefault((path, key), []).extend(spans)
    overclaims = (
        make_overclaim(commit, path, key, beyond)
        for (path, key), spans in claimed.items()
        if (beyond := spans_not_added(spans, added.get((commit, path), ())))
    )
    yield from islice(overclaims, MAX_FINDINGS)
    if omitted := sum(1 for _ in overclaims):
        message = f"the note of {commit[:12]} attests lines that it did not add by {omitted} more files and keys"
        yield NoteFinding("NOTE_OVERCLAIMS", commit, message)


def spans_not_added(spans: Sequence[Span], added: Sequence[Span]) -> tuple[Span, ...]:
    """Return the spans, or their parts, outside the added lines, and spans that end before they begin."""
    return (*subtract_spans(spans, added), *(span for span in spans if span[0] > span[1]))


def make_overclaim(commit: str, path: str, key: str, beyond: Sequence[Span]) -> NoteFinding:
    lines = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in beyond[:MAX_FINDINGS])
    claim = f"the note of {commit[:12]} attests lines {sanitise_line(lines, 120)} of {sanitise_line(path, 200)!r}"
    message = f"{claim} to {sanitise_line(key, 60)}; that commit did not add them"
    return NoteFinding("NOTE_OVERCLAIMS", commit, message, path, key, lines)


def find_malformed_part(note: Note) -> str | None:
    """Return the part of a note's JSON with a wrong type; None if valid."""
    for name in ("prompts", "humans", "sessions"):
        if not isinstance(note.metadata.get(name, {}), dict):
            return f"its {name!r} is no object"
    return None


def make_unreadable(commit: str, why: str) -> NoteFinding:
    return NoteFinding(
        "NOTE_UNREADABLE", commit, f"the note of {commit[:12]} cannot be read: {sanitise_line(why, 300)}"
    )


def present_commits(git: Git, commits: Iterable[str]) -> set[str]:
    """Return the commits that exist in the repository: shallow clones and gc drop some."""
    names_asked = list(commits)
    names = "".join(f"{commit}\n" for commit in names_asked).encode()
    output = git.run("cat-file", "--batch-check=%(objecttype)", stdin=names) if names_asked else b""
    return {name for name, kind in zip(names_asked, output.splitlines(), strict=True) if kind == b"commit"}
