"""Logs as tracked files, `.orchestration/log/<machine>-<first>.jsonl`, written only at the moment of a commit.

`first` is the start of the leaf hash of a log's first record: two clones on a machine have two logs and two files.
Files written by Remit are recorded, so that they are not taken for an agent's changes. Bytes go into git unchanged: no
filter, line ending or ignore rule applies. Source: gitattributes(5), git-update-index(1), git-log(1), read 2026-11.
"""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISREG

from remit.core.diff.contents import sha256
from remit.workspace.git.command import Git
from remit.workspace.git.repository import parse_batch_output, prefix_in_repository
from remit.workspace.place.workspace import TRACKED_LOGS_FOLDER, Workspace, path_exists
from remit.workspace.safe_files import read_tail, write_below

LOG_NAME = re.compile(r"[0-9a-f]{12}-[0-9a-f]{8}\.jsonl")
ATTRIBUTES = ".gitattributes"
ATTRIBUTES_CONTENT = b"""\
# Written by `remit ledger push`. Logs are read byte for byte, and merged by no line: `remit ledger push` settles it.
*.jsonl -text -diff -merge -filter -ident linguist-generated
"""
MAX_LOG_BYTES = 96 * 1024 * 1024
"""Limit per file: hosting sites accept none above 100 MiB. Larger files are neither written nor read."""

MAX_TOTAL_LOG_BYTES = 512 * 1024 * 1024
MAX_LOG_FILES = 500
OWN_WRITES_FILE = "tracked"
MAX_OWN_WRITES = 8
MAX_OWN_WRITES_BYTES = 1 << 16
MAX_HISTORY_BYTES = 256 * 1024 * 1024  # limit for contents read from the history, newest and longest first


def is_log_name(name: str) -> bool:
    return LOG_NAME.fullmatch(name) is not None


def is_shared_log_file(path: str) -> bool:
    folder, _, name = path.rpartition("/")
    return folder == TRACKED_LOGS_FOLDER and (is_log_name(name) or name == ATTRIBUTES)


def list_other_logs(logs: Path, state: Path) -> list[Path]:
    own = "".join(read_own_writes(state)[:1])
    return [path for path in list_readable_logs(logs) if not is_same_log(path.name, own)]


def is_same_log(one: str, other: str) -> bool:
    """Return whether two names are of the same log, which may have been written under two homes, as two machines."""
    return bool(other) and one.rpartition("-")[2] == other.rpartition("-")[2]


def list_readable_logs(logs: Path) -> list[Path]:
    """Return readable logs: regular files, within the limits of size and number."""
    left = MAX_TOTAL_LOG_BYTES
    found: list[Path] = []
    for name in list_log_names(logs)[:MAX_LOG_FILES]:
        reason, size = inspect_log(logs / name)
        if reason is None and (left := left - size) >= 0:
            found.append(logs / name)
    return found


def list_log_names(logs: Path) -> list[str]:
    """Return the sorted names of tracked logs; empty for a linked folder, which may lead anywhere."""
    try:
        found = [] if logs.is_symlink() else os.listdir(logs)  # noqa: PTH208  blame asks each time: a Path each is dear
    except OSError:
        return []
    return sorted(filter(is_log_name, found))


def unreadable_reason(path: Path) -> str | None:
    return inspect_log(path)[0]


