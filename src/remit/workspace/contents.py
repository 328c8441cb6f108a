"""Keeping the contents that records name, as git objects under a private ref so that `gc` leaves them.

Without git, and until git is asked: a folder of files.
"""

import fcntl
import os
import re
import tempfile
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from remit.core.contents import Hunk, git_blob
from remit.workspace.git import Git, GitError
from remit.workspace.place import Workspace

NAME_CHARS = 40
"""Of a git name: SHA-1 in hex, as `git_blob` makes it."""

HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


class ContentStore:
    """The contents of one workspace's records.

    A content is first written as a file named by its git name: 60 µs, where a git process costs 6 ms. `fold` takes
    the files into git, under a ref of this machine's own; without git they stay.
    """

    def __init__(self, workspace: Workspace, machine: str) -> None:
        self.workspace = workspace
        self.ref = f"refs/remit/blobs/{machine}"
        self.folder = workspace.state / "contents"

    def keep(self, contents: Iterable[bytes]) -> None:
        """Make sure that these can be had again. Raises OSError."""
        for content in contents:
            path = self.file_of(git_blob(content))
            if path.exists():
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
            try:
                fresh.write_bytes(content)
                fresh.replace(path)
            except OSError:
                fresh.unlink(missing_ok=True)
                raise

    def waiting(self) -> list[Path]:
        """The contents that are not in git yet."""
        if self.workspace.common_dir is None or not self.folder.is_dir():
            return []
        return [path for path in self.folder.glob("[0-9a-f][0-9a-f]/*") if "." not in path.name]

    def fold(self, most: int = 2000) -> int:
        """Take waiting contents into git, and only then forget the files; how many. Raises OSError, GitError.

        What lay only where git ignores files stays a file of Remit's own: git's objects may be pushed.
        """
        if not self.waiting():
            return 0
        with self.locked():
            private = self.private_blobs()
            files = [path for path in self.waiting() if name_of(path) not in private][:most]
            if not files:
                return 0
            known = Git(self.workspace.root).text("rev-parse", "-q", "--verify", self.ref, ok=(0, 1))
            stream = b"".join(self.stream(files, known or None))
            Git(self.workspace.root).run("fast-import", "--quiet", "--done", "--date-format=now", stdin=stream)
            self.forget_paths({name_of(path) for path in files})
            for path in files:
                path.unlink(missing_ok=True)
        return len(files)

    def note_paths(self, places: Iterable[tuple[str, str]]) -> None:
        """Write down where contents lie, before they are kept: (git name, path) each. Raises OSError."""
        if self.workspace.common_dir is None:
            return
        lines = b"".join(blob.encode() + os.fsencode(path) + b"\0" for blob, path in places)
        if lines:
            with self.journal(fcntl.LOCK_SH) as descriptor:
                os.write(descriptor, lines)

    def private_blobs(self) -> set[str]:
        """The waiting contents that were seen only where git ignores files. Raises OSError, GitError."""
        with self.journal(fcntl.LOCK_EX) as descriptor:
            lines = read_journal(descriptor)
        places = {path for _, path in lines}
        if not places:
            return set()
        ignored = self.ignored(sorted(places))
        return {blob for blob, _ in lines} - {blob for blob, path in lines if path not in ignored}

    def ignored(self, paths: Sequence[bytes]) -> set[bytes]:
        """Those of `paths` that git ignores; one that git does not want to tell about, in a repository inside, too."""
        asked = b"".join(path + b"\0" for path in paths)
        try:
            out = Git(self.workspace.root).run("check-ignore", "-z", "--stdin", stdin=asked, ok=(0, 1))
        except GitError:
            return {p for path in paths for p in self.ignored([path])} if len(paths) > 1 else set(paths)
        return set(out.split(b"\0"))

    def forget_paths(self, blobs: set[str]) -> None:
        """Take these contents out of what `note_paths` wrote. Raises OSError."""
        with self.journal(fcntl.LOCK_EX) as descriptor:
            kept = [(blob, path) for blob, path in read_journal(descriptor) if blob not in blobs]
            os.ftruncate(descriptor, 0)
            os.write(descriptor, b"".join(blob.encode() + path + b"\0" for blob, path in kept))

    @contextmanager
    def journal(self, lock: int) -> Generator[int]:
        """The file that tells where waiting contents lie: shared to append, alone to rewrite."""
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.folder / "paths", os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, lock)
            yield descriptor
        finally:
            os.close(descriptor)

    def stream(self, files: Sequence[Path], known: str | None) -> Iterator[bytes]:
        """One commit on the private ref that holds the contents. Source: git-fast-import(1), read 2026-11."""
        for mark, path in enumerate(files, 1):
            content = path.read_bytes()
            yield b"blob\nmark :%d\ndata %d\n%s\n" % (mark, len(content), content)
        yield f"commit {self.ref}\ncommitter Remit <remit@localhost> now\ndata 0\n".encode()
        if known:
            yield f"from {known}\n".encode()
        for mark, path in enumerate(files, 1):
            yield f"M 100644 :{mark} {path.parent.name}/{path.name}\n".encode()
        yield b"\ndone\n"

    def load(self, blob: str) -> bytes | None:
        """The content of that git name; None where it is not at hand."""
        waiting = self.waiting_content(blob)
        if waiting is not None:
            return waiting
        if self.workspace.common_dir is None:
            return None
        try:
            return Git(self.workspace.root).run("cat-file", "blob", blob)
        except GitError:
            return None

    def waiting_content(self, blob: str) -> bytes | None:
        """A content that git does not have yet; None also where a crash left it torn."""
        try:
            content = self.file_of(blob).read_bytes()
        except OSError:
            return None
        return content if git_blob(content) == blob else None

    def diff(self, old: bytes, new: bytes) -> str:
        """A unified diff between two contents, as git shows it, without the header."""
        with scratch(self.workspace.state, old, new) as (a, b):
            out = Git(self.workspace.state).run(
                "diff", "--no-index", "--no-color", "--no-ext-diff", "--no-textconv", a, b, ok=(0, 1)
            )
        text = out.decode("utf-8", "replace")
        return text[text.find("@@") :] if "@@" in text else ""

    def load_many(self, blobs: Iterable[str]) -> dict[str, bytes]:
        """The contents of those git names that are at hand: one git for all."""
        asked = list(dict.fromkeys(blobs))
        staged = {blob: found for blob in asked if (found := self.waiting_content(blob)) is not None}
        rest = [blob for blob in asked if blob not in staged]
        if not rest or self.workspace.common_dir is None:
            return staged
        out = Git(self.workspace.root).run("cat-file", "--batch", stdin="".join(f"{b}\n" for b in rest).encode())
        found = zip(rest, batch(out), strict=True)
        return {**staged, **{blob: content for blob, content in found if content is not None}}

    def hunks(self, pairs: Mapping[str, tuple[bytes, bytes]]) -> dict[str, tuple[Hunk, ...]]:
        """How the second content of each pair differs from the first, by git's diff: one git for all."""
        if not pairs:
            return {}
        with scratch_folders(self.workspace.state, pairs) as (folder, names):
            out = Git(folder).run(
                *("-c", "core.autocrlf=false", "diff", "--no-index", "--no-color", "--no-ext-diff", "--no-textconv"),
                *("--no-renames", "--inter-hunk-context=0", "-U0", "--text", "old", "new"),
                ok=(0, 1),
            )
        return {**dict.fromkeys(pairs, ()), **{names[n]: tuple(found) for n, found in read_hunks(out).items()}}

    @contextmanager
    def locked(self) -> Generator[None]:
        """One writer of the ref at a time."""
        self.workspace.state.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.workspace.state / "contents.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def file_of(self, blob: str) -> Path:
        """Where a content lies until git has it."""
        return self.folder / blob[:2] / blob[2:]


