"""Shared logs as refs, `refs/remit/log/<machine>`: a single writer each, moved only forward.

A ref's commit holds the segments of the log as plain files. Tree heads in shared logs, in refs or tracked files, are a
witness that outlives the state folder. HEAD, index and work tree stay untouched. Source: git-fast-import(1),
git-fetch(1), read 2026-11.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from remit.workspace.git.command import Git, GitError
from remit.workspace.place.workspace import TRACKED_LOGS_FOLDER, Workspace
from remit.workspace.sharing.authorship_notes import (
    FETCH_OPTIONS,
    NETWORK_OPTIONS,
    PUSH_OPTIONS,
    check_remote_name,
)
from remit.workspace.sharing.tracked_logs import folder_unreadable_reason, unreadable_reason

LOG_REFS = "refs/remit/log/"
GREP_OPTIONS = ("-c", "grep.lineNumber=false", "-c", "grep.column=false", "-c", "grep.patternType=default")
TREE_HEAD_TEXT = '"event":"tree_head"'

BATCH_BYTES = 32 * 1024 * 1024
_MACHINE = re.compile(r"[0-9a-f]{12}")
_SEGMENT = re.compile(r"[0-9]{12}\.jsonl")


def find_shared_head_lines(workspace: Workspace) -> Iterator[tuple[bytes, str]]:
    """Yield lines of `tree_head` records in shared logs, with the ref. No file is checked out.

    Any file of the ref's tree may hold them. Raises GitError.
    """
    if workspace.common_dir is None:
        return
    git = Git(workspace.root)
    for ref in git.text("for-each-ref", "--format=%(refname)", LOG_REFS).splitlines():
        # A foreign object without a tree holds no log.
        if not git.text("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{tree}}", ok=(0, 1, 128)):
            continue
        out = git.run(
            *GREP_OPTIONS, "grep", "-h", "-F", "--no-color", "-a", "-e", TREE_HEAD_TEXT, ref, "--", ":/", ok=(0, 1)
        )
        for line in out.splitlines():
            yield line, ref


def find_tracked_head_lines(workspace: Workspace, name: str) -> Iterator[tuple[bytes, str]]:
    """Yield lines of `tree_head` records in the tracked log, on disk and in HEAD.

    Raises GitError, OSError.
    """
    path = f"{TRACKED_LOGS_FOLDER}/{name}"
    if folder_unreadable_reason(workspace.tracked_logs) is None and unreadable_reason(workspace.root / path) is None:
        found = (line for line in (workspace.root / path).read_bytes().splitlines() if TREE_HEAD_TEXT.encode() in line)
        yield from ((line, path) for line in found)
    if workspace.common_dir is not None:
        grep = ("grep", "-h", "-F", "--no-color", "-a", "-e", TREE_HEAD_TEXT, "HEAD", "--", f":(literal){path}")
        out = Git(workspace.root).run(*GREP_OPTIONS, *grep, ok=(0, 1, 128))
        yield from ((line, f"HEAD:{path}") for line in out.splitlines())


class SharedLogDiffers(RuntimeError):
    """The shared log is not a prefix of the log: the log was cut, or a different clone writes under its name."""

    def __init__(self, ref: str, name: str) -> None:
        super().__init__(
            f"{ref!r} holds {name!r} with other content than this log\n"
            "hint: another clone of this repository on this machine may have shared its own log; nothing was changed"
        )


class LogPart(Struct, frozen=True):
    """A file of the shared log. `content` reads the file, which begins with any part shared earlier."""

    name: str
    size: int
    content: Callable[[], bytes]


class SharedLog(Struct, frozen=True):
    """Result of writing a log's ref. `absent` are parts pruned before they were ever shared."""

    ref: str
    tip: str
    files: int
    fresh: int
    absent: tuple[str, ...] = ()


class FetchedLogs(Struct, frozen=True):
    """The logs of a remote. `refused` were not fetched: the local log is not a prefix."""

    logs: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()


