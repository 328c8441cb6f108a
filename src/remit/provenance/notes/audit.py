"""Audit of authorship notes: a note may attest only lines added by its commit."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from remit.core.diff.contents import Span, subtract_spans
from remit.core.formats.authorship_notes import InvalidNote, Note, parse_note, read_likely_lines
from remit.core.untrusted_input import sanitise_line
from remit.provenance.notes.added_lines import COMMITS_AT_ONCE, find_additions_to_paths
from remit.workspace.git.repository import NOTES_REF
from remit.workspace.sharing.shared_refs import NotesRef

MAX_FINDINGS = 100  # findings listed per note, which may have any number of entries


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
    present = notes.find_present_commits(wanted)
    audited = [commit for commit in wanted if commit in present]
    findings: list[NoteFinding] = []
    for start in range(0, len(audited), COMMITS_AT_ONCE):
        findings += audit_batch(notes, audited[start : start + COMMITS_AT_ONCE])
    return AuditResult(len(audited), tuple(findings), len(wanted) - len(audited))


def audit_batch(notes: NotesRef, commits: list[str]) -> list[NoteFinding]:
    texts = notes.read_notes(commits)
    absent = [commit for commit in commits if commit not in texts]
    findings = [make_unreadable(commit, f"it is not there as a blob of {NOTES_REF}") for commit in absent]
    parsed: dict[str, Note] = {}
    for commit, text in texts.items():
        try:
            parsed[commit] = parse_note(text.decode())
        except (InvalidNote, UnicodeError) as error:
            findings.append(make_unreadable(commit, str(error).partition("\n")[0]))
            continue
        parts = ((name, parsed[commit].metadata.get(name, {})) for name in ("prompts", "humans", "sessions"))
        if malformed := next((name for name, part in parts if not isinstance(part, dict)), None):
            findings.append(make_unreadable(commit, f"its {malformed!r} is no object"))
    claims = {commit: claimed_lines(note) for commit, note in parsed.items()}
    paths = sorted({path for claimed in claims.values() for path, _ in claimed})
    added = {(a.commit, a.path): a.spans for a in find_additions_to_paths(notes.git, parsed, paths)} if paths else {}
    return [
        *findings,
        *(found for commit, claimed in claims.items() for found in find_overclaims(commit, claimed, added)),
    ]


def claimed_lines(note: Note) -> dict[tuple[str, str], list[Span]]:
    claimed: dict[tuple[str, str], list[Span]] = {}
    for file in note.files:
        for entry in file.entries:
            claimed.setdefault((file.path, entry.key), []).extend(entry.spans)
    for key, lines in read_likely_lines(note).items():
        for path, spans in lines.items():
            claimed.setdefault((path, key), []).extend(spans)
    return claimed


def find_overclaims(
    commit: str, claimed: Mapping[tuple[str, str], Sequence[Span]], added: Mapping[tuple[str, str], tuple[Span, ...]]
) -> Iterable[NoteFinding]:
    omitted = found = 0
    for (path, key), spans in claimed.items():
        # Lines outside the added ones, and spans that end before they begin.
        reversed_spans = (span for span in spans if span[0] > span[1])
        beyond = (*subtract_spans(spans, added.get((commit, path), ())), *reversed_spans)
        if beyond and found < MAX_FINDINGS:
            found += 1
            lines = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in beyond[:MAX_FINDINGS])
            claim = (
                f"the note of {commit[:12]} attests lines {sanitise_line(lines, 120)} of {sanitise_line(path, 200)!r}"
            )
            message = f"{claim} to {sanitise_line(key, 60)}; that commit did not add them"
            yield NoteFinding("NOTE_OVERCLAIMS", commit, message, path, key, lines)
        elif beyond:
            omitted += 1
    if omitted:
        message = f"the note of {commit[:12]} attests lines that it did not add by {omitted} more files and keys"
        yield NoteFinding("NOTE_OVERCLAIMS", commit, message)


def make_unreadable(commit: str, why: str) -> NoteFinding:
    message = f"the note of {commit[:12]} cannot be read: {sanitise_line(why, 300)}"
    return NoteFinding("NOTE_UNREADABLE", commit, message)
