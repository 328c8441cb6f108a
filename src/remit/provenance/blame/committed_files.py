"""Lines of files at HEAD by git's blame, stored in the index by the last commit with a change of the file.

git's blame of a file passes every line to the first parent while the file's content there is the same. Thus the blame
at HEAD is the blame at the last commit with a change of the file on HEAD's first-parent line, for good: answers for
files untouched by a commit stay, and git runs only for the rest. Source: git's blame.c, read 2026-11.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import TypeAlias

from msgspec import Struct, msgpack

from remit.core.diff.contents import sha256, split_lines
from remit.core.python_runtime import map_ahead, prepare_type
from remit.ledger.index.index import BlamedFile, Index, open_index
from remit.provenance.blame.blame import Blamer
from remit.provenance.blame.blamed_line import BlamedLine
from remit.provenance.origins.blame_porcelain import FileVersion, GitLine
from remit.provenance.origins.commits_before_call import RAW_OPTIONS, read_log
from remit.provenance.origins.evidence_grades import LIKELY
from remit.provenance.origins.file_histories import NEVER_S, SLACK_S
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.repository import may_have_refs_below
from remit.workspace.place.workspace import Workspace

MAX_GIT_PROCESSES = 4
BATCH_FILES = 100  # files in memory at once; what an interrupted question found of them is kept
PART_FILES = 25  # files that a process blames before it takes others
KEEP_TIMEOUT_S = 10.0
SETTINGS = r"^(blame|diff|core)\."
SOURCE_FILES = ("shallow", "info/grafts")  # in the common folder; they cut or change the history


class _Run(Struct, array_like=True, gc=False):
    """Consecutive lines of the file from one version: `number` counts in the version, by its place in the list."""

    version: int
    number: int
    count: int


class _PackedFile(Struct, array_like=True, gc=False):
    """The lines of a file, by git's versions."""

    versions: list[FileVersion]
    runs: list[_Run]


_PACKED = msgpack.Decoder(prepare_type(_PackedFile))


def commits_since_recording(git: Git, first: float, head: str) -> str | None:
    """Return the range of commits up to `head` that can hold recorded lines; None if empty."""
    if first == NEVER_S:
        return None
    rows = [row.split(" ") for row in git.text("rev-list", "--first-parent", "--timestamp", head, "--").splitlines()]
    oldest = max((n for n, row in enumerate(rows) if int(row[0]) >= first - SLACK_S), default=None)
    if oldest is None:
        return None
    return head if oldest + 1 == len(rows) else f"{rows[oldest + 1][1]}..{head}"


class LineKind(Struct, frozen=True, gc=False):
    """What statistics tell of a line. `has_candidates` marks a line of unknown origin that came during a command."""

    origin: str
    record: str | None
    agent: str | None
    model: str | None
    intent_id: str | None
    session_id: str | None
    is_likely: bool
    has_candidates: bool


FileKinds: TypeAlias = tuple[str, Counter[LineKind]]  # a file, and the number of its lines of each kind


def count_kinds(lines: Iterable[BlamedLine]) -> Counter[LineKind]:
    return Counter(
        LineKind(
            *(line.origin, line.record, line.agent, line.model, line.intent_id, line.session_id),
            line.grade == LIKELY,
            bool(line.candidates),
        )
        for line in lines
    )


