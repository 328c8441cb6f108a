"""Authorship notes in git: a ref with a blob per commit, read and written in batches.

The tree is always `ab/cdef…`: mixed depths make some versions of `git notes merge` fail. HEAD, index and work tree stay
untouched. Source: git-notes(1), git-fast-import(1), read 2026-11.
"""

import hashlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct

from remit.core.formats.authorship_notes import InvalidNote, merge_notes, parse_note, write_note
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.refs import NOTES_REF, may_have_ref
from remit.workspace.git.tree_files import parse_batch_output
from remit.workspace.place.workspace import Workspace

TRACKING_REFS = "refs/remit/notes"
MAX_NOTE_BYTES = 64 << 20
"""Limit per note; the largest real note seen has 3.2 MB. Larger notes are not read."""

REF_LOCKED_TEXT = "cannot lock ref"
MAX_TRIES = 12
RETRY_PAUSE_S = 0.05

NETWORK_OPTIONS = tuple(
    part for name in ("file", "git", "ssh", "http", "https") for part in ("-c", f"protocol.{name}.allow=always")
)
"""Options that allow the network on a person's request, except `ext::`, which runs a program."""

FETCH_OPTIONS = ("--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "--refmap=")
PUSH_OPTIONS = ("--quiet", "--no-verify", "--no-follow-tags", "--recurse-submodules=no", "--no-signed")

_NOTE_PATH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")

NotesByCommit = Mapping[str, bytes]
"""Notes by commit."""


class NotesBusy(RuntimeError):
    """Other writers kept changing the notes, or left a lock."""

    def __init__(self, ref: str) -> None:
        super().__init__(
            f"{ref!r} could not be written in {MAX_TRIES} tries: somebody else writes it, or left a lock"
            "\nhint: try again; where no git runs, delete the file `.git/refs/notes/ai.lock`"
        )


class UnknownRemote(ValueError):
    """Neither a remote nor its address."""

    def __init__(self, remote: str) -> None:
        super().__init__(f"{remote!r} is no remote; expected a name from `git remote`, or a URL")


class SyncResult(Struct, frozen=True):
    """Result of an exchange with a remote. `unread` are commits with two notes that could not be merged: ours stays."""

    received: int = 0
    pushed: bool = False
    unread: tuple[str, ...] = ()


class NoteEntry(Struct, frozen=True):
    """A note's path in the tree, and its blob."""

    path: str
    blob: str


class NotesRef:
    """The notes of a repository."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.git = Git(workspace.root)

    def may_have_notes(self) -> bool:
        """Return whether notes may exist, without starting git."""
        return may_have_ref(self.workspace.common_dir, NOTES_REF)

    def read_tip(self, ref: str = NOTES_REF) -> str | None:
        """Return the commit that holds the notes; None if none."""
        return self.git.text("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}", ok=(0, 1, 128)) or None

    def read_notes(self, commits: Iterable[str], tip: str = NOTES_REF) -> dict[str, bytes]:
        """Return the notes of the commits, with two git processes for any number. Raises GitError."""
        query = [(commit, f"{tip}:{path}") for commit in dict.fromkeys(commits) for path in note_paths(commit)]
        if not query:
            return {}
        names = "".join(f"{name}\n" for _, name in query).encode()
        out = self.git.run("cat-file", "--batch-check=%(objecttype) %(objectsize) %(objectname)", stdin=names)
        rows = [line.split(" ") for line in out.decode("ascii", "replace").splitlines()]
        fit = [
            (commit, row[2])
            for (commit, _), row in zip(query, rows, strict=True)
            if row[0] == "blob" and len(row) == 3 and int(row[1]) <= MAX_NOTE_BYTES
        ]
        contents = self.read_blobs(blob for _, blob in fit)
        return {commit: contents[blob] for commit, blob in fit if blob in contents}

    def read_blobs(self, names: Iterable[str]) -> dict[str, bytes]:
        query = list(dict.fromkeys(names))
        out = self.git.run("cat-file", "--batch", stdin="".join(f"{n}\n" for n in query).encode()) if query else b""
        return {name: found for name, found in zip(query, parse_batch_output(out), strict=True) if found is not None}

    def list_notes(self, tip: str | None) -> dict[str, list[NoteEntry]]:
        """Return each note of a tree by commit; several if depths are mixed."""
        found: dict[str, list[NoteEntry]] = {}
        out = self.git.text("ls-tree", "--full-tree", "-r", "-z", tip) if tip else ""
        for row in out.split("\0")[:-1]:
            about, _, path = row.partition("\t")
            commit = path.replace("/", "")
            if _NOTE_PATH.fullmatch(commit) and about.split(" ")[1] == "blob":
                found.setdefault(commit, []).append(NoteEntry(path, about.split(" ")[2]))
        return found

    def update_notes(self, commits: Iterable[str], change: Callable[[NotesByCommit], NotesByCommit]) -> int:
        """Replace the notes of these commits by the result of `change`; return the number changed.

        After a concurrent write, `change` is called again with the new notes. Raises GitError, NotesBusy.
        """
        query = tuple(commits)
        for _ in range(MAX_TRIES):
            tip = self.read_tip()
            known = self.read_notes(query, tip) if tip else {}
            fresh = {commit: text for commit, text in change(known).items() if known.get(commit) != text}
            if not fresh or self.write_commit(fresh, tip):
                return len(fresh)
            time.sleep(RETRY_PAUSE_S)
        raise NotesBusy(NOTES_REF)

    def write_commit(self, fresh: NotesByCommit, tip: str | None, other: str | None = None) -> bool:
        """Commit notes on `tip`, merged with `other` if given; return False if the ref moved meanwhile."""
        stream = b"".join(commit_stream(fresh, self.list_notes(tip), tip, other))
        try:
            self.git.run("fast-import", "--quiet", "--done", "--date-format=now", stdin=stream)
        except GitError as error:
            if self.read_tip() == tip and REF_LOCKED_TEXT not in error.message:
                raise
            return False
        return True

    def move_ref(self, to: str, tip: str | None) -> bool:
        """Move the ref to commit `to`; return False if the ref moved meanwhile."""
        try:
            self.git.run("update-ref", "-m", "notes fetched by Remit", NOTES_REF, to, tip or "0" * len(to))
        except GitError as error:
            if self.read_tip() == tip and REF_LOCKED_TEXT not in error.message:
                raise
            return False
        return True

    def sync_remote(self, remote: str, *, push: bool) -> SyncResult:
        """Fetch a remote's notes, and push ours with `push`. Never forces; concurrent writes are merged.

        Raises GitError, NotesBusy, UnknownRemote.
        """
        check_remote_name(remote)
        received: set[str] = set()
        unread: set[str] = set()
        for _ in range(MAX_TRIES):
            theirs, tip = self.fetch_notes(remote), self.read_tip()
            if theirs and theirs != tip:
                merged = self.merge_notes(tip, theirs, unread)
                if merged is None:
                    continue
                received |= merged
                tip = self.read_tip()
            if tip in (theirs, None) or not push:
                return SyncResult(len(received), False, tuple(sorted(unread)))
            if self.push_notes(remote, str(tip)):
                return SyncResult(len(received), True, tuple(sorted(unread)))
            time.sleep(RETRY_PAUSE_S)
        raise NotesBusy(f"{remote}: {NOTES_REF}")

    def fetch_notes(self, remote: str) -> str | None:
        """Fetch the remote's notes; None if the remote has none."""
        out = self.run_over_network("ls-remote", "--", remote, NOTES_REF).decode("utf-8", "replace")
        if NOTES_REF not in [line.partition("\t")[2] for line in out.splitlines()]:
            return None
        ref = tracking_ref(remote)
        self.run_over_network("fetch", *FETCH_OPTIONS, "--", remote, f"+{NOTES_REF}:{ref}")
        return self.read_tip(ref)

    def run_over_network(self, *arguments: str) -> bytes:
        """Run git with the network allowed. Raises GitError."""
        try:
            return self.git.run(*NETWORK_OPTIONS, *arguments)
        except GitError as error:
            raise GitError(arguments, error.code, error.message) from error

    def merge_notes(self, tip: str | None, theirs: str, unread: set[str]) -> set[str] | None:
        """Merge both sides; return the commits with a changed note. None if the ref moved meanwhile.

        Commits whose notes cannot be merged are added to `unread`.
        """
        if tip and self.is_ancestor(theirs, tip):
            return set()
        ours, other = self.list_notes(tip), self.list_notes(theirs)
        differing = {commit for commit in other if first_blob(ours, commit) != first_blob(other, commit)}
        if tip is None or self.is_ancestor(tip, theirs):
            return differing if self.move_ref(theirs, tip) else None
        mine = self.read_notes(differing, tip)
        fresh: dict[str, bytes] = {}
        read = self.read_notes(differing, theirs)
        unread |= differing - read.keys()
        for commit, text in read.items():
            united = merge_note_texts(mine[commit], text) if commit in mine else text
            if united is None:
                unread.add(commit)
            elif united != mine.get(commit):
                fresh[commit] = united
        return set(fresh) if self.write_commit(fresh, tip, theirs) else None

    def is_ancestor(self, one: str, of: str) -> bool:
        """Return whether `of` contains `one`."""
        try:
            self.git.run("merge-base", "--is-ancestor", one, of)
        except GitError as error:
            if error.code != 1:
                raise
            return False
        return True

    def push_notes(self, remote: str, tip: str) -> bool:
        """Push the notes; return False if a concurrent push came first."""
        try:
            self.run_over_network("push", *PUSH_OPTIONS, "--", remote, f"{tip}:{NOTES_REF}")
        except GitError as error:
            theirs = self.fetch_notes(remote)
            if theirs is None or self.is_ancestor(theirs, tip):
                raise error
            return False
        return True


def check_remote_name(remote: str) -> str:
    """Return the remote. Raises UnknownRemote for a name that git would read as an option."""
    if not remote or remote.startswith("-") or "\n" in remote:
        raise UnknownRemote(remote)
    return remote


def note_paths(commit: str) -> tuple[str, ...]:
    """Return the possible paths of a commit's note: Remit's depth first, then git's other depths."""
    return note_path(commit), commit, f"{commit[:2]}/{commit[2:4]}/{commit[4:]}"


def note_path(commit: str) -> str:
    return f"{commit[:2]}/{commit[2:]}"


def first_blob(listed: Mapping[str, list[NoteEntry]], commit: str) -> str | None:
    return listed[commit][0].blob if commit in listed else None


def commit_stream(
    fresh: NotesByCommit, listed: Mapping[str, list[NoteEntry]], tip: str | None, other: str | None
) -> Iterator[bytes]:
    """Yield a commit that adds the notes and moves the rest to the same depth."""
    yield f"commit {NOTES_REF}\ncommitter Remit <remit@localhost> now\ndata 15\nNotes by Remit\n".encode()
    if tip:
        yield f"from {tip}\n".encode()
    if other:
        yield f"merge {other}\n".encode()
    for commit, places in listed.items():
        path = note_path(commit)
        astray = [place for place in places if place.path != path]
        yield "".join(f"D {place.path}\n" for place in astray).encode()
        if len(astray) == len(places) and commit not in fresh:
            yield f"M 100644 {places[0].blob} {path}\n".encode()
    for commit, text in sorted(fresh.items()):
        yield f"M 100644 inline {note_path(commit)}\ndata {len(text)}\n".encode() + text + b"\n"
    yield b"done\n"


def merge_note_texts(ours: bytes, theirs: bytes) -> bytes | None:
    """Return both notes merged; None if either is no authorship note."""
    try:
        return write_note(merge_notes(parse_note(ours.decode()), parse_note(theirs.decode()))).encode()
    except (InvalidNote, UnicodeError):
        return None


def tracking_ref(remote: str) -> str:
    plain = _PLAIN_NAME.fullmatch(remote) is not None
    return f"{TRACKING_REFS}/{remote if plain else hashlib.sha256(remote.encode()).hexdigest()[:16]}"
