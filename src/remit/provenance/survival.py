"""How long lines lived after the commit that brought them: history replayed by its differences alone.

git is started a few times, however many commits there are. A line that is only moved or indented anew counts as taken
out and put in: what stands here is a lower bound of what lasted.
"""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from remit.core.contents import Hunk
from remit.provenance.additions import path_said
from remit.provenance.attribution import NEVER, SLACK_S, Attribution
from remit.provenance.origins import Labels
from remit.provenance.porcelain import Place
from remit.workspace.git import Git

HEADER = re.compile(rb"commit ([0-9a-f]{40,64}) (\d+)((?: [0-9a-f]{40,64})*) ?$")
HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
OPTIONS = (
    *("--first-parent", "--reverse", "--diff-merges=first-parent", "-p", "-U0", "-M", "--no-color", "--no-ext-diff"),
    *("--no-textconv", "--inter-hunk-context=0", "--src-prefix=a/", "--dst-prefix=b/", "--format=commit %H %ct %P"),
)

Replaced = str
"""The record that put other lines in a line's place; empty where nothing recorded did."""


class Changed(Struct):
    """What one commit did to one file. `source` is what the file was called before; None for a new one."""

    commit: str
    parent: str | None
    at: int
    path: str | None = None
    source: str | None = None
    hunks: list[Hunk] = []

    @property
    def place(self) -> Place:
        """The version that it left."""
        previous = f"{self.parent} {self.source}" if self.parent and self.source else None
        return Place(self.commit, self.path or "", previous, self.at)


class Life(Struct):
    """One recorded line that reached a commit. Times are in seconds; `died` is None while it stands.

    `by` is the record that took its place, or `` for nobody's that is known, and None where nothing did.
    """

    record: str
    path: str
    born: int
    died: int | None = None
    by: Replaced | None = None

    def lasted(self, seconds: float) -> bool:
        """Whether it stood that long."""
        return self.died is None or self.died - self.born >= seconds


def lives(git: Git, attribution: Attribution, within: Sequence[str] = ()) -> list[Life]:
    """Each recorded line that reached HEAD's history, on the first parents' way. Raises GitError."""
    wanted = since_recorded(git, attribution.recorded_since)
    if wanted is None:
        return []
    changes = list(read_changes(git.run("log", *OPTIONS, wanted, "--", *within)))
    labels = attribution.labels(change.place for change in changes if change.path and change.hunks)
    found: list[Life] = []
    files: dict[str, list[Life | None]] = {}
    for change in changes:
        replay(change, labels.get(change.place, []), files, found)
    return found


def since_recorded(git: Git, first: float) -> str | None:
    """The range of commits that recorded lines can have come with; None where there is none."""
    if first == NEVER or git.head() is None:
        return None
    rows = git.text("rev-list", "--first-parent", "--timestamp", "HEAD").splitlines()
    young = [n for n, row in enumerate(rows) if int(row.partition(" ")[0]) >= first - SLACK_S]
    if not young:
        return None
    oldest = young[-1]
    return "HEAD" if oldest + 1 == len(rows) else f"{rows[oldest + 1].partition(' ')[2]}..HEAD"


def read_changes(out: bytes) -> Iterator[Changed]:
    """The changes of each file in a log without context, oldest first. Lines of hunks are counted, not read."""
    now = Changed("", None, 0)
    open_file = False
    lines = iter(out.split(b"\n"))
    for line in lines:
        if header := HEADER.match(line):
            if open_file:
                yield now
            names = header[3].split()
            now = Changed(header[1].decode(), names[0].decode() if names else None, int(header[2]))
            open_file = False
        elif line.startswith(b"diff --git "):
            if open_file:
                yield now
            now, open_file = Changed(now.commit, now.parent, now.at, hunks=[]), True
        elif hunk := HUNK.match(line):
            old, old_lines, new, new_lines = (int(part) if part is not None else 1 for part in hunk.groups())
            now.hunks.append(Hunk(old, old_lines, new, new_lines))
            skip(lines, old_lines + new_lines)
        else:
            take_in(now, line)
    if open_file:
        yield now


def skip(lines: Iterator[bytes], count: int) -> None:
    """Pass over the lines of a hunk."""
    while count:
        line = next(lines, None)
        if line is None:
            return
        count -= not line.startswith(b"\\")


def take_in(now: Changed, line: bytes) -> None:
    """One line between a file's hunks."""
    for key, before in ((b"--- ", True), (b"rename from ", True), (b"+++ ", False), (b"rename to ", False)):
        if line.startswith(key):
            said = line.removeprefix(key)
            name = path_said(said if key[0] in b"-+" else renamed(said))
            if before:
                now.source = name
            else:
                now.path = name


def renamed(said: bytes) -> bytes:
    """A name that has no prefix, as one that has."""
    return b'"a/' + said[1:] if said.startswith(b'"') else b"a/" + said


def replay(change: Changed, labels: Labels, files: dict[str, list[Life | None]], found: list[Life]) -> None:
    """Take one change into the files as they stand."""
    if change.path is None:
        for life in files.pop(change.source or "", []):
            end(life, change.at, None)
        return
    if change.source is not None and change.source != change.path:
        files[change.path] = files.pop(change.source, [])
    lines = files.setdefault(change.path, [])
    for hunk in reversed(change.hunks):
        start = hunk.old - 1 if hunk.old_lines else hunk.old
        lines += [None] * (start + hunk.old_lines - len(lines))
        fresh = [born(change, labels, number) for number in range(hunk.new, hunk.new + hunk.new_lines)]
        by = next((life.record for life in fresh if life), "") if fresh else None
        for life in lines[start : start + hunk.old_lines]:
            end(life, change.at, by)
        lines[start : start + hunk.old_lines] = fresh
        found += [life for life in fresh if life]


def born(change: Changed, labels: Labels, number: int) -> Life | None:
    """A line that the change put there, where a record explains it."""
    label = labels[number - 1] if number <= len(labels) else None
    return Life(label.record, change.path or "", change.at) if label else None


def end(life: Life | None, at: int, by: Replaced | None) -> None:
    """A line is taken out."""
    if life is not None:
        life.died, life.by = at, by
