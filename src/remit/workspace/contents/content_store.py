"""Keeping the contents that records name, as git objects under a private ref so that `gc` leaves them.

Without git, and until git is asked: a folder of files.
"""

import os
import re
import threading
from collections import OrderedDict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from remit.core.diff.contents import Hunk, hash_git_blob
from remit.workspace.contents.pending import PendingContent, PendingContents
from remit.workspace.contents.remit_repository import RemitRepository, object_reader
from remit.workspace.files.locks import lock_file
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.refs import may_have_refs_below
from remit.workspace.place.workspace import Workspace, path_exists

HUNK_HEADER = re.compile(rb"-(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")

BLOBS_REF = "refs/remit/blobs"
MIGRATION_BATCH = 1000
"""Contents of an older version that are taken over together."""

MAX_RECENT = 8
MAX_RECENT_BYTES = 1 << 18


class ContentStore:
    """The contents of one workspace's records.

    A content first waits in a file of ours: 20 µs, where a git process costs 6 ms. `fold` takes it into git, under a
    ref of this machine's own. Without git, or where git ignores it, it becomes a file named by its git name.
    """

    def __init__(self, workspace: Workspace, machine: str) -> None:
        self.workspace = workspace
        self.ref = f"{BLOBS_REF}/{machine}"
        self.folder = workspace.state / "contents"
        self.pending = PendingContents(self.folder / "waiting")
        self.recent: OrderedDict[str, bytes] = OrderedDict()
        """What was kept last: most of it is asked for when its call comes back. A name stands for one content only."""

    def keep_contents(self, contents: Iterable[tuple[str, str, bytes]]) -> None:
        """Make sure that these can be had again: (git name, path, content). Raises OSError.

        The path is where it lies in the workspace; empty where it is no file of it.
        """
        entries = [(blob, os.fsencode(path), content) for blob, path, content in contents]
        if entries:
            self.pending.add(entries)
            self.recent.update((blob, content) for blob, _, content in entries if len(content) <= MAX_RECENT_BYTES)
        while len(self.recent) > MAX_RECENT:
            self.recent.popitem(last=False)

    def has_own_file(self, blob: str) -> bool:
        """Whether the content is a file of Remit's own, which git may not have."""
        return path_exists(self.own_file_path(blob))

    def list_pending(self) -> list[PendingContent]:
        """The contents that no fold has taken yet. Raises OSError."""
        return self.pending.list_entries()

    def fold_into_git(self, max_count: int = 2000) -> set[str]:
        """Take waiting contents into git, and only then forget them here; their names. Raises OSError, GitError.

        What lay only where git ignores files becomes a file of Remit's own: git's objects may be pushed.
        """
        if not self.list_pending():
            return set()
        with self.lock_store():
            entries = self.list_pending()[:max_count]
            if not entries:
                return set()
            contents = {e.blob: found for e in entries if (found := self.read_without_git(e.blob)) is not None}
            apart = self.find_ignored_blobs(entries) & contents.keys()
            for blob in apart:
                self.write_own_file(blob, contents.pop(blob))
            if contents:
                self.import_into_git(contents)
            self.pending.drop_entries_before(entries[-1].end)
        for blob in contents:
            self.own_file_path(blob).unlink(missing_ok=True)
        return contents.keys() | apart

    def import_into_git(self, contents: Mapping[str, bytes]) -> None:
        """Make git objects of these, under our ref in Remit's own repository. Raises GitError, OSError."""
        repository = RemitRepository(self.workspace)
        repository.create()
        with repository.prevent_dropping():
            known = repository.run("rev-parse", "-q", "--verify", self.ref, ok=(0, 1)).decode().strip()
            stream = b"".join(self.import_stream(contents, known or None))
            repository.run("fast-import", "--quiet", "--done", "--date-format=now", stdin=stream)

    def migrate_old_refs(self) -> None:
        """Take what an older version kept under refs of the user's repository into Remit's own. Raises GitError,
        OSError.
        """
        if not may_have_refs_below(self.workspace, BLOBS_REF):
            return
        git = Git(self.workspace.root)
        for line in git.text("for-each-ref", "--format=%(objectname) %(refname)", BLOBS_REF).splitlines():
            tip, ref = line.split(" ", 1)
            listed = git.run("ls-tree", "-r", "-z", "--full-tree", tip).split(b"\0")
            names = [row.partition(b"\t")[0].split()[2].decode() for row in listed if row]
            for start in range(0, len(names), MIGRATION_BATCH):
                found = self.load_many(names[start : start + MIGRATION_BATCH])
                with self.lock_store():
                    self.import_into_git(found)
            git.run("update-ref", "-d", ref, tip)

    def write_own_file(self, blob: str, content: bytes) -> None:
        """Make a file of Remit's own of it. Raises OSError."""
        path = self.own_file_path(blob)
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
        try:
            fresh.write_bytes(content)
            fresh.replace(path)
        except OSError:
            fresh.unlink(missing_ok=True)
            raise

    def find_ignored_blobs(self, entries: Sequence[PendingContent]) -> set[str]:
        """Those contents that git may not have: all without git, else what lay only where git ignores files."""
        if self.workspace.common_dir is None:
            return {entry.blob for entry in entries}
        places = sorted({entry.path for entry in entries if entry.path})
        ignored = self.find_ignored_paths(places) if places else set[bytes]()
        return {e.blob for e in entries if e.path in ignored} - {e.blob for e in entries if e.path not in ignored}

    def find_ignored_paths(self, paths: Sequence[bytes]) -> set[bytes]:
        """Those of `paths` that git ignores; one that git does not want to tell about, in a repository inside, too."""
        asked = b"".join(path + b"\0" for path in paths)
        try:
            out = Git(self.workspace.root).run("check-ignore", "-z", "--stdin", stdin=asked, ok=(0, 1))
        except GitError:
            return {p for path in paths for p in self.find_ignored_paths([path])} if len(paths) > 1 else set(paths)
        return set(out.split(b"\0"))

    def import_stream(self, contents: Mapping[str, bytes], known: str | None) -> Iterator[bytes]:
        """One commit on the private ref that holds the contents. Source: git-fast-import(1), read 2026-11."""
        for mark, content in enumerate(contents.values(), 1):
            yield b"blob\nmark :%d\ndata %d\n%s\n" % (mark, len(content), content)
        yield f"commit {self.ref}\ncommitter Remit <remit@localhost> now\ndata 0\n".encode()
        if known:
            yield f"from {known}\n".encode()
        for mark, blob in enumerate(contents, 1):
            yield f"M 100644 :{mark} {blob[:2]}/{blob[2:]}\n".encode()
        yield b"\ndone\n"

    def load(self, blob: str) -> bytes | None:
        """The content of that git name; None where it is not at hand."""
        if (late := self.recent.get(blob)) is not None:
            return late
        waiting = self.read_without_git(blob)
        if waiting is not None:
            return waiting
        if self.workspace.common_dir is None:
            return None
        try:
            return object_reader(self.workspace).run("cat-file", "blob", blob)
        except GitError:
            return None

    def read_without_git(self, blob: str) -> bytes | None:
        """A content that git does not have; None also where a crash left it torn."""
        for read in (self.pending.read_content, self.read_own_file):
            try:
                content = read(blob)
            except OSError:
                continue
            if content is not None and hash_git_blob(content) == blob:
                return content
        return None

    def read_own_file(self, blob: str) -> bytes:
        """The content of a file of Remit's own. Raises OSError."""
        return self.own_file_path(blob).read_bytes()

    def unified_diff(self, old: bytes, new: bytes) -> str:
        """A unified diff between two contents, as git shows it, without the header."""
        with scratch_files(self.workspace.state, old, new) as (a, b):
            out = Git(self.workspace.state).run(
                "diff", "--no-index", "--no-color", "--no-ext-diff", "--no-textconv", a, b, ok=(0, 1)
            )
        text = out.decode("utf-8", "replace")
        return text[text.find("@@") :] if "@@" in text else ""

    def load_many(self, blobs: Iterable[str]) -> dict[str, bytes]:
        """The contents of those git names that are at hand: one git for all."""
        staged, rest = self.load_without_git(blobs)
        if not rest:
            return staged
        out = object_reader(self.workspace).run("cat-file", "--batch", stdin="".join(f"{b}\n" for b in rest).encode())
        found = zip(rest, parse_batch_output(out), strict=True)
        return {**staged, **{blob: content for blob, content in found if content is not None}}

    def content_sizes(self, blobs: Iterable[str]) -> dict[str, int]:
        """How many bytes the contents of those git names have, of those that are at hand: one git for all."""
        staged, rest = self.load_without_git(blobs)
        sizes = {blob: len(content) for blob, content in staged.items()}
        if not rest:
            return sizes
        question = "".join(f"{blob}\n" for blob in rest).encode()
        out = object_reader(self.workspace).run("cat-file", "--batch-check=%(objectsize)", stdin=question)
        told = zip(rest, out.splitlines(), strict=True)
        return {**sizes, **{blob: int(size) for blob, size in told if size.isdigit()}}

    def load_without_git(self, blobs: Iterable[str]) -> tuple[dict[str, bytes], list[str]]:
        """Those contents that git need not be asked for, and the names to ask it about: none without git."""
        asked = list(dict.fromkeys(blobs))
        found = {blob: content for blob in asked if (content := self.read_without_git(blob)) is not None}
        return found, [blob for blob in asked if blob not in found and self.workspace.common_dir is not None]

    def compute_hunks(self, pairs: Mapping[str, tuple[bytes, bytes]]) -> dict[str, tuple[Hunk, ...]]:
        """How the second content of each pair differs from the first, by git's diff: one git for all."""
        if not pairs:
            return {}
        with scratch_folders(self.workspace.state, pairs) as (folder, names):
            out = Git(folder).run(
                *("-c", "core.autocrlf=false", "diff", "--no-index", "--no-color", "--no-ext-diff", "--no-textconv"),
                *("--no-renames", "--inter-hunk-context=0", "-U0", "--text", "old", "new"),
                ok=(0, 1),
            )
        return {**dict.fromkeys(pairs, ()), **{names[n]: found for n, found in parse_hunks(out).items()}}

    @contextmanager
    def lock_store(self) -> Generator[None]:
        """Let one process at a time write the ref. Raises FileLocked, OSError."""
        self.workspace.state.mkdir(parents=True, exist_ok=True)
        path = self.workspace.state / "contents.lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            lock_file(descriptor, path)
            yield
        finally:
            os.close(descriptor)

    def own_file_path(self, blob: str) -> Path:
        """Where a content lies that git does not have."""
        return self.folder / blob[:2] / blob[2:]


