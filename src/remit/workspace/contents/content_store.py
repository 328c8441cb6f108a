"""Store of file contents named in records, as git objects under a private ref that `gc` respects.

Without git, and until git is asked, contents lie in files of Remit's own.
"""

import os
import re
from collections import OrderedDict
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from remit.core.diff.contents import Hunk, hash_git_blob
from remit.workspace.contents.blob_folder import BlobFolder
from remit.workspace.contents.pending import PendingContent, PendingContents
from remit.workspace.contents.remit_repository import RemitRepository, object_reader
from remit.workspace.files.locks import hold_lock
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.refs import may_have_refs_below
from remit.workspace.git.tree_files import parse_batch_output
from remit.workspace.place.workspace import Workspace

HUNK_HEADER = re.compile(rb"-(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")

BLOBS_REF = "refs/remit/blobs"
MIGRATION_BATCH = 1000
"""Contents of an older version taken over per batch."""

MAX_RECENT = 8
MAX_RECENT_BYTES = 1 << 18


class ContentStore:
    """Contents of a workspace's records.

    A content is first appended to a pending file: 20 µs, against 6 ms for a git process. `fold_into_git` moves pending
    contents into git under this machine's ref. Without git, or for paths that git ignores, a content becomes a file
    named by its git blob name.
    """

    def __init__(self, workspace: Workspace, machine: str) -> None:
        self.workspace = workspace
        self.ref = f"{BLOBS_REF}/{machine}"
        folder = workspace.state / "contents"
        self.files = BlobFolder(folder, hash_git_blob)
        self.pending = PendingContents(folder / "waiting")
        self.recent: OrderedDict[str, bytes] = OrderedDict()
        """The contents added last: most are read when the call completes. A blob name identifies a content exactly."""

    # -- storing --------------------------------------------------------------------------------------------

    def keep_contents(self, contents: Iterable[tuple[str, str, bytes]]) -> None:
        """Store (blob name, path, content) triples; the path is empty for contents without a file. Raises OSError."""
        entries = [(blob, os.fsencode(path), content) for blob, path, content in contents]
        if entries:
            self.pending.add(entries)
            self.recent.update((blob, content) for blob, _, content in entries if len(content) <= MAX_RECENT_BYTES)
        while len(self.recent) > MAX_RECENT:
            self.recent.popitem(last=False)

    def has_own_file(self, blob: str) -> bool:
        return self.files.has_blob(blob)

    def list_pending(self) -> list[PendingContent]:
        return self.pending.list_entries()

    def fold_into_git(self, max_count: int = 2000) -> set[str]:
        """Move pending contents into git and forget them here; return their names. Raises OSError, GitError.

        A content seen only at ignored paths becomes a file of Remit's own, since git objects may be pushed.
        """
        if not self.list_pending():
            return set()
        with self.lock_store():
            entries = self.list_pending()[:max_count]
            if not entries:
                return set()
            contents = {e.blob: content for e in entries if (content := self.read_without_git(e.blob)) is not None}
            outside_git = self.find_ignored_blobs(entries) & contents.keys()
            for blob in outside_git:
                self.files.store(contents.pop(blob), durable=False)
            if contents:
                self.import_into_git(contents)
            self.pending.drop_entries_before(entries[-1].end)
        for blob in contents:
            self.files.blob_path(blob).unlink(missing_ok=True)
        return contents.keys() | outside_git

    def import_into_git(self, contents: Mapping[str, bytes]) -> None:
        """Import contents under the private ref of Remit's own repository. Raises GitError, OSError."""
        repository = RemitRepository(self.workspace)
        repository.create()
        with repository.prevent_dropping():
            tip = repository.run("rev-parse", "-q", "--verify", self.ref, ok=(0, 1)).decode().strip()
            stream = b"".join(self.import_stream(contents, tip or None))
            repository.run("fast-import", "--quiet", "--done", "--date-format=now", stdin=stream)

    def import_stream(self, contents: Mapping[str, bytes], tip: str | None) -> Iterator[bytes]:
        """Yield a fast-import commit with the contents. Source: git-fast-import(1), read 2026-11."""
        for mark, content in enumerate(contents.values(), 1):
            yield b"blob\nmark :%d\ndata %d\n%s\n" % (mark, len(content), content)
        yield f"commit {self.ref}\ncommitter Remit <remit@localhost> now\ndata 0\n".encode()
        if tip:
            yield f"from {tip}\n".encode()
        for mark, blob in enumerate(contents, 1):
            yield f"M 100644 :{mark} {blob[:2]}/{blob[2:]}\n".encode()
        yield b"\ndone\n"

    def migrate_old_refs(self) -> None:
        """Move contents of an older version from the user's repository to Remit's own. Raises GitError, OSError."""
        if not may_have_refs_below(self.workspace, BLOBS_REF):
            return
        git = Git(self.workspace.root)
        for line in git.text("for-each-ref", "--format=%(objectname) %(refname)", BLOBS_REF).splitlines():
            tip, ref = line.split(" ", 1)
            rows = git.run("ls-tree", "-r", "-z", "--full-tree", tip).split(b"\0")
            names = [row.partition(b"\t")[0].split()[2].decode() for row in rows if row]
            for start in range(0, len(names), MIGRATION_BATCH):
                contents = self.load_many(names[start : start + MIGRATION_BATCH])
                with self.lock_store():
                    self.import_into_git(contents)
            git.run("update-ref", "-d", ref, tip)

    def find_ignored_blobs(self, entries: Sequence[PendingContent]) -> set[str]:
        """Return blobs that must stay out of git: each without git, else those seen only at ignored paths."""
        if self.workspace.common_dir is None:
            return {entry.blob for entry in entries}
        paths = sorted({entry.path for entry in entries if entry.path})
        ignored = self.find_ignored_paths(paths) if paths else set[bytes]()
        return {e.blob for e in entries if e.path in ignored} - {e.blob for e in entries if e.path not in ignored}

    def find_ignored_paths(self, paths: Sequence[bytes]) -> set[bytes]:
        """Return the ignored paths. A path that git refuses to judge, as in a nested repository, counts as ignored."""
        query = b"".join(path + b"\0" for path in paths)
        try:
            out = Git(self.workspace.root).run("check-ignore", "-z", "--stdin", stdin=query, ok=(0, 1))
        except GitError:
            # git stops at the first refused path, so each path is asked alone.
            return {p for path in paths for p in self.find_ignored_paths([path])} if len(paths) > 1 else set(paths)
        return set(out.split(b"\0"))

    @contextmanager
    def lock_store(self) -> Generator[None]:
        """Serialise writers of the ref. Raises FileLocked, OSError."""
        self.workspace.state.mkdir(parents=True, exist_ok=True)
        with hold_lock(self.workspace.state / "contents.lock"):
            yield

    # -- reading --------------------------------------------------------------------------------------------

    def load(self, blob: str) -> bytes | None:
        """Return the content of a blob name; None if not available."""
        if (recent := self.recent.get(blob)) is not None:
            return recent
        content = self.read_without_git(blob)
        if content is not None or self.workspace.common_dir is None:
            return content
        try:
            return object_reader(self.workspace).run("cat-file", "blob", blob)
        except GitError:
            return None

    def read_without_git(self, blob: str) -> bytes | None:
        """Return a content stored outside git; None also after a torn write."""
        for read in (self.pending.read_content, self.files.load):
            try:
                content = read(blob)
            except OSError:
                continue
            if content is not None and hash_git_blob(content) == blob:
                return content
        return None

    def load_without_git(self, blobs: Iterable[str]) -> tuple[dict[str, bytes], list[str]]:
        """Return the contents stored outside git, and the names left to ask git for."""
        wanted = list(dict.fromkeys(blobs))
        contents = {blob: content for blob in wanted if (content := self.read_without_git(blob)) is not None}
        return contents, [blob for blob in wanted if blob not in contents and self.workspace.common_dir is not None]

    def load_many(self, blobs: Iterable[str]) -> dict[str, bytes]:
        """Return the available contents of several blobs with a single git process."""
        contents, rest = self.load_without_git(blobs)
        if rest:
            query = "".join(f"{blob}\n" for blob in rest).encode()
            out = object_reader(self.workspace).run("cat-file", "--batch", stdin=query)
            contents |= {b: c for b, c in zip(rest, parse_batch_output(out), strict=True) if c is not None}
        return contents

    def content_sizes(self, blobs: Iterable[str]) -> dict[str, int]:
        """Return the sizes in bytes of the available contents with a single git process."""
        contents, rest = self.load_without_git(blobs)
        sizes = {blob: len(content) for blob, content in contents.items()}
        if rest:
            query = "".join(f"{blob}\n" for blob in rest).encode()
            out = object_reader(self.workspace).run("cat-file", "--batch-check=%(objectsize)", stdin=query)
            sizes |= {blob: int(size) for blob, size in zip(rest, out.splitlines(), strict=True) if size.isdigit()}
        return sizes

    # -- comparing ------------------------------------------------------------------------------------------

    def unified_diff(self, old: bytes, new: bytes) -> str:
        """Return git's unified diff between two contents, without the header."""
        with scratch_files(self.workspace.state, old, new) as (a, b):
            out = Git(self.workspace.state).run(
                "diff", "--no-index", "--no-color", "--no-ext-diff", "--no-textconv", a, b, ok=(0, 1)
            )
        text = out.decode("utf-8", "replace")
        return text[text.find("@@") :] if "@@" in text else ""

    def compute_hunks(self, pairs: Mapping[str, tuple[bytes, bytes]]) -> dict[str, tuple[Hunk, ...]]:
        """Return git's hunks for each pair of contents with a single git process."""
        if not pairs:
            return {}
        with scratch_folders(self.workspace.state, pairs) as (folder, names):
            out = Git(folder).run(
                *("-c", "core.autocrlf=false", "diff", "--no-index", "--no-color", "--no-ext-diff", "--no-textconv"),
                *("--no-renames", "--inter-hunk-context=0", "-U0", "--text", "old", "new"),
                ok=(0, 1),
            )
        return {**dict.fromkeys(pairs, ()), **{names[n]: hunks for n, hunks in parse_hunks(out).items()}}


