"""Folding: pending contents become git objects in Remit's own repository, a content at a time, while calls go on.

The pending file is renamed, and new contents begin a new file; no call waits for the folding. The renamed entries go
to a single `git fast-import`, the versions of each path in sequence: each is stored as the difference from
the version before. The renamed file is removed once every content is in git under the ref. A killed process leaves the
renamed file: readers look into the file, and the next folding begins with its entries.

Each folding is a commit naming its own contents only; earlier commits are the history. An entry's name ends
in a hash of the path, by which git finds the versions of a path when merging packs.

Source: git-fast-import(1), git-pack-objects(1), read 2026-11.
"""

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import chain

from remit.core.diff.contents import hash_git_blob, sha256
from remit.workspace.contents.content_store import BLOBS_REF, ContentStore, PendingContent, RemitRepository
from remit.workspace.contents.fast_import import FastImport
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.repository import may_have_refs_below
from remit.workspace.place.workspace import Workspace
from remit.workspace.safe_files import LOCK_TIMEOUT_S, FileLocked, hold_lock

MIGRATION_BATCH = 1000  # contents of an older version taken over per batch
NICENESS = 10  # of the git that compresses contents: calls come first
MIN_SENT_BYTES = 1 << 20  # small contents are sent together
PATH_DIGITS = 16  # git compares contents whose names have the same last 16 characters


def fold_into_git(store: ContentStore, wait_s: float = 0.0) -> set[str]:
    """Move pending contents into git; return their names. Raises OSError, GitError. A content seen only at ignored
    paths becomes a file of Remit's own, since git objects may be pushed.

    `wait_s` is the time to wait for a second folding process; afterwards its work counts, and the call does no work.
    """
    folded: set[str] = set()
    try:
        with lock_folding(store, wait_s):
            folded |= fold_sealed(store)  # of a process that was killed
            store.pending.seal(store.folding.path)
            folded |= fold_sealed(store)
    except FileLocked:
        return folded
    if store.workspace.common_dir is not None:
        RemitRepository(store.workspace).fold_packs()
    return folded


@contextmanager
def lock_folding(store: ContentStore, wait_s: float) -> Generator[None]:
    store.workspace.state.mkdir(parents=True, exist_ok=True)
    with hold_lock(store.workspace.state / "contents.lock", timeout_s=wait_s):
        yield


def fold_sealed(store: ContentStore) -> set[str]:
    if not store.folding.path.exists():
        return set()
    entries = store.folding.list_entries()
    once = list({entry.blob: entry for entry in entries}.values())
    outside_git = find_ignored_blobs(store, entries)
    damaged: list[PendingContent] = []
    for _, content in read_entries(store, [e for e in once if e.blob in outside_git], damaged):
        store.files.store(content, durable=False)
    # The sort is stable: the versions of a path stay in the order in which they came.
    inside = sorted((entry for entry in once if entry.blob not in outside_git), key=lambda entry: entry.path)
    import_contents(store, ((entry.path, content) for entry, content in read_entries(store, inside, damaged)))
    store.folding.remove(damaged)
    folded = {entry.blob for entry in once} - {entry.blob for entry in damaged}
    for blob in folded - outside_git:
        store.files.blob_path(blob).unlink(missing_ok=True)
    return folded


def read_entries(
    store: ContentStore, entries: Iterable[PendingContent], damaged: list[PendingContent]
) -> Iterator[tuple[PendingContent, bytes]]:
    """Yield entries with their contents, an entry in memory at a time; entries with wrong bytes are added to
    `damaged`.
    """
    for entry in entries:
        content = store.folding.read_content(entry.blob)
        if content is not None and hash_git_blob(content) == entry.blob:
            yield entry, content
        else:
            damaged.append(entry)


def import_contents(store: ContentStore, contents: Iterator[tuple[bytes, bytes]]) -> None:
    """Import (path, content) pairs under the private ref of Remit's own repository. Raises GitError, OSError."""
    first = next(contents, None)
    if first is None:
        return
    repository = RemitRepository(store.workspace)
    repository.create()
    tip = repository.run("rev-parse", "-q", "--verify", store.ref, ok=(0, 1)).decode().strip()
    commit = [f"commit {store.ref}\nmark :1\ncommitter Remit <remit@localhost> 0 +0000\ndata 0\n".encode()]
    commit += [f"from {tip}\ndeleteall\n".encode()] if tip else []
    with closing(FastImport(repository)) as importer:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, importer.process.pid, NICENESS)
        unsent = b""
        for mark, (path, content) in enumerate(chain([first], contents), 2):
            unsent += b"blob\nmark :%d\ndata %d\n%s\n" % (mark, len(content), content)
            commit.append(f"M 100644 :{mark} {mark}-{sha256(path)[:PATH_DIGITS]}\n".encode())
            if len(unsent) >= MIN_SENT_BYTES:
                importer.send(unsent)
                unsent = b""
        importer.write_commit(b"".join([unsent, *commit, b"\n"]), store.ref)


def migrate_old_refs(store: ContentStore) -> None:
    """Move contents of an older version from the user's repository to Remit's own. Raises GitError, OSError."""
    if not may_have_refs_below(store.workspace, BLOBS_REF):
        return
    git = Git(store.workspace.root)
    for line in git.text("for-each-ref", "--format=%(objectname) %(refname)", BLOBS_REF).splitlines():
        tip, ref = line.split(" ", 1)
        rows = git.run("ls-tree", "-r", "-z", "--full-tree", tip).split(b"\0")
        names = [row.partition(b"\t")[0].split()[2].decode() for row in rows if row]
        for start in range(0, len(names), MIGRATION_BATCH):
            contents = store.load_many(names[start : start + MIGRATION_BATCH])
            with lock_folding(store, LOCK_TIMEOUT_S):
                import_contents(store, ((b"", content) for content in contents.values()))
        git.run("update-ref", "-d", ref, tip)


# -- contents that git must not hold -------------------------------------------------------------------------


def find_ignored_blobs(store: ContentStore, entries: Sequence[PendingContent]) -> set[str]:
    """Return the blobs to keep out of git: each without git, or if git finds none under the name; otherwise the blobs
    seen only at ignored paths.
    """
    if store.workspace.common_dir is None or not has_records_names(store.workspace):
        return {entry.blob for entry in entries}
    paths = sorted({entry.path for entry in entries if entry.path})
    ignored = find_ignored_paths(store.workspace, paths) if paths else set[bytes]()
    return {e.blob for e in entries if e.path in ignored} - {e.blob for e in entries if e.path not in ignored}


def has_records_names(workspace: Workspace) -> bool:
    """Return whether git names contents as records do: by SHA-1."""
    return Git(workspace.root).text("rev-parse", "--show-object-format") == "sha1"


def find_ignored_paths(workspace: Workspace, paths: Sequence[bytes]) -> set[bytes]:
    query = b"".join(path + b"\0" for path in paths)
    try:
        out = Git(workspace.root).run("check-ignore", "-z", "--stdin", stdin=query, ok=(0, 1))
    except GitError:
        # git stops at the first refused path, so each path is asked alone.
        return {p for path in paths for p in find_ignored_paths(workspace, [path])} if len(paths) > 1 else set(paths)
    return set(out.split(b"\0"))
