"""A command's effect on the history: new commits, their changes, and commits that became unreachable.

Known commits are those reachable from branches, tags and remote branches before the command, and those fetched by the
command: each was judged when made, or belongs to a different author. Further commits are the command's own.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from remit.workspace.git.command import Git, GitError
from remit.workspace.sandbox.git_changes import LASTING_REFS, OBJECT_NAME, GitChanges
from remit.workspace.sandbox.layered_git import LayeredGit

MAX_COMMITS = 1000
"""Bound of commits per command that are examined."""

MAX_CHANGES_COMPARED = 400
"""Known commits searched for a change that the command repeated."""

RAW_DIFF_OPTIONS = ("-r", "--raw", "-z", "--no-renames", "--no-abbrev")


class TooManyCommits(RuntimeError):
    """More commits than are examined."""

    def __init__(self) -> None:
        super().__init__(f"it brings more than {MAX_COMMITS} commits of its own at once")


class TreeChange(Struct, frozen=True):
    """A path changed by a commit, or in the index if `commit` is empty. Blob names are empty for no file."""

    path: str
    mode: str
    old: str
    new: str
    commit: str = ""
    conflict: bool = False
    """Not merged yet."""


class NewCommit(Struct, frozen=True):
    """A commit made by the command."""

    name: str
    parents: tuple[str, ...]


class CommandHistory:
    """The history before and after a command. `fetched` are commits from a remote of the settings.

    Methods raise GitError, OSError.
    """

    def __init__(self, found: GitChanges, scratch: Path, fetched: Sequence[str] = ()) -> None:
        self.found = found
        self.layered: LayeredGit = found.layered
        self.scratch = scratch
        git = Git(found.common)
        rows = git.text("for-each-ref", "--format=%(objectname) %(refname)").splitlines()
        self.names = {name: commit for commit, _, name in (row.partition(" ") for row in rows)}
        self.head_before = self.resolve_head(found.common)
        heads = [self.head_before, git.read_head() or "", *fetched]
        lasting = [commit for name, commit in self.names.items() if name.startswith(LASTING_REFS)]
        self.known = tuple(dict.fromkeys(filter(None, [*lasting, *heads])))
        self.head_after = self.resolve_head(found.upper)

    def resolve_head(self, folder: Path) -> str:
        """Return the commit of HEAD; empty before the first. The upper `folder` gives the state after the command."""
        own = self.found.worktree_path("HEAD")
        after = folder == self.found.upper
        path = self.found.path_after(own) if after else self.found.common / own
        text = path.read_text("utf-8", "replace").strip() if path.is_file() else ""
        name = text.removeprefix("ref: ")
        if OBJECT_NAME.fullmatch(name):
            return name
        moved = next((move.new for move in self.found.ref_moves if move.name == name), None)
        return moved if after and moved is not None else self.names.get(name, "")

    def list_commits(
        self, wanted: Iterable[str], without: Iterable[str], *words: str, max_count: int = MAX_COMMITS + 1
    ) -> list[str]:
        """Return lines of `rev-list`: reachable from `wanted`, not from `without`.

        `max_count` limits the number; 0 means no limit.
        """
        wanted = [name for name in wanted if name]
        if not wanted:
            return []
        query = "".join(f"{name}\n" for name in (*wanted, *(f"^{name}" for name in without if name)))
        limit = (f"--max-count={max_count}",) if max_count else ()
        return self.layered.output("rev-list", *limit, *words, "--stdin", stdin=query.encode()).decode().splitlines()

    def find_new_commits(self, tips: Iterable[str]) -> list[NewCommit]:
        """Return commits reachable only from these tips. Raises TooManyCommits."""
        lines = self.list_commits(tips, self.known, "--parents")
        if len(lines) > MAX_COMMITS:
            raise TooManyCommits
        return [NewCommit(name, tuple(parents)) for name, *parents in (line.split() for line in lines)]

    def find_lost_commits(self, without: Iterable[str]) -> list[str]:
        """Return commits that a branch, a tag or HEAD reached before, and no ref reaches now.

        `without` are refs that moved for other reasons: fetched remote branches.
        """
        left = set(without)
        moved = {move.name: move for move in self.found.ref_moves if move.is_branch_or_tag}
        olds = [move.old for move in moved.values() if move.name not in left]
        after = {
            name: commit for name, commit in self.names.items() if name.startswith(LASTING_REFS) and name not in moved
        }
        after |= {name: move.new for name, move in moved.items()}
        gone = [self.head_before] if self.head_after != self.head_before else []
        kept = [name for name in (*after.values(), self.head_after) if OBJECT_NAME.fullmatch(name)]
        return self.list_commits((name for name in (*olds, *gone) if OBJECT_NAME.fullmatch(name)), kept)

    # -- what commits change --------------------------------------------------------------------------------

    def list_commit_changes(
        self, commits: Sequence[NewCommit], stashed: frozenset[str] = frozenset()
    ) -> list[TreeChange]:
        """Return the changes of the commits; for a merge, only beyond the automatic result."""
        plain = [c.name for c in commits if len(c.parents) < 2]
        query = "".join(f"{name}\n" for name in plain).encode()
        raw = self.layered.output("diff-tree", "--stdin", "--root", *RAW_DIFF_OPTIONS, stdin=query) if plain else b""
        found = list(parse_raw_diff(raw))
        for commit in commits:
            if len(commit.parents) > 1:
                found += self.list_merge_changes(commit, stashed=commit.name in stashed)
        return found

    def list_merge_changes(self, commit: NewCommit, *, stashed: bool) -> list[TreeChange]:
        """Return changes of a merge beyond merging its first two parents; with more parents, each change."""
        base = commit.parents[0]
        if len(commit.parents) == 2 or stashed:
            base = self.merge_trees(*commit.parents[:2]) or base
        done = self.layered.run("diff-tree", *RAW_DIFF_OPTIONS, base, commit.name, scratch=self.scratch)
        if done.code:
            raise GitError(("diff-tree", base, commit.name), done.code, done.errors)
        return [TreeChange(e.path, e.mode, e.old, e.new, commit.name) for e in parse_raw_diff(done.output)]

    def merge_trees(self, one: str, other: str) -> str:
        """Return the tree that git makes of two commits, conflicts included; empty if none."""
        self.scratch.mkdir(exist_ok=True)
        done = self.layered.run("merge-tree", "--write-tree", "--allow-unrelated-histories", one, other,
                                scratch=self.scratch)  # fmt: skip
        first = done.output.decode("utf-8", "replace").partition("\n")[0].partition("\0")[0].strip()
        return first if done.code in (0, 1) and OBJECT_NAME.fullmatch(first) else ""

    def diff_commits(self, before: str, after: str) -> dict[str, TreeChange]:
        """Return the differences between two commits by path; an empty name is the empty tree."""
        if before == after:
            return {}
        names = [name or self.layered.empty_tree_name() for name in (before, after)]
        return {
            entry.path: entry for entry in parse_raw_diff(self.layered.output("diff-tree", *RAW_DIFF_OPTIONS, *names))
        }

    def diff_index(self, index: Path, head: str) -> dict[str, TreeChange]:
        """Return the differences between an index and a commit by path."""
        raw = self.layered.output(
            "diff-index", "--cached", *RAW_DIFF_OPTIONS, head or self.layered.empty_tree_name(), index=index
        )
        found: dict[str, TreeChange] = {}
        for entry in parse_raw_diff(raw):
            if entry.path not in found or entry.conflict:
                found[entry.path] = entry
        return found

    def list_known_changes(self, paths: Sequence[str]) -> list[TreeChange]:
        """Return changes of known commits at these paths, newest first."""
        if not paths or not self.known:
            return []
        limit = f"--max-count={MAX_CHANGES_COMPARED}"
        words = ("--literal-pathspecs", "log", limit, "--stdin", "--format=%H", *RAW_DIFF_OPTIONS, "--", *paths)
        return list(parse_raw_diff(self.layered.output(*words, stdin="".join(f"{n}\n" for n in self.known).encode())))

    def is_merge_of(self, change: tuple[str, str], old: str, new: str) -> bool:
        """Return whether a known change, applied to the blob `old`, gives the blob `new`.

        `change` is the blob before and after; empty names are no file. Contents changed on both sides are merged as git
        does.
        """
        base, other = change
        if old == base:
            return new == other
        if new == old:
            return other in (base, old)
        return bool(new) and self.merge_blobs(old, base, other) == self.read_blob(new)

    def read_blob(self, blob: str) -> bytes:
        """Return a blob's content; conflicted merges exist only in the scratch folder."""
        self.scratch.mkdir(exist_ok=True)
        return self.layered.output("cat-file", "blob", blob, scratch=self.scratch)

    def merge_blobs(self, old: str, base: str, other: str) -> bytes | None:
        """Return git's merge of the change `base` to `other` into `old`; None for a conflict."""
        if not (old and base and other):
            return None
        self.scratch.mkdir(exist_ok=True)
        places = [self.scratch / f"merge-{at}" for at in range(3)]
        for path, name in zip(places, (old, base, other), strict=True):
            path.write_bytes(self.read_blob(name))
        done = self.layered.run("merge-file", "-p", *map(str, places))
        return done.output if done.code == 0 else None


