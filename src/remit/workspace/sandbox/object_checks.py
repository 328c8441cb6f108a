"""Validation of git objects made by a command, before any call waits for the result.

A few megabytes can unpack to terabytes, so unpacking is bounded. Answers are cached by file: objects are checked while
no other call of the repository has to wait, and asked about later.
"""

import hashlib
import os
import zlib
from pathlib import Path
from typing import TypeAlias, TypeVar

from remit.workspace.git.command import GitError
from remit.workspace.place.workspace import Workspace
from remit.workspace.sandbox.layered_git import LayeredGit
from remit.workspace.sandbox.layers import Staging

SHA256_DIGITS = 64
BLOCK_BYTES = 1 << 18

MAX_OBJECT_BYTES = 1 << 30
"""Limit of an unpacked loose object: git itself packs objects larger than 512 MiB."""

MAX_TOTAL_BYTES = 1 << 32
"""Limit for the loose objects of a command."""

MAX_KNOWN = 50_000

AnswerType = TypeVar("AnswerType", str, bool)
FileKey: TypeAlias = tuple[str, int, int, int]
"""Path, inode, size and change time: any change of the file changes the key."""

NAME_BY_FILE: dict[FileKey, str] = {}
PACK_VALIDITY: dict[FileKey, bool] = {}


def check_objects(workspace: Workspace, staging: Staging) -> None:
    """Check the objects of a command, so that `object_name` and `is_whole_pack` answer from the cache."""
    upper = find_git_layer(workspace, staging)
    if upper is None or workspace.common_dir is None or not (upper / "objects").is_dir():
        return
    left = MAX_TOTAL_BYTES
    for path in sorted((upper / "objects").glob("[0-9a-f][0-9a-f]/*")):
        if not path.is_file() or path.is_symlink():
            continue
        name, unpacked = compute_object_name(path, len(path.parent.name + path.name), min(left, MAX_OBJECT_BYTES))
        left -= unpacked
        cache_answer(NAME_BY_FILE, path, name)
    for path in (upper / "objects/pack").glob("*.idx"):
        try:
            is_whole_pack(LayeredGit(upper, workspace.common_dir), path)
        except GitError:
            continue  # `is_whole_pack` is asked again when the pack matters, and reports the error


def find_git_layer(workspace: Workspace, staging: Staging) -> Path | None:
    """Return the folder with staged writes to git's folder; None without git."""
    if staging.common is not None:
        return staging.common.upper
    common = workspace.common_dir
    return None if common is None else staging.root.upper / common.relative_to(workspace.root)


def object_name(place: Path, digits: int) -> str:
    """Return the name computed from a loose object's content; empty if invalid or too large."""
    known = NAME_BY_FILE.get(file_key(place))
    return compute_object_name(place, digits, MAX_OBJECT_BYTES)[0] if known is None else known


def is_whole_pack(layered: LayeredGit, index: Path) -> bool:
    """Return whether a pack matches its index. Raises GitError."""
    known = PACK_VALIDITY.get(file_key(index))
    if known is None:
        known = layered.succeeds("verify-pack", str(index))
        cache_answer(PACK_VALIDITY, index, known)
    return known


def compute_object_name(place: Path, digits: int, max_bytes: int) -> tuple[str, int]:
    """Return the computed name, empty if invalid, and the unpacked size."""
    found = hashlib.sha256() if digits == SHA256_DIGITS else hashlib.sha1(usedforsecurity=False)
    unpacking, total = zlib.decompressobj(), 0
    try:
        with place.open("rb") as packed:
            while block := unpacking.unconsumed_tail or packed.read(BLOCK_BYTES):
                part = unpacking.decompress(block, BLOCK_BYTES)
                found.update(part)
                total += len(part)
                if total > max_bytes or unpacking.unused_data:
                    return "", total
        part = unpacking.flush()
    except zlib.error:
        return "", total
    found.update(part)
    return (found.hexdigest() if unpacking.eof and not unpacking.unused_data else ""), total + len(part)


def file_key(place: Path) -> FileKey:
    status = place.lstat()
    return os.fspath(place), status.st_ino, status.st_size, status.st_ctime_ns


def cache_answer(answers: dict[FileKey, AnswerType], place: Path, answer: AnswerType) -> None:
    if len(answers) >= MAX_KNOWN:
        answers.clear()
    answers[file_key(place)] = answer
