"""Labels for the lines of versions, in one workspace: what `origins` has to know, fetched in a few batches.

However many versions are asked about, git is started a fixed number of times.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property

from remit.core.contents import Hunk, git_blob, sha256
from remit.core.textdiff import lines_of, small_hunks
from remit.ledger.changes import Change
from remit.ledger.index import Index
from remit.provenance.evidence import is_strong, own_words
from remit.provenance.origins import Label, Labels, Pairs, Recorded, Step, Walked, chains, merged, walk, wanted_pairs
from remit.provenance.porcelain import Place
from remit.workspace.contents import ContentStore
from remit.workspace.git import Git, GitError
from remit.workspace.place import Workspace

Pair = tuple[str | None, str]

NEVER = float("inf")
SLACK_S = 86400.0
"""Clocks differ, and a commit may be told to have any date."""


class Attribution:
    """Who put the lines there, by the records of one workspace."""

    def __init__(self, workspace: Workspace, index: Index, store: ContentStore) -> None:
        self.workspace = workspace
        self.index = index
        self.store = store
        self.git = Git(workspace.root)
        self.contents: dict[str, bytes] = {}
        """Contents by their git names: those of the working tree may be in no object store yet."""
        self.names: dict[str, str | None] = {}
        self.pools: dict[str, tuple[Recorded, ...]] = {}
        self.diffs: dict[Pair, tuple[Hunk, ...]] = {}
        self.split: dict[str, list[bytes]] = {}
        self.observed: set[str] = set()
        self.vocabularies: dict[str, set[str]] = {}
        self.walked: Walked = {}

    def labels(self, places: Iterable[Place]) -> dict[Place, Labels]:
        """The label of each line of those versions; no labels for one that nothing is known of."""
        asked = list(dict.fromkeys(places))
        if not self.anything_recorded:
            return {place: [] for place in asked}
        self.resolve(asked)
        found = {place: self.ways(place) for place in asked}
        unsure = [place for place, ways in found.items() if not is_exact(ways) and self.may_be_recorded(place)]
        found |= {place: () for place, ways in found.items() if not is_exact(ways) and place not in unsure}
        self.load({version for place in unsure if (version := self.version(place))})
        found |= {place: way for place in unsure if (way := self.left_elsewhere(place))}
        compared = [place for place in unsure if found[place] and not is_exact(found[place])]
        settled = self.settled(compared)
        found |= {place: self.ways(place, settled.get(place, frozenset())) for place in compared}
        self.load({before for place in compared for way in found[place] if (before := way[-1].before)})
        self.compare({(self.parent(place), version) for place in compared if (version := self.version(place))})
        found |= {place: tuple(way for way in found[place] if self.may_hold(place, way)) for place in compared}
        self.fetch(way for ways in found.values() for way in ways)
        walked = {place: merged([walk(way, self.pairs, self.walked) for way in ways]) for place, ways in found.items()}
        return {place: with_gits_word(labels, found[place], self.parent(place)) for place, labels in walked.items()}

    def may_hold(self, place: Place, way: Sequence[Step]) -> bool:
        """Whether the recorded content that a way ends with may hold a line that the version added: one of which it has
        every word. Most have none, and need not be walked to.
        """
        pair = (self.parent(place), way[-1].after)
        if pair not in self.diffs or way[-1].before not in self.contents:
            return True
        new, words = self.lines(pair[1]) or (), self.words(way[-1].before)
        added = (line for h in self.diffs[pair] for line in new[h.new - 1 : h.new - 1 + h.new_lines])
        return any(own and words.issuperset(own) for own in map(own_words, added))

    def words(self, name: str) -> set[str]:
        """All words of a content that are not everybody's."""
        if name not in self.vocabularies:
            self.vocabularies[name] = {word for line in self.lines(name) or () for word in own_words(line)}
        return self.vocabularies[name]

    @cached_property
    def anything_recorded(self) -> bool:
        """Whether any change was ever recorded."""
        return self.recorded_since < NEVER

    @cached_property
    def recorded_since(self) -> float:
        """When the first change was recorded, in seconds; NEVER where none was."""
        first = self.index.first_change()
        return datetime.fromisoformat(first).timestamp() if first else NEVER

    def may_be_recorded(self, place: Place) -> bool:
        """Whether a version is young enough to hold recorded lines. This spares looking, and proves nothing."""
        return not place.committed or place.at >= self.recorded_since - SLACK_S

    def was_observed(self, label: Label) -> bool:
        """Whether what put a line there was found by comparing, and no call told of it."""
        return label.record in self.observed

    def ways(self, place: Place, settled: frozenset[str] = frozenset()) -> tuple[tuple[Step, ...], ...]:
        """How that version may have come about."""
        version = self.version(place)
        return chains(version, self.parent(place), self.pool(place.path), settled) if version else ()

    def left_elsewhere(self, place: Place) -> tuple[tuple[Step, ...], ...]:
        """How that content came about in another file, where it was recorded: the file was renamed or copied."""
        version = self.version(place)
        content = self.contents.get(version) if version else None
        if version is None or content is None or not any(map(is_strong, lines_of(content))):
            return ()
        for change in reversed(self.index.changes_leaving(sha256(content))):
            found = chains(version, self.parent(place), self.pool(change.path))
            if is_exact(found):
                return found
        return ()

    def parent(self, place: Place) -> str | None:
        """The git name of the content before that version."""
        return self.names.get(place.parent) if place.parent else None

    def version(self, place: Place) -> str | None:
        """The git name of that version's content."""
        return self.names.get(place.name)

    def pool(self, path: str) -> tuple[Recorded, ...]:
        """All that was recorded of a path, oldest first."""
        if path not in self.pools:
            changes = self.index.changes_of(path)
            self.observed |= {change.id for change in changes if change.observed}
            self.pools[path] = tuple(map(recorded, changes))
        return self.pools[path]

    def resolve(self, places: Sequence[Place]) -> None:
        """Find the contents of versions and of the versions before them: one git for all."""
        for place in places:
            if not place.committed:
                self.names[place.name] = self.working(place.path)
        names = {n for p in places for n in (p.name if p.committed else None, p.parent) if n} - self.names.keys()
        self.names |= self.resolved(sorted(name for name in names if "\n" not in name))

    def resolved(self, names: Sequence[str]) -> dict[str, str | None]:
        """The blobs of those names, as `<commit>:<path>`. Source: git-cat-file(1), read 2026-11."""
        if not names or self.workspace.common_dir is None:
            return {}
        asked = "".join(f"{name}\n" for name in names).encode("utf-8", "surrogateescape")
        out = self.git.run("cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=asked)
        rows = [line.rpartition(b" ") for line in out.splitlines()]
        return {n: row[0].decode() if row[2] == b"blob" else None for n, row in zip(names, rows, strict=True)}

    def working(self, path: str) -> str | None:
        """The git name of a file as it is now; None where there is none."""
        file = self.workspace.root / path
        if not file.is_file():
            return None
        content = file.read_bytes()
        name = git_blob(content)
        self.contents[name] = content
        return name

    def settled(self, places: Sequence[Place]) -> Mapping[Place, frozenset[str]]:
        """The contents that those files had before those versions: what a version has no more was taken out of it."""
        paths = {place.path for place in places}
        if not paths or self.workspace.common_dir is None:
            return {}
        words = ("--topo-order", "--format=%x01%H", "--raw", "--no-abbrev", "--no-renames", "--diff-filter=AM", "-z")
        try:
            out = self.git.run("log", *words, "--", *paths)
        except GitError:
            return {}
        rows = tuple(contents_in_log(out.decode("utf-8", "surrogateescape")))
        return {place: frozenset(older(rows, place)) for place in places}

    def fetch(self, ways: Iterable[Sequence[Step]]) -> None:
        """Have the contents and differences at hand that walking those ways asks for."""
        self.compare({pair for way in ways for pair in wanted_pairs(way)})

    def compare(self, pairs: Iterable[Pair]) -> None:
        """Have those differences at hand: small ones are told here, git is asked once for all the others."""
        wanted = [pair for pair in pairs if pair not in self.diffs]
        self.load({name for pair in wanted for name in pair if name})
        large: dict[str, tuple[bytes, bytes]] = {}
        for before, after in wanted:
            old, new = self.contents.get(before or "", b""), self.contents.get(after)
            if new is None or (before and before not in self.contents):
                continue
            found = small_hunks(old, new)
            if found is None:
                large[f"{before or ''}:{after}"] = (old, new)
            else:
                self.diffs[before, after] = found
        for name, hunks in self.store.hunks(large).items():
            before, _, after = name.partition(":")
            self.diffs[before or None, after] = hunks

    def fetch_names(self, names: Iterable[str]) -> None:
        """Have the contents of those versions at hand, by names as `<commit>:<path>`."""
        fresh = set(names) - self.names.keys()
        for name in [name for name in fresh if name.partition(":")[0].strip("0")]:
            self.names.setdefault(name, None)
        for name in fresh - self.names.keys():
            self.names[name] = self.working(name.partition(":")[2])
        self.names |= self.resolved(sorted(name for name in fresh if self.names[name] is None and "\n" not in name))
        self.load({blob for name in fresh if (blob := self.names[name])})

    def load(self, blobs: set[str]) -> None:
        """Have those contents at hand, as far as they can be had."""
        self.contents |= self.store.load_many(blobs - self.contents.keys())

    def lines_named(self, name: str) -> Sequence[bytes]:
        """The lines of a version; none where it is not there."""
        blob = self.names.get(name)
        return (self.lines(blob) or ()) if blob else ()

    @cached_property
    def pairs(self) -> Pairs:
        """What a walk has to know."""
        return Pairs(self.lines, lambda before, after: self.diffs.get((before, after)))

    def lines(self, name: str | None) -> Sequence[bytes] | None:
        """The lines of the content of that name; None where it is lost."""
        if name is None:
            return ()
        if name not in self.split and name in self.contents:
            self.split[name] = lines_of(self.contents[name])
        return self.split.get(name)


def contents_in_log(out: str) -> Iterator[tuple[str, str, str]]:
    """(commit, path, blob) of each change in `git log --format=%x01%H --raw -z`, the newest first."""
    commit = about = ""
    for field in out.split("\0"):
        if field.startswith("\1"):
            commit = field[1:]
        elif field.lstrip("\n").startswith(":") and not about:
            about = field
        elif about:
            yield commit, field, about.split(" ")[3]
            about = ""


def older(rows: Sequence[tuple[str, str, str]], place: Place) -> Iterator[str]:
    """The contents that the file of `place` had before that version."""
    start = next((n + 1 for n, (commit, path, _) in enumerate(rows) if (commit, path) == (place.commit, place.path)), 0)
    return (blob for _, path, blob in rows[start:] if path == place.path)


def with_gits_word(labels: Labels, ways: Sequence[Sequence[Step]], parent: str | None) -> Labels:
    """The labels, where one call alone lies between a version and the one before: what git calls new is that call's.

    Of two lines that are alike, the diff in the record may call another one new than git does. Where the call told
    the place itself, that holds.
    """
    step = ways[0][0] if len(ways) == 1 and len(ways[0]) == 1 else None
    if step is None or step.record is None or step.told or step.loose or step.before != parent:
        return labels
    own = Label(step.record, "exact")
    return [label or own for label in labels]


def is_exact(ways: Sequence[Sequence[Step]]) -> bool:
    """Whether records tell how the version came about."""
    return bool(ways) and ways[0][-1].record is not None


def recorded(change: Change) -> Recorded:
    """One change, for `origins`."""
    return Recorded(
        change.seq,
        change.id,
        change.before_blob,
        change.after_blob,
        before_lines=change.before_lines,
        hunks=change.hunks,
        told=change.told,
        by_git=change.by_git,
        observed=change.observed,
    )
