"""The contents of versions and how they differ, in one workspace: fetched in a few batches, however many they are."""

from collections.abc import Iterable, Sequence
from functools import cached_property

from remit.core.diff.contents import Hunk, hash_git_blob
from remit.core.diff.distinctive_lines import find_distinctive_words
from remit.core.diff.edit_script import diff_small, split_lines
from remit.provenance.origins.blame_porcelain import FileVersion
from remit.provenance.origins.carried_attributions import ContentPairs
from remit.provenance.origins.similarity import IndexedLines
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.git.command import Git
from remit.workspace.place.workspace import Workspace

ContentPair = tuple[str | None, str]


MAX_CACHED_BYTES = 64 * 1024 * 1024
"""Bytes of contents that are kept at hand for who asks again."""


class CachedContentStore(ContentStore):
    """Contents, each of which is fetched once: several ask for the same ones."""

    def __init__(self, store: ContentStore) -> None:
        super().__init__(store.workspace, "")
        self.cached: dict[str, bytes] = {}
        self.cached_bytes = 0
        self.known_sizes: dict[str, int] = {}

    def load_many(self, blobs: Iterable[str]) -> dict[str, bytes]:
        """The contents of those git names that are at hand."""
        asked = list(dict.fromkeys(blobs))
        found = super().load_many(blob for blob in asked if blob not in self.cached)
        known = {blob: self.cached[blob] for blob in asked if blob in self.cached}
        for blob, content in found.items():
            self.cached_bytes += len(content)
            if self.cached_bytes <= MAX_CACHED_BYTES:
                self.cached[blob] = content
        return {**known, **found}

    def content_sizes(self, blobs: Iterable[str]) -> dict[str, int]:
        """How many bytes those contents have, of those that are at hand."""
        asked = set(blobs)
        self.known_sizes |= {blob: len(self.cached[blob]) for blob in asked & self.cached.keys()}
        self.known_sizes |= super().content_sizes(sorted(asked - self.known_sizes.keys()))
        return {blob: self.known_sizes[blob] for blob in asked & self.known_sizes.keys()}


