"""Notes of commits that repeat earlier commits: a squash or rebase merge by a forge, a cherry-pick to a release branch.

A person at the forge's button has no record of the lines, and the notes belong to the pull request's commits, gone from
all branches. If these commits are present, or the forge's ref of the pull request has them, their notes name the
authors of the lines. A file of a commit repeats an earlier version, the original, if

- the commit's message names a pull request, and the version is that of the pull request's last commit;
- a noted commit, or all commits of a side branch together, changed the same lines of the same file to the same lines;
- a noted commit left the same content in the same file.

A derived note claims only lines added by its commit, equal to the original's line, and claimed by the note of the
commit that git blames for the original's line. Common lines alone make no commit a repetition.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, TypeAlias

from msgspec import Struct

from remit.core.diff.contents import Span, make_spans, trace_hunks
from remit.core.formats import authorship_notes
from remit.core.untrusted_input import as_object
from remit.provenance.blame.claimed_authors import NoteClaim, NotedLines, find_claims_of_note
from remit.provenance.notes.added_lines import (
    PATCH_OPTIONS,
    PREFIX_OPTIONS,
    FilePatch,
    parse_patches,
    read_patches,
)
from remit.provenance.origins.blame_porcelain import FileVersion, GitLine, parse_porcelain
from remit.provenance.origins.evidence_grades import is_distinctive
from remit.workspace.git.command import Git
from remit.workspace.place.workspace import Workspace
from remit.workspace.sharing.shared_refs import NotesByCommit, NotesRef

MAX_COMMITS = 500  # newest commits that may repeat others
MAX_ORIGINALS = 2000  # newest noted commits that may be repeated
MAX_SIDE_COMMITS = 10_000
MAX_SIDE_BRANCHES = 100
MAX_PULL_REQUESTS = 100  # pull requests fetched at a time
MAX_BLAMES = 300  # git blames at a time: each original file costs one
MAX_CANDIDATES = 3  # originals of one file that are compared
PULL_REQUEST_NUMBER = re.compile(r"^[^\n]*\(#(\d{1,9})\)\s*(?:\n|$)|^See merge request \S*!(\d{1,9})\s*$", re.MULTILINE)
"""What forges write into the message of a squash or a merge. Source: the merge settings of GitHub and GitLab, read
2026-11.
"""

ChangeName: TypeAlias = tuple[str, str]
"""Path and content of a file after a commit; or its path and the hash of the lines that the commit removed and added,
which is equal for the same change elsewhere.
"""


class Original(Struct, frozen=True):
    """A version of a file with lines repeated by a commit. `numbers` are the original's line numbers by the
    repetition's. `is_author` if `commit` added the lines; otherwise git knows the commit.
    """

    commit: str
    path: str
    numbers: Mapping[int, int]
    is_author: bool = False
    is_exact: bool = True
    """False if the repetition is only similar: then each run of lines has to be distinctive."""


class KnownChange(Struct, frozen=True):
    """A file's change by a noted commit, or by a side branch that ends with it, with the numbers of the added lines."""

    commit: str
    numbers: tuple[int, ...]


class CommitMessage(Struct, frozen=True):
    """A commit of a branch with the number of the pull request that its message names."""

    commit: str
    pull_request: str | None


def derive_notes(workspace: Workspace, remote: str) -> tuple[str, ...]:
    """Write the notes of commits that repeat noted ones, with pull requests fetched from the remote as needed; return
    the commits with a new note. Raises GitError, NotesBusy, UnknownRemote.
    """
    notes = NotesRef(workspace)
    noted = notes.list_notes(notes.read_tip())
    messages = list_newest_commits(notes.git)
    if not noted or not messages:
        return ()
    present = notes.find_present_commits(noted)
    absent = noted.keys() - present
    numbers = {m.pull_request for m in messages if m.pull_request and m.commit not in noted}
    pulls: dict[str, str] = {}
    if absent or numbers:
        # Commits are fetched only where noted ones are not here.
        pulls = notes.fetch_pull_requests(remote, numbers, absent, MAX_PULL_REQUESTS if absent else 0)
        present = notes.find_present_commits(noted)
    derived = RepeatedCommits(workspace, present, pulls).derive(messages)
    written: set[str] = set()

    def change(existing: NotesByCommit) -> NotesByCommit:
        merged = {commit: merge_below(existing.get(commit), note) for commit, note in derived.items()}
        texts = {commit: text for commit, text in merged.items() if text is not None}
        written.update(commit for commit, text in texts.items() if text != existing.get(commit))
        return texts

    notes.update_notes(derived, change)
    return tuple(sorted(written))