class LogRefs:
    """Logs shared as refs."""

    def __init__(self, workspace: Workspace) -> None:
        self.git = Git(workspace.root)

    def read_tip(self, ref: str) -> str | None:
        """Return the commit of a ref; None if none."""
        return (
            self.git.text("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}", ok=(0, 1, 128))
            or None
        )

    def list_files(self, tip: str | None) -> dict[str, tuple[str, int]]:
        out = self.git.text("ls-tree", "--full-tree", "-z", "-l", tip) if tip else ""
        rows = [row.partition("\t") for row in out.split("\0") if row]
        about = [(path, words.split()) for words, _, path in rows]
        return {path: (words[2], int(words[3])) for path, words in about if words[1] == "blob"}

    def write_ref(self, machine: str, parts: Sequence[LogPart], absent: Sequence[str]) -> SharedLog:
        """Add new parts to this machine's ref. Raises GitError, SharedLogDiffers."""
        ref = LOG_REFS + machine
        tip = self.read_tip(ref)
        known = self.list_files(tip)
        fresh = self.select_growing_parts(ref, parts, known, absent)
        for batch in _batches(fresh):
            self.git.run("fast-import", "--quiet", "--done", "--date-format=now", stdin=_commit_stream(ref, tip, batch))
            tip = self.read_tip(ref)
        missing = tuple(name for name in absent if name not in known)
        return SharedLog(ref, tip or "", len(known.keys() | {p.name for p in parts}), len(fresh), missing)

    def select_growing_parts(
        self, ref: str, parts: Sequence[LogPart], known: Mapping[str, tuple[str, int]], absent: Sequence[str]
    ) -> list[LogPart]:
        """Return parts that are new or longer. Raises SharedLogDiffers."""
        named = {part.name: part for part in parts}
        for name, (blob, size) in known.items():
            part = named.get(name)
            if part is None and name not in absent:
                raise SharedLogDiffers(ref, name)
            newest = name == max(known)
            if part and (part.size < size or (newest and _git_blob_name(part.content()[:size], len(blob)) != blob)):
                raise SharedLogDiffers(ref, name)
        return [part for part in parts if part.name not in known or known[part.name][1] < part.size]

    def push_log(self, remote: str, ref: str, tip: str) -> None:
        """Push this machine's log; never forces. Raises GitError, UnknownRemote."""
        self.git.run(*NETWORK_OPTIONS, "push", *PUSH_OPTIONS, "--", check_remote_name(remote), f"{tip}:{ref}")

    def fetch_logs(self, remote: str, machine: str) -> FetchedLogs:
        """Fetch the logs of other machines. Raises GitError, UnknownRemote."""
        out = self.git.text(*NETWORK_OPTIONS, "ls-remote", "--refs", "--", check_remote_name(remote), f"{LOG_REFS}*")
        theirs = {ref: name for name, _, ref in (line.partition("\t") for line in out.splitlines())}
        wanted = sorted(
            ref for ref in theirs if _MACHINE.fullmatch(ref.removeprefix(LOG_REFS)) and ref != LOG_REFS + machine
        )
        if not wanted:
            return FetchedLogs()
        specs = [f"{ref}:{ref}" for ref in wanted]
        self.git.run(*NETWORK_OPTIONS, "fetch", *FETCH_OPTIONS, "--", remote, *specs, ok=(0, 1))
        taken = [ref for ref in wanted if self.has_commit(ref, theirs[ref])]
        return FetchedLogs(
            *(tuple(r.removeprefix(LOG_REFS) for r in refs) for refs in (taken, [r for r in wanted if r not in taken]))
        )

    def has_commit(self, ref: str, commit: str) -> bool:
        """Return whether the local ref contains the remote's commit."""
        try:
            self.git.run("merge-base", "--is-ancestor", commit, ref)
        except GitError:
            return False
        return True

    def read_log(self, machine: str, max_bytes: int) -> bytes:
        """Return the lines of a shared log in whole files, up to `max_bytes`. Raises GitError."""
        files = self.list_files(self.read_tip(LOG_REFS + machine))
        found: list[bytes] = []
        for name in sorted(name for name in files if _SEGMENT.fullmatch(name)):
            blob, size = files[name]
            max_bytes -= size
            if max_bytes < 0:
                break
            found.append(self.git.run("cat-file", "blob", blob))
        return b"".join(found)


def _batches(parts: Iterable[LogPart]) -> Iterator[list[LogPart]]:
    """Group the parts so that a group fits into memory."""
    batch: list[LogPart] = []
    for part in parts:
        if batch and sum(item.size for item in batch) + part.size > BATCH_BYTES:
            yield batch
            batch = []
        batch.append(part)
    if batch:
        yield batch


def _commit_stream(ref: str, tip: str | None, parts: Iterable[LogPart]) -> bytes:
    """Return a fast-import commit that adds the files; fast-import moves refs only forward."""
    head = f"commit {ref}\ncommitter Remit <remit@localhost> now\ndata 12\nLog by Remit\n"
    stream = [head.encode(), f"from {tip}\n".encode() if tip else b""]
    for part in parts:
        content = part.content()
        stream += [f"M 100644 inline {part.name}\ndata {len(content)}\n".encode(), content, b"\n"]
    return b"".join([*stream, b"done\n"])


def _git_blob_name(content: bytes, digits: int) -> str:
    """Return git's blob name for a content; `digits` selects the hash."""
    digest = hashlib.sha1 if digits == 40 else hashlib.sha256
    return digest(b"blob %d\0" % len(content) + content).hexdigest()