def inspect_log(path: Path) -> tuple[str | None, int]:
    """Return why a file is not read as a log (None if readable), and its size."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return "it is missing", 0
    except OSError as error:
        return f"it cannot be looked at ({error.strerror})", 0
    if not S_ISREG(status.st_mode):
        return "it is no regular file", 0
    reason = f"it is larger than {MAX_LOG_BYTES >> 20} MiB" if status.st_size > MAX_LOG_BYTES else None
    return reason, status.st_size


def folder_unreadable_reason(logs: Path) -> str | None:
    """Return why the folder is not read; None if readable or absent."""
    try:
        status = logs.lstat()
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"it cannot be looked at ({error.strerror})"
    if not S_ISDIR(status.st_mode):
        return "it is a link" if S_ISLNK(status.st_mode) else "it is no folder"
    return None if os.access(logs, os.R_OK | os.X_OK) else "it cannot be read"


def read_own_writes(state: Path) -> list[str]:
    """Return the name of the own file, and the SHA-256 of contents written by Remit, newest first."""
    return read_tail(state / OWN_WRITES_FILE, MAX_OWN_WRITES_BYTES).decode("ascii", "replace").split()


def record_own_writes(state: Path, name: str, hashes: Iterator[str]) -> None:
    state.mkdir(parents=True, exist_ok=True)
    known = dict.fromkeys([*hashes, *read_own_writes(state)[1:]])
    write_below(state, state / OWN_WRITES_FILE, "\n".join([name, *list(known)[:MAX_OWN_WRITES], ""]).encode())


class IndexLocked(RuntimeError):
    """git's index is locked: by a commit that called this hook, or after a crash."""

    def __init__(self, lock: Path) -> None:
        super().__init__(
            f"git is writing its index just now ({str(lock)!r} is there), so nothing was added to the log's file"
            "\nhint: what is new goes with the next commit; where no git runs, delete that file"
        )


