"""Writing a machine's log as a tracked file, at a commit's moment and never between, and finding logs in the history.

The bytes go into git as they are: no filter, no line endings, no ignore rule has a say.
Source: gitattributes(5), git-update-index(1), git-log(1), read 2026-11.

Where logs lie that are tracked files, `.orchestration/log/<machine>-<first>.jsonl`, and which of them is our own.

`first` is the beginning of the leaf hash of a log's first record: two clones on one machine have two logs, and two
files. What Remit itself wrote there is noted, so that nobody takes it for a change of an agent's.
"""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISREG

from msgspec import Struct

from remit.core.diff.contents import sha256
from remit.workspace.contents.content_store import parse_batch_output
from remit.workspace.files.read_files import read_tail
from remit.workspace.files.safe_paths import write_below
from remit.workspace.git.command import Git
from remit.workspace.git.hidden_files import prefix_in_repository
from remit.workspace.place.workspace import TRACKED_LOGS_FOLDER, Workspace, path_exists

ATTRIBUTES = ".gitattributes"
MAX_LOG_BYTES = 96 * 1024 * 1024
"""Of one such file: hosting sites take none above 100 MiB. A larger one is neither written nor read."""

MAX_TOTAL_LOG_BYTES = 512 * 1024 * 1024
MAX_LOG_FILES = 500
OWN_WRITES_FILE = "tracked"
MAX_OWN_WRITES = 8
MAX_OWN_WRITES_BYTES = 1 << 16

_LOG = re.compile(r"[0-9a-f]{12}-[0-9a-f]{8}\.jsonl")


def is_log_name(name: str) -> bool:
    """Whether a file of that name in the folder of tracked logs is one."""
    return _LOG.fullmatch(name) is not None


def is_shared_log_file(path: str) -> bool:
    """Whether a file, by its path from the root, is a tracked log or the attributes beside it."""
    folder, _, name = path.rpartition("/")
    return folder == TRACKED_LOGS_FOLDER and (is_log_name(name) or name == ATTRIBUTES)


def list_other_logs(logs: Path, state: Path) -> list[Path]:
    """The logs of others that are tracked in this folder, as far as they are read."""
    own = "".join(read_own_writes(state)[:1])
    return [path for path in list_readable_logs(logs) if not is_same_log(path.name, own)]


def is_same_log(one: str, other: str) -> bool:
    """Whether two names are of one log, which may have been written under two homes, as two machines."""
    return bool(other) and one.rpartition("-")[2] == other.rpartition("-")[2]


def list_readable_logs(logs: Path) -> list[Path]:
    """The files that are read: regular ones, none too large, and not too many, nor too much together."""
    left = MAX_TOTAL_LOG_BYTES
    found: list[Path] = []
    for name in list_log_names(logs)[:MAX_LOG_FILES]:
        why, size = inspect_log(logs / name)
        if why is None and (left := left - size) >= 0:
            found.append(logs / name)
    return found


def list_log_names(logs: Path) -> list[str]:
    """The names of tracked logs, sorted; none where the folder is a link, which may lead anywhere."""
    try:
        found = [] if logs.is_symlink() else os.listdir(logs)  # noqa: PTH208  blame asks each time: a Path each is dear
    except OSError:
        return []
    return sorted(filter(is_log_name, found))


def unreadable_reason(path: Path) -> str | None:
    """Why a file is not read as a log; None where it is."""
    return inspect_log(path)[0]


