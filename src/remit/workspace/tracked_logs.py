"""Writing a machine's log as a tracked file, at a commit's moment and never between, and finding logs in the history.

The bytes go into git as they are: no filter, no line endings, no ignore rule has a say.
Source: gitattributes(5), git-update-index(1), git-log(1), read 2026-11.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from remit.core.contents import sha256
from remit.workspace.beneath import write_below
from remit.workspace.contents import batch
from remit.workspace.git import Git
from remit.workspace.hidden import prefix_in_repository
from remit.workspace.place import LOGS, Workspace, is_there
from remit.workspace.tracked import ATTRIBUTES, MOST_BYTES, folder_trouble, is_log, note, trouble

AS_THEY_ARE = b"""\
# Written by `remit ledger push`. Logs are read byte for byte, and merged by no line: `remit ledger push` settles it.
*.jsonl -text -diff -merge -filter -ident linguist-generated
"""
GATHERED_BYTES = 256 * 1024 * 1024
"""Of all that is read from the history: the newest and longest come first."""

STOPPED = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")
NOTHING = frozenset("0")


class GitHoldsIndex(RuntimeError):
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


class _Blob(Struct, frozen=True):
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

    def path(self, name: str) -> Path:
        """Where a file of that name lies."""
        return self.workspace.tracked_logs / name

    @property
    def stopped(self) -> bool:
        """Whether git is in the midst of a merge, a rebase or the like, in which nobody else should commit."""
        return any(is_there(f"{self.workspace.git_dir}/{name}") for name in STOPPED)

    def present(self, name: str) -> bytes | None:
        """The file as it lies there; None where there is none, or none that is read. No link leads to another."""
        path = self.path(name)
        return path.read_bytes() if folder_trouble(path.parent) is None and trouble(path) is None else None

    def committed(self, name: str) -> bytes | None:
        """The file as HEAD has it."""
        return next(iter(self.blobs([f"HEAD:{self.prefix}{LOGS}/{name}"])), None)

    def names(self) -> list[str]:
        """The names of the tracked logs that HEAD has."""
        out = self.git.text("ls-tree", "-z", "--name-only", "HEAD", "--", f"{LOGS}/", ok=(0, 128))
        return [name for path in out.split("\0") if is_log(name := path.rpartition("/")[2])]

    def sides(self) -> dict[str, list[bytes]]:
        """By name, what the two sides of a merge hold of each log that they disagree about."""
        out = self.git.text("ls-files", "--unmerged", "-z", "--", f":(literal){LOGS}")
        rows = [row.partition("\t") for row in out.split("\0") if row]
        found: dict[str, list[bytes]] = {}
        for about, _, path in rows:
            _, blob, stage = about.split(" ")
            if stage != "1" and is_log(name := path.rpartition("/")[2]):
                found.setdefault(name, []).extend(self.blobs([blob]))
        return found

    def put(self, contents: dict[str, bytes], own: str) -> bool:
        """Write these files and stage them; whether any is another than HEAD has. Raises GitHoldsIndex, FolderInTheWay,
        GitError.

        Nothing is written where it could not be staged: the file changes at a commit's moment only.
        """
        lock = Path(f"{self.workspace.git_dir}/index.lock")
        if lock.exists() and self.index != lock:
            raise GitHoldsIndex(lock)
        files = {ATTRIBUTES: AS_THEY_ARE, **contents}
        for path in map(self.path, files):
            if path.is_dir() and not path.is_symlink():
                raise FolderInTheWay(path)
        note(self.workspace.state, own, map(sha256, files.values()))
        for name, content in files.items():
            self.stage(name, content)
            if self.present(name) != content:
                write_below(self.workspace.root, self.path(name), content, links=False)
        self.git.run("update-index", "-q", "--refresh", ok=(0, 1))
        return any(self.committed(name) != content for name, content in contents.items())

    def stage(self, name: str, content: bytes) -> None:
        """Put that content into the index, whatever side of a merge stands there. Raises GitError."""
        blob = self.git.run("hash-object", "-w", "--no-filters", "--stdin", stdin=content).decode().strip()
        self.git.run("update-index", "--add", "--cacheinfo", f"100644,{blob},{self.prefix}{LOGS}/{name}")

    def commit(self, names: Iterable[str], message: str) -> str:
        """Commit these files and nothing else that is staged; the commit. Raises GitError."""
        paths = [f":(literal){LOGS}/{name}" for name in (ATTRIBUTES, *names)]
        self.git.run("commit", "--quiet", "--no-verify", "--only", "-m", message, "--", *paths)
        return self.git.head() or ""

    def history(self) -> dict[str, list[bytes]]:
        """By name, the contents of tracked logs in commits of HEAD and of every branch, that no longer one continues.

        A log only grows, so older versions are in newer ones; what a merge or a person dropped is in none. Raises
        GitError.
        """
        found: dict[str, list[bytes]] = {}
        left = GATHERED_BYTES
        for name, content in self.versions():
            left -= len(content)
            if left < 0:
                break
            kept = found.setdefault(name, [])
            if not any(longer.startswith(content) for longer in kept):
                kept[:] = [shorter for shorter in kept if not content.startswith(shorter)] + [content]
        return found

    def versions(self) -> Iterator[tuple[str, bytes]]:
        """Contents of tracked logs in the history; what nothing at least as long replaced comes first."""
        moves = list(self.moves())
        blobs = dict.fromkeys(one for move in moves for one in move if not NOTHING.issuperset(one.blob))
        sizes = self.sizes(blobs)
        replaced = {old for old, new in moves if sizes.get(new, -1) >= sizes.get(old, 0)}
        wanted = sorted((one for one in blobs if 0 < sizes.get(one, 0) <= MOST_BYTES), key=replaced.__contains__)
        for one in wanted:
            for content in self.blobs([one.blob]):
                yield one.name, content

    def moves(self) -> Iterator[tuple[_Blob, _Blob]]:
        """From what to what each commit brought a tracked log, against each of its parents, the newest first."""
        words = ("log", "--format=", "--diff-merges=separate", "--raw", "-z", "--no-abbrev", "--no-renames")
        out = self.git.text(*words, "--branches", "--remotes", "HEAD", "--", f":(literal){LOGS}", ok=(0, 128))
        parts = [part for part in out.split("\0") if part]
        for about, path in zip(parts[::2], parts[1::2], strict=False):
            words_of = about.strip().split(" ")
            if len(words_of) == 5 and is_log(name := path.rpartition("/")[2]):
                yield _Blob(name, words_of[2]), _Blob(name, words_of[3])

    def sizes(self, blobs: Iterable[_Blob]) -> dict[_Blob, int]:
        """How long each is; those that git does not have are left out."""
        asked = list(blobs)
        lines = "".join(f"{one.blob}\n" for one in asked).encode()
        told = self.git.run("cat-file", "--batch-check=%(objecttype) %(objectsize)", stdin=lines).decode().splitlines()
        words = [line.split(" ") for line in told]
        return {one: int(size) for one, (kind, size, *_) in zip(asked, words, strict=True) if kind == "blob"}

    def blobs(self, names: Iterable[str]) -> list[bytes]:
        """The contents of these objects, without those that are missing."""
        asked = "".join(f"{name}\n" for name in names).encode("utf-8", "surrogateescape")
        return [found for found in batch(self.git.run("cat-file", "--batch", stdin=asked)) if found is not None]
