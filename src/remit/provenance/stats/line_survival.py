"""Lifetime of recorded lines after the commit that brought them, by replaying the differences of the history.

git starts a few times, however many commits there are. A line that a commit removes and inserts elsewhere, or in
another layout, has moved and lives on, if the line is distinctive or stands beside a distinctive line.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TypeAlias

from msgspec import Struct

from remit.core.diff.contents import Hunk
from remit.core.diff.distinctive_lines import is_distinctive_line
from remit.provenance.notes.added_lines import COMMIT_HEADER, parse_patch_path
from remit.provenance.origins.attributor import LineAttributor
from remit.provenance.origins.blame_porcelain import FileVersion, relocate_version
from remit.provenance.origins.evidence import Attributions, strip_whitespace
from remit.provenance.origins.file_histories import NEVER_S, SLACK_S
from remit.workspace.git.command import Git

HUNK_HEADER = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
LOG_OPTIONS = (
    *("--first-parent", "--reverse", "--diff-merges=first-parent", "-p", "-U0", "-M", "--no-color", "--no-ext-diff"),
    *("--no-textconv", "--inter-hunk-context=0", "--src-prefix=a/", "--dst-prefix=b/", "--format=commit %H %ct %P"),
)

ReplacingRecord = str
"""Record that put other lines in a line's place; empty if unrecorded."""


class CommittedChange(Struct):
    """Change of one file by one commit. `source` is the file's former name; None for a new file."""

    commit: str
    parent: str | None
    time_s: int
    path: str | None = None
    source: str | None = None
    hunks: list[Hunk] = []
    old: list[bytes] = []
    new: list[bytes] = []
    """Removed and inserted lines in hunk order, without white space."""

    @property
    def version(self) -> FileVersion:
        previous = f"{self.parent} {self.source}" if self.parent and self.source else None
        return FileVersion(self.commit, self.path or "", previous, self.time_s)


class LineLife(Struct):
    """Lifetime of one recorded line that reached a commit. Times are in seconds; `died` is None while the line stands.

    `by` is the replacing record, empty for an unknown author, None if not replaced.
    """

    record: str
    path: str
    born: int
    died: int | None = None
    by: ReplacingRecord | None = None

    def reached_age(self, seconds: float) -> bool:
        return self.died is None or self.died - self.born >= seconds


def find_line_lives(git: Git, attributor: LineAttributor, within: Sequence[str] = ()) -> list[LineLife]:
    """Return the recorded lines in HEAD's first-parent history. Raises GitError."""
    commits = commits_since_recording(git, attributor.recorded_since)
    if commits is None:
        return []
    changes = list(parse_log(git.run("log", *LOG_OPTIONS, commits, "--", *within)))
    versions = {change.version for change in changes if change.path and change.hunks}
    relocated = {version: relocate_version(version, attributor.prefix) for version in versions}
    attributions = attributor.attribute_versions(relocated.values())
    lives: list[LineLife] = []
    files: OpenFiles = {}
    for _, group in groupby(changes, key=lambda change: change.commit):
        removed: list[RemovedLine] = []
        inserted: list[FileLine] = []
        for change in group:
            own = attributions.get(relocated.get(change.version, change.version), [])
            gone, fresh = replay_change(change, own, files)
            removed += gone
            inserted += fresh
        match_moved_lines(removed, inserted)
        lives += end_lives(removed, inserted)
    return lives


def commits_since_recording(git: Git, first: float) -> str | None:
    """Return the range of commits that can hold recorded lines; None if empty."""
    if first == NEVER_S or git.read_head() is None:
        return None
    rows = git.text("rev-list", "--first-parent", "--timestamp", "HEAD").splitlines()
    recent = [n for n, row in enumerate(rows) if int(row.partition(" ")[0]) >= first - SLACK_S]
    if not recent:
        return None
    oldest = recent[-1]
    return "HEAD" if oldest + 1 == len(rows) else f"{rows[oldest + 1].partition(' ')[2]}..HEAD"


def parse_log(output: bytes) -> Iterator[CommittedChange]:
    """Parse a log without context, oldest first. Hunk lines are counted, because a content may look like a header."""
    change = CommittedChange("", None, 0)
    is_open = False
    lines = iter(output.split(b"\n"))
    for line in lines:
        if header := COMMIT_HEADER.match(line):
            if is_open:
                yield change
            names = header[3].split()
            change = CommittedChange(header[1].decode(), names[0].decode() if names else None, int(header[2]))
            is_open = False
        elif line.startswith(b"diff --git "):
            if is_open:
                yield change
            change, is_open = (
                CommittedChange(change.commit, change.parent, change.time_s, hunks=[], old=[], new=[]),
                True,
            )
        elif hunk := HUNK_HEADER.match(line):
            old, old_lines, new, new_lines = (int(part) if part is not None else 1 for part in hunk.groups())
            change.hunks.append(Hunk(old, old_lines, new, new_lines))
            read_hunk_lines(change, lines, old_lines + new_lines)
        else:
            read_file_header(change, line)
    if is_open:
        yield change


