"""A command's effect on the history: new commits, their changes, and commits that became unreachable.

Known commits are those reachable from branches, tags and remote branches before the command, and those fetched by the
command: each was judged when made, or belongs to a different author. Further commits are the command's own.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from remit.workspace.git.command import Git
from remit.workspace.sandbox.git_folder_checks import LASTING_REFS, OBJECT_NAME, GitChanges, LayeredGit

MAX_COMMITS = 1000  # examined per command
MAX_CHANGES_COMPARED = 400  # known commits searched for a change that the command repeated
RAW_DIFF_OPTIONS = ("-r", "--raw", "-z", "--no-renames", "--no-abbrev")


class TooManyCommits(RuntimeError):
    """More commits than are examined."""

    def __init__(self) -> None:
        super().__init__(f"it brings more than {MAX_COMMITS} commits of its own at once")


class TreeChange(Struct, frozen=True):
    """A path changed by a commit, or in the index (no `commit`). Empty blob names are no file; `conflict`: unmerged."""

    path: str
    mode: str
    old: str
    new: str
    commit: str = ""
    conflict: bool = False


class NewCommit(Struct, frozen=True):
    """A commit made by the command."""

    name: str
    parents: tuple[str, ...]


class CommandHistory:
    """History before and after a command; `fetched` are a known remote's commits. Methods raise GitError, OSError."""

    def __init__(self, found: GitChanges, scratch: Path, fetched: Sequence[str] = ()) -> None:
        self.found = found
        self.layered: LayeredGit = found.layered
        self.scratch = scratch
        git = Git(found.common)
        rows = git.text("for-each-ref", "--format=%(objectname) %(refname)").splitlines()
        self.names = {name: commit for commit, _, name in (row.partition(" ") for row in rows)}
        self.head_before = self.resolve_head(is_after=False)
        heads = [self.head_before, git.read_head() or "", *fetched]
        lasting = [commit for name, commit in self.names.items() if name.startswith(LASTING_REFS)]
        self.known = tuple(dict.fromkeys(filter(None, [*lasting, *heads])))
        self.head_after = self.resolve_head(is_after=True)

    @property
    def branch_before(self) -> str:
        return self.read_head(is_after=False)

    @property
    def branch_after(self) -> str:
        return self.read_head(is_after=True)

    def read_head(self, *, is_after: bool) -> str:
        """Return the branch that HEAD names before or after the command, or a commit."""
        own = self.found.worktree_path("HEAD")
        path = self.found.path_after(own) if is_after else self.found.common / own
        text = path.read_text("utf-8", "replace").strip() if path.is_file() else ""
        return text.removeprefix("ref: ")

    def resolve_head(self, *, is_after: bool) -> str:
        name = self.read_head(is_after=is_after)
        if OBJECT_NAME.fullmatch(name):
            return name
        moved = next((move.new for move in self.found.ref_moves if move.name == name), None)
        return moved if is_after and moved is not None else self.names.get(name, "")

    def list_commits(
        self, wanted: Iterable[str], without: Iterable[str], *words: str, max_count: int = MAX_COMMITS + 1
    ) -> list[str]:
        """Return lines of `rev-list`: reachable from `wanted`, not from `without`; `max_count` 0 means no limit."""
        wanted = [name for name in wanted if name]
        if not wanted:
            return []
        query = "".join(f"{name}\n" for name in (*wanted, *(f"^{name}" for name in without if name)))
        limit = (f"--max-count={max_count}",) if max_count else ()
        return self.layered.output("rev-list", *limit, *words, "--stdin", stdin=query.encode()).decode().splitlines()

    def find_new_commits(self, tips: Iterable[str]) -> list[NewCommit]:
        lines = self.list_commits(tips, self.known, "--parents")
        if len(lines) > MAX_COMMITS:
            raise TooManyCommits
        return [NewCommit(name, tuple(parents)) for name, *parents in (line.split() for line in lines)]

    def find_lost_commits(self, without: Iterable[str]) -> list[str]:
        """Return commits that a branch, tag or HEAD reached before, and no ref now; `without` are fetched branches."""
        left = set(without)
        moved = {move.name: move for move in self.found.ref_moves if move.is_branch_or_tag}
        lasting = {name: commit for name, commit in self.names.items() if name.startswith(LASTING_REFS)}
        after = lasting | {name: move.new for name, move in moved.items()}
        olds = [move.old for move in moved.values() if move.name not in left]
        gone = [self.head_before] if self.head_after != self.head_before else []
        kept = filter(OBJECT_NAME.fullmatch, (*after.values(), self.head_after))
        return self.list_commits(filter(OBJECT_NAME.fullmatch, (*olds, *gone)), list(kept))

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
                # Beyond merging the first two parents; with more parents, each change.
                base = commit.parents[0]
                if len(commit.parents) == 2 or commit.name in stashed:
                    base = self.merge_trees(*commit.parents[:2]) or base
                raw = self.layered.output("diff-tree", *RAW_DIFF_OPTIONS, base, commit.name, scratch=self.scratch)
                found += [TreeChange(e.path, e.mode, e.old, e.new, commit.name) for e in parse_raw_diff(raw)]
        return found

    def merge_trees(self, one: str, other: str) -> str:
        """Return the tree that git makes of two commits, conflicts included; empty if none."""
        self.scratch.mkdir(exist_ok=True)
        words = ("merge-tree", "--write-tree", "--allow-unrelated-histories", one, other)
        done = self.layered.run(*words, scratch=self.scratch)
        first = done.output.decode("utf-8", "replace").partition("\n")[0].partition("\0")[0].strip()
        return first if done.code in (0, 1) and OBJECT_NAME.fullmatch(first) else ""

    def empty_tree_name(self) -> str:
        return self.layered.output("hash-object", "-t", "tree", "/dev/null").decode().strip()

    def diff_commits(self, before: str, after: str) -> dict[str, TreeChange]:
        if before == after:
            return {}
        names = [name or self.empty_tree_name() for name in (before, after)]
        raw = self.layered.output("diff-tree", *RAW_DIFF_OPTIONS, *names)
        return {entry.path: entry for entry in parse_raw_diff(raw)}

    def diff_index(self, index: Path, head: str) -> dict[str, TreeChange]:
        words = ("diff-index", "--cached", *RAW_DIFF_OPTIONS, head or self.empty_tree_name())
        found: dict[str, TreeChange] = {}
        for entry in parse_raw_diff(self.layered.output(*words, index=index)):
            if entry.path not in found or entry.conflict:
                found[entry.path] = entry
        return found

    def list_known_changes(self, paths: Sequence[str]) -> list[TreeChange]:
        if not paths or not self.known:
            return []
        limit = f"--max-count={MAX_CHANGES_COMPARED}"
        words = ("--literal-pathspecs", "log", limit, "--stdin", "--format=%H", *RAW_DIFF_OPTIONS, "--", *paths)
        return list(parse_raw_diff(self.layered.output(*words, stdin="".join(f"{n}\n" for n in self.known).encode())))

    def is_merge_of(self, change: tuple[str, str], old: str, new: str) -> bool:
        """Return whether a known change (blobs before and after) of `old` gives `new`, merged as git does."""
        base, other = change
        if old == base:
            return new == other
        if new == old:
            return other in (base, old)
        return bool(new) and self.merge_blobs(old, base, other) == self.read_blob(new)

    def read_blob(self, blob: str) -> bytes:
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
    """Yield the entries of git's raw diff format with NUL separators; zeros, which stand for no file, become empty.

    Source: git-diff-tree(1), "Raw output format", read 2026-11.
    """
    parts = iter(raw.decode("utf-8", "surrogateescape").split("\0")[:-1])
    commit = ""
    for part in parts:
        part = part.lstrip("\n")  # `log` puts an empty line between
        if not part.startswith(":"):
            commit = part
            continue
        _, mode, *names, status = part.lstrip(":").split(" ")
        old, new = (name if name.strip("0") else "" for name in names)
        yield TreeChange(next(parts), mode, old, new, commit, conflict=status == "U")


def read_index_entries(layered: LayeredGit, index: Path) -> dict[str, tuple[str, str]]:
    """Return mode and blob by path in the index, without unmerged entries. Raises GitError."""
    if not index.is_file():
        return {}
    lines = layered.output("ls-files", "--stage", "-z", index=index).decode("utf-8", "surrogateescape").split("\0")
    entries = ((path, *what.split(" ")) for what, _, path in (line.partition("\t") for line in lines[:-1]))
    return {path: (mode, name) for path, mode, name, stage in entries if stage == "0"}
