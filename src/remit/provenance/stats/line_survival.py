"""How long lines lived after the commit that brought them: history replayed by its differences alone.

git is started a few times, however many commits there are. A line that one commit takes out and puts in elsewhere, or
with another layout, was moved and lives on, where it tells itself from others or stands beside one that does.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TypeAlias

from msgspec import Struct

from remit.core.diff.contents import Hunk
from remit.core.diff.distinctive_lines import is_distinctive_line
from remit.provenance.notes.added_lines import parse_patch_path
from remit.provenance.origins.attributor import LineAttributor
from remit.provenance.origins.blame_porcelain import FileVersion, relocate_version
from remit.provenance.origins.evidence import Attributions, strip_whitespace
from remit.provenance.origins.file_histories import NEVER_S, SLACK_S
from remit.workspace.git.command import Git

COMMIT_HEADER = re.compile(rb"commit ([0-9a-f]{40,64}) (\d+)((?: [0-9a-f]{40,64})*) ?$")
HUNK_HEADER = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
LOG_OPTIONS = (
    *("--first-parent", "--reverse", "--diff-merges=first-parent", "-p", "-U0", "-M", "--no-color", "--no-ext-diff"),
    *("--no-textconv", "--inter-hunk-context=0", "--src-prefix=a/", "--dst-prefix=b/", "--format=commit %H %ct %P"),
)

ReplacingRecord = str
"""The record that put other lines in a line's place; empty where nothing recorded did."""


class CommittedChange(Struct):
    """What one commit did to one file. `source` is what the file was called before; None for a new one."""

    commit: str
    parent: str | None
    time_s: int
    path: str | None = None
    source: str | None = None
    hunks: list[Hunk] = []
    old: list[bytes] = []
    new: list[bytes] = []
    """The lines that were taken out and put in, in the order of the hunks, without their white space."""

    @property
    def version(self) -> FileVersion:
        """The version that it left."""
        previous = f"{self.parent} {self.source}" if self.parent and self.source else None
        return FileVersion(self.commit, self.path or "", previous, self.time_s)


class LineLife(Struct):
    """One recorded line that reached a commit. Times are in seconds; `died` is None while it stands.

    `by` is the record that took its place, or `` for nobody's that is known, and None where nothing did.
    """

    record: str
    path: str
    born: int
    died: int | None = None
    by: ReplacingRecord | None = None

    def reached_age(self, seconds: float) -> bool:
        """Whether it stood that long."""
        return self.died is None or self.died - self.born >= seconds


def find_line_lives(git: Git, attributor: LineAttributor, within: Sequence[str] = ()) -> list[LineLife]:
    """Each recorded line that reached HEAD's history, on the first parents' way. Raises GitError."""
    wanted = commits_since_recording(git, attributor.recorded_since)
    if wanted is None:
        return []
    changes = list(parse_log(git.run("log", *LOG_OPTIONS, wanted, "--", *within)))
    places = {change.version for change in changes if change.path and change.hunks}
    here = {place: relocate_version(place, attributor.prefix) for place in places}
    labels = attributor.attribute_versions(here.values())
    found: list[LineLife] = []
    files: OpenFiles = {}
    for _, group in groupby(changes, key=lambda change: change.commit):
        gone: list[RemovedLine] = []
        fresh: list[FileLine] = []
        for change in group:
            replay_change(change, labels.get(here.get(change.version, change.version), []), files, gone, fresh)
        match_moved_lines(gone, fresh)
        found += end_lives(gone, fresh)
    return found


def commits_since_recording(git: Git, first: float) -> str | None:
    """The range of commits that recorded lines can have come with; None where there is none."""
    if first == NEVER_S or git.read_head() is None:
        return None
    rows = git.text("rev-list", "--first-parent", "--timestamp", "HEAD").splitlines()
    young = [n for n, row in enumerate(rows) if int(row.partition(" ")[0]) >= first - SLACK_S]
    if not young:
        return None
    oldest = young[-1]
    return "HEAD" if oldest + 1 == len(rows) else f"{rows[oldest + 1].partition(' ')[2]}..HEAD"


def parse_log(output: bytes) -> Iterator[CommittedChange]:
    """The changes of each file in a log without context, oldest first. Lines of hunks are counted, not read."""
    now = CommittedChange("", None, 0)
    open_file = False
    lines = iter(output.split(b"\n"))
    for line in lines:
        if header := COMMIT_HEADER.match(line):
            if open_file:
                yield now
            names = header[3].split()
            now = CommittedChange(header[1].decode(), names[0].decode() if names else None, int(header[2]))
            open_file = False
        elif line.startswith(b"diff --git "):
            if open_file:
                yield now
            now, open_file = CommittedChange(now.commit, now.parent, now.time_s, hunks=[], old=[], new=[]), True
        elif hunk := HUNK_HEADER.match(line):
            old, old_lines, new, new_lines = (int(part) if part is not None else 1 for part in hunk.groups())
            now.hunks.append(Hunk(old, old_lines, new, new_lines))
            read_hunk_lines(now, lines, old_lines + new_lines)
        else:
            read_file_header(now, line)
    if open_file:
        yield now


