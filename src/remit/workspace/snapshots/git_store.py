"""Snapshots as commits in Remit's own repository. Source: git-fast-import(1), git-for-each-ref(1), read 2026-11."""

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from remit.workspace.contents.blob_folder import BlobFolder
from remit.workspace.contents.remit_repository import RemitRepository
from remit.workspace.files.read_files import ObservedFile
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.refs import head_commit, may_have_refs_below
from remit.workspace.git.tree_files import parse_batch_output, prefix_in_repository, read_worktree_form
from remit.workspace.place.workspace import Workspace
from remit.workspace.snapshots.fast_import import MAX_COMMITS, FastImport, fold_packs
from remit.workspace.snapshots.snapshot import (
    FilesByPath,
    Listing,
    Snapshot,
    SnapshotFile,
    decode_path,
    encode_path,
    is_restorable_path,
    is_secret_path,
    mark_lost_files,
    read_content,
)

SNAPSHOT_REFS = "refs/remit/snapshots"
REF_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")
FILE_MODES = frozenset({"100644", "100755", "120000"})
BASE_MARK = ":2"
UNUSED_MARKER = "unused"
"""Marker file: objects may have become unneeded."""


class GitSnapshotStore:
    """Snapshots of a workspace in git. `keeps_importer` keeps the writing process running between snapshots."""

    def __init__(self, workspace: Workspace, machine: str, *, keeps_importer: bool = False) -> None:
        self.workspace = workspace
        self.refs = f"{SNAPSHOT_REFS}/{machine}"
        self.repository = RemitRepository(workspace)
        self.folder = workspace.state / "snapshots"
        self.copies = BlobFolder(self.folder / "private")
        self.keeps_importer = keeps_importer
        self.importer: FastImport | None = None

    def take(self, snapshot: Snapshot, files: FilesByPath) -> Snapshot:
        """Store these files on top of HEAD's."""
        secret = {path: seen for path, seen in files.items() if is_secret_path(path)}
        private = {
            encode_path(p): (seen.version.mode, self.copies.store(read_content(self.workspace, p, seen)))
            if seen
            else ("", "")
            for p, seen in secret.items()
        }
        made = replace(snapshot, head=head_commit(self.workspace), private=private)
        ref = f"{self.refs}/{ref_group(made)}/{made.id}"
        plain = {path: seen for path, seen in files.items() if path not in secret}
        self.repository.create()
        with self.repository.prevent_dropping():
            name = self.write_commit(made, ref, plain)
        return replace(made, commit=name, ref=ref)

    def write_commit(self, snapshot: Snapshot, ref: str, files: FilesByPath) -> str:
        """Write the snapshot commit and return its name. Raises GitError, OSError."""
        importer = self.importer or FastImport(self.repository)
        self.importer = None
        try:
            known, head = self.repository.read_borrow_list(), snapshot.head
            base = known.heads.get(head) if head else None
            fresh = b""
            if head and not base:
                self.repository.borrow_objects(known)
                fresh = base_commit_stream(ref, importer.read_tree(head))
            name = importer.write_commit(fresh + b"".join(self.commit_stream(snapshot, ref, files, base)), ref)
            if head and fresh:
                known.heads[head] = importer.read_mark(BASE_MARK)
                self.repository.write_borrow_list(known)
        except BaseException:
            importer.close()
            raise
        if self.keeps_importer and importer.commit_count < MAX_COMMITS:
            self.importer = importer
        else:
            importer.close()
            self.fold_if_many()
        return name

    def fold_if_many(self) -> None:
        """Fold packs if many: without a daemon no idle time comes. A failure does not harm the snapshot."""
        if len(list((self.folder / "edges").glob("*"))) >= MAX_COMMITS:
            with suppress(GitError, OSError):
                fold_packs(self.repository, self.folder)

    def commit_stream(self, snapshot: Snapshot, ref: str, files: FilesByPath, base: str | None) -> Iterator[bytes]:
        """Yield the commit on top of `base`, deletions first, since a file may replace a folder.

        Without `base`, the commit follows the ref: HEAD's files, or an empty tree.
        """
        prefix = os.fsencode(prefix_in_repository(self.workspace))
        yield from self.commit_header(snapshot, ref)
        if base:
            yield f"from {base}\n".encode()
        for path in (p for p, seen in files.items() if seen is None):
            yield b"D %s\n" % quote_path(prefix + os.fsencode(path))
        for path, seen in files.items():
            if seen is not None:
                yield self.file_command(prefix, path, seen)
        yield b"\n"

    def commit_header(self, snapshot: Snapshot, ref: str) -> Iterator[bytes]:
        message = f"{commit_title(snapshot)}\n\n{msgspec.json.encode(snapshot).decode()}\n".encode()
        yield f"commit {ref}\nmark :1\ncommitter Remit <remit@localhost> {int(snapshot.at)} +0000\n".encode()
        yield b"data %d\n%s\n" % (len(message), message)

    def file_command(self, prefix: bytes, path: str, seen: ObservedFile) -> bytes:
        content = read_content(self.workspace, path, seen)
        place = quote_path(prefix + os.fsencode(path))
        return b"M %s inline %s\ndata %d\n%s\n" % (seen.version.mode.encode(), place, len(content), content)

    def list_snapshots(self) -> list[Snapshot]:
        """Return this workspace's snapshots; foreign commits under the refs are skipped."""
        own = encode_path(str(self.workspace.root))
        mine = (mark_lost_files(s, self.copies) for s in self.list_all_snapshots() if s.root == own)
        return sorted(mine, key=lambda s: (s.at, s.id), reverse=True)

    def list_all_snapshots(self) -> Iterator[Snapshot]:
        """Yield the snapshots of each worktree and machine, including those of older versions."""
        query = ("for-each-ref", "--format=%(refname)%00%(objectname)%00%(contents:body)%00")
        out = self.repository.run(*query, SNAPSHOT_REFS) if self.repository.exists else b""
        if may_have_refs_below(self.workspace, SNAPSHOT_REFS):
            out += Git(self.workspace.root).run(*query, self.refs)
        parts = out.decode("utf-8", "replace").split("\0")
        found = (parse_snapshot(*parts[n : n + 3]) for n in range(0, len(parts) - 2, 3))
        return (snapshot for snapshot in found if snapshot)

    def list_files(self, snapshot: Snapshot) -> Listing:
        """Return each file of the snapshot, without nested repositories."""
        base = self.list_tree(f"{snapshot.commit}^", ok=(0, 128)) if snapshot.head else {}
        found = {
            p: replace(e, raw=not e.has_same_content(base.get(p))) for p, e in self.list_tree(snapshot.commit).items()
        }
        for spelling, (mode, key) in snapshot.private.items():
            path = decode_path(spelling)
            found.pop(path, None)
            if mode in FILE_MODES and is_restorable_path(path) and self.copies.has_blob(key):
                found[path] = SnapshotFile(mode, key, private=True)
        return found

    def list_tree(self, commit: str, ok: tuple[int, ...] = (0,)) -> Listing:
        """Return the files of a commit below the workspace root. Raises GitError for an exit code not in `ok`."""
        out = self.repository.reader.run("ls-tree", "-r", "-z", commit, ok=ok)
        lines = (line.partition(b"\t") for line in out.split(b"\0"))
        found = ((about.split(b" "), os.fsdecode(path)) for about, _, path in lines)
        return {
            path: SnapshotFile(about[0].decode(), about[2].decode())
            for about, path in found
            if about[0].decode() in FILE_MODES and is_restorable_path(path)
        }

    def read_contents(self, entries: Mapping[str, SnapshotFile]) -> dict[str, bytes]:
        """Return the bytes to write. HEAD's files get their line endings; no filter runs, so LFS pointers stay
        pointers.
        """
        private = {path: self.copies.load(entry.key) for path, entry in entries.items() if entry.private}
        plain = {p: e for p, e in entries.items() if not e.private and (e.raw or e.mode == "120000")}
        return {
            **private,
            **self.read_raw(plain),
            **self.read_worktree_form({p: e for p, e in entries.items() if not e.raw}),
        }

    def read_raw(self, entries: Mapping[str, SnapshotFile]) -> dict[str, bytes]:
        keys = list(dict.fromkeys(e.key for e in entries.values()))
        query = "".join(f"{key}\n" for key in keys).encode()
        out = self.repository.reader.run("cat-file", "--batch", stdin=query) if keys else b""
        found = dict(zip(keys, parse_batch_output(out), strict=True))
        if lost := [path for path, e in entries.items() if found[e.key] is None]:
            raise GitError(("cat-file",), None, f"the content of {lost[0]!r} is gone from the repository")
        return {path: content for path, e in entries.items() if (content := found[e.key]) is not None}

    def read_worktree_form(self, entries: Mapping[str, SnapshotFile]) -> dict[str, bytes]:
        files = {p: e.key for p, e in entries.items() if e.mode != "120000"}
        prefix = prefix_in_repository(self.workspace)
        return read_worktree_form(self.repository.reader, prefix, files, *self.no_filter_options())

    def no_filter_options(self) -> list[str]:
        """Return options that disable each filter in any settings, the user's included."""
        out = Git(self.workspace.root).run("config", "-z", "--name-only", "--get-regexp", r"^filter\.", ok=(0, 1))
        names = {os.fsdecode(key).split(".", 1)[1].rpartition(".")[0] for key in out.split(b"\0") if key}
        values = (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
        settings = (f"filter.{name}.{key}={value}" for name in sorted(names) for key, value in values)
        return [part for setting in settings for part in ("-c", setting)]

    def forget(self, snapshots: Iterable[Snapshot]) -> None:
        """Delete the refs and unneeded copies. Objects are dropped while idle."""
        self.close()
        gone = list(snapshots)
        own = set(self.repository.list_refs(SNAPSHOT_REFS))
        here = [f"delete {s.ref} {s.commit}\n" for s in gone if s.ref in own]
        before = [f"delete {s.ref} {s.commit}\n" for s in gone if s.ref not in own]
        if here:
            self.repository.run("update-ref", "--stdin", stdin="".join(here).encode())
            (self.folder / UNUSED_MARKER).touch()
        if before:
            Git(self.workspace.root).run("update-ref", "--stdin", stdin="".join(before).encode())
        if gone:
            self.drop_secrets(gone)

    def drop_secrets(self, snapshots: Iterable[Snapshot]) -> None:
        gone = {s.id for s in snapshots}
        self.copies.keep_only(
            key for s in self.list_all_snapshots() if s.id not in gone for _, key in s.private.values()
        )

    def disk_usage(self, snapshots: Iterable[Snapshot]) -> int:
        """Return the bytes that only snapshots hold."""
        found = list(snapshots)
        names = [s.commit for s in found]
        if not names:
            return 0
        query = "".join(f"{s.commit}\n" + (f"^{s.commit}^\n" if s.head else "") for s in found)
        out = self.repository.reader.run("rev-list", "--objects", "--disk-usage", "--stdin", stdin=query.encode())
        return int(out) + self.copies.total_bytes(key for s in found for _, key in s.private.values() if key)

    def tidy(self) -> None:
        """End the importer, migrate old snapshots, fold packs, drop unneeded objects. Raises OSError, GitError."""
        self.close()
        if may_have_refs_below(self.workspace, SNAPSHOT_REFS):
            self.migrate_old_refs()
        fold_packs(self.repository, self.folder)
        unused = self.folder / UNUSED_MARKER
        is_due = self.repository.exists and (unused.exists() or self.repository.has_stale_packs())
        # Without space for the new pack, the objects stay until a later run.
        with suppress(GitError):
            if is_due and self.repository.drop_unused_objects():
                unused.unlink(missing_ok=True)

    def migrate_old_refs(self) -> None:
        """Move snapshots of an older version from the user's repository to Remit's own."""
        query = ("for-each-ref", "--format=%(refname)%00%(objectname)%00%(contents:body)%00", SNAPSHOT_REFS)
        parts = Git(self.workspace.root).run(*query).decode("utf-8", "replace").split("\0")
        self.repository.create()
        with self.repository.prevent_dropping():
            known = self.repository.read_borrow_list()
            self.repository.borrow_objects(known)
            self.repository.write_borrow_list(known)
            for number in range(0, len(parts) - 2, 3):
                ref, commit = parts[number].strip(), parts[number + 1]
                if (snapshot := parse_snapshot(ref, commit, parts[number + 2])) is not None:
                    self.import_snapshot(snapshot)
                Git(self.workspace.root).run("update-ref", "-d", ref, commit)

    def import_snapshot(self, snapshot: Snapshot) -> None:
        """Copy a snapshot of the user's repository with HEAD's files, without history."""
        importer = FastImport(self.repository)
        try:
            base = base_commit_stream(snapshot.ref, importer.read_tree(f"{snapshot.head}")) if snapshot.head else b""
            tree = b'M 040000 %s ""\n' % importer.read_tree(snapshot.commit).encode()
            plain = replace(snapshot, commit="", ref="")
            importer.write_commit(base + b"".join(self.commit_header(plain, snapshot.ref)) + tree + b"\n", snapshot.ref)
        finally:
            importer.close()

    def close(self) -> None:
        if self.importer is not None:
            self.importer.close()
            self.importer = None


def base_commit_stream(ref: str, tree: str) -> bytes:
    """Return a parentless commit with HEAD's files, the base of a snapshot."""
    header = f"commit {ref}\nmark {BASE_MARK}\ncommitter Remit <remit@localhost> 0 +0000\ndata 5\nFiles\n"
    return f'{header}M 040000 {tree} ""\n\n'.encode()


def parse_snapshot(ref: str, commit: str, body: str) -> Snapshot | None:
    """Return the snapshot in a commit message; None for any other message."""
    try:
        found = msgspec.json.decode(body.strip(), type=Snapshot)
    except (msgspec.DecodeError, ValueError):
        return None
    return replace(found, commit=commit, ref=ref.strip())


def ref_group(snapshot: Snapshot) -> str:
    """Return the session if valid in a ref name; else the day."""
    session = snapshot.occasion.session
    return session if REF_SAFE_NAME.fullmatch(session) else time.strftime("%Y-%m-%d", time.gmtime(snapshot.at))


def commit_title(snapshot: Snapshot) -> str:
    what = {"session": "a session", "restore": "a restore", "resume": "finishing a restore", "undone": "undoing"}
    about = what.get(snapshot.occasion.kind) or snapshot.occasion.tool or "a call"
    return f"Remit: before {about}"[:72].replace("\n", " ")


def quote_path(path: bytes) -> bytes:
    """Return a path quoted for fast-import, for any bytes."""
    return b'"' + b"".join(bytes([b]) if 32 <= b < 127 and b not in b'"\\' else b"\\%03o" % b for b in path) + b'"'