def list_newest_commits(git: Git) -> list[CommitMessage]:
    """Return the newest commits of all branches, local and remote, without merges. Raises GitError."""
    if git.read_head() is None:
        return []
    limits = ("--no-merges", f"--max-count={MAX_COMMITS}", "-z", "--format=%H%n%B")
    rows = git.text("log", *limits, "HEAD", "--branches", "--remotes", "--").split("\0")
    split = (row.partition("\n") for row in rows if row)
    found = ((commit, PULL_REQUEST_NUMBER.search(message)) for commit, _, message in split)
    return [CommitMessage(commit, (match[1] or match[2]) if match else None) for commit, match in found]


def merge_below(existing: bytes | None, derived: authorship_notes.Note) -> bytes | None:
    """Merge a derived note into an existing note; existing entries win. None if the existing text is no authorship
    note.
    """
    if existing is None:
        return authorship_notes.write_note(derived).encode()
    try:
        return authorship_notes.write_note(
            authorship_notes.merge_notes(authorship_notes.parse_note(existing.decode()), derived)
        ).encode()
    except (authorship_notes.InvalidNote, UnicodeError):
        return None


class RepeatedCommits:
    """Search for the originals of commits, in one repository. `noted` are the noted commits that are here, `pulls` the
    last commits of pull requests by number.
    """

    def __init__(self, workspace: Workspace, noted: Iterable[str], pulls: Mapping[str, str]) -> None:
        self.git = find_top(workspace)
        self.noted_lines = NotedLines(workspace)
        self.pulls = pulls
        self.blamed: dict[tuple[str, str], list[GitLine]] = {}
        names = "".join(f"{commit}\n" for commit in sorted(noted)).encode()
        options = ("--no-walk=sorted", f"--max-count={MAX_ORIGINALS}", "--stdin")
        self.noted = self.git.run("rev-list", *options, stdin=names).decode().split() if names else []
        self.by_lines: dict[ChangeName, list[KnownChange]] = {}
        self.by_content: dict[ChangeName, list[KnownChange]] = {}
        for patch in read_patches(self.git, self.noted, "-M", "--full-index"):
            self.by_lines.setdefault(name_by_lines(patch), []).append(make_known_change(patch))
            self.by_content.setdefault(name_by_content(patch), []).append(make_known_change(patch))
        self.by_lines_of_branch: dict[ChangeName, list[KnownChange]] = {}
        for patch in self.read_side_branches():
            self.by_lines_of_branch.setdefault(name_by_lines(patch), []).append(make_known_change(patch))

    def derive(self, messages: Sequence[CommitMessage]) -> dict[str, authorship_notes.Note]:
        """Return the derived notes by commit. Raises GitError."""
        pull_requests = {message.commit: message.pull_request for message in messages}
        known = self.noted_lines.notes.read_notes(pull_requests)
        derived: dict[str, authorship_notes.Note] = {}
        patches = read_patches(self.git, pull_requests, "-M", "--full-index")
        for commit, of_commit in groupby(patches, lambda patch: patch.commit):
            added = [
                patch
                for patch in of_commit
                if patch.path and authorship_notes.is_attestable_path(patch.path) and patch.new
            ]
            claims = self.find_claims(added, self.pulls.get(pull_requests[commit] or ""))
            claims = drop_known_lines(claims, known.get(commit))
            if any(claims.values()):
                derived[commit] = make_derived_note(commit, claims)
        return derived

    def find_claims(self, patches: Sequence[FilePatch], tip: str | None) -> dict[str, dict[int, NoteClaim]]:
        """Return the claims of a commit's lines by path; `tip` ends the pull request that its message names."""
        claims: dict[str, dict[int, NoteClaim]] = {}
        is_repetition = False
        for patch in patches:
            found, is_exact = self.find_claims_of_file(patch, tip)
            texts = dict(zip(patch.added_numbers, patch.new, strict=False))
            if not is_exact:
                runs = [range(first, last + 1) for first, last in make_spans(found)]
                found = {n: found[n] for run in runs if is_distinctive(texts[n] for n in run) for n in run}
            is_repetition |= is_distinctive(texts[n] for n in found)
            claims[str(patch.path)] = found
        return claims if is_repetition else {}

    def find_claims_of_file(self, patch: FilePatch, tip: str | None) -> tuple[dict[int, NoteClaim], bool]:
        """Return the claims of the lines that a patch adds, and whether their originals are exactly alike. Lines for
        which two originals name different authors have none.
        """
        found: list[dict[int, NoteClaim]] = []
        for original in self.find_originals(patch, tip):
            claims = self.claims_of_original(original)
            if claims and original.commit == tip:
                return claims, original.is_exact
            found += [claims] if claims else []
            if len(found) == MAX_CANDIDATES:
                break
        united = {n: claim for claims in reversed(found) for n, claim in claims.items()}
        agreed = {
            n: claim
            for n, claim in united.items()
            if all(claims[n].author.session == claim.author.session for claims in found if n in claims)
        }
        return agreed, True

    def find_originals(self, patch: FilePatch, tip: str | None) -> Iterator[Original]:
        path, numbers = str(patch.path), patch.added_numbers
        if tip and (original := self.find_in_pull_request(patch, tip)):
            yield original
        same_change = [c for c in self.by_lines.get(name_by_lines(patch), ()) if c.commit != patch.commit]
        for change in same_change:
            yield Original(change.commit, path, dict(zip(numbers, change.numbers, strict=True)), is_author=True)
        same_content = [c for c in self.by_content.get(name_by_content(patch), ()) if c.commit != patch.commit]
        for change in same_content if not same_change else ():
            yield Original(change.commit, path, {n: n for n in numbers})
        for change in self.by_lines_of_branch.get(name_by_lines(patch), ()):
            yield Original(change.commit, path, dict(zip(numbers, change.numbers, strict=True)))

    def find_in_pull_request(self, patch: FilePatch, tip: str) -> Original | None:
        """Return the file of the pull request, with the lines that git's diff finds in both; None without the file."""
        name = f"{tip}:{patch.path}"
        blob = self.git.text("rev-parse", "--verify", "--quiet", "--end-of-options", name, ok=(0, 1, 128))
        if not blob or not patch.blob:
            return None
        if blob == patch.blob:
            return Original(tip, str(patch.path), {n: n for n in patch.added_numbers})
        options = [option for option in PATCH_OPTIONS if option not in ("-r", "--root", "-c")]
        difference = next(parse_patches(self.git.run("diff", *options, *PREFIX_OPTIONS, blob, patch.blob)), None)
        if difference is None:
            return None
        numbers = patch.added_numbers
        kept = dict(trace_hunks(difference.hunks, max(numbers)))
        return Original(tip, str(patch.path), {n: kept[n - 1] + 1 for n in numbers if n - 1 in kept}, is_exact=False)

    def claims_of_original(self, original: Original) -> dict[int, NoteClaim]:
        if not original.numbers:
            return {}
        if original.is_author:
            version = FileVersion(original.commit, original.path, None)
            lines = {n: GitLine(version, n, n, b"") for n in original.numbers.values()}
            claims = self.noted_lines.find_claims(list(lines.values()))
        else:
            claims = self.noted_lines.find_claims(self.blame(original.commit, original.path))
        return {n: claims[number] for n, number in original.numbers.items() if number in claims}

    def blame(self, commit: str, path: str) -> list[GitLine]:
        if (commit, path) not in self.blamed and len(self.blamed) < MAX_BLAMES:
            output = self.git.run("blame", "--porcelain", "--ignore-revs-file=", commit, "--", path, ok=(0, 128))
            self.blamed[commit, path] = parse_porcelain(output).lines
        return self.blamed.get((commit, path), [])

    def read_side_branches(self) -> Iterator[FilePatch]:
        merged = self.git.text("rev-parse", "HEAD", "--glob=refs/remotes/*/HEAD").split()
        starts = [*self.noted, *self.pulls.values(), *(f"^{commit}" for commit in merged)]
        question = "".join(f"{name}\n" for name in starts).encode()
        output = self.git.run("rev-list", "--parents", f"--max-count={MAX_SIDE_COMMITS}", "--stdin", stdin=question)
        parents = {row[0]: row[1:] for row in map(str.split, output.decode().splitlines())}
        inner = {parent for found in parents.values() for parent in found}
        tips = [commit for commit in parents if commit not in inner]
        for tip in tips[:MAX_SIDE_BRANCHES]:
            base = self.git.text("merge-base", "HEAD", tip, ok=(0, 1))
            if base and parents[tip] != [base]:
                options = [option for option in PATCH_OPTIONS if option not in ("--root", "-c")]
                output = self.git.run("diff-tree", *options, *PREFIX_OPTIONS, "-M", "--full-index", base, tip)
                for patch in parse_patches(output):
                    patch.commit = tip
                    yield patch


