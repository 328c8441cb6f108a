"""Authorship notes as git keeps them: one ref, one blob a commit, read and written in batches.

The tree is always `ab/cdef…`: trees of mixed depth make some versions of `git notes merge` fail.
Neither HEAD, the index nor the work tree is touched. Source: git-notes(1), git-fast-import(1), read 2026-11.
"""

import hashlib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from msgspec import Struct

from remit.core.authorship import NotANote, merged_notes, parse_note, write_note
from remit.workspace.contents import batch
from remit.workspace.git import Git, GitError
from remit.workspace.place import Workspace
from remit.workspace.refs import AUTHORSHIP, may_be_there

TRACKING = "refs/remit/notes"
MOST_BYTES = 64 << 20
"""Of one note; the largest real one seen has 3.2 MB. A larger one is not read."""

LOCKED = "cannot lock ref"
TRIES = 12
PAUSE_S = 0.05

OVERRIDING = tuple(
    part for name in ("file", "git", "ssh", "http", "https") for part in ("-c", f"protocol.{name}.allow=always")
)
"""A person asked for the network: what reading forbids is let through, but for `ext::`, which runs a program."""

_NOTE_PATH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")

Contents = Mapping[str, bytes]
"""Notes by their commits."""


class NotesBusy(RuntimeError):
    """Others kept writing the notes while we did, or left a lock."""

    def __init__(self, ref: str) -> None:
        super().__init__(
            f"{ref!r} could not be written in {TRIES} tries: somebody else writes it, or left a lock"
            "\nhint: try again; where no git runs, delete the file `.git/refs/notes/ai.lock`"
        )


class UnknownRemote(ValueError):
    """No remote, nor an address of one."""

    def __init__(self, remote: str) -> None:
        super().__init__(f"{remote!r} is no remote; expected a name from `git remote`, or a URL")


class Synced(Struct, frozen=True):
    """What an exchange with a remote did. `unread` are commits whose two notes could not be made one: ours stands."""

    received: int = 0
    pushed: bool = False
    unread: tuple[str, ...] = ()


class Listed(Struct, frozen=True):
    """A note's place in a tree, and its blob."""

    path: str
    blob: str