def read_hunk_lines(change: CommittedChange, lines: Iterator[bytes], count: int) -> None:
    while count:
        line = next(lines, None)
        if line is None:
            return
        count -= not line.startswith(b"\\")
        if line.startswith((b"-", b"+")):
            (change.old if line.startswith(b"-") else change.new).append(strip_whitespace(line[1:]))


def read_file_header(change: CommittedChange, line: bytes) -> None:
    """Read the former and the new name from a header line."""
    for key, is_former in ((b"--- ", True), (b"rename from ", True), (b"+++ ", False), (b"rename to ", False)):
        if line.startswith(key):
            quoted = line.removeprefix(key)
            name = parse_patch_path(quoted if key[0] in b"-+" else add_prefix(quoted))
            if is_former:
                change.source = name
            else:
                change.path = name


def add_prefix(quoted: bytes) -> bytes:
    return b'"a/' + quoted[1:] if quoted.startswith(b'"') else b"a/" + quoted


class FileLine(Struct):
    """One current line of a file. `text` has no white space; `is_new` marks a life that began in this commit."""

    text: bytes = b""
    life: LineLife | None = None
    is_new: bool = False
    is_taken: bool = False


class RemovedLine(Struct):
    """One line removed by a commit. `by` is as in `LineLife`."""

    text: bytes
    life: LineLife | None
    at: int
    by: ReplacingRecord | None
    is_moved: bool = False


OpenFiles: TypeAlias = dict[str, list[FileLine | None]]


def replay_change(
    change: CommittedChange, attributions: Attributions, files: OpenFiles
) -> tuple[list[RemovedLine], list[FileLine]]:
    """Apply one change to the files; return the removed and the inserted lines."""
    if change.path is None:
        current = files.pop(change.source or "", [])
        texts = [*change.old, *([b""] * (len(current) - len(change.old)))]
        pairs = zip(texts, current, strict=False)
        return [RemovedLine(text, line.life, change.time_s, None) for text, line in pairs if line], []
    if change.source is not None and change.source != change.path:
        files[change.path] = files.pop(change.source, [])
    lines = files.setdefault(change.path, [])
    old_texts, new_texts = list(change.old), list(change.new)
    removed: list[RemovedLine] = []
    inserted: list[FileLine] = []
    for hunk in reversed(change.hunks):
        start = hunk.old - 1 if hunk.old_lines else hunk.old
        lines += [None] * (start + hunk.old_lines - len(lines))
        numbers = range(hunk.new, hunk.new + hunk.new_lines)
        texts = pop_last(new_texts, hunk.new_lines)
        new_lines = [
            FileLine(text, start_life(change, attributions, n), is_new=True)
            for n, text in zip(numbers, texts, strict=True)
        ]
        by = next((slot.life.record for slot in new_lines if slot.life), "") if new_lines else None
        old_lines = zip(pop_last(old_texts, hunk.old_lines), lines[start : start + hunk.old_lines], strict=True)
        removed += [RemovedLine(text, slot.life if slot else None, change.time_s, by) for text, slot in old_lines]
        lines[start : start + hunk.old_lines] = new_lines
        inserted += new_lines
    return removed, inserted


def pop_last(texts: list[bytes], count: int) -> list[bytes]:
    """Remove and return the last `count` texts, padded with empty ones."""
    start = max(0, len(texts) - count)
    popped = texts[start:]
    del texts[start:]
    return [*([b""] * (count - len(popped))), *popped]


def match_moved_lines(removed: list[RemovedLine], inserted: list[FileLine]) -> None:
    """Let removed lines live on that the same commit inserted elsewhere."""
    positions: dict[bytes, list[int]] = {}
    for number, slot in enumerate(inserted):
        positions.setdefault(slot.text, []).append(number)
    for number, line in enumerate(removed):
        free = (
            [n for n in positions.get(line.text, ()) if not inserted[n].is_taken]
            if is_distinctive_line(line.text)
            else []
        )
        if free and not line.is_moved:
            follow_run(removed, inserted, number, free[0], 1)
            follow_run(removed, inserted, number - 1, free[0] - 1, -1)


def follow_run(removed: list[RemovedLine], inserted: list[FileLine], old: int, new: int, direction: int) -> None:
    """Extend a match line by line while both texts agree."""
    while 0 <= old < len(removed) and 0 <= new < len(inserted):
        line, slot = removed[old], inserted[new]
        if line.is_moved or slot.is_taken or line.text != slot.text:
            return
        line.is_moved = slot.is_taken = True
        if line.life is not None:
            slot.life, slot.is_new = line.life, False
        old, new = old + direction, new + direction


def end_lives(removed: list[RemovedLine], inserted: list[FileLine]) -> list[LineLife]:
    """End the lives of removed lines; return the lives that began."""
    for line in removed:
        if not line.is_moved and line.life is not None:
            line.life.died, line.life.by = line.at, line.by
    return [slot.life for slot in inserted if slot.life is not None and slot.is_new]


def start_life(change: CommittedChange, attributions: Attributions, number: int) -> LineLife | None:
    attribution = attributions[number - 1] if number <= len(attributions) else None
    return (
        LineLife(attribution.record, change.path or "", change.time_s) if attribution and attribution.proved else None
    )