@contextmanager
def scratch_files(folder: Path, *contents: bytes) -> Generator[list[str]]:
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
    from tempfile import TemporaryDirectory  # with all that it loads, a tenth of a command's start; few compare

    with TemporaryDirectory(prefix="scratch.", dir=folder) as name:
        here = Path(name)
        files: dict[bytes, str] = {}
        for side, contents in zip(("old", "new"), zip(*pairs.values(), strict=True), strict=True):
            (here / side).mkdir()
            for number, content in enumerate(contents):
                write_or_link(f"{name}/{side}/{number}", content, files)
        yield here, {str(number): pair for number, pair in enumerate(pairs)}


def write_or_link(path: str, content: bytes, files: dict[bytes, str]) -> None:
    """Write a file, or link it to the one of `files` that holds the same: many pairs have a content in common, and a
    new file costs far more than a new name. Raises OSError.
    """
    if content in files:
        try:
            os.link(files[content], path)
        except OSError:  # a file has names enough, or the disk knows no links
            del files[content]
    if content not in files:
        Path(path).write_bytes(content)
        files[content] = path


def parse_hunks(diff: bytes) -> dict[str, tuple[Hunk, ...]]:
    """The hunks of a `-U0` diff, by the number of the file. A content line begins with a sign, a header never: so the
    diff is cut at its headers, and of the many lines between them none is looked at.
    """
    found: dict[str, tuple[Hunk, ...]] = {}
    for file in diff.split(b"\ndiff --git ") if diff else ():
        names, *hunks = file.split(b"\n@@ ")
        headers = filter(None, map(HUNK_HEADER.match, hunks))
        number = names.partition(b"\n")[0].rpartition(b"/")[2].decode()
        found[number] = tuple(parse_hunk(*header.groups()) for header in headers)
    return found


def parse_hunk(old: bytes, old_lines: bytes | None, new: bytes, new_lines: bytes | None) -> Hunk:
    """One hunk, from the numbers of its header; a count that is left out is one."""
    return Hunk(int(old), int(old_lines or 1), int(new), int(new_lines or 1))


def parse_batch_output(out: bytes) -> Iterator[bytes | None]:
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