def inspect_log(path: Path) -> tuple[str | None, int]:
    """Why a file is not read as a log, None where it is; and its bytes."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return "it is missing", 0
    except OSError as error:
        return f"it cannot be looked at ({error.strerror})", 0
    if not S_ISREG(status.st_mode):
        return "it is no regular file", 0
    why = f"it is larger than {MAX_LOG_BYTES >> 20} MiB" if status.st_size > MAX_LOG_BYTES else None
    return why, status.st_size


def folder_unreadable_reason(logs: Path) -> str | None:
    """Why nothing in the folder is read; None where it is, or where there is none."""
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
    """The name of our own file, and the SHA-256 of what Remit wrote into that folder, the newest first."""
    return read_tail(state / OWN_WRITES_FILE, MAX_OWN_WRITES_BYTES).decode("ascii", "replace").split()


def record_own_writes(state: Path, name: str, hashes: Iterator[str]) -> None:
    """Remember what is about to be written there. Raises OSError."""
    state.mkdir(parents=True, exist_ok=True)
    known = dict.fromkeys([*hashes, *read_own_writes(state)[1:]])
    write_below(state, state / OWN_WRITES_FILE, "\n".join([name, *list(known)[:MAX_OWN_WRITES], ""]).encode())


def is_own_write(workspace: Workspace, path: str, sha256: str) -> bool:
    """Whether the content of a file, by its path from the root, is what Remit put there."""
    return path.startswith(f"{TRACKED_LOGS_FOLDER}/") and sha256 in read_own_writes(workspace.state)[1:]


ATTRIBUTES_CONTENT = b"""\
# Written by `remit ledger push`. Logs are read byte for byte, and merged by no line: `remit ledger push` settles it.
*.jsonl -text -diff -merge -filter -ident linguist-generated
"""
MAX_HISTORY_BYTES = 256 * 1024 * 1024
"""Of all that is read from the history: the newest and longest come first."""

IN_PROGRESS_FILES = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")
ZERO_DIGITS = frozenset("0")


class IndexLocked(RuntimeError):
    """Somebody is writing the index: a commit of some paths or of all, from whose hook we were called, or a crash."""

    def __init__(self, lock: Path) -> None:
        super().__init__(
            f"git is writing its index just now ({str(lock)!r} is there), so nothing was added to the log's file"
            "\nhint: what is new goes with the next commit; where no git runs, delete that file"
        )


class FolderInTheWay(OSError):
    """A folder stands where a log's file belongs."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{str(path)!r} is a folder, where the log's file belongs, so nothing was written"
            "\nhint: move it away; `remit ledger push` then writes the file from the ledger, which has every record"
        )


class _LogVersion(Struct, frozen=True):
    """A version of a tracked log in the history."""

    name: str
    blob: str


