"""Originals of rewritten versions: by rebase, cherry-pick, amend or squash.

A rewritten commit makes the same change in new surroundings, hence no record holds the content. The commits before the
rewrite are in git's reflogs, on a branch or at a tag. A version repeats a file's change there, or several consecutive
changes, if both leave the same content, or if both remove and add the same lines. A common change may happen twice,
hence the lines have to be distinctive and stand between the same lines, unless the version's commit is a copy: git
keeps author and author date of a copied commit, and the copy has a later commit date.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from remit.core.diff.contents import make_spans
from remit.provenance.origins.blame_porcelain import (
    FileVersion,
    GitLine,
    path_from_workspace,
    read_git_lines,
    relocate_version,
)
from remit.provenance.origins.commits_before_call import CHANGED_CONTENTS, read_log
from remit.provenance.origins.evidence_grades import is_distinctive
from remit.provenance.origins.file_histories import SLACK_S, FileHistories
from remit.provenance.origins.line_matches import lines_of_hunk
from remit.workspace.git.command import GitError

MAX_PATHS_PER_CALL = 200
MAX_CHANGES = 1_000  # newest commits that the versions' histories lack
MAX_TIPS = 12  # contents of one file that are tried as the end of a repeated change
MAX_RANGES = 200  # ranges of one git blame
MAX_STEPS = 50  # changes that follow each other and are tried as one
COMMIT_FORMAT = "--format=%H|%P|%ct|%at %ae"

OriginalLines: TypeAlias = Mapping[int, GitLine]  # lines of an original, by number in the version that repeats it
Replacement: TypeAlias = tuple[tuple[bytes, ...], tuple[bytes, ...]]  # removed and added lines of a hunk


class CommittedChange(Struct, frozen=True):
    """A change of one file by a commit. `authorship` is the author's address with the author date."""

    commit: str
    parent: str
    time_s: int
    authorship: str
    path: str
    before: str | None
    after: str

    @property
    def is_copy(self) -> bool:
        """True if the commit is younger than its author date."""
        return int(self.authorship.partition(" ")[0]) < self.time_s

    @property
    def version(self) -> FileVersion:
        previous = f"{self.parent} {self.path}" if self.parent and self.before else None
        return FileVersion(self.commit, self.path, previous, self.time_s)


def read_changes(histories: FileHistories, *words: str) -> Iterator[CommittedChange]:
    """Yield the changes in a `git log` with these arguments, newest first."""
    for change in read_log(histories.git, COMMIT_FORMAT, *CHANGED_CONTENTS, *words):
        commit, parents, time_s, authorship = change.mark.split("|", 3)
        before = change.before if change.before.strip("0") else None
        parent = parents.partition(" ")[0]
        yield CommittedChange(commit, parent, int(time_s), authorship, change.path, before, change.after)


