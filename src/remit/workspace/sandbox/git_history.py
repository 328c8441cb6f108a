"""What a command did to the history: which commits it made, what they change, and which ones nothing names any more.

Known are the commits that branches, tags and remotes' branches led to before the command, and those that it fetched:
each of them was judged when it was made, or is somebody else's. All others are the command's own.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from remit.workspace.git.command import Git, GitError
from remit.workspace.sandbox.git_changes import LASTING_REFS, OBJECT_NAME, GitChanges
from remit.workspace.sandbox.layered_git import LayeredGit

MAX_COMMITS = 1000
"""Commits of one command that are looked into."""

MAX_CHANGES_COMPARED = 400
"""Known commits that are looked through for the change that a command made again."""

RAW_DIFF_OPTIONS = ("-r", "--raw", "-z", "--no-renames", "--no-abbrev")


class TooManyCommits(RuntimeError):
    """More commits than are looked into."""

    def __init__(self) -> None:
        super().__init__(f"it brings more than {MAX_COMMITS} commits of its own at once")


class TreeChange(Struct, frozen=True):
    """One path that a commit changes, or the index where `commit` is empty. Names are of blobs, empty for no file."""

    path: str
    mode: str
    old: str
    new: str
    commit: str = ""
    conflict: bool = False
    """It is not merged yet."""


class NewCommit(Struct, frozen=True):
    """One commit of the command's own."""

    name: str
    parents: tuple[str, ...]


