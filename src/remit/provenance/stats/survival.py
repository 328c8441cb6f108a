"""How long lines lived after the commit that brought them: history replayed by its differences alone.

git is started a few times, however many commits there are. A line that one commit takes out and puts in elsewhere, or
with another layout, was moved and lives on, where it tells itself from others or stands beside one that does.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TypeAlias

from msgspec import Struct

from remit.core.contents import Hunk
from remit.core.own_words import is_strong
from remit.provenance.notes.additions import path_said
from remit.provenance.origins.attribution import Attribution
from remit.provenance.origins.evidence import Labels, unspaced
from remit.provenance.origins.histories import NEVER, SLACK_S
from remit.provenance.origins.porcelain import Place, from_workspace
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
    old: list[bytes] = []
    new: list[bytes] = []
    """The lines that were taken out and put in, in the order of the hunks, without their white space."""

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
    places = {change.place for change in changes if change.path and change.hunks}
    here = {place: from_workspace(place, attribution.prefix) for place in places}
    labels = attribution.labels(here.values())
    found: list[Life] = []
    files: Files = {}
    for _, group in groupby(changes, key=lambda change: change.commit):
        gone: list[Gone] = []
        fresh: list[Slot] = []
        for change in group:
            replay(change, labels.get(here.get(change.place, change.place), []), files, gone, fresh)
        moves(gone, fresh)
        found += settle(gone, fresh)
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
            now, open_file = Changed(now.commit, now.parent, now.at, hunks=[], old=[], new=[]), True
        elif hunk := HUNK.match(line):
            old, old_lines, new, new_lines = (int(part) if part is not None else 1 for part in hunk.groups())
            now.hunks.append(Hunk(old, old_lines, new, new_lines))
            take_lines(now, lines, old_lines + new_lines)
        else:
            take_in(now, line)
    if open_file:
        yield now


def take_lines(now: Changed, lines: Iterator[bytes], count: int) -> None:
    """The lines of a hunk."""
    while count:
        line = next(lines, None)
        if line is None:
            return
        count -= not line.startswith(b"\\")
        if line.startswith((b"-", b"+")):
            (now.old if line.startswith(b"-") else now.new).append(unspaced(line[1:]))


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


class Slot(Struct):
    """One line of a file as it stands. `text` is without white space; `own` says that its life began in this commit."""

    text: bytes = b""
    life: Life | None = None
    own: bool = False
    taken: bool = False


class Gone(Struct):
    """One line that a commit took out. `by` is what took its place, as in `Life`."""

    text: bytes
    life: Life | None
    at: int
    by: Replaced | None
    moved: bool = False


Files: TypeAlias = dict[str, list[Slot | None]]


def replay(change: Changed, labels: Labels, files: Files, gone: list[Gone], fresh: list[Slot]) -> None:
    """Take one change into the files as they stand; what it took out and put in is added to `gone` and `fresh`."""
    if change.path is None:
        slots = files.pop(change.source or "", [])
        texts = [*change.old, *([b""] * (len(slots) - len(change.old)))]
        gone += [Gone(text, s.life, change.at, None) for text, s in zip(texts, slots, strict=False) if s]
        return
    if change.source is not None and change.source != change.path:
        files[change.path] = files.pop(change.source, [])
    lines = files.setdefault(change.path, [])
    removed, added = list(change.old), list(change.new)
    for hunk in reversed(change.hunks):
        start = hunk.old - 1 if hunk.old_lines else hunk.old
        lines += [None] * (start + hunk.old_lines - len(lines))
        numbers = range(hunk.new, hunk.new + hunk.new_lines)
        texts = last(added, hunk.new_lines)
        slots = [Slot(text, born(change, labels, n), own=True) for n, text in zip(numbers, texts, strict=True)]
        by = next((slot.life.record for slot in slots if slot.life), "") if slots else None
        old = zip(last(removed, hunk.old_lines), lines[start : start + hunk.old_lines], strict=True)
        gone += [Gone(text, slot.life if slot else None, change.at, by) for text, slot in old]
        lines[start : start + hunk.old_lines] = slots
        fresh += slots


def last(texts: list[bytes], count: int) -> list[bytes]:
    """Take so many from the end; empty ones where there are not as many."""
    at = max(0, len(texts) - count)
    found = texts[at:]
    del texts[at:]
    return [*([b""] * (count - len(found))), *found]


def moves(gone: list[Gone], fresh: list[Slot]) -> None:
    """Let the lines live on that stand elsewhere now."""
    places: dict[bytes, list[int]] = {}
    for number, slot in enumerate(fresh):
        places.setdefault(slot.text, []).append(number)
    for number, line in enumerate(gone):
        free = [n for n in places.get(line.text, ()) if not fresh[n].taken] if is_strong(line.text) else []
        if free and not line.moved:
            follow(gone, fresh, number, free[0], 1)
            follow(gone, fresh, number - 1, free[0] - 1, -1)


def follow(gone: list[Gone], fresh: list[Slot], old: int, new: int, way: int) -> None:
    """Move one line after the other, as far as both go on alike."""
    while 0 <= old < len(gone) and 0 <= new < len(fresh):
        line, slot = gone[old], fresh[new]
        if line.moved or slot.taken or line.text != slot.text:
            return
        line.moved = slot.taken = True
        if line.life is not None:
            slot.life, slot.own = line.life, False
        old, new = old + way, new + way


def settle(gone: list[Gone], fresh: list[Slot]) -> list[Life]:
    """End the lives of the lines that are gone; the lives that began."""
    for line in gone:
        if not line.moved:
            end(line.life, line.at, line.by)
    return [slot.life for slot in fresh if slot.life is not None and slot.own]


def born(change: Changed, labels: Labels, number: int) -> Life | None:
    """A line that the change put there, where a record explains it."""
    label = labels[number - 1] if number <= len(labels) else None
    return Life(label.record, change.path or "", change.at) if label and label.proved else None


def end(life: Life | None, at: int, by: Replaced | None) -> None:
    """A line is taken out."""
    if life is not None:
        life.died, life.by = at, by