@contextmanager
def scratch_files(folder: Path, *contents: bytes) -> Generator[list[str]]:
    """Yield paths of temporary files with the given contents."""
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
    """Yield a folder with `old/` and `new/`, a numbered file per pair, and the pair name by number."""
    folder.mkdir(parents=True, exist_ok=True)
    from tempfile import TemporaryDirectory  # with its imports a tenth of a command's start, and rarely needed

    with TemporaryDirectory(prefix="scratch.", dir=folder) as name:
        scratch = Path(name)
        files: dict[bytes, str] = {}
        for side, contents in zip(("old", "new"), zip(*pairs.values(), strict=True), strict=True):
            (scratch / side).mkdir()
            for number, content in enumerate(contents):
                write_or_link(f"{name}/{side}/{number}", content, files)
        yield scratch, {str(number): pair for number, pair in enumerate(pairs)}


def write_or_link(path: str, content: bytes, files: dict[bytes, str]) -> None:
    """Write a file, or link to a file of `files` with equal content: many pairs share contents, and a link is cheaper.

    Raises OSError.
    """
    if content in files:
        try:
            os.link(files[content], path)
        except OSError:  # the file has too many links, or the file system has none
            del files[content]
    if content not in files:
        Path(path).write_bytes(content)
        files[content] = path


def parse_hunks(diff: bytes) -> dict[str, tuple[Hunk, ...]]:
    """Return the hunks of a `-U0` diff by file number.

    Content lines begin with a sign, headers never do. The diff is cut at its headers; lines between are not inspected.
    """
    hunks: dict[str, tuple[Hunk, ...]] = {}
    for file in diff.split(b"\ndiff --git ") if diff else ():
        names, *parts = file.split(b"\n@@ ")
        headers = filter(None, map(HUNK_HEADER.match, parts))
        number = names.partition(b"\n")[0].rpartition(b"/")[2].decode()
        hunks[number] = tuple(parse_hunk(*header.groups()) for header in headers)
    return hunks


def parse_hunk(old: bytes, old_lines: bytes | None, new: bytes, new_lines: bytes | None) -> Hunk:
    """Return a hunk; an omitted count is 1."""
    return Hunk(int(old), int(old_lines or 1), int(new), int(new_lines or 1))