class CommandHistory:
    """The history before and after one command. `fetched` are commits that it got from a remote of the settings.

    Its methods raise GitError, OSError.
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
        """Return the commit that HEAD stands for; empty before the first. `folder` is the upper one for afterwards."""
        own = self.found.worktree_path("HEAD")
        after = folder == self.found.upper
        place = self.found.path_after(own) if after else self.found.common / own
        said = place.read_text("utf-8", "replace").strip() if place.is_file() else ""
        name = said.removeprefix("ref: ")
        if OBJECT_NAME.fullmatch(name):
            return name
        moved = next((move.new for move in self.found.ref_moves if move.name == name), None)
        return moved if after and moved is not None else self.names.get(name, "")

    def list_commits(
        self, wanted: Iterable[str], without: Iterable[str], *words: str, max_count: int = MAX_COMMITS + 1
    ) -> list[str]:
        """Return the lines of git's list of the commits that `wanted` lead to, and none of `without` does.

        `most` limits their number; 0 for all of them.
        """
        wanted = [name for name in wanted if name]
        if not wanted:
            return []
        asked = "".join(f"{name}\n" for name in (*wanted, *(f"^{name}" for name in without if name)))
        limit = (f"--max-count={max_count}",) if max_count else ()
        return self.layered.output("rev-list", *limit, *words, "--stdin", stdin=asked.encode()).decode().splitlines()

    def find_new_commits(self, tips: Iterable[str]) -> list[NewCommit]:
        """Return the commits that only these tips lead to. Raises TooManyCommits."""
        lines = self.list_commits(tips, self.known, "--parents")
        if len(lines) > MAX_COMMITS:
            raise TooManyCommits
        return [NewCommit(name, tuple(parents)) for name, *parents in (line.split() for line in lines)]

    def find_lost_commits(self, without: Iterable[str]) -> list[str]:
        """Return the commits that a branch, a tag or HEAD led to before, and that nothing leads to any more.

        `without` are names whose moves are somebody else's: a remote's branches, where they were fetched.
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
        """Return what those commits change; of a merge, where it is not what merging its parents gives."""
        plain = [c.name for c in commits if len(c.parents) < 2]
        asked = "".join(f"{name}\n" for name in plain).encode()
        raw = self.layered.output("diff-tree", "--stdin", "--root", *RAW_DIFF_OPTIONS, stdin=asked) if plain else b""
        found = list(parse_raw_diff(raw))
        for commit in commits:
            if len(commit.parents) > 1:
                found += self.list_merge_changes(commit, stashed=commit.name in stashed)
        return found

    def list_merge_changes(self, commit: NewCommit, *, stashed: bool) -> list[TreeChange]:
        """Return what a merge holds that merging its first two parents does not give; of more parents, all of it."""
        base = commit.parents[0]
        if len(commit.parents) == 2 or stashed:
            base = self.merge_trees(*commit.parents[:2]) or base
        raw = self.layered.run("diff-tree", *RAW_DIFF_OPTIONS, base, commit.name, scratch=self.scratch)
        if raw.returncode:
            raise GitError(("diff-tree", base, commit.name), raw.returncode, raw.stderr.decode("utf-8", "replace"))
        return [TreeChange(e.path, e.mode, e.old, e.new, commit.name) for e in parse_raw_diff(raw.stdout)]

    def merge_trees(self, one: str, other: str) -> str:
        """Return the tree that git makes of two commits, conflicts included; empty where it makes none."""
        self.scratch.mkdir(exist_ok=True)
        done = self.layered.run("merge-tree", "--write-tree", "--allow-unrelated-histories", one, other,
                                scratch=self.scratch)  # fmt: skip
        first = done.stdout.decode("utf-8", "replace").partition("\n")[0].partition("\0")[0].strip()
        return first if done.returncode in (0, 1) and OBJECT_NAME.fullmatch(first) else ""

    def diff_commits(self, before: str, after: str) -> dict[str, TreeChange]:
        """Return, by path, what differs between two commits; an empty name is the tree without files."""
        if before == after:
            return {}
        names = [name or self.layered.empty_tree_name() for name in (before, after)]
        return {
            entry.path: entry for entry in parse_raw_diff(self.layered.output("diff-tree", *RAW_DIFF_OPTIONS, *names))
        }

    def diff_index(self, index: Path, head: str) -> dict[str, TreeChange]:
        """Return, by path, what an index holds beyond a commit."""
        raw = self.layered.output(
            "diff-index", "--cached", *RAW_DIFF_OPTIONS, head or self.layered.empty_tree_name(), index=index
        )
        found: dict[str, TreeChange] = {}
        for entry in parse_raw_diff(raw):
            if entry.path not in found or entry.conflict:
                found[entry.path] = entry
        return found

    def list_known_changes(self, paths: Sequence[str]) -> list[TreeChange]:
        """Return what the known commits changed at these paths, the newest first."""
        if not paths or not self.known:
            return []
        limit = f"--max-count={MAX_CHANGES_COMPARED}"
        words = ("--literal-pathspecs", "log", limit, "--stdin", "--format=%H", *RAW_DIFF_OPTIONS, "--", *paths)
        return list(parse_raw_diff(self.layered.output(*words, stdin="".join(f"{n}\n" for n in self.known).encode())))

    def is_merge_of(self, change: tuple[str, str], old: str, new: str) -> bool:
        """Whether a known change (a blob before and after it), made to the blob `old`, gives the blob `new`.

        Empty names are no file. Contents that both changed are merged as git does it.
        """
        base, other = change
        if old == base:
            return new == other
        if new == old:
            return other in (base, old)
        return bool(new) and self.merge_blobs(old, base, other) == self.read_blob(new)

    def read_blob(self, blob: str) -> bytes:
        """Return a blob's content; a conflict in a merge is one that only the scratch folder holds."""
        self.scratch.mkdir(exist_ok=True)
        return self.layered.output("cat-file", "blob", blob, scratch=self.scratch)

    def merge_blobs(self, old: str, base: str, other: str) -> bytes | None:
        """Return what git makes of the change from `base` to `other` in the blob `old`; None for a conflict."""
        if not (old and base and other):
            return None
        self.scratch.mkdir(exist_ok=True)
        places = [self.scratch / f"merge-{at}" for at in range(3)]
        for place, name in zip(places, (old, base, other), strict=True):
            place.write_bytes(self.read_blob(name))
        done = self.layered.run("merge-file", "-p", *map(str, places))
        return done.stdout if done.returncode == 0 else None


def parse_raw_diff(raw: bytes) -> Iterator[TreeChange]:
    """Yield the entries of git's raw format, NUL after each part. Source: git-diff-tree(1), "Raw output format",
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
    """Return the name of a blob; empty for the zeros that stand for none."""
    return name if name.strip("0") else ""


def read_index_blobs(layered: LayeredGit, index: Path) -> dict[str, str]:
    """Return, by path, the blob in that index; what is not merged yet is left out. Raises GitError."""
    if not index.is_file():
        return {}
    lines = layered.output("ls-files", "--stage", "-z", index=index).decode("utf-8", "surrogateescape").split("\0")
    entries = (line.partition("\t") for line in lines[:-1])
    found = ((path, *what.split(" ")) for what, _, path in entries)
    return {path: name for path, _, name, stage in found if stage == "0"}
