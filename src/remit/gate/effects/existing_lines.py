"""Lines that a contained command brought from elsewhere: text that existed before the command ran is not its own.

The layer shows what a contained command wrote, and its text need not tell the lines. A merge without a commit, a patch,
an archive, a copy or a filter writes lines of other authors. Such lines stay unproved:

- every line of a file whose content was an object of the repository;
- lines of the same file on a branch, a tag, a remote branch or the newest stash;
- lines of files that the command names, members of archives included, unless the session alone wrote the file;
- lines that the command removed elsewhere in the file, or laid out anew.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial

from msgspec import Struct

from remit.core.call import ToolCall
from remit.core.diff.contents import (
    Difference,
    Span,
    hash_git_blob,
    is_distinctive_line,
    make_spans,
    split_lines,
    strip_layout,
)
from remit.core.diff.layout import find_layout_origins
from remit.gate.effects.own_lines import is_own_content, whole_file
from remit.workspace.git.command import Git, GitError
from remit.workspace.observe.observation import Change
from remit.workspace.place.workspace import Workspace

MAX_CONTENT_BYTES = 1 << 20
"""Bytes of one content that is compared."""

MAX_CONTENTS = 400
"""Contents of the changed files at all refs that are compared."""

MAX_NAMES = 2_000
"""Names `<ref>:<path>` that git is asked about."""


class ExistingText(Struct, frozen=True):
    """Text that existed before a command: git's names of contents, and the stripped lines, of any file and by path."""

    blobs: frozenset[str] = frozenset()
    lines: frozenset[bytes] = frozenset()
    lines_by_path: Mapping[str, frozenset[bytes]] = {}


def read_existing_text(workspace: Workspace, call: ToolCall, contents: Mapping[str, bytes]) -> ExistingText:
    """Return the text that existed before a command, as far as it may explain the new `contents`, by path.

    Called while the real tree and repository are as they were before.
    """
    if not contents:
        return ExistingText()
    # Imported here: few commands change files, and the readers of archives take long to import.
    from remit.gate.effects.named_files import read_named_files

    lines = set[bytes]()
    is_own = partial(is_own_content, workspace, call.session.session_id)
    for text in read_named_files(workspace, call, set(contents), is_own):
        lines |= strip_lines(text) | {line.removeprefix(b"+").strip() for line in split_lines(text)}
    blobs, by_path = frozenset[str](), dict[str, frozenset[bytes]]()
    if workspace.common_dir is not None:
        with suppress(GitError):
            git = Git(workspace.root)
            blobs = find_existing_blobs(git, {hash_git_blob(content) for content in contents.values()})
            by_path = read_lines_on_refs(git, list(contents))
    return ExistingText(blobs, frozenset(lines), by_path)


def strip_lines(content: bytes) -> set[bytes]:
    return {line.strip() for line in split_lines(content)}


def find_existing_blobs(git: Git, blobs: set[str]) -> frozenset[str]:
    """Return those of `blobs` that are objects of the repository. Raises GitError."""
    output = git.run("cat-file", "--batch-check=%(objectname)", stdin="".join(f"{b}\n" for b in sorted(blobs)).encode())
    return frozenset(line.decode() for line in output.splitlines() if not line.endswith(b" missing"))


def read_lines_on_refs(git: Git, paths: Iterable[str]) -> dict[str, frozenset[bytes]]:
    """Return the stripped lines of each path, counted from the workspace, at all refs. Raises GitError."""
    tips = list(dict.fromkeys(git.text("for-each-ref", "--format=%(objectname)", "--sort=-committerdate").split()))
    names = [(path, f"{tip}:./{path}") for path in paths if "\n" not in path for tip in tips][:MAX_NAMES]
    stdin = "".join(f"{name}\n" for _, name in names).encode("utf-8", "surrogateescape")
    checked = git.run("cat-file", "--batch-check=%(objectname) %(objecttype) %(objectsize)", stdin=stdin).splitlines()
    paths_by_blob: dict[str, set[str]] = {}
    for (path, _), row in zip(names, checked, strict=True):
        blob, _, rest = row.decode("utf-8", "replace").partition(" ")
        kind, _, size = rest.partition(" ")
        if kind == "blob" and int(size) <= MAX_CONTENT_BYTES and len(paths_by_blob) < MAX_CONTENTS:
            paths_by_blob.setdefault(blob, set()).add(path)
    output = git.run("cat-file", "--batch=%(objectsize)", stdin="".join(f"{blob}\n" for blob in paths_by_blob).encode())
    found: dict[str, set[bytes]] = {}
    start = 0
    for blob_paths in paths_by_blob.values():
        end = output.index(b"\n", start)
        first, start = end + 1, end + 2 + int(output[start:end])
        lines = strip_lines(output[first : start - 1])
        for path in blob_paths:
            found.setdefault(path, set()).update(lines)
    return {path: frozenset(lines) for path, lines in found.items()}


def find_existing_lines(
    changes: Iterable[Change],
    differences: Mapping[str, Difference],
    existing: ExistingText,
    workspace: Workspace,
    session_id: str,
    *,
    only_layout: bool = False,
) -> dict[str, tuple[Span, ...]]:
    """Return, by path, the added lines that existed before the command.

    With `only_layout` a formatter wrote the files: lines whose words were there continue lines of the file.
    """
    found: dict[str, tuple[Span, ...]] = {}
    for change in changes:
        after, difference = change.after, differences.get(change.path)
        if after is None or after.content is None or difference is None:
            continue
        old = split_lines(change.before.content) if change.before and change.before.content else []
        new = split_lines(after.content)
        if only_layout and change.before is not None:
            if origins := find_layout_origins(old, new, difference.hunks):
                found[change.path] = make_spans(index + 1 for index in sorted(origins))
            continue
        if after.version.git_blob in existing.blobs:
            if not is_own_content(workspace, session_id, after.version.sha256):
                found[change.path] = difference.added_spans or whole_file(change)
            continue
        former = existing.lines | existing.lines_by_path.get(change.path, frozenset())
        if numbers := find_existing_in_file(old, new, difference, former):
            found[change.path] = make_spans(numbers)
    return found


def find_existing_in_file(
    old: list[bytes], new: list[bytes], difference: Difference, former: frozenset[bytes]
) -> list[int]:
    numbers: list[int] = []
    removed = Counter(b"".join(old[n - 1].split()) for hunk in difference.hunks for n in hunk.old_range)
    for hunk in difference.hunks:
        came, gone = [new[n - 1] for n in hunk.new_range], [old[n - 1] for n in hunk.old_range]
        if gone and strip_layout(b"".join(came)) == strip_layout(b"".join(gone)):
            numbers += hunk.new_range
            continue
        moved = set[int]()
        for number, line in zip(hunk.new_range, came, strict=True):
            if removed[text := b"".join(line.split())] > 0:
                removed[text] -= 1
                moved.add(number)
        known = {n for n, line in zip(hunk.new_range, came, strict=True) if line.strip() in former}
        has_distinctive = any(is_distinctive_line(new[n - 1]) for n in known)
        numbers += moved | (known if has_distinctive else set())
    return sorted(numbers)