class Notes:
    """The notes of one repository."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.git = Git(workspace.root)

    def there(self) -> bool:
        """Whether there may be notes, without starting git."""
        return may_be_there(self.workspace.common_dir, AUTHORSHIP)

    def tip(self, ref: str = AUTHORSHIP) -> str | None:
        """The commit that holds the notes; None where there are none."""
        return self.git.text("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}", ok=(0, 1, 128)) or None

    def read(self, commits: Iterable[str], tip: str = AUTHORSHIP) -> dict[str, bytes]:
        """The notes of those commits that have one. git is started twice, however many they are. Raises GitError."""
        asked = [(commit, f"{tip}:{path}") for commit in dict.fromkeys(commits) for path in spellings(commit)]
        if not asked:
            return {}
        names = "".join(f"{name}\n" for _, name in asked).encode()
        out = self.git.run("cat-file", "--batch-check=%(objecttype) %(objectsize) %(objectname)", stdin=names)
        rows = [line.split(" ") for line in out.decode("ascii", "replace").splitlines()]
        fit = [
            (commit, row[2])
            for (commit, _), row in zip(asked, rows, strict=True)
            if row[0] == "blob" and len(row) == 3 and int(row[1]) <= MOST_BYTES
        ]
        contents = self.blobs(blob for _, blob in fit)
        return {commit: contents[blob] for commit, blob in fit if blob in contents}

    def blobs(self, names: Iterable[str]) -> dict[str, bytes]:
        """Those blobs' contents."""
        asked = list(dict.fromkeys(names))
        out = self.git.run("cat-file", "--batch", stdin="".join(f"{n}\n" for n in asked).encode()) if asked else b""
        return {name: found for name, found in zip(asked, batch(out), strict=True) if found is not None}

    def listed(self, tip: str | None) -> dict[str, list[Listed]]:
        """Every note of a tree by its commit; several where trees of another depth were mixed."""
        found: dict[str, list[Listed]] = {}
        out = self.git.text("ls-tree", "--full-tree", "-r", "-z", tip) if tip else ""
        for row in out.split("\0")[:-1]:
            about, _, path = row.partition("\t")
            commit = path.replace("/", "")
            if _NOTE_PATH.fullmatch(commit) and about.split(" ")[1] == "blob":
                found.setdefault(commit, []).append(Listed(path, about.split(" ")[2]))
        return found

    def update(self, commits: Iterable[str], change: Callable[[Contents], Contents]) -> int:
        """Give those commits the notes that `change` makes of the ones they have; how many are new.

        Where another writer was faster, `change` is asked again with what it wrote. Raises GitError, NotesBusy.
        """
        asked = tuple(commits)
        for _ in range(TRIES):
            tip = self.tip()
            known = self.read(asked, tip) if tip else {}
            fresh = {commit: text for commit, text in change(known).items() if known.get(commit) != text}
            if not fresh or self.written(fresh, tip):
                return len(fresh)
            time.sleep(PAUSE_S)
        raise NotesBusy(AUTHORSHIP)

    def written(self, fresh: Contents, tip: str | None, other: str | None = None) -> bool:
        """Commit those notes on `tip`, and on `other` where two are merged; False where the ref moved meanwhile."""
        stream = b"".join(commit_stream(fresh, self.listed(tip), tip, other))
        try:
            self.git.run("fast-import", "--quiet", "--done", "--date-format=now", stdin=stream)
        except GitError as error:
            if self.tip() == tip and LOCKED not in error.message:
                raise
            return False
        return True

    def moved(self, to: str, tip: str | None) -> bool:
        """Let the notes be those of commit `to`; False where the ref moved meanwhile."""
        try:
            self.git.run("update-ref", "-m", "notes fetched by Remit", AUTHORSHIP, to, tip or "0" * len(to))
        except GitError as error:
            if self.tip() == tip and LOCKED not in error.message:
                raise
            return False
        return True

    def sync(self, remote: str, *, push: bool) -> Synced:
        """Take in a remote's notes, and give it ours where `push`. Never forces; who was faster is merged with.

        Raises GitError, NotesBusy, UnknownRemote.
        """
        if not remote or remote.startswith("-") or "\n" in remote:
            raise UnknownRemote(remote)
        received: set[str] = set()
        unread: set[str] = set()
        for _ in range(TRIES):
            theirs, tip = self.fetched(remote), self.tip()
            if theirs and theirs != tip:
                merged = self.merged(tip, theirs, unread)
                if merged is None:
                    continue
                received |= merged
                tip = self.tip()
            if tip in (theirs, None) or not push:
                return Synced(len(received), False, tuple(sorted(unread)))
            if self.pushed(remote, str(tip)):
                return Synced(len(received), True, tuple(sorted(unread)))
            time.sleep(PAUSE_S)
        raise NotesBusy(f"{remote}: {AUTHORSHIP}")

    def fetched(self, remote: str) -> str | None:
        """The remote's notes, fetched; None where it has none."""
        out = self.reached("ls-remote", "--", remote, AUTHORSHIP).decode("utf-8", "replace")
        if AUTHORSHIP not in [line.partition("\t")[2] for line in out.splitlines()]:
            return None
        ref = tracking(remote)
        plain = ("--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "--refmap=")
        self.reached("fetch", "--quiet", *plain, "--", remote, f"+{AUTHORSHIP}:{ref}")
        return self.tip(ref)

    def reached(self, *arguments: str) -> bytes:
        """What git says with the network let through. Raises GitError."""
        try:
            return self.git.run(*OVERRIDING, *arguments)
        except GitError as error:
            raise GitError(arguments, error.code, error.message) from error

    def merged(self, tip: str | None, theirs: str, unread: set[str]) -> set[str] | None:
        """Make the notes those of both; the commits that got another note. None where the ref moved meanwhile.

        `unread` is given the commits whose two notes could not be made one.
        """
        if tip and self.is_ancestor(theirs, tip):
            return set()
        ours, other = self.listed(tip), self.listed(theirs)
        differing = {commit for commit in other if blob_of(ours, commit) != blob_of(other, commit)}
        if tip is None or self.is_ancestor(tip, theirs):
            return differing if self.moved(theirs, tip) else None
        mine = self.read(differing, tip)
        fresh: dict[str, bytes] = {}
        read = self.read(differing, theirs)
        unread |= differing - read.keys()
        for commit, text in read.items():
            united = merged_text(mine[commit], text) if commit in mine else text
            if united is None:
                unread.add(commit)
            elif united != mine.get(commit):
                fresh[commit] = united
        return set(fresh) if self.written(fresh, tip, theirs) else None

    def is_ancestor(self, one: str, of: str) -> bool:
        """Whether `of` holds all that `one` does."""
        try:
            self.git.run("merge-base", "--is-ancestor", one, of)
        except GitError as error:
            if error.code != 1:
                raise
            return False
        return True

    def pushed(self, remote: str, tip: str) -> bool:
        """Push; False where somebody else was faster."""
        plain = ("--quiet", "--no-verify", "--no-follow-tags", "--recurse-submodules=no", "--no-signed")
        try:
            self.reached("push", *plain, "--", remote, f"{tip}:{AUTHORSHIP}")
        except GitError as error:
            theirs = self.fetched(remote)
            if theirs is None or self.is_ancestor(theirs, tip):
                raise error
            return False
        return True


def spellings(commit: str) -> tuple[str, ...]:
    """Where the note of a commit may lie: as Remit writes it, and in git's other depths."""
    return commit_path(commit), commit, f"{commit[:2]}/{commit[2:4]}/{commit[4:]}"


def commit_path(commit: str) -> str:
    """Where Remit writes the note of a commit."""
    return f"{commit[:2]}/{commit[2:]}"


def blob_of(listed: Mapping[str, list[Listed]], commit: str) -> str | None:
    """The blob of a commit's note; None where it has none."""
    return listed[commit][0].blob if commit in listed else None


def commit_stream(
    fresh: Contents, listed: Mapping[str, list[Listed]], tip: str | None, other: str | None
) -> Iterator[bytes]:
    """One commit that adds those notes, and brings all others to the same depth."""
    yield f"commit {AUTHORSHIP}\ncommitter Remit <remit@localhost> now\ndata 15\nNotes by Remit\n".encode()
    if tip:
        yield f"from {tip}\n".encode()
    if other:
        yield f"merge {other}\n".encode()
    for commit, places in listed.items():
        path = commit_path(commit)
        astray = [place for place in places if place.path != path]
        yield "".join(f"D {place.path}\n" for place in astray).encode()
        if len(astray) == len(places) and commit not in fresh:
            yield f"M 100644 {places[0].blob} {path}\n".encode()
    for commit, text in sorted(fresh.items()):
        yield f"M 100644 inline {commit_path(commit)}\ndata {len(text)}\n".encode() + text + b"\n"
    yield b"done\n"


def merged_text(ours: bytes, theirs: bytes) -> bytes | None:
    """Both notes in one; None where one of them is no authorship note."""
    try:
        return write_note(merged_notes(parse_note(ours.decode()), parse_note(theirs.decode()))).encode()
    except (NotANote, UnicodeError):
        return None


def tracking(remote: str) -> str:
    """Where the notes of a remote are kept after fetching."""
    plain = _PLAIN_NAME.fullmatch(remote) is not None
    return f"{TRACKING}/{remote if plain else hashlib.sha256(remote.encode()).hexdigest()[:16]}"
