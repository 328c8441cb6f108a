"""The contents of versions and how they differ, in one workspace: fetched in a few batches, however many they are."""

from collections.abc import Iterable, Sequence
from functools import cached_property

from remit.core.contents import Hunk, git_blob
from remit.core.own_words import own_words
from remit.core.textdiff import lines_of, small_hunks
from remit.provenance.origins.alike import Lines
from remit.provenance.origins.labels import Pairs
from remit.provenance.origins.porcelain import Place
from remit.workspace.contents import ContentStore
from remit.workspace.git import Git
from remit.workspace.place import Workspace

Pair = tuple[str | None, str]


MOST_HELD = 64 * 1024 * 1024
"""Bytes of contents that are kept at hand for who asks again."""


class Held(ContentStore):
    """Contents, each of which is fetched once: several ask for the same ones."""

    def __init__(self, store: ContentStore) -> None:
        super().__init__(store.workspace, "")
        self.held: dict[str, bytes] = {}
        self.size = 0
        self.measured: dict[str, int] = {}

    def load_many(self, blobs: Iterable[str]) -> dict[str, bytes]:
        """The contents of those git names that are at hand."""
        asked = list(dict.fromkeys(blobs))
        found = super().load_many(blob for blob in asked if blob not in self.held)
        known = {blob: self.held[blob] for blob in asked if blob in self.held}
        for blob, content in found.items():
            self.size += len(content)
            if self.size <= MOST_HELD:
                self.held[blob] = content
        return {**known, **found}

    def sizes(self, blobs: Iterable[str]) -> dict[str, int]:
        """How many bytes those contents have, of those that are at hand."""
        asked = set(blobs)
        self.measured |= {blob: len(self.held[blob]) for blob in asked & self.held.keys()}
        self.measured |= super().sizes(sorted(asked - self.measured.keys()))
        return {blob: self.measured[blob] for blob in asked & self.measured.keys()}


class Versions:
    """What is known of contents, by their git names; and of names as `<commit>:<path>`."""

    def __init__(self, workspace: Workspace, store: ContentStore) -> None:
        self.workspace = workspace
        self.store = store
        self.git = Git(workspace.root)
        self.contents: dict[str, bytes] = {}
        """Those of the working tree may be in no object store yet."""
        self.names: dict[str, str | None] = {}
        self.diffs: dict[Pair, tuple[Hunk, ...]] = {}
        self.split: dict[str, Lines] = {}
        self.vocabularies: dict[str, set[str]] = {}

    def parent(self, place: Place) -> str | None:
        """The git name of the content before that version."""
        return self.names.get(place.parent) if place.parent else None

    def version(self, place: Place) -> str | None:
        """The git name of that version's content."""
        return self.names.get(place.name)

    def find(self, names: Iterable[str]) -> None:
        """Find the contents of those names that were not sought before."""
        fresh = set(names) - self.names.keys()
        self.names |= self.resolved(sorted(name for name in fresh if "\n" not in name))

    @cached_property
    def prefix(self) -> str:
        """The workspace's place in its repository, with a final `/`; empty where it is the repository's root."""
        if (self.workspace.root / ".git").exists() or self.workspace.common_dir is None:
            return ""
        from remit.workspace.hidden import prefix_in_repository  # for start-up speed: few lie deeper

        return prefix_in_repository(self.workspace)

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
        asked = set(names)
        fresh = asked - self.names.keys()
        for name in [name for name in fresh if name.partition(":")[0].strip("0")]:
            self.names.setdefault(name, None)
        for name in fresh - self.names.keys():
            self.names[name] = self.working(name.partition(":")[2])
        self.names |= self.resolved(sorted(name for name in fresh if self.names[name] is None and "\n" not in name))
        self.load({blob for name in asked if (blob := self.names[name])})

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
            self.split[name] = Lines(lines_of(self.contents[name]))
        return self.split.get(name)

    def added(self, place: Place) -> list[bytes] | None:
        """The lines that a version added to the one before; None where that is not known."""
        version = self.version(place)
        hunks = self.diffs.get((self.parent(place), version)) if version else None
        if version is None or hunks is None:
            return None
        new = self.lines(version) or ()
        return [line for h in hunks for line in new[h.new - 1 : h.new - 1 + h.new_lines]]

    def words(self, name: str) -> set[str]:
        """All words of a content that are not everybody's."""
        if name not in self.vocabularies:
            self.vocabularies[name] = {word for line in self.lines(name) or () for word in own_words(line)}
        return self.vocabularies[name]
