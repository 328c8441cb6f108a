"""Contents of file versions and their differences, fetched in a few batches."""

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
"""Bytes of contents that stay cached."""


class CachedContentStore(ContentStore):
    """Content store that fetches each content once."""

    def __init__(self, store: ContentStore) -> None:
        super().__init__(store.workspace, "")
        self.cached: dict[str, bytes] = {}
        self.cached_bytes = 0
        self.known_sizes: dict[str, int] = {}

    def load_many(self, blobs: Iterable[str]) -> dict[str, bytes]:
        wanted = list(dict.fromkeys(blobs))
        loaded = super().load_many(blob for blob in wanted if blob not in self.cached)
        cached = {blob: self.cached[blob] for blob in wanted if blob in self.cached}
        for blob, content in loaded.items():
            self.cached_bytes += len(content)
            if self.cached_bytes <= MAX_CACHED_BYTES:
                self.cached[blob] = content
        return {**cached, **loaded}

    def content_sizes(self, blobs: Iterable[str]) -> dict[str, int]:
        wanted = set(blobs)
        self.known_sizes |= {blob: len(self.cached[blob]) for blob in wanted & self.cached.keys()}
        self.known_sizes |= super().content_sizes(sorted(wanted - self.known_sizes.keys()))
        return {blob: self.known_sizes[blob] for blob in wanted & self.known_sizes.keys()}


class VersionContents:
    """Contents by blob, and blobs by names such as `<commit>:<path>`."""

    def __init__(self, workspace: Workspace, store: ContentStore) -> None:
        self.workspace = workspace
        self.store = store
        self.git = Git(workspace.root)
        self.contents_by_blob: dict[str, bytes] = {}
        """Contents of the work tree may be in no object store yet."""
        self.blobs_by_name: dict[str, str | None] = {}
        self.hunks_by_pair: dict[ContentPair, tuple[Hunk, ...]] = {}
        self.lines_by_blob: dict[str, IndexedLines] = {}
        self.words_by_blob: dict[str, set[str]] = {}

    def parent_blob(self, version: FileVersion) -> str | None:
        return self.blobs_by_name.get(version.parent) if version.parent else None

    def version_blob(self, version: FileVersion) -> str | None:
        return self.blobs_by_name.get(version.name)

    def resolve_names(self, names: Iterable[str]) -> None:
        unknown = set(names) - self.blobs_by_name.keys()
        self.blobs_by_name |= self.look_up_blobs(sorted(name for name in unknown if "\n" not in name))

    @cached_property
    def prefix(self) -> str:
        """The workspace's place in its repository with a final `/`; empty at the repository's root."""
        if (self.workspace.root / ".git").exists() or self.workspace.common_dir is None:
            return ""
        # Imported here for start-up speed: few workspaces lie deeper in their repository.
        from remit.workspace.git.tree_files import prefix_in_repository

        return prefix_in_repository(self.workspace)

    def look_up_blobs(self, names: Sequence[str]) -> dict[str, str | None]:
        """Return the blobs of names such as `<commit>:<path>`. Source: git-cat-file(1), read 2026-11."""
        if not names or self.workspace.common_dir is None:
            return {}
        stdin = "".join(f"{name}\n" for name in names).encode("utf-8", "surrogateescape")
        output = self.git.run("cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=stdin)
        rows = [line.rpartition(b" ") for line in output.splitlines()]
        return {n: row[0].decode() if row[2] == b"blob" else None for n, row in zip(names, rows, strict=True)}

    def load_working_file(self, path: str) -> str | None:
        """Return the blob of the file in the work tree; None if absent."""
        file = self.workspace.root / path
        if not file.is_file():
            return None
        content = file.read_bytes()
        blob = hash_git_blob(content)
        self.contents_by_blob[blob] = content
        return blob

    def load_hunks(self, pairs: Iterable[ContentPair]) -> None:
        """Load the differences of those pairs: small ones are computed here, git computes the rest at once."""
        missing = [pair for pair in pairs if pair not in self.hunks_by_pair]
        self.load_contents({name for pair in missing for name in pair if name})
        large: dict[str, tuple[bytes, bytes]] = {}
        for before, after in missing:
            old, new = self.contents_by_blob.get(before or "", b""), self.contents_by_blob.get(after)
            if new is None or (before and before not in self.contents_by_blob):
                continue
            hunks = diff_small(old, new)
            if hunks is None:
                large[f"{before or ''}:{after}"] = (old, new)
            else:
                self.hunks_by_pair[before, after] = hunks
        for name, hunks in self.store.compute_hunks(large).items():
            before, _, after = name.partition(":")
            self.hunks_by_pair[before or None, after] = hunks

    def load_named(self, names: Iterable[str]) -> None:
        """Load the contents of versions named `<commit>:<path>`."""
        wanted = set(names)
        unknown = wanted - self.blobs_by_name.keys()
        for name in [name for name in unknown if name.partition(":")[0].strip("0")]:
            self.blobs_by_name.setdefault(name, None)
        for name in unknown - self.blobs_by_name.keys():
            self.blobs_by_name[name] = self.load_working_file(name.partition(":")[2])
        self.blobs_by_name |= self.look_up_blobs(
            sorted(name for name in unknown if self.blobs_by_name[name] is None and "\n" not in name)
        )
        self.load_contents({blob for name in wanted if (blob := self.blobs_by_name[name])})

    def load_contents(self, blobs: set[str]) -> None:
        self.contents_by_blob |= self.store.load_many(blobs - self.contents_by_blob.keys())

    def lines_of_name(self, name: str) -> Sequence[bytes]:
        blob = self.blobs_by_name.get(name)
        return (self.lines_of(blob) or ()) if blob else ()

    @cached_property
    def content_pairs(self) -> ContentPairs:
        return ContentPairs(self.lines_of, lambda before, after: self.hunks_by_pair.get((before, after)))

    def lines_of(self, blob: str | None) -> Sequence[bytes] | None:
        """Return the lines of a content; None if lost."""
        if blob is None:
            return ()
        if blob not in self.lines_by_blob and blob in self.contents_by_blob:
            self.lines_by_blob[blob] = IndexedLines(split_lines(self.contents_by_blob[blob]))
        return self.lines_by_blob.get(blob)

    def added_lines(self, version: FileVersion) -> list[bytes] | None:
        """Return the lines that a version added to its parent; None if unknown."""
        blob = self.version_blob(version)
        hunks = self.hunks_by_pair.get((self.parent_blob(version), blob)) if blob else None
        if blob is None or hunks is None:
            return None
        new = self.lines_of(blob) or ()
        return [line for h in hunks for line in new[h.new - 1 : h.new - 1 + h.new_lines]]

    def distinctive_words(self, blob: str) -> set[str]:
        if blob not in self.words_by_blob:
            self.words_by_blob[blob] = {
                word for line in self.lines_of(blob) or () for word in find_distinctive_words(line)
            }
        return self.words_by_blob[blob]
