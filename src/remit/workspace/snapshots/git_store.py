"""Snapshots as commits in Remit's own repository. Source: git-fast-import(1), git-for-each-ref(1), read 2026-11."""

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from remit.workspace.contents.content_store import parse_batch_output
from remit.workspace.contents.remit_repository import RemitRepository
from remit.workspace.files.read_files import ObservedFile
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.hidden_files import prefix_in_repository
from remit.workspace.git.refs import head_commit, may_have_refs_below
from remit.workspace.observe.observation import parse_filtered_batch
from remit.workspace.place.workspace import Workspace
from remit.workspace.snapshots.blob_folder import BlobFolder
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
    read_content,
)

SNAPSHOT_REFS = "refs/remit/snapshots"
REF_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")
FILE_MODES = frozenset({"100644", "100755", "120000"})
BASE_MARK = ":2"
UNUSED_MARKER = "unused"
"""The file that says that objects may have become needless."""


class GitSnapshotStore:
    """The snapshots of one workspace in its repository. `stays` keeps the process that writes them running."""

    def __init__(self, workspace: Workspace, machine: str, *, keeps_importer: bool = False) -> None:
        self.workspace = workspace
        self.refs = f"{SNAPSHOT_REFS}/{machine}"
        self.repository = RemitRepository(workspace)
        self.folder = workspace.state / "snapshots"
        self.copies = BlobFolder(self.folder / "private")
        self.keeps_importer = keeps_importer
        self.importer: FastImport | None = None

    def take(self, snapshot: Snapshot, files: FilesByPath) -> Snapshot:
        """Keep these files, beside those of HEAD."""
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
        """The commit's name. Raises GitError, OSError."""
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
        """Without a daemon nobody is ever idle: fold where packs are many. The snapshot is none the worse for it."""
        if len(list((self.folder / "edges").glob("*"))) >= MAX_COMMITS:
            with suppress(GitError, OSError):
                fold_packs(self.repository, self.folder)

    def commit_stream(self, snapshot: Snapshot, ref: str, files: FilesByPath, base: str | None) -> Iterator[bytes]:
        """The commit on top of `base`: what is gone first, for a file may lie where a folder was.

        Without one it follows what the ref holds: the commit with HEAD's files, or nothing.
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
        """What a commit begins with."""
        message = f"{commit_title(snapshot)}\n\n{msgspec.json.encode(snapshot).decode()}\n".encode()
        yield f"commit {ref}\nmark :1\ncommitter Remit <remit@localhost> {int(snapshot.at)} +0000\n".encode()
        yield b"data %d\n%s\n" % (len(message), message)

    def file_command(self, prefix: bytes, path: str, seen: ObservedFile) -> bytes:
        """One file of the commit."""
        content = read_content(self.workspace, path, seen)
        place = quote_path(prefix + os.fsencode(path))
        return b"M %s inline %s\ndata %d\n%s\n" % (seen.version.mode.encode(), place, len(content), content)

    def list_snapshots(self) -> list[Snapshot]:
        """Those of this workspace; what another wrote under these refs is none."""
        own = encode_path(str(self.workspace.root))
        mine = (self.copies.mark_lost_files(s) for s in self.list_all_snapshots() if s.root == own)
        return sorted(mine, key=lambda s: (s.at, s.id), reverse=True)

    def list_all_snapshots(self) -> Iterator[Snapshot]:
        """The snapshots of all worktrees and machines, and those of this machine that an older version made."""
        asked = ("for-each-ref", "--format=%(refname)%00%(objectname)%00%(contents:body)%00")
        out = self.repository.run(*asked, SNAPSHOT_REFS) if self.repository.exists else b""
        if may_have_refs_below(self.workspace, SNAPSHOT_REFS):
            out += Git(self.workspace.root).run(*asked, self.refs)
        parts = out.decode("utf-8", "replace").split("\0")
        found = (parse_snapshot(*parts[n : n + 3]) for n in range(0, len(parts) - 2, 3))
        return (snapshot for snapshot in found if snapshot)

    def list_files(self, snapshot: Snapshot) -> Listing:
        """Every file of the snapshot; repositories inside are not its own."""
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
        """The files of a commit below this workspace's root. Raises GitError for an exit code that is not in `ok`."""
        out = self.repository.reader.run("ls-tree", "-r", "-z", commit, ok=ok)
        lines = (line.partition(b"\t") for line in out.split(b"\0"))
        found = ((about.split(b" "), os.fsdecode(path)) for about, _, path in lines)
        return {
            path: SnapshotFile(about[0].decode(), about[2].decode())
            for about, path in found
            if about[0].decode() in FILE_MODES and is_restorable_path(path)
        }

    def read_contents(self, entries: Mapping[str, SnapshotFile]) -> dict[str, bytes]:
        """What is to be written. HEAD's files get their line endings; no filter runs, so LFS pointers stay pointers."""
        private = {path: self.copies.load(entry.key) for path, entry in entries.items() if entry.private}
        plain = {p: e for p, e in entries.items() if not e.private and (e.raw or e.mode == "120000")}
        return {
            **private,
            **self.read_raw(plain),
            **self.read_worktree_form({p: e for p, e in entries.items() if not e.raw}),
        }

    def read_raw(self, entries: Mapping[str, SnapshotFile]) -> dict[str, bytes]:
        """The bytes of objects."""
        keys = list(dict.fromkeys(e.key for e in entries.values()))
        asked = "".join(f"{key}\n" for key in keys).encode()
        out = self.repository.reader.run("cat-file", "--batch", stdin=asked) if keys else b""
        found = dict(zip(keys, parse_batch_output(out), strict=True))
        if lost := [path for path, e in entries.items() if found[e.key] is None]:
            raise GitError(("cat-file",), None, f"the content of {lost[0]!r} is gone from the repository")
        return {path: content for path, e in entries.items() if (content := found[e.key]) is not None}

    def read_worktree_form(self, entries: Mapping[str, SnapshotFile]) -> dict[str, bytes]:
        """HEAD's files as a checkout without filters writes them: one git for all, where its answer can be read."""
        files = {p: e.key for p, e in entries.items() if e.mode != "120000"}
        git, prefix, off = self.repository.reader, prefix_in_repository(self.workspace), self.no_filter_options()
        plain = [p for p in files if "\n" not in p]
        asked = os.fsencode("".join(f"{files[p]} {prefix}{p}\n" for p in plain))
        out = git.run(*off, "cat-file", "--batch", "--filters", stdin=asked) if plain else b""
        found = dict(zip(plain, parse_filtered_batch(out, [files[p] for p in plain]), strict=False))
        alone = [p for p in files if p not in found]
        return {**found, **{p: git.run(*off, "cat-file", "--filters", f"--path={prefix}{p}", files[p]) for p in alone}}

    def no_filter_options(self) -> list[str]:
        """Options that switch off every filter that any settings name, the user's own too."""
        out = Git(self.workspace.root).run("config", "-z", "--name-only", "--get-regexp", r"^filter\.", ok=(0, 1))
        names = {os.fsdecode(key).split(".", 1)[1].rpartition(".")[0] for key in out.split(b"\0") if key}
        values = (("clean", ""), ("smudge", ""), ("process", ""), ("required", "false"))
        settings = (f"filter.{name}.{key}={value}" for name in sorted(names) for key, value in values)
        return [part for setting in settings for part in ("-c", setting)]

    def forget(self, snapshots: Iterable[Snapshot]) -> None:
        """Take away the refs, and the copies that no other snapshot needs. Objects go when nobody works."""
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
        """Drop the copies that no other snapshot of any worktree or machine needs."""
        gone = {s.id for s in snapshots}
        self.copies.keep_only(
            key for s in self.list_all_snapshots() if s.id not in gone for _, key in s.private.values()
        )

    def disk_usage(self, snapshots: Iterable[Snapshot]) -> int:
        """What only snapshots hold."""
        found = list(snapshots)
        names = [s.commit for s in found]
        if not names:
            return 0
        asked = "".join(f"{s.commit}\n" + (f"^{s.commit}^\n" if s.head else "") for s in found)
        out = self.repository.reader.run("rev-list", "--objects", "--disk-usage", "--stdin", stdin=asked.encode())
        return int(out) + self.copies.total_bytes(key for s in found for _, key in s.private.values() if key)

    def tidy(self) -> None:
        """What can wait until nobody does: end the process, take over what an older version left, fold packs, drop
        what is not needed. Raises OSError, GitError.
        """
        self.close()
        if may_have_refs_below(self.workspace, SNAPSHOT_REFS):
            self.migrate_old_refs()
        fold_packs(self.repository, self.folder)
        unused = self.folder / UNUSED_MARKER
        is_due = self.repository.exists and (unused.exists() or self.repository.has_stale_packs())
        # Where there is no room to write the pack anew, all stays as it is until there is.
        with suppress(GitError):
            if is_due and self.repository.drop_unused_objects():
                unused.unlink(missing_ok=True)

    def migrate_old_refs(self) -> None:
        """Take the snapshots of an older version, refs of the user's repository, into Remit's own."""
        asked = ("for-each-ref", "--format=%(refname)%00%(objectname)%00%(contents:body)%00", SNAPSHOT_REFS)
        parts = Git(self.workspace.root).run(*asked).decode("utf-8", "replace").split("\0")
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
        """Write a snapshot of the user's repository anew: what it holds, and what HEAD held, without its history."""
        importer = FastImport(self.repository)
        try:
            base = base_commit_stream(snapshot.ref, importer.read_tree(f"{snapshot.head}")) if snapshot.head else b""
            tree = b'M 040000 %s ""\n' % importer.read_tree(snapshot.commit).encode()
            plain = replace(snapshot, commit="", ref="")
            importer.write_commit(base + b"".join(self.commit_header(plain, snapshot.ref)) + tree + b"\n", snapshot.ref)
        finally:
            importer.close()

    def close(self) -> None:
        """End the process."""
        if self.importer is not None:
            self.importer.close()
            self.importer = None