def parse_raw_diff(raw: bytes) -> Iterator[TreeChange]:
    """Yield the entries of git's raw diff format with NUL separators. Source: git-diff-tree(1), "Raw output format",
    read 2026-11.
    """
    parts = iter(raw.decode("utf-8", "surrogateescape").split("\0")[:-1])
    commit = ""
    for part in parts:
        part = part.lstrip("\n")  # `log` puts an empty line between
        if not part.startswith(":"):
            commit = part
            continue
        _, mode, old, new, status = part.lstrip(":").split(" ")
        yield TreeChange(next(parts), mode, nonzero_name(old), nonzero_name(new), commit, conflict=status == "U")


def nonzero_name(name: str) -> str:
    """Return a blob name; empty for zeros, which stand for no file."""
    return name if name.strip("0") else ""


def read_index_blobs(layered: LayeredGit, index: Path) -> dict[str, str]:
    """Return the blob by path in the index, without unmerged entries. Raises GitError."""
    if not index.is_file():
        return {}
    lines = layered.output("ls-files", "--stage", "-z", index=index).decode("utf-8", "surrogateescape").split("\0")
    entries = (line.partition("\t") for line in lines[:-1])
    found = ((path, *what.split(" ")) for what, _, path in entries)
    return {path: name for path, _, name, stage in found if stage == "0"}