def find_top(workspace: Workspace) -> Git:
    git = Git(workspace.root)
    return Git(workspace.root / (git.text("rev-parse", "--show-cdup") or "."))


def make_known_change(patch: FilePatch) -> KnownChange:
    return KnownChange(patch.commit, tuple(patch.added_numbers))


def name_by_lines(patch: FilePatch) -> ChangeName:
    lines = (
        b"%s%d\0%s" % (sign, len(line), line) for sign, of in ((b"-", patch.old), (b"+", patch.new)) for line in of
    )
    return str(patch.path), hashlib.sha256(b"".join(lines)).hexdigest()


def name_by_content(patch: FilePatch) -> ChangeName:
    return str(patch.path), str(patch.blob)


def drop_known_lines(
    claims: Mapping[str, Mapping[int, NoteClaim]], text: bytes | None
) -> dict[str, Mapping[int, NoteClaim]]:
    """Return the claims without the lines that the commit's own note claims; none if its text is no note."""
    if text is None:
        return dict(claims)
    try:
        note = authorship_notes.parse_note(text.decode())
    except (authorship_notes.InvalidNote, UnicodeError):
        return {}
    known = {path: find_claims_of_note(note, path, list(lines)) for path, lines in claims.items()}
    return {path: {n: c for n, c in lines.items() if n not in known[path]} for path, lines in claims.items()}


