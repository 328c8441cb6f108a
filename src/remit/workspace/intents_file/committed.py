"""Intents of a commit: the list, and the files of one each, as git keeps them."""

import os
from collections.abc import Mapping
from contextlib import suppress

from remit.core.diff.contents import sha256
from remit.core.intent import FINAL_STATUSES, INTENTS_FOLDER, LIST_FILE, Intent, IntentsDocument, Status
from remit.workspace.git.command import Git
from remit.workspace.git.repository import parse_batch_output
from remit.workspace.intents_file import storage
from remit.workspace.intents_file.edit import drop_fields, set_fields
from remit.workspace.intents_file.parse import parse_intents, parse_single_intent
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER


def read_committed_files(git: Git, commit: str, prefix: str = "") -> dict[str, bytes]:
    """Return the files with intents of a commit or tree, by path from the repository's root; `prefix` is where the
    workspace lies in it. Raises GitError.
    """
    folder = f"{prefix}{ORCHESTRATION_FOLDER}"
    places = (f"{folder}/{LIST_FILE}", f"{folder}/{INTENTS_FOLDER}")
    listed = git.run("ls-tree", "-r", "-z", "--full-tree", commit, "--", *places)
    blobs: dict[str, str] = {}
    for row in filter(None, listed.split(b"\0")):
        about, _, name = row.partition(b"\t")
        mode, kind, blob = about.decode("ascii").split()
        path = os.fsdecode(name)
        if kind == "blob" and mode != "120000" and path.endswith(storage.FILE_SUFFIX):
            blobs[path] = blob
    if not blobs:
        return {}
    out = git.run("cat-file", "--batch", stdin="".join(f"{blob}\n" for blob in blobs.values()).encode())
    found = dict(zip(blobs, parse_batch_output(out), strict=True))
    return {path: content for path, content in found.items() if content is not None}


def parse_committed_files(contents: Mapping[str, bytes]) -> IntentsDocument:
    files: list[storage.IntentFile] = []
    listed: bytes | None = None
    for path, content in contents.items():
        name = path.rpartition(f"{ORCHESTRATION_FOLDER}/")[2]
        if name == LIST_FILE:
            listed = None if content.startswith(storage.VIEW_MARK) else content
        else:
            placed, findings = parse_single_intent(content)
            files.append(storage.place_file(storage.IntentFile(name, (), sha256(content), placed, tuple(findings))))
    known = frozenset(file.intent_id for file in files if file.intent_id)
    document = parse_intents(listed, known) if listed is not None else None
    return storage.join_layouts(document, files) if files else document or IntentsDocument()


def read_committed_intents(git: Git, commit: str, prefix: str = "") -> dict[str, Intent]:
    """Return the intents of a commit, by id. Raises GitError."""
    return {i.id: i for i in parse_committed_files(read_committed_files(git, commit, prefix)).intents}


def change_committed_status(
    contents: Mapping[str, bytes], intent_id: str, status: Status, now: str
) -> dict[str, bytes]:
    """Return the file that the intent stands in with another status; empty without one, or if it cannot be edited. A
    list keeps each status, a file of its own only an end or a block.
    """
    name = parse_committed_files(contents).files.get(intent_id)
    for path, content in contents.items():
        is_list = path.endswith(f"/{LIST_FILE}")
        if not (path.endswith(f"/{name}") if name else is_list):
            continue
        with suppress(storage.EditRefused, UnicodeDecodeError):
            text = content.decode()
            if is_list or status in (*FINAL_STATUSES, "BLOCKED"):
                text = set_fields(text, intent_id, {"status": status}, now=now if is_list else None)
            else:
                text = drop_fields(text, intent_id, ["status"])
            return {path: text.encode()}
    return {}
