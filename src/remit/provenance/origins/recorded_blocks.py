"""Blocks that an agent wrote in one file and that stand in another before any commit had them: moved, or renamed.

Only a block that tells itself from all others, that has left the file it was written in, and that no file of the
version before has, is taken for the recorded one.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from remit.core.own_words import is_strong
from remit.ledger.changes import Change
from remit.provenance.origins.attribution import Attribution
from remit.provenance.origins.evidence import Label, unspaced
from remit.provenance.origins.porcelain import GitLine, Place
from remit.workspace.git import Git, GitError

MOST_VERSIONS = 400
MOST_PLACES = 4
MOST_ASKED = 50
MOST_COMMITS = 8
FEWEST_LINES = 3
UNCOMMITTED = "0" * 40
"""What git blame calls the commit of what the work tree holds."""


class Source(Struct, frozen=True):
    """One line that a record put into a file. `number` counts from 0."""

    change: Change
    number: int


class RecordedBlocks:
    """Looks for lines in what was recorded of other files."""

    def __init__(self, git: Git, attribution: Attribution) -> None:
        self.git = git
        self.attribution = attribution

    def labels(self, lines: Sequence[GitLine]) -> dict[int, Label]:
        """Labels by line of the file asked about."""
        strong = [line for line in lines if is_strong(line.content)]
        places = list(dict.fromkeys(line.place for line in strong))[:MOST_PLACES]
        sources = self.sources({unspaced(line.content) for line in strong}) if places else {}
        found: dict[int, Label] = {}
        for place in places:
            own = {line.number: line for line in lines if line.place == place}
            seeds = [line for line in strong if line.place == place and unspaced(line.content) in sources]
            novel = self.novel(place, seeds[:MOST_ASKED], sources)
            for line in seeds:
                if line.line not in found and line.number in novel:
                    found |= self.block(own, line, sources[unspaced(line.content)])
        return found

    def sources(self, wanted: set[bytes]) -> dict[bytes, Source]:
        """Where a record put those lines, by their text without white space; the newest."""
        found: dict[bytes, Source] = {}
        for source, text in self.written(wanted):
            if is_proved(source.change, source.number):
                found.setdefault(text, source)
        return found

    def written(self, wanted: set[bytes]) -> Iterator[tuple[Source, bytes]]:
        """Every place where a call put one of those lines, or may have, the newest first."""
        newest = self.attribution.index.newest_changes(MOST_VERSIONS)
        calls = [change for change in newest if change.after_blob and not change.observed]
        changes = self.attribution.put.may_have_put(calls, wanted)
        self.attribution.load({c.after_blob for c in changes if c.after_blob})
        for change in changes:
            lines = self.attribution.lines(change.after_blob) or ()
            for number in added(change, len(lines)):
                text = unspaced(lines[number])
                if text in wanted:
                    yield Source(change, number), text

    def doubtful(self, lines: Sequence[GitLine]) -> set[int]:
        """Those lines of a person's edit that an agent wrote before: in that file, or with words of their own anywhere.

        A person who takes a stash back, or copies a block, changes the file and writes nothing.
        """
        texts = {line.line: unspaced(line.content) for line in lines}
        written: dict[bytes, set[str]] = {}
        for source, text in self.written(set(texts.values())):
            written.setdefault(text, set()).add(source.change.path)
        return {
            line.line
            for line in lines
            if (paths := written.get(texts[line.line])) and (line.place.path in paths or is_strong(line.content))
        }

    def novel(self, place: Place, seeds: Sequence[GitLine], sources: dict[bytes, Source]) -> set[int]:
        """The lines that have left the file they were recorded in, and that no other file has: neither of the version
        before, nor of the commit that the call started from.
        """
        if not seeds:
            return set()
        before = (
            place.previous.partition(" ")[0] if place.previous else (f"{place.commit}^" if place.committed else "HEAD")
        )
        texts = [line.content.strip() for line in seeds]
        known = [self.found_in(before, texts)]
        stood = list(dict.fromkeys(self.attribution.stood_on(sources[unspaced(line.content)].change) for line in seeds))
        known += [self.found_in(commit, texts) for commit in stood[:MOST_COMMITS] if commit]
        found: set[int] = set()
        for line in seeds:
            change = sources[unspaced(line.content)].change
            own = self.attribution.prefix + change.path
            elsewhere = {path for files in known for path in files.get(line.content.strip(), ())} - {own}
            if change.path == place.path or elsewhere or self.attribution.stood_on(change) not in stood[:MOST_COMMITS]:
                continue
            if self.attribution.was_there_unseen(place.path, change) or self.is_younger(change, place):
                continue
            if not self.stands(unspaced(line.content), own, (place.commit, UNCOMMITTED)):
                found.add(line.number)
        return found

    def stands(self, text: bytes, path: str, commits: Sequence[str]) -> bool:
        """Whether a line stands in one of those versions of a file: who commits a part of their work has the rest in
        the work tree.
        """
        names = [f"{commit}:{path}" for commit in commits]
        self.attribution.fetch_names(names)
        return any(unspaced(line) == text for name in names for line in self.attribution.lines_named(name))

    def is_younger(self, change: Change, place: Place) -> bool:
        """Whether a call began when that version was there: what it put anywhere came from there, and not to it."""
        then = self.attribution.history_then(place, change.path)
        return all(change.id != found.record for found in then.recorded)

    def found_in(self, commit: str, texts: Sequence[bytes]) -> dict[bytes, set[str]]:
        """The files of a commit that have those texts."""
        patterns = [word for text in texts for word in ("-e", text.decode("utf-8", "surrogateescape"))]
        try:
            out = self.git.run("grep", "-I", "-F", "-z", "--full-name", *patterns, commit, "--", ":/", ok=(0, 1))
        except GitError:
            return {}
        found: dict[bytes, set[str]] = {}
        for row in out.split(b"\n"):
            name, _, text = row.partition(b"\0")
            path = name.decode("utf-8", "surrogateescape").partition(":")[2]
            for wanted in texts:
                if wanted in text:
                    found.setdefault(wanted, set()).add(path)
        return found

    def block(self, own: dict[int, GitLine], seed: GitLine, source: Source) -> dict[int, Label]:
        """The lines around `seed` that stand in the same order in the recorded version, as far as it put them there."""
        lines = self.attribution.lines(source.change.after_blob) or ()
        fresh = {n for n in added(source.change, len(lines)) if is_proved(source.change, n)}
        same = [
            0,
            *reach(own, seed.number, lines, source.number, fresh, 1),
            *reach(own, seed.number, lines, source.number, fresh, -1),
        ]
        label = Label(source.change.id, "moved")
        telling = len(same) >= FEWEST_LINES or len(fresh) == len(same)
        return {own[seed.number + offset].line: label for offset in same} if telling else {}


def reach(
    own: dict[int, GitLine], number: int, lines: Sequence[bytes], at: int, fresh: set[int], way: int
) -> Iterable[int]:
    """How far both go on alike, as offsets, in one direction."""
    offset = way
    while number + offset in own and at + offset in fresh:
        if own[number + offset].content.split() != lines[at + offset].split():
            return
        yield offset
        offset += way


def added(change: Change, count: int) -> list[int]:
    """The lines that a change put into a file of `count` lines, from 0."""
    if change.before_blob is None:
        return list(range(count))
    return [n for h in change.hunks or () for n in range(h.new - 1, h.new - 1 + h.new_lines) if 0 <= n < count]


def is_proved(change: Change, number: int) -> bool:
    """Whether it was the change's call that put that line there, from 0."""
    return not any(first <= number + 1 <= last for first, last in change.unproved)