class CommittedFiles:
    """Blame of files at a commit, HEAD by default, in a workspace."""

    def __init__(self, workspace: Workspace, index: Index, store: ContentStore, head: str | None = None) -> None:
        self.workspace, self.index, self.store = workspace, index, store
        # HEAD may move during a question: each file is blamed at the same commit, whose answers are kept.
        self.head = head or Git(workspace.root).read_head() or "HEAD"
        self.blamer = Blamer(workspace, index, store)
        self.settings = read_settings(self.blamer)

    def count_files(self, paths: Sequence[str]) -> Iterator[FileKinds]:
        """Yield each file with its kinds of lines, in any order; without lines if git cannot blame the file. Files
        without kept answers are shared out to processes if they are many. Raises GitError.
        """
        last_commits = self.find_last_commits(paths)
        rest: list[str] = []
        for some in split_paths(paths, BATCH_FILES):
            for path, lines in self.find_kept_lines(some, last_commits):
                attributions = None if lines is None else self.blamer.find_kept_attributions(lines)
                if lines is None or attributions is None:
                    rest.append(path)
                else:
                    yield path, count_kinds(self.blamer.describe_lines(lines, attributions))
        parts = list(split_paths(rest, PART_FILES))
        if len(parts) < 2:
            yield from self.count_anew(rest, last_commits)
            return
        processes = min(os.cpu_count() or 1, len(parts))
        count_part = partial(count_part_of_files, self.workspace, self.head, last_commits)
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            for found in map_ahead(pool, count_part, parts, 2 * processes):
                yield from found

    def count_anew(self, paths: Sequence[str], last_commits: Mapping[str, str]) -> Iterator[FileKinds]:
        """Blame the files, yield their kinds of lines, and keep what was found."""
        for some in split_paths(paths, BATCH_FILES):
            found = list(self.read_lines(some, last_commits))
            # One process of git for the names of all versions, instead of one for each file.
            self.blamer.attributor.resolve_all({line.version for _, lines in found for line in lines or ()})
            for path, lines in found:
                yield path, count_kinds(self.blamer.blame(path, [self.head], lines) if lines else ())

    def read_lines(
        self, paths: Sequence[str], last_commits: Mapping[str, str]
    ) -> Iterator[tuple[str, list[GitLine] | None]]:
        """Yield each file with its lines, while git works on the next ones; None if git cannot blame a file."""
        kept = dict(self.find_kept_lines(paths, last_commits))
        missing = [path for path in paths if kept[path] is None]
        count = min(MAX_GIT_PROCESSES, os.cpu_count() or 1)
        rows: list[BlamedFile] = []
        with ThreadPoolExecutor(count) as pool:
            blamed = map_ahead(pool, self.run_git_blame, missing, 2 * count)
            for path in paths:
                if (lines := kept[path]) is None and (lines := next(blamed)) and path in last_commits:
                    rows.append(BlamedFile(path, last_commits[path], self.settings or "", pack_file(lines)))
                yield path, lines
        if self.settings:
            self.index.store_blamed_files(rows)

    def find_kept_lines(
        self, paths: Sequence[str], last_commits: Mapping[str, str]
    ) -> Iterator[tuple[str, list[GitLine] | None]]:
        """Yield each file with the lines of a kept blame; None without one."""
        wanted = {path: commit for path in paths if (commit := last_commits.get(path))} if self.settings else {}
        packed = self.index.find_blamed_files(wanted, self.settings or "")
        names = {path: f"{self.head}:{self.tree_path(path)}" for path in packed if "\n" not in path}
        blobs = self.blamer.attributor.look_up_blobs(list(names.values()))
        contents = self.store.load_many({blob for blob in blobs.values() if blob})
        for path in paths:
            content = contents.get(blobs.get(names.get(path, "")) or "")
            yield path, None if content is None else unpack_file(packed[path], split_lines(content))

    def run_git_blame(self, path: str) -> list[GitLine] | None:
        try:
            return self.blamer.read_git_lines(path, [self.head])
        except GitError:
            return None

    def tree_path(self, path: str) -> str:
        return self.blamer.attributor.prefix.path_in_tree(path)

    def find_last_commits(self, paths: Sequence[str]) -> dict[str, str]:
        """Return for each path the last commit with a change on the first-parent line. Paths without a change since the
        first record have the commit before the record.
        """
        git = self.blamer.git
        commits = commits_since_recording(git, self.blamer.attributor.recorded_since, self.head)
        oldest = self.head if commits is None else commits.rpartition("..")[0]
        options = ("--first-parent", "--diff-merges=first-parent", "--format=%H", *RAW_OPTIONS)
        changes = read_log(git, *options, commits) if commits else ()
        newest: dict[str, str] = {}
        for change in changes:
            newest.setdefault(change.path, change.mark)
        found = {path: newest.get(self.tree_path(path)) or oldest for path in paths}
        return {path: commit for path, commit in found.items() if commit}


def count_part_of_files(
    workspace: Workspace, head: str, last_commits: Mapping[str, str], paths: Sequence[str]
) -> list[FileKinds]:
    """Count the kinds of lines of some files, in a process of its own. Raises OSError, LedgerError, GitError."""
    with open_index(workspace.state, workspace.log_folder) as index:
        index.keep_timeout_s = KEEP_TIMEOUT_S
        files = CommittedFiles(workspace, index, ContentStore(workspace, ""), head)
        return list(files.count_anew(paths, last_commits))


def unpack_file(packed: bytes, texts: Sequence[bytes]) -> list[GitLine] | None:
    """Return the lines of a packed file with these contents; None if they do not fit."""
    found = _PACKED.decode(packed)
    if sum(run.count for run in found.runs) != len(texts):
        return None
    lines: list[GitLine] = []
    for run in found.runs:
        version, at = found.versions[run.version], len(lines)
        texts_of_run = texts[at : at + run.count]
        lines += [GitLine(version, run.number + n, at + n + 1, text) for n, text in enumerate(texts_of_run)]
    return lines


def split_paths(paths: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    return (paths[start : start + size] for start in range(0, len(paths), size))


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
    return sha256(
        b"\0\0".join((repr(blamer.attributor.prefix).encode(), version, listed, blamer.names.digest.encode(), *sources))
    )
