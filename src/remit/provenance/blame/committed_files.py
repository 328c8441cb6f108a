"""Lines of files at HEAD as git's blame tells them, kept in the index by the last commit that changed the file.

git's blame of a file passes every line to the first parent while the file's content there is the same. Thus the blame
at HEAD is the blame at the last commit on HEAD's first-parent way that changed the file, for good: the answers of
files that a commit leaves alone stay, and git runs only for the rest. Source: git's blame.c, read 2026-11.
"""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct, msgpack

from remit.core.diff.contents import sha256
from remit.core.python_runtime import map_ahead
from remit.ledger.index.index import BlamedFile
from remit.provenance.blame.blame import Blamer
from remit.provenance.origins.blame_porcelain import FileVersion, GitLine
from remit.provenance.origins.commits_before_call import RAW_OPTIONS, read_log
from remit.provenance.origins.file_histories import NEVER_S, SLACK_S
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.repository import may_have_refs_below

MAX_GIT_PROCESSES = 4
STORED_FILES = 100  # files that are stored at once: an interrupted question keeps them
SETTINGS = r"^(blame|diff|core)\."
SOURCE_FILES = ("shallow", "info/grafts")  # in the common folder; they cut or change the history


class _Run(Struct, array_like=True, gc=False):
    """Consecutive lines of the file from one version: `number` counts in the version, by its place in the list."""

    version: int
    number: int
    count: int


class _PackedFile(Struct, array_like=True, gc=False):
    """All lines of a file, by the versions that git names."""

    versions: list[FileVersion]
    runs: list[_Run]


_PACKED = msgpack.Decoder(_PackedFile)


def commits_since_recording(git: Git, first: float) -> str | None:
    """Return the range of commits that can hold recorded lines; None if empty."""
    if first == NEVER_S or git.read_head() is None:
        return None
    rows = [row.split(" ") for row in git.text("rev-list", "--first-parent", "--timestamp", "HEAD").splitlines()]
    oldest = max((n for n, row in enumerate(rows) if int(row[0]) >= first - SLACK_S), default=None)
    if oldest is None:
        return None
    return "HEAD" if oldest + 1 == len(rows) else f"{rows[oldest + 1][1]}..HEAD"


class CommittedFiles:
    """git's blame of files at HEAD, in one workspace."""

    def __init__(self, blamer: Blamer) -> None:
        self.blamer, self.index, self.attributor = blamer, blamer.index, blamer.attributor

    def read_lines(self, paths: Sequence[str]) -> Iterator[tuple[str, list[GitLine] | None]]:
        """Yield each file with its lines, in order, while git works on the next ones; None if git cannot blame a file.
        Raises GitError.
        """
        settings = read_settings(self.blamer)
        last_commits = self.find_last_commits(paths) if settings else {}
        packed = self.index.find_blamed_files(last_commits, settings or "")
        self.attributor.load_named(f"HEAD:{self.tree_path(path)}" for path in packed)
        kept = {path: lines for path, found in packed.items() if (lines := self.unpack_file(path, found)) is not None}
        rows: list[BlamedFile] = []
        missing = [path for path in paths if path not in kept]
        count = min(MAX_GIT_PROCESSES, os.cpu_count() or 1)
        with ThreadPoolExecutor(count) as pool:
            blamed = map_ahead(pool, self.run_git_blame, missing, 2 * count)
            for path in paths:
                lines = kept[path] if path in kept else next(blamed)
                if lines and path not in kept and path in last_commits:
                    rows.append(BlamedFile(path, last_commits[path], settings or "", pack_file(lines)))
                if len(rows) >= STORED_FILES:
                    self.index.store_blamed_files(rows)
                    rows = []
                yield path, lines
        self.index.store_blamed_files(rows)

    def run_git_blame(self, path: str) -> list[GitLine] | None:
        try:
            return self.blamer.read_git_lines(path, ["HEAD"])
        except GitError:
            return None

    def tree_path(self, path: str) -> str:
        return self.attributor.prefix.path_in_tree(path)

    def find_last_commits(self, paths: Sequence[str]) -> dict[str, str]:
        """Return for each path the last commit on HEAD's first-parent way that changed it. All paths without a change
        since the first record have the commit before it.
        """
        git = self.blamer.git
        commits = commits_since_recording(git, self.attributor.recorded_since)
        before, _, _ = ("HEAD.." if commits is None else commits).rpartition("..")
        oldest = git.read_head() if before == "HEAD" else before
        options = ("--first-parent", "--diff-merges=first-parent", "--format=%H", *RAW_OPTIONS)
        changes = read_log(git, *options, commits) if commits else ()
        newest: dict[str, str] = {}
        for change in changes:
            newest.setdefault(change.path, change.mark)
        found = {path: newest.get(self.tree_path(path)) or oldest for path in paths}
        return {path: commit for path, commit in found.items() if commit}

    def unpack_file(self, path: str, packed: bytes) -> list[GitLine] | None:
        """Return the lines of a packed file with the content at HEAD; None if they do not fit."""
        found = _PACKED.decode(packed)
        texts = self.attributor.lines_of_name(f"HEAD:{self.tree_path(path)}")
        if sum(run.count for run in found.runs) != len(texts):
            return None
        lines: list[GitLine] = []
        for run in found.runs:
            version, at = found.versions[run.version], len(lines)
            texts_of_run = texts[at : at + run.count]
            lines += [GitLine(version, run.number + n, at + n + 1, text) for n, text in enumerate(texts_of_run)]
        return lines


def pack_file(lines: Sequence[GitLine]) -> bytes:
    versions: dict[FileVersion, int] = {}
    runs: list[_Run] = []
    for line in lines:
        version = versions.setdefault(line.version, len(versions))
        if runs and runs[-1].version == version and runs[-1].number + runs[-1].count == line.number:
            runs[-1].count += 1
        else:
            runs.append(_Run(version, line.number, 1))
    return msgpack.encode(_PackedFile(list(versions), runs))


def read_settings(blamer: Blamer) -> str | None:
    """Return a name for git's settings and sources that a blame depends on; None if one of them names further files,
    runs programs, or replaces objects. Raises OSError.
    """
    common = blamer.workspace.common_dir
    if common is None or may_have_refs_below(blamer.workspace, "refs/replace"):
        return None
    try:
        listed = blamer.git.run("config", "-z", "--get-regexp", SETTINGS, ok=(0, 1))
        version = blamer.git.run("version")
    except GitError:
        return None
    names = [row.partition(b"\n")[0].lower() for row in listed.split(b"\0")]
    if any(name == b"blame.ignorerevsfile" or name.endswith(b".textconv") for name in names):
        return None
    sources = [path.read_bytes() if path.is_file() else b"" for path in (common / name for name in SOURCE_FILES)]
    return sha256(b"\0\0".join((repr(blamer.attributor.prefix).encode(), version, listed, *sources)))