def base_commit_stream(ref: str, tree: str) -> bytes:
    """A commit without history that holds HEAD's files; the snapshot comes on top of it."""
    header = f"commit {ref}\nmark {BASE_MARK}\ncommitter Remit <remit@localhost> 0 +0000\ndata 5\nFiles\n"
    return f'{header}M 040000 {tree} ""\n\n'.encode()


def parse_snapshot(ref: str, commit: str, body: str) -> Snapshot | None:
    """The snapshot that a commit message describes; None for any other message."""
    try:
        found = msgspec.json.decode(body.strip(), type=Snapshot)
    except (msgspec.DecodeError, ValueError):
        return None
    return replace(found, commit=commit, ref=ref.strip())


def ref_group(snapshot: Snapshot) -> str:
    """The session, where it can stand in a ref's name; else the day."""
    session = snapshot.occasion.session
    return session if REF_SAFE_NAME.fullmatch(session) else time.strftime("%Y-%m-%d", time.gmtime(snapshot.at))


def commit_title(snapshot: Snapshot) -> str:
    """The first line of the message."""
    what = {"session": "a session", "restore": "a restore", "resume": "finishing a restore", "undone": "undoing"}
    about = what.get(snapshot.occasion.kind) or snapshot.occasion.tool or "a call"
    return f"Remit: before {about}"[:72].replace("\n", " ")


def quote_path(path: bytes) -> bytes:
    """A path as fast-import reads it, whatever bytes it has."""
    return b'"' + b"".join(bytes([b]) if 32 <= b < 127 and b not in b'"\\' else b"\\%03o" % b for b in path) + b'"'
