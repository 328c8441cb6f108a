"""Snapshots as commits in Remit's own repository, written by a `git fast-import` that keeps running in the daemon.

Source: git-fast-import(1), git-for-each-ref(1), git-pack-objects(1), read 2026-11.
"""

import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

import msgspec
from msgspec.structs import replace

from remit.core.python_runtime import prepare_type
from remit.core.untrusted_input import quote_bytes
from remit.workspace.contents.content_store import BlobFolder, RemitRepository
from remit.workspace.contents.fast_import import FastImport
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.repository import (
    head_commit,
    may_have_refs_below,
    parse_batch_output,
    prefix_in_repository,
    read_worktree_form,
)
from remit.workspace.place.workspace import Workspace
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
LIST_WORDS = ("for-each-ref", "--format=%(refname)%00%(objectname)%00%(contents:body)%00")
REF_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,63}")
FILE_MODES = frozenset({"100644", "100755", "120000"})
UNUSED_MARKER = "unused"  # a file: objects may have become unneeded
MAX_COMMITS = 25  # snapshots per process: at each, git checks every ref that the process made


class GitSnapshotStore:
    """Snapshots of a workspace in git; `keeps_importer` between snapshots. Methods raise GitError, OSError."""

    def __init__(self, workspace: Workspace, machine: str, *, keeps_importer: bool = False) -> None:
        self.workspace = workspace
        self.refs = f"{SNAPSHOT_REFS}/{machine}"
        self.repository = RemitRepository(workspace)
        self.folder = workspace.state / "snapshots"
        self.copies = BlobFolder(self.folder / "private")
        self.keeps_importer = keeps_importer
        self.importer: FastImport | None = None

    def take(self, snapshot: Snapshot, files: FilesByPath) -> Snapshot:
        """Store these files on top of HEAD's. After an error no snapshot exists."""
        secret = {path: seen for path, seen in files.items() if is_secret_path(path)}
        private = {
            encode_path(p): (seen.version.mode, self.copies.store(read_content(self.workspace, p, seen)))
            if seen
            else ("", "")
            for p, seen in secret.items()
        }
        made = replace(snapshot, head=head_commit(self.workspace), private=private)
        # By session if valid in a ref name, else by day.
        group = made.occasion.session
        if not REF_SAFE_NAME.fullmatch(group):
            group = time.strftime("%Y-%m-%d", time.gmtime(made.at))
        ref = f"{self.refs}/{group}/{made.id}"
        self.repository.create()
        name = self.write_commit(made, ref, {path: seen for path, seen in files.items() if path not in secret})
        return replace(made, commit=name, ref=ref)

    def write_commit(self, snapshot: Snapshot, ref: str, files: FilesByPath) -> str:
        importer, self.importer = self.importer or FastImport(self.repository), None
        try:
            known, head = self.repository.read_borrow_list(), snapshot.head
            base = known.heads.get(head) if head else None
            fresh = b""
            if head and not base:
                if self.workspace.git_view != self.workspace.git_dir:
                    from remit.workspace.sandbox.private_git_folder import take_over_commits  # an attempt's only

                    take_over_commits(self.workspace)
                self.repository.borrow_objects(known)
                fresh = base_commit_stream(ref, importer.read_tree(head))
            name = importer.write_commit(fresh + b"".join(self.commit_stream(snapshot, ref, files, base)), ref)
            if head and fresh:
                known.heads[head] = importer.ask(b"get-mark :2\n").decode()
                self.repository.write_borrow_list(known)
        except BaseException:
            importer.close()
            raise
        if self.keeps_importer and importer.commit_count < MAX_COMMITS:
            self.importer = importer
        else:
            importer.close()
            # Without a daemon no idle time comes. A failure does not harm the snapshot.
            with suppress(GitError, OSError):
                self.repository.fold_packs()
        return name

    def commit_stream(self, snapshot: Snapshot, ref: str, files: FilesByPath, base: str | None) -> Iterator[bytes]:
        """Yield the commit on top of `base`, else of the ref; deletions first, since a file may replace a folder."""
        prefix = os.fsencode(prefix_in_repository(self.workspace))
        yield commit_header(snapshot, ref)
        if base:
            yield f"from {base}\n".encode()
        for path in (p for p, seen in files.items() if seen is None):
            yield b"D %s\n" % quote_bytes(prefix + os.fsencode(path))
        for path, seen in files.items():
            if seen is not None:
                content = read_content(self.workspace, path, seen)
                words = (seen.version.mode.encode(), quote_bytes(prefix + os.fsencode(path)), len(content), content)
                yield b"M %s inline %s\ndata %d\n%s\n" % words
        yield b"\n"

    def list_snapshots(self) -> list[Snapshot]:
        """Return this workspace's snapshots, newest first; foreign commits under the refs are skipped."""
        own = encode_path(str(self.workspace.root))
        mine = (mark_lost_files(s, self.copies) for s in self.list_all_snapshots() if s.root == own)
        return sorted(mine, key=lambda s: (s.at, s.id), reverse=True)

    def list_all_snapshots(self) -> Iterator[Snapshot]:
        out = self.repository.run(*LIST_WORDS, SNAPSHOT_REFS) if self.repository.exists else b""
        if may_have_refs_below(self.workspace, SNAPSHOT_REFS):
            out += Git(self.workspace.root).run(*LIST_WORDS, self.refs)
        return (snapshot for *_, snapshot in parse_snapshots(out) if snapshot)

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
        out = self.repository.reader.run("ls-tree", "-r", "-z", commit, ok=ok)
        lines = (line.partition(b"\t") for line in out.split(b"\0"))
        found = ((about.decode().split(" "), os.fsdecode(path)) for about, _, path in lines)
        return {
            path: SnapshotFile(about[0], about[2])
            for about, path in found
            if about[0] in FILE_MODES and is_restorable_path(path)
        }

    def read_contents(self, entries: Mapping[str, SnapshotFile]) -> dict[str, bytes]:
        """Return the bytes to write: HEAD's files with their line endings, no filter run, so LFS pointers stay."""
        found = {path: self.copies.load(entry.key) for path, entry in entries.items() if entry.private}
        plain = {p: e.key for p, e in entries.items() if not e.private and (e.raw or e.mode == "120000")}
        keys = list(dict.fromkeys(plain.values()))
        out = b""
        if keys:
            out = self.repository.reader.run("cat-file", "--batch", stdin="".join(f"{k}\n" for k in keys).encode())
        contents = dict(zip(keys, parse_batch_output(out), strict=True))
        for path, key in plain.items():
            content = contents[key]
            if content is None:
                raise GitError(("cat-file",), None, f"the content of {path!r} is gone from the repository")
            found[path] = content
        # Options that disable each filter in any settings, the user's included.
        out = Git(self.workspace.root).run("config", "-z", "--name-only", "--get-regexp", r"^filter\.", ok=(0, 1))
        names = sorted({os.fsdecode(key).split(".", 1)[1].rpartition(".")[0] for key in out.split(b"\0") if key})
        values = ("clean=", "smudge=", "process=", "required=false")
        options = [word for name in names for value in values for word in ("-c", f"filter.{name}.{value}")]
        converted = {p: e.key for p, e in entries.items() if not e.raw and e.mode != "120000"}
        prefix = prefix_in_repository(self.workspace)
        return found | read_worktree_form(self.repository.reader, prefix, converted, *options)

    def forget(self, snapshots: Iterable[Snapshot]) -> None:
        """Delete the refs and unneeded copies. Objects are dropped while idle."""
        self.close()
        gone = list(snapshots)
        own = set(self.repository.list_refs(SNAPSHOT_REFS))
        here = "".join(f"delete {s.ref} {s.commit}\n" for s in gone if s.ref in own)
        before = "".join(f"delete {s.ref} {s.commit}\n" for s in gone if s.ref not in own)
        if here:
            self.repository.run("update-ref", "--stdin", stdin=here.encode())
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            (self.folder / UNUSED_MARKER).touch()
        if before:
            Git(self.workspace.root).run("update-ref", "--stdin", stdin=before.encode())
        if gone:
            self.drop_secrets(gone)

    def drop_secrets(self, snapshots: Iterable[Snapshot]) -> None:
        """Drop possible secrets of these snapshots unless a different snapshot needs them."""
        gone = {s.id for s in snapshots}
        self.copies.keep_only(
            key for s in self.list_all_snapshots() if s.id not in gone for _, key in s.private.values()
        )

    def disk_usage(self, snapshots: Iterable[Snapshot]) -> int:
        """Return the bytes that only snapshots hold."""
        found = list(snapshots)
        if not found:
            return 0
        query = "".join(f"{s.commit}\n" + (f"^{s.commit}^\n" if s.head else "") for s in found)
        out = self.repository.reader.run("rev-list", "--objects", "--disk-usage", "--stdin", stdin=query.encode())
        return int(out) + self.copies.total_bytes(key for s in found for _, key in s.private.values() if key)

    def tidy(self) -> None:
        """End the importer, migrate old snapshots, fold packs, drop unneeded objects."""
        self.close()
        if may_have_refs_below(self.workspace, SNAPSHOT_REFS):
            self.migrate_old_refs()
        self.repository.fold_packs()
        unused = self.folder / UNUSED_MARKER
        is_due = self.repository.exists and (unused.exists() or self.repository.has_stale_packs())
        # Without space for the new pack, the objects stay until a later run.
        with suppress(GitError):
            if is_due and self.repository.drop_unused_objects():
                unused.unlink(missing_ok=True)

    def migrate_old_refs(self) -> None:
        """Move snapshots of an older version from the user's repository, without history, to Remit's own."""
        git = Git(self.workspace.root)
        self.repository.create()
        importer = FastImport(self.repository)
        try:
            known = self.repository.read_borrow_list()
            self.repository.borrow_objects(known)
            self.repository.write_borrow_list(known)
            for ref, commit, found in parse_snapshots(git.run(*LIST_WORDS, SNAPSHOT_REFS)):
                if found is not None:
                    base = base_commit_stream(ref, importer.read_tree(found.head)) if found.head else b""
                    tree = b'M 040000 %s ""\n\n' % importer.read_tree(commit).encode()
                    header = commit_header(replace(found, commit="", ref=""), ref)
                    importer.write_commit(base + header + tree, ref)
                git.run("update-ref", "-d", ref, commit)
        finally:
            importer.close()

    def close(self) -> None:
        if self.importer is not None:
            self.importer.close()
            self.importer = None