class TrackedLogs:
    """The logs that are tracked files of one workspace in a git repository.

    `index` is a locked one that we may write all the same: git handed it to a hook.
    """

    def __init__(self, workspace: Workspace, index: Path | None = None) -> None:
        self.workspace = workspace
        self.index = index
        self.git = Git(workspace.root)
        self.prefix = prefix_in_repository(workspace)

    def log_path(self, name: str) -> Path:
        """Where a file of that name lies."""
        return self.workspace.tracked_logs / name

    @property
    def is_operation_in_progress(self) -> bool:
        """Whether git is in the midst of a merge, a rebase or the like, in which nobody else should commit."""
        return any(path_exists(f"{self.workspace.git_dir}/{name}") for name in IN_PROGRESS_FILES)

    def read_present(self, name: str) -> bytes | None:
        """The file as it lies there; None where there is none, or none that is read. No link leads to another."""
        path = self.log_path(name)
        return (
            path.read_bytes()
            if folder_unreadable_reason(path.parent) is None and unreadable_reason(path) is None
            else None
        )

    def read_head_version(self, name: str) -> bytes | None:
        """The file as HEAD has it."""
        return next(iter(self.read_blobs([f"HEAD:{self.prefix}{TRACKED_LOGS_FOLDER}/{name}"])), None)

    def list_committed_names(self) -> list[str]:
        """The names of the tracked logs that HEAD has."""
        out = self.git.text("ls-tree", "-z", "--name-only", "HEAD", "--", f"{TRACKED_LOGS_FOLDER}/", ok=(0, 128))
        return [name for path in out.split("\0") if is_log_name(name := path.rpartition("/")[2])]

    def read_merge_sides(self) -> dict[str, list[bytes]]:
        """By name, what the two sides of a merge hold of each log that they disagree about."""
        out = self.git.text("ls-files", "--unmerged", "-z", "--", f":(literal){TRACKED_LOGS_FOLDER}")
        rows = [row.partition("\t") for row in out.split("\0") if row]
        found: dict[str, list[bytes]] = {}
        for about, _, path in rows:
            _, blob, stage = about.split(" ")
            if stage != "1" and is_log_name(name := path.rpartition("/")[2]):
                found.setdefault(name, []).extend(self.read_blobs([blob]))
        return found

    def write_and_stage(self, contents: dict[str, bytes], own: str) -> bool:
        """Write these files and stage them; whether any is another than HEAD has. Raises GitHoldsIndex, FolderInTheWay,
        GitError.

        Nothing is written where it could not be staged: the file changes at a commit's moment only.
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
            self.stage_content(name, content)
            if self.read_present(name) != content:
                write_below(self.workspace.root, self.log_path(name), content, links=False)
        self.git.run("update-index", "-q", "--refresh", ok=(0, 1))
        return any(self.read_head_version(name) != content for name, content in contents.items())

    def stage_content(self, name: str, content: bytes) -> None:
        """Put that content into the index, whatever side of a merge stands there. Raises GitError."""
        blob = self.git.run("hash-object", "-w", "--no-filters", "--stdin", stdin=content).decode().strip()
        self.git.run("update-index", "--add", "--cacheinfo", f"100644,{blob},{self.prefix}{TRACKED_LOGS_FOLDER}/{name}")

    def commit_logs(self, names: Iterable[str], message: str) -> str:
        """Commit these files and nothing else that is staged; the commit. Raises GitError."""
        paths = [f":(literal){TRACKED_LOGS_FOLDER}/{name}" for name in (ATTRIBUTES, *names)]
        self.git.run("commit", "--quiet", "--no-verify", "--only", "-m", message, "--", *paths)
        return self.git.read_head() or ""

    def read_history(self) -> dict[str, list[bytes]]:
        """By name, the contents of tracked logs in commits of HEAD and of every branch, that no longer one continues.

        A log only grows, so older versions are in newer ones; what a merge or a person dropped is in none. Raises
        GitError.
        """
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
        """Contents of tracked logs in the history; what nothing at least as long replaced comes first."""
        moves = list(self.list_version_changes())
        blobs = dict.fromkeys(one for move in moves for one in move if not ZERO_DIGITS.issuperset(one.blob))
        sizes = self.read_blob_sizes(blobs)
        replaced = {old for old, new in moves if sizes.get(new, -1) >= sizes.get(old, 0)}
        wanted = sorted((one for one in blobs if 0 < sizes.get(one, 0) <= MAX_LOG_BYTES), key=replaced.__contains__)
        for one in wanted:
            for content in self.read_blobs([one.blob]):
                yield one.name, content

    def list_version_changes(self) -> Iterator[tuple[_LogVersion, _LogVersion]]:
        """From what to what each commit brought a tracked log, against each of its parents, the newest first."""
        words = ("log", "--format=", "--diff-merges=separate", "--raw", "-z", "--no-abbrev", "--no-renames")
        out = self.git.text(
            *words, "--branches", "--remotes", "HEAD", "--", f":(literal){TRACKED_LOGS_FOLDER}", ok=(0, 128)
        )
        parts = [part for part in out.split("\0") if part]
        for about, path in zip(parts[::2], parts[1::2], strict=False):
            words_of = about.strip().split(" ")
            if len(words_of) == 5 and is_log_name(name := path.rpartition("/")[2]):
                yield _LogVersion(name, words_of[2]), _LogVersion(name, words_of[3])

    def read_blob_sizes(self, blobs: Iterable[_LogVersion]) -> dict[_LogVersion, int]:
        """How long each is; those that git does not have are left out."""
        asked = list(blobs)
        lines = "".join(f"{one.blob}\n" for one in asked).encode()
        told = self.git.run("cat-file", "--batch-check=%(objecttype) %(objectsize)", stdin=lines).decode().splitlines()
        words = [line.split(" ") for line in told]
        return {one: int(size) for one, (kind, size, *_) in zip(asked, words, strict=True) if kind == "blob"}

    def read_blobs(self, names: Iterable[str]) -> list[bytes]:
        """The contents of these objects, without those that are missing."""
        asked = "".join(f"{name}\n" for name in names).encode("utf-8", "surrogateescape")
        return [
            found for found in parse_batch_output(self.git.run("cat-file", "--batch", stdin=asked)) if found is not None
        ]
