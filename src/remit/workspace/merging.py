"""Merging, changing and committing trees in git's object store: no index, work tree or branch is touched until a ref is
moved from the commit that was expected there.

Source: git-merge-tree(1), git-hash-object(1), git-update-ref(1), git-push(1) of git 2.39, read 2026-11.
"""

import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from remit.core.redaction import redact
from remit.core.untrusted_input import quote_bytes, sanitise_line
from remit.workspace.git.command import GIT_FATAL_EXIT_CODE, TIMEOUT_S, Git, GitError, execute, git_words
from remit.workspace.git.repository import parse_batch_output
from remit.workspace.place.workspace import Workspace
from remit.workspace.sharing.shared_refs import PUSH_OPTIONS, RemoteAway, check_remote_name, run_over_network

NO_COMMIT = "0" * 40
"""Expected old value of a ref that does not exist yet."""

REMOVED_MODE = "0" * 6
UNSAFE_IN_IDENTITY = re.compile(r"[\x00-\x1f<>\x7f]")


class Identity(Struct, frozen=True):
    """The author or committer of a commit; `at` is in seconds since the epoch."""

    name: str
    email: str
    at: int

    def format(self) -> str:
        name, email = (UNSAFE_IN_IDENTITY.sub(" ", text).strip() for text in (self.name, self.email))
        return f"{name or 'nobody'} <{email}> {self.at} +0000"


class MergedTree(Struct, frozen=True):
    """A merge: the tree, and the paths that could not be merged; with conflicts the tree holds git's markers."""

    tree: str
    conflicts: tuple[str, ...] = ()


class ChangedEntry(Struct, frozen=True):
    """A path that differs between two trees. A mode of six zeros stands for no file."""

    path: str
    old_mode: str
    new_mode: str
    old_blob: str
    new_blob: str

    @property
    def is_removed(self) -> bool:
        return self.new_mode == REMOVED_MODE


class Fork(Struct, frozen=True):
    """A commit, the commit in which it left the history of a tip, and the tip's tree."""

    commit: str
    base: str
    tip_tree: str


class RefMoved(RuntimeError):
    """Error for a ref moved by a different process since the read; no ref was changed."""

    def __init__(self, ref: str, expected: str) -> None:
        super().__init__(f"{ref!r} is not at {expected[:12]} any more; gather again")
        self.ref = ref


class RefCheckedOut(RuntimeError):
    """Error for a branch that a worktree has checked out: moving it would change the tree under a person."""

    hint = "`remit plan land` brings that tree along"

    def __init__(self, ref: str, place: str) -> None:
        super().__init__(f"{ref!r} is checked out in {place!r}, and no branch is moved under a person")
        self.ref = ref
        self.place = place


class RemoteRefused(RuntimeError):
    """Error for a remote that was reached and does not move the ref, such as by a rule of its server."""

    def __init__(self, remote: str, ref: str, error: GitError) -> None:
        said = sanitise_line(redact(" ".join(error.message.split())), 400)
        super().__init__(f"the remote {remote!r} refuses to move {ref!r}: {said}")