def make_derived_note(commit: str, claims: Mapping[str, Mapping[int, NoteClaim]]) -> authorship_notes.Note:
    files: list[authorship_notes.FileAttestation] = []
    likely: dict[str, dict[str, Sequence[Span]]] = {}
    used: dict[str, NoteClaim] = {}
    for path, lines in claims.items():
        attested: dict[str, list[int]] = {}
        uncertain: dict[str, list[int]] = {}
        for number, claim in sorted(lines.items()):
            used.setdefault(claim.key, claim)
            (uncertain if claim.likely else attested).setdefault(claim.key, []).append(number)
        entries = tuple(authorship_notes.Attestation(key, make_spans(numbers)) for key, numbers in attested.items())
        files += [authorship_notes.FileAttestation(path, entries)] if entries else []
        for key, numbers in uncertain.items():
            likely.setdefault(key, {})[path] = make_spans(numbers)
    origins = {str(claim.note.metadata.get("base_commit_sha")) for lines in claims.values() for claim in lines.values()}
    metadata: dict[str, Any] = {"schema_version": authorship_notes.VERSION, "base_commit_sha": commit, "prompts": {}}
    for name in ("prompts", "humans"):
        entries_by_key = {key: as_object(claim.note.metadata.get(name)).get(key) for key, claim in used.items()}
        if kept := {key: entry for key, entry in sorted(entries_by_key.items()) if entry is not None}:
            metadata[name] = kept
    sessions = {key.partition("::")[0] for key in used if key.startswith("s_")}
    if sessions:
        metadata["sessions"] = {
            session: describe_session(session, used, likely, sorted(origins)) for session in sorted(sessions)
        }
    return authorship_notes.Note(tuple(files), metadata)


def describe_session(
    session: str,
    used: Mapping[str, NoteClaim],
    likely: Mapping[str, Mapping[str, Sequence[Span]]],
    origins: Sequence[str],
) -> dict[str, Any]:
    """Return a session's entry from its notes, with the attributes of the claimed edits."""
    entry: dict[str, Any] = {}
    by_trace: dict[str, dict[str, str]] = {}
    for key, claim in used.items():
        name, _, trace = key.partition("::")
        if name == session:
            entry = as_object(as_object(claim.note.metadata.get("sessions")).get(session))
            given = as_object(entry.get("custom_attributes"))
            texts = {k: v for k, v in given.items() if isinstance(v, str) and not k.startswith(NOT_INHERITED)}
            by_trace[trace] = authorship_notes.select_attributes(texts, trace)
    attributes = {**authorship_notes.merge_attributes(by_trace), authorship_notes.DERIVED_ATTRIBUTE: " ".join(origins)}
    for trace in by_trace:
        if lines := likely.get(f"{session}::{trace}"):
            attributes |= authorship_notes.encode_likely_lines(trace, lines)
    return {**entry, "custom_attributes": attributes}


NOT_INHERITED = (
    authorship_notes.LIKELY_ATTRIBUTE,
    authorship_notes.LEDGER_ATTRIBUTE,
    authorship_notes.DERIVED_ATTRIBUTE,
)
"""Attributes that say something of the original note alone."""