def base_commit_stream(ref: str, tree: str) -> bytes:
    header = f"commit {ref}\nmark :2\ncommitter Remit <remit@localhost> 0 +0000\ndata 5\nFiles\n"
    return f'{header}M 040000 {tree} ""\n\n'.encode()


def commit_header(snapshot: Snapshot, ref: str) -> bytes:
    what = {"session": "a session", "restore": "a restore", "resume": "finishing a restore", "undone": "undoing"}
    about = what.get(snapshot.occasion.kind) or snapshot.occasion.tool or "a call"
    title = f"Remit: before {about}"[:72].replace("\n", " ")
    message = f"{title}\n\n{msgspec.json.encode(snapshot).decode()}\n".encode()
    head = f"commit {ref}\nmark :1\ncommitter Remit <remit@localhost> {int(snapshot.at)} +0000\n"
    return b"%sdata %d\n%s\n" % (head.encode(), len(message), message)


def parse_snapshots(out: bytes) -> Iterator[tuple[str, str, Snapshot | None]]:
    """Yield ref, commit and snapshot from the output of `LIST_WORDS`; None for any other message."""
    parts = out.decode("utf-8", "replace").split("\0")
    for ref, commit, body in zip(parts[0:-1:3], parts[1:-1:3], parts[2:-1:3], strict=True):
        ref = ref.strip()
        try:
            yield (
                ref,
                commit,
                replace(msgspec.json.decode(body.strip(), type=prepare_type(Snapshot)), commit=commit, ref=ref),
            )
        except (msgspec.DecodeError, ValueError):
            yield ref, commit, None