class OriginalVersions:
    """Search for the originals of versions in one repository."""

    def __init__(self, histories: FileHistories) -> None:
        self.histories = histories
        self.authorship_by_commit: dict[str, str] = {}
        """Of the commits that are copies."""
        self.copies: set[FileVersion] = set()
        """Versions with one commit as their original: what is unknown there is unknown here."""

    def find(self, versions: Sequence[FileVersion], present: Iterable[str]) -> dict[FileVersion, OriginalLines]:
        """Return the lines of the originals by version, each by the number of the repeating line. `present` are commits
        of a single history: no commit of `present` is an original of a further one.
        """
        histories = self.histories
        changes_by_path = self.find_other_changes(versions, present)
        found: dict[FileVersion, OriginalLines] = {}
        for version in versions:
            blob = histories.version_blob(version)
            # A younger commit repeats the version: the version is its original.
            changes = [c for c in changes_by_path.get(version.path_in_tree, ()) if c.time_s <= version.time_s]
            if changes and blob:
                lines = self.find_original_lines(version, blob, changes)
                found |= {version: lines} if lines else {}
        return found

    def find_other_changes(
        self, versions: Sequence[FileVersion], present: Iterable[str]
    ) -> dict[str, list[CommittedChange]]:
        paths = sorted({version.path_in_tree for version in versions})
        commits = sorted({version.commit for version in versions})
        since = int(self.histories.recorded_since - SLACK_S)
        limits = ("--all", "--reflog", f"--max-age={since}", f"--max-count={MAX_CHANGES}", "--not", *sorted(present))
        changes: dict[str, list[CommittedChange]] = {}
        for start in range(0, len(paths), MAX_PATHS_PER_CALL):
            pathspecs = [f":(top,literal){path}" for path in paths[start : start + MAX_PATHS_PER_CALL]]
            for change in read_changes(self.histories, *limits, "--", *pathspecs):
                changes.setdefault(change.path, []).append(change)
        if changes:
            words = ("--no-walk=unsorted", *commits)
            copies = (change for change in read_changes(self.histories, *words) if change.is_copy)
            self.authorship_by_commit |= {copy.commit: copy.authorship for copy in copies}
        return changes

    def find_original_lines(self, version: FileVersion, blob: str, changes: Sequence[CommittedChange]) -> OriginalLines:
        histories, parent = self.histories, self.histories.parent_blob(version)
        histories.load_hunks([(parent, blob)])
        wanted, numbers = self.replacements(parent, blob), self.added_numbers(parent, blob)
        added = [line for _, lines in wanted for line in lines]
        if not added:
            return {}
        authorship = self.authorship_by_commit.get(version.commit)
        # The oldest of equal commits: a rewrite leaves its own intermediate commits in the reflog.
        copied = [change for change in reversed(changes) if change.authorship == authorship]
        tips = list({change.after: change for change in changes}.values())
        # 1. The same content, or the same lines removed and added by changes that follow each other.
        if copied or is_distinctive(added):
            # Within one second, a change from the same content is the rewrite's own step rather than its original.
            equal = [change for change in changes if change.after == blob]
            if equal:
                tip = min(reversed(equal), key=lambda change: (change.time_s, change.before == parent))
                return self.blame_original(tip, {number: number for number in numbers})
            pairs = [(before, tip) for tip in tips[:MAX_TIPS] for before in contents_before(tip, changes)]
            histories.load_contents(content for before, tip in pairs for content in (before, tip.after))
            growth = self.count_added_lines(parent, blob)
            pairs = [(before, tip) for before, tip in pairs if self.count_added_lines(before, tip.after) == growth]
            histories.load_hunks((before, tip.after) for before, tip in pairs)
            for before, tip in pairs:
                is_equal = self.replacements(before, tip.after) == wanted
                if is_equal and self.lines_around(before, tip.after) == self.lines_around(parent, blob):
                    own = self.added_numbers(before, tip.after)
                    return self.blame_original(tip, dict(zip(own, numbers, strict=True)))
        # 2. The commit from which the version was copied, with the hunks unchanged by a conflict.
        histories.load_hunks((change.before, change.after) for change in copied)
        for change in copied:
            places = pair_replacements(wanted, self.replacements(change.before, change.after))
            if places:
                own, texts = self.added_numbers(change.before, change.after), histories.lines_of(change.after) or ()
                self.copies.add(version)
                of_change = relocate_version(change.version, histories.prefix)
                return {
                    numbers[to]: GitLine(of_change, own[at], own[at], texts[own[at] - 1]) for to, at in places.items()
                }
        return {}

    def blame_original(self, tip: CommittedChange, repeated_by: Mapping[int, int]) -> OriginalLines:
        prefix, runs = self.histories.prefix, make_spans(repeated_by)
        ranges = [f"-L{first},{last}" for first, last in runs] if len(runs) <= MAX_RANGES else []
        path = prefix.path_for_git(path_from_workspace(tip.path, prefix))
        try:
            output = self.histories.git.run("blame", "--porcelain", *ranges, tip.commit, "--", path)
        except GitError:
            return {}
        return {repeated_by[n.line]: n for n in read_git_lines(output, prefix) if n.line in repeated_by}

    def replacements(self, before: str | None, after: str) -> list[Replacement]:
        old, new = self.histories.lines_of(before), self.histories.lines_of(after)
        hunks = self.histories.hunks_by_pair.get((before, after))
        if old is None or new is None or hunks is None:
            return []
        found = (lines_of_hunk(hunk, old, new) for hunk in hunks)
        return [(tuple(removed), tuple(added)) for removed, added in found]

    def lines_around(self, before: str | None, after: str) -> list[Sequence[bytes]]:
        lines = self.histories.lines_of(after) or ()
        ranges = [hunk.new_range for hunk in self.histories.hunks_by_pair.get((before, after), ())]
        return [
            (*lines[max(0, found.start - 2) : found.start - 1], b"\n", *lines[found.stop - 1 : found.stop])
            for found in ranges
        ]

    def added_numbers(self, before: str | None, after: str) -> list[int]:
        return [n for hunk in self.histories.hunks_by_pair.get((before, after), ()) for n in hunk.new_range]

    def count_added_lines(self, before: str | None, after: str) -> int:
        """Return by how many lines a file grew; negative if it shrank."""
        old, new = self.histories.lines_of(before), self.histories.lines_of(after)
        return len(new or ()) - len(old or ())


def contents_before(tip: CommittedChange, changes: Sequence[CommittedChange]) -> list[str | None]:
    """Return the contents from which consecutive changes lead to the content of `tip`, newest first."""
    by_content = {change.after: change for change in changes}
    contents: list[str | None] = []
    change: CommittedChange | None = tip
    while change is not None and change.before not in contents and len(contents) < MAX_STEPS:
        contents.append(change.before)
        change = by_content.get(change.before or "")
    return contents


def pair_replacements(new: Sequence[Replacement], old: Sequence[Replacement]) -> dict[int, int]:
    """Return for added lines of equal hunks the place among the added lines, of `new` and of `old`, from 0. Hunks equal
    to a different number of hunks are ambiguous.
    """
    places: dict[Replacement, tuple[list[int], list[int]]] = {}
    for side, replacements in enumerate((new, old)):
        at = 0
        for replacement in replacements:
            places.setdefault(replacement, ([], []))[side].append(at)
            at += len(replacement[1])
    return {
        to + n: at + n
        for (_, added), (of_new, of_old) in places.items()
        if len(of_new) == len(of_old)
        for to, at in zip(of_new, of_old, strict=True)
        for n in range(len(added))
    }