class VersionContents:
    """What is known of contents, by their git names; and of names as `<commit>:<path>`."""

    def __init__(self, workspace: Workspace, store: ContentStore) -> None:
        self.workspace = workspace
        self.store = store
        self.git = Git(workspace.root)
        self.contents_by_blob: dict[str, bytes] = {}
        """Those of the working tree may be in no object store yet."""
        self.blobs_by_name: dict[str, str | None] = {}
        self.hunks_by_pair: dict[ContentPair, tuple[Hunk, ...]] = {}
        self.lines_by_blob: dict[str, IndexedLines] = {}
        self.words_by_blob: dict[str, set[str]] = {}

    def parent_blob(self, version: FileVersion) -> str | None:
        """The git name of the content before that version."""
        return self.blobs_by_name.get(version.parent) if version.parent else None

    def version_blob(self, version: FileVersion) -> str | None:
        """The git name of that version's content."""
        return self.blobs_by_name.get(version.name)

    def resolve_names(self, names: Iterable[str]) -> None:
        """Find the contents of those names that were not sought before."""
        fresh = set(names) - self.blobs_by_name.keys()
        self.blobs_by_name |= self.look_up_blobs(sorted(name for name in fresh if "\n" not in name))

    @cached_property
    def prefix(self) -> str:
        """The workspace's place in its repository, with a final `/`; empty where it is the repository's root."""
        if (self.workspace.root / ".git").exists() or self.workspace.common_dir is None:
            return ""
        from remit.workspace.git.hidden_files import prefix_in_repository  # for start-up speed: few lie deeper

        return prefix_in_repository(self.workspace)

    def look_up_blobs(self, names: Sequence[str]) -> dict[str, str | None]:
        """The blobs of those names, as `<commit>:<path>`. Source: git-cat-file(1), read 2026-11."""
        if not names or self.workspace.common_dir is None:
            return {}
        asked = "".join(f"{name}\n" for name in names).encode("utf-8", "surrogateescape")
        out = self.git.run("cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=asked)
        rows = [line.rpartition(b" ") for line in out.splitlines()]
        return {n: row[0].decode() if row[2] == b"blob" else None for n, row in zip(names, rows, strict=True)}

    def load_working_file(self, path: str) -> str | None:
        """The git name of a file as it is now; None where there is none."""
        file = self.workspace.root / path
        if not file.is_file():
            return None
        content = file.read_bytes()
        name = hash_git_blob(content)
        self.contents_by_blob[name] = content
        return name

    def load_hunks(self, pairs: Iterable[ContentPair]) -> None:
        """Have those differences at hand: small ones are told here, git is asked once for all the others."""
        wanted = [pair for pair in pairs if pair not in self.hunks_by_pair]
        self.load_contents({name for pair in wanted for name in pair if name})
        large: dict[str, tuple[bytes, bytes]] = {}
        for before, after in wanted:
            old, new = self.contents_by_blob.get(before or "", b""), self.contents_by_blob.get(after)
            if new is None or (before and before not in self.contents_by_blob):
                continue
            found = diff_small(old, new)
            if found is None:
                large[f"{before or ''}:{after}"] = (old, new)
            else:
                self.hunks_by_pair[before, after] = found
        for name, hunks in self.store.compute_hunks(large).items():
            before, _, after = name.partition(":")
            self.hunks_by_pair[before or None, after] = hunks

    def load_named(self, names: Iterable[str]) -> None:
        """Have the contents of those versions at hand, by names as `<commit>:<path>`."""
        asked = set(names)
        fresh = asked - self.blobs_by_name.keys()
        for name in [name for name in fresh if name.partition(":")[0].strip("0")]:
            self.blobs_by_name.setdefault(name, None)
        for name in fresh - self.blobs_by_name.keys():
            self.blobs_by_name[name] = self.load_working_file(name.partition(":")[2])
        self.blobs_by_name |= self.look_up_blobs(
            sorted(name for name in fresh if self.blobs_by_name[name] is None and "\n" not in name)
        )
        self.load_contents({blob for name in asked if (blob := self.blobs_by_name[name])})

    def load_contents(self, blobs: set[str]) -> None:
        """Have those contents at hand, as far as they can be had."""
        self.contents_by_blob |= self.store.load_many(blobs - self.contents_by_blob.keys())

    def lines_of_name(self, name: str) -> Sequence[bytes]:
        """The lines of a version; none where it is not there."""
        blob = self.blobs_by_name.get(name)
        return (self.lines_of(blob) or ()) if blob else ()

    @cached_property
    def content_pairs(self) -> ContentPairs:
        """What a walk has to know."""
        return ContentPairs(self.lines_of, lambda before, after: self.hunks_by_pair.get((before, after)))

    def lines_of(self, name: str | None) -> Sequence[bytes] | None:
        """The lines of the content of that name; None where it is lost."""
        if name is None:
            return ()
        if name not in self.lines_by_blob and name in self.contents_by_blob:
            self.lines_by_blob[name] = IndexedLines(split_lines(self.contents_by_blob[name]))
        return self.lines_by_blob.get(name)

    def added_lines(self, version: FileVersion) -> list[bytes] | None:
        """The lines that a version added to the one before; None where that is not known."""
        blob = self.version_blob(version)
        hunks = self.hunks_by_pair.get((self.parent_blob(version), blob)) if blob else None
        if blob is None or hunks is None:
            return None
        new = self.lines_of(blob) or ()
        return [line for h in hunks for line in new[h.new - 1 : h.new - 1 + h.new_lines]]

    def distinctive_words(self, name: str) -> set[str]:
        """All words of a content that are not everybody's."""
        if name not in self.words_by_blob:
            self.words_by_blob[name] = {
                word for line in self.lines_of(name) or () for word in find_distinctive_words(line)
            }
        return self.words_by_blob[name]