class FolderInTheWay(OSError):
    """A folder stands at the path of a log."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{str(path)!r} is a folder, where the log's file belongs, so nothing was written"
            "\nhint: move it away; `remit ledger push` then writes the file from the ledger, which has every record"
        )


class TrackedLogs:
    """Tracked logs of a workspace in git; `index` is a locked one that may be written, as git passed it to a hook."""

    def __init__(self, workspace: Workspace, index: Path | None = None) -> None:
        self.workspace = workspace
        self.index = index
        self.git = Git(workspace.root)
        self.prefix = prefix_in_repository(workspace)

    def log_path(self, name: str) -> Path:
        return self.workspace.tracked_logs / name

    @property
    def is_operation_in_progress(self) -> bool:
        """Whether a merge, rebase or the like is in progress, during which no extra commit may be made."""
        names = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")
        return any(path_exists(f"{self.workspace.git_dir}/{name}") for name in names)

    def read_present(self, name: str) -> bytes | None:
        """Return the file on disk; None if absent or unreadable. No link is followed."""
        path = self.log_path(name)
        reason = folder_unreadable_reason(path.parent) or unreadable_reason(path)
        return path.read_bytes() if reason is None else None

    def read_head_version(self, name: str) -> bytes | None:
        return next(iter(self.read_blobs([f"HEAD:{self.prefix}{TRACKED_LOGS_FOLDER}/{name}"])), None)

    def list_committed_names(self) -> list[str]:
        out = self.git.text("ls-tree", "-z", "--name-only", "HEAD", "--", f"{TRACKED_LOGS_FOLDER}/", ok=(0, 128))
        return [name for path in out.split("\0") if is_log_name(name := path.rpartition("/")[2])]

    def read_merge_sides(self) -> dict[str, list[bytes]]:
        out = self.git.text("ls-files", "--unmerged", "-z", "--", f":(literal){TRACKED_LOGS_FOLDER}")
        found: dict[str, list[bytes]] = {}
        for about, _, path in (row.partition("\t") for row in out.split("\0") if row):
            _, blob, stage = about.split(" ")
            if stage != "1" and is_log_name(name := path.rpartition("/")[2]):
                found.setdefault(name, []).extend(self.read_blobs([blob]))
        return found

    def write_and_stage(self, contents: dict[str, bytes], own: str) -> bool:
        """Write and stage the files; return whether any differs from HEAD.

        If staging fails, no file is written: a log file changes only at a commit. Staging replaces any side of a merge.
        Raises IndexLocked, FolderInTheWay.
        """
        lock = Path(f"{self.workspace.git_dir}/index.lock")
        if lock.exists() and self.index != lock:
            raise IndexLocked(lock)
        files = {ATTRIBUTES: ATTRIBUTES_CONTENT, **contents}
        for path in map(self.log_path, files):
            if path.is_dir() and not path.is_symlink():
                raise FolderInTheWay(path)
        record_own_writes(self.workspace.state, own, map(sha256, files.values()))
        for name, content in files.items():
            blob = self.git.run("hash-object", "-w", "--no-filters", "--stdin", stdin=content).decode().strip()
            entry = f"100644,{blob},{self.prefix}{TRACKED_LOGS_FOLDER}/{name}"
            self.git.run("update-index", "--add", "--cacheinfo", entry)
            if self.read_present(name) != content:
                write_below(self.workspace.root, self.log_path(name), content, follow_links=False)
        self.git.run("update-index", "-q", "--refresh", ok=(0, 1))
        return any(self.read_head_version(name) != content for name, content in contents.items())

    def commit_logs(self, names: Iterable[str], message: str) -> str:
        paths = [f":(literal){TRACKED_LOGS_FOLDER}/{name}" for name in (ATTRIBUTES, *names)]
        self.git.run("commit", "--quiet", "--no-verify", "--only", "-m", message, "--", *paths)
        return self.git.read_head() or ""

    def read_history(self) -> dict[str, list[bytes]]:
        """Return by name the maximal contents of tracked logs on HEAD and each branch, even if a merge dropped them."""
        found: dict[str, list[bytes]] = {}
        left = MAX_HISTORY_BYTES
        for name, content in self.read_versions():
            left -= len(content)
            if left < 0:
                break
            kept = found.setdefault(name, [])
            if not any(longer.startswith(content) for longer in kept):
                kept[:] = [shorter for shorter in kept if not content.startswith(shorter)] + [content]
        return found

    def read_versions(self) -> Iterator[tuple[str, bytes]]:
        # 1. Each change, against each parent, newest first: name, old blob, new blob.
        words = ("log", "--format=", "--diff-merges=separate", "--raw", "-z", "--no-abbrev", "--no-renames")
        places = ("--branches", "--remotes", "HEAD", "--", f":(literal){TRACKED_LOGS_FOLDER}")
        parts = [part for part in self.git.text(*words, *places, ok=(0, 128)).split("\0") if part]
        rows = ((path.rpartition("/")[2], about.strip().split(" ")) for about, path in zip(parts[::2], parts[1::2]))  # noqa: B905  an odd part has no path
        moves = [(name, row[2], row[3]) for name, row in rows if len(row) == 5 and is_log_name(name)]
        # 2. The sizes of the blobs that exist.
        versions = list(dict.fromkeys((name, blob) for name, *blobs in moves for blob in blobs if blob.strip("0")))
        query = "".join(f"{blob}\n" for _, blob in versions).encode()
        lines = self.git.run("cat-file", "--batch-check=%(objecttype) %(objectsize)", stdin=query).decode().splitlines()
        words_of = zip(versions, (line.split(" ") for line in lines), strict=True)
        sizes = {version: int(size) for version, (kind, size, *_) in words_of if kind == "blob"}
        # 3. The contents. A version is replaced by one at least as long.
        replaced = {(name, old) for name, old, new in moves if sizes.get((name, new), -1) >= sizes.get((name, old), 0)}
        wanted = [version for version in versions if 0 < sizes.get(version, 0) <= MAX_LOG_BYTES]
        for name, blob in sorted(wanted, key=replaced.__contains__):
            yield from ((name, content) for content in self.read_blobs([blob]))

    def read_blobs(self, names: Iterable[str]) -> list[bytes]:
        query = "".join(f"{name}\n" for name in names).encode("utf-8", "surrogateescape")
        out = self.git.run("cat-file", "--batch", stdin=query)
        return [found for found in parse_batch_output(out) if found is not None]