def name_of(path: Path) -> str:
    """The git name of a waiting content, from where it lies."""
    return path.parent.name + path.name


def read_journal(descriptor: int) -> list[tuple[str, bytes]]:
    """(git name, path) of each line; a torn last line is none."""
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        lines = file.read().split(b"\0")[:-1]
    return [(line[:NAME_CHARS].decode("ascii", "replace"), line[NAME_CHARS:]) for line in lines]


@contextmanager
def scratch(folder: Path, *contents: bytes) -> Generator[list[str]]:
    """Files that hold these contents for as long as the block runs."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"scratch.{os.getpid()}.{n}" for n in range(len(contents))]
    try:
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(content)
        yield [str(path) for path in paths]
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


@contextmanager
def scratch_folders(folder: Path, pairs: Mapping[str, tuple[bytes, bytes]]) -> Generator[tuple[Path, dict[str, str]]]:
    """`old/` and `new/` with one numbered file for each pair, and which number stands for which name."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="scratch.", dir=folder) as name:
        here = Path(name)
        numbers: dict[str, str] = {}
        for side in ("old", "new"):
            (here / side).mkdir()
        for number, (path, (old, new)) in enumerate(pairs.items()):
            (here / "old" / str(number)).write_bytes(old)
            (here / "new" / str(number)).write_bytes(new)
            numbers[str(number)] = path
        yield here, numbers


def read_hunks(diff: bytes) -> dict[str, list[Hunk]]:
    """The hunks of a `-U0` diff, by the number of the file. A content line begins with a sign, a header never."""
    found: dict[str, list[Hunk]] = {}
    number = ""
    for line in diff.split(b"\n"):
        if line.startswith(b"diff --git "):
            number = line.rpartition(b"/")[2].decode()
        elif header := HUNK.match(line):
            old, old_lines, new, new_lines = (int(part) if part is not None else 1 for part in header.groups())
            found.setdefault(number, []).append(Hunk(old, old_lines, new, new_lines))
    return found


def batch(out: bytes) -> Iterator[bytes | None]:
    """The contents in the output of `cat-file --batch`; None for an object that is missing."""
    at = 0
    while at < len(out):
        end = out.index(b"\n", at)
        fields = out[at:end].rsplit(b" ", 2)
        if not fields[-1].isdigit():
            yield None
            at = end + 1
            continue
        size = int(fields[-1])
        yield out[end + 1 : end + 1 + size]
        at = end + size + 2