def read_hunk_lines(now: CommittedChange, lines: Iterator[bytes], count: int) -> None:
    """The lines of a hunk."""
    while count:
        line = next(lines, None)
        if line is None:
            return
        count -= not line.startswith(b"\\")
        if line.startswith((b"-", b"+")):
            (now.old if line.startswith(b"-") else now.new).append(strip_whitespace(line[1:]))


def read_file_header(now: CommittedChange, line: bytes) -> None:
    """One line between a file's hunks."""
    for key, before in ((b"--- ", True), (b"rename from ", True), (b"+++ ", False), (b"rename to ", False)):
        if line.startswith(key):
            said = line.removeprefix(key)
            name = parse_patch_path(said if key[0] in b"-+" else add_prefix(said))
            if before:
                now.source = name
            else:
                now.path = name


def add_prefix(said: bytes) -> bytes:
    """A name that has no prefix, as one that has."""
    return b'"a/' + said[1:] if said.startswith(b'"') else b"a/" + said


class FileLine(Struct):
    """One line of a file as it stands. `text` is without white space; `own` says that its life began in this commit."""

    text: bytes = b""
    life: LineLife | None = None
    is_new: bool = False
    is_taken: bool = False


class RemovedLine(Struct):
    """One line that a commit took out. `by` is what took its place, as in `Life`."""

    text: bytes
    life: LineLife | None
    at: int
    by: ReplacingRecord | None
    is_moved: bool = False


OpenFiles: TypeAlias = dict[str, list[FileLine | None]]


def replay_change(
    change: CommittedChange,
    attributions: Attributions,
    files: OpenFiles,
    gone: list[RemovedLine],
    fresh: list[FileLine],
) -> None:
    """Take one change into the files as they stand; what it took out and put in is added to `gone` and `fresh`."""
    if change.path is None:
        slots = files.pop(change.source or "", [])
        texts = [*change.old, *([b""] * (len(slots) - len(change.old)))]
        gone += [RemovedLine(text, s.life, change.time_s, None) for text, s in zip(texts, slots, strict=False) if s]
        return
    if change.source is not None and change.source != change.path:
        files[change.path] = files.pop(change.source, [])
    lines = files.setdefault(change.path, [])
    removed, added = list(change.old), list(change.new)
    for hunk in reversed(change.hunks):
        start = hunk.old - 1 if hunk.old_lines else hunk.old
        lines += [None] * (start + hunk.old_lines - len(lines))
        numbers = range(hunk.new, hunk.new + hunk.new_lines)
        texts = pop_last(added, hunk.new_lines)
        slots = [
            FileLine(text, start_life(change, attributions, n), is_new=True)
            for n, text in zip(numbers, texts, strict=True)
        ]
        by = next((slot.life.record for slot in slots if slot.life), "") if slots else None
        old = zip(pop_last(removed, hunk.old_lines), lines[start : start + hunk.old_lines], strict=True)
        gone += [RemovedLine(text, slot.life if slot else None, change.time_s, by) for text, slot in old]
        lines[start : start + hunk.old_lines] = slots
        fresh += slots


def pop_last(texts: list[bytes], count: int) -> list[bytes]:
    """Take so many from the end; empty ones where there are not as many."""
    at = max(0, len(texts) - count)
    found = texts[at:]
    del texts[at:]
    return [*([b""] * (count - len(found))), *found]


def match_moved_lines(gone: list[RemovedLine], fresh: list[FileLine]) -> None:
    """Let the lines live on that stand elsewhere now."""
    places: dict[bytes, list[int]] = {}
    for number, slot in enumerate(fresh):
        places.setdefault(slot.text, []).append(number)
    for number, line in enumerate(gone):
        free = [n for n in places.get(line.text, ()) if not fresh[n].is_taken] if is_distinctive_line(line.text) else []
        if free and not line.is_moved:
            follow_run(gone, fresh, number, free[0], 1)
            follow_run(gone, fresh, number - 1, free[0] - 1, -1)


def follow_run(gone: list[RemovedLine], fresh: list[FileLine], old: int, new: int, direction: int) -> None:
    """Move one line after the other, as far as both go on alike."""
    while 0 <= old < len(gone) and 0 <= new < len(fresh):
        line, slot = gone[old], fresh[new]
        if line.is_moved or slot.is_taken or line.text != slot.text:
            return
        line.is_moved = slot.is_taken = True
        if line.life is not None:
            slot.life, slot.is_new = line.life, False
        old, new = old + direction, new + direction


def end_lives(gone: list[RemovedLine], fresh: list[FileLine]) -> list[LineLife]:
    """End the lives of the lines that are gone; the lives that began."""
    for line in gone:
        if not line.is_moved:
            end_life(line.life, line.at, line.by)
    return [slot.life for slot in fresh if slot.life is not None and slot.is_new]


def start_life(change: CommittedChange, attributions: Attributions, number: int) -> LineLife | None:
    """A line that the change put there, where a record explains it."""
    label = attributions[number - 1] if number <= len(attributions) else None
    return LineLife(label.record, change.path or "", change.time_s) if label and label.proved else None


def end_life(life: LineLife | None, at: int, by: ReplacingRecord | None) -> None:
    """A line is taken out."""
    if life is not None:
        life.died, life.by = at, by