class TreeStore:
    """Trees and commits of a repository, each exchange with a remote within `limit_s`. Methods raise GitError."""

    def __init__(self, workspace: Workspace, limit_s: float = TIMEOUT_S) -> None:
        self.limit_s = limit_s
        self.git = Git(workspace.common_dir or workspace.root)
        self.folder = workspace.common_dir or workspace.root

    # Reading

    def find_commit(self, name: str) -> str | None:
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        return self.git.text(*words, ok=(0, 1, 128)) or None

    def read_tree_name(self, commit: str) -> str:
        return self.git.text("rev-parse", "--verify", "--end-of-options", f"{commit}^{{tree}}")

    def list_changes(self, old: str, new: str) -> tuple[ChangedEntry, ...]:
        """Return the files that differ between two commits or trees; a renamed file is a removed and a new one."""
        return parse_changes(self.git.run("diff-tree", "-r", "-z", "--no-renames", "--full-index", old, new))

    def read_files(self, tree: str, paths: Iterable[str]) -> dict[str, bytes | None]:
        """Return the contents of paths in a commit or tree; None where there is no file."""
        wanted = [path for path in paths if "\n" not in path]
        if not wanted:
            return {}
        query = "".join(f"{tree}:{path}\n" for path in wanted)
        out = self.git.run("cat-file", "--batch", stdin=os.fsencode(query))
        return dict(zip(wanted, parse_batch_output(out), strict=True))

    def read_objects(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of objects by their names, such as `<commit>` or `<tree>:<path>`, in one process; without
        those that are missing.
        """
        wanted = [name for name in dict.fromkeys(names) if name.strip("0") and "\n" not in name]
        out = self.git.run("cat-file", "--batch", stdin=os.fsencode("".join(f"{name}\n" for name in wanted)))
        found = zip(wanted, parse_batch_output(out), strict=True)
        return {name: content for name, content in found if content is not None}

    def find_fork(self, tip: str, name: str) -> Fork | None:
        """Return where a commit leaves the history of a tip; None where they have nothing in common."""
        if name.startswith("-"):
            return None
        try:
            out = self.git.text("rev-parse", f"{name}^{{commit}}", f"{tip}^{{tree}}", f"{tip}...{name}")
        except GitError as error:
            if error.code != GIT_FATAL_EXIT_CODE:
                raise
            return None
        commit, tree, *rest = out.splitlines()
        base = next((line[1:] for line in rest if line.startswith("^")), "")
        return Fork(commit, base, tree) if base else None

    def list_merge_changes(self, fork: Fork, merged: str) -> tuple[tuple[ChangedEntry, ...], tuple[ChangedEntry, ...]]:
        """Return the files changed by a commit since the fork, and the files changed at the tip by a merge of the
        commit.
        """
        words = ("diff-tree", "--stdin", "-r", "-z", "--no-renames", "--full-index")
        pairs = f"{fork.commit} {fork.base}\n{fork.tip_tree} {merged}\n".encode()
        own, _, landing = self.git.run(*words, stdin=pairs).partition(f"{fork.tip_tree} {merged}\n".encode())
        return parse_changes(own.removeprefix(f"{fork.commit}\0".encode())), parse_changes(landing)

    def read_blobs(self, blobs: Iterable[str]) -> dict[str, bytes]:
        names = list(dict.fromkeys(blob for blob in blobs if blob.strip("0")))
        out = self.git.run("cat-file", "--batch", stdin="".join(f"{n}\n" for n in names).encode()) if names else b""
        found = zip(names, parse_batch_output(out), strict=False)
        return {name: content for name, content in found if content is not None}

    def find_merge_base(self, one: str, other: str) -> str | None:
        return self.git.text("merge-base", one, other, ok=(0, 1)) or None

    def find_checkout(self, ref: str) -> str | None:
        """Return the worktree that has a branch checked out; None if none has."""
        place = ""
        for line in self.git.text("worktree", "list", "--porcelain").splitlines():
            key, _, value = line.partition(" ")
            place = value if key == "worktree" else place
            if key == "branch" and value == ref:
                return place
        return None

    # Making

    def merge(self, ours: str, theirs: str, union: Iterable[str] = ()) -> MergedTree:
        """Merge two commits by their merge base, renames followed. Paths with conflicts are named. Files that match
        `union` keep the lines of both sides, unless the repository's own attributes say otherwise.
        """
        words = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs)
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="remit.") as attributes:
            attributes.writelines(f"{quote_pattern(pattern)} merge=union\n" for pattern in union)
            attributes.flush()
            merged = self.git.run("-c", f"core.attributesFile={attributes.name}", *words, ok=(0, 1))
        parts = [part for part in merged.split(b"\0") if part]
        if not parts:
            raise GitError(words, None, "merge-tree named no tree")
        return MergedTree(parts[0].decode("ascii"), tuple(dict.fromkeys(os.fsdecode(path) for path in parts[1:])))

    def merge_with_base(self, base: str, ours: str, theirs: str) -> MergedTree:
        """Merge two trees by a base of one's own choice: git before 2.40 knows only that of the history."""
        who = Identity("Remit", "remit@localhost", 0)
        root = self.commit(base, (), "base", who)
        return self.merge(*(self.commit(tree, (root,), "side", who) for tree in (ours, theirs)))

    def revert(self, commit: str, onto: str) -> MergedTree:
        """Take the changes of a commit, beside its first parent, out of the tip `onto`."""
        trees = (self.read_tree_name(name) for name in (commit, onto, f"{commit}^1"))
        return self.merge_with_base(*trees)

    def replace_files(self, tree: str, files: Mapping[str, bytes | None]) -> str:
        """Return the tree with other contents in these files; None removes one. Modes of known files stay."""
        if not files:
            return tree
        modes = {line.partition(b"\t")[2]: line[:6] for line in self.list_entries(tree, files)}
        lines: list[bytes] = []
        for path, content in files.items():
            name = os.fsencode(path)
            if content is None:
                lines.append(b"0 %s\t%s" % (NO_COMMIT.encode(), name))
            else:
                blob = self.git.run("hash-object", "-w", "--no-filters", "--stdin", stdin=content).strip()
                lines.append(b"%s %s\t%s" % (modes.get(name, b"100644"), blob, name))
        with tempfile.TemporaryDirectory() as folder:
            self.run_with_index(Path(folder), "read-tree", tree)
            self.run_with_index(Path(folder), "update-index", "-z", "--index-info", stdin=b"\0".join((*lines, b"")))
            return self.run_with_index(Path(folder), "write-tree").decode("ascii").strip()

    def list_entries(self, tree: str, paths: Iterable[str]) -> list[bytes]:
        out = self.git.run("ls-tree", "-r", "-z", "--full-tree", tree, "--", *paths)
        return [line for line in out.split(b"\0") if line]

    def run_with_index(self, folder: Path, *arguments: str, stdin: bytes = b"") -> bytes:
        words = ("env", f"GIT_INDEX_FILE={folder / 'index'}", *git_words(self.folder, arguments), *arguments)
        done = execute(words, arguments, stdin, self.folder)
        if done.code:
            raise GitError(arguments, done.code, done.errors)
        return done.output

    def commit(
        self, tree: str, parents: Iterable[str], message: str, author: Identity, committer: Identity | None = None
    ) -> str:
        """Write a commit object and return its name: equal arguments give equal commits."""
        lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents), f"author {author.format()}"]
        lines += [f"committer {(committer or author).format()}", "", message.replace("\0", "").rstrip("\n"), ""]
        content = "\n".join(lines).encode("utf-8", "replace")
        return self.git.run("hash-object", "-w", "-t", "commit", "--stdin", stdin=content).decode("ascii").strip()

    def commit_files(
        self,
        ref: str,
        tree: str,
        parents: tuple[str, ...],
        message: str,
        author: Identity,
        committer: Identity,
        files: Mapping[str, bytes],
    ) -> str:
        """Write a commit of a tree with new contents of plain files, in a single process, and return the commit's name;
        `ref` names the commit until the next.
        """
        text = message.replace("\0", "").rstrip("\n").encode("utf-8", "replace") + b"\n"
        head = f"feature done\ncommit {ref}\nmark :1\nauthor {author.format()}\ncommitter {committer.format()}\n"
        stream = [head.encode("utf-8", "replace"), b"data %d\n%s\n" % (len(text), text)]
        stream += [f"{word} {name}\n".encode() for word, name in zip(("from", "merge"), parents, strict=False)]
        stream.append(f'M 040000 {tree} ""\n'.encode())
        for path, content in files.items():
            stream.append(
                b"M 100644 inline %s\ndata %d\n%s\n" % (quote_bytes(os.fsencode(path)), len(content), content)
            )
        stream.append(b"\nget-mark :1\ndone\n")
        out = self.git.run("fast-import", "--quiet", "--force", "--cat-blob-fd=1", stdin=b"".join(stream))
        return out.decode("ascii").strip()

    # Moving refs

    def swap_ref(self, ref: str, new: str, old: str) -> None:
        """Move a ref from `old` (NO_COMMIT: it does not exist) to `new`. Raises RefCheckedOut, RefMoved."""
        self.refuse_checked_out(ref)
        try:
            self.git.run("update-ref", "--create-reflog", ref, new, old)
        except GitError as error:
            present = self.git.text("rev-parse", "--verify", "--quiet", ref, ok=(0, 1, 128)) or NO_COMMIT
            if present != old:
                raise RefMoved(ref, old) from error
            raise

    def refuse_checked_out(self, ref: str) -> None:
        """Raise RefCheckedOut for a branch that a worktree has checked out."""
        if (place := self.find_checkout(ref)) is not None:
            raise RefCheckedOut(ref, place)

    def push_ref(self, remote: str, ref: str, new: str, old: str) -> None:
        """Move a ref of a remote from `old` (NO_COMMIT: it does not exist) to `new`. Raises RefMoved, RemoteRefused,
        RemoteAway.
        """
        expected = "" if old == NO_COMMIT else old
        words = (*PUSH_OPTIONS, f"--force-with-lease={ref}:{expected}", "--", check_remote_name(remote))
        try:
            run_over_network(self.git, "push", *words, f"{new}:{ref}", limit_s=self.limit_s)
        except GitError as error:
            # What became of it, the remote tells: an answer can get lost, and git's words differ by language.
            present = self.read_remote_ref(remote, ref)
            if present == new:
                return
            if present != old:
                raise RefMoved(ref, old) from error
            raise RemoteRefused(remote, ref, error) from error

    def read_remote_ref(self, remote: str, ref: str) -> str:
        """Return the commit of a remote's ref, NO_COMMIT without one. Raises RemoteAway."""
        try:
            words = ("ls-remote", "--refs", "--", check_remote_name(remote), ref)
            listed = run_over_network(self.git, *words, limit_s=self.limit_s)
        except GitError as error:
            raise RemoteAway(remote, error) from error
        rows = (line.split("\t") for line in listed.decode("utf-8", "replace").splitlines())
        return next((row[0] for row in rows if row[1:] == [ref]), NO_COMMIT)


def parse_changes(out: bytes) -> tuple[ChangedEntry, ...]:
    parts = out.split(b"\0")
    changes: list[ChangedEntry] = []
    for about, path in zip(parts[0::2], parts[1::2], strict=False):
        old_mode, new_mode, old_blob, new_blob, _ = about.decode("ascii").lstrip(":").split(" ")
        changes.append(ChangedEntry(os.fsdecode(path), old_mode, new_mode, old_blob, new_blob))
    return tuple(changes)


def quote_pattern(pattern: str) -> str:
    """Return a pattern from the root on as gitattributes(5) quotes it."""
    escaped = "".join(f"\\{char}" if char in '"\\' else char for char in f"/{pattern}")
    return f'"{escaped}"'
