"""Ids for new intents: the next number where one clone has all of them, random digits where others may choose too."""

import os
import re
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from remit.core.intent import INTENT_ID, INTENTS_FOLDER, LIST_FILE, is_intent_id, split_id
from remit.gate.context import WorkspaceContext
from remit.gate.governing.lives import life_path, read_life
from remit.ledger.log_files import LedgerError
from remit.workspace.git.command import Git, GitError
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER
from remit.workspace.safe_files import read_tail

NEWEST_REFS = 500  # refs, the newest first, that are searched for ids
RANDOM_DIGITS = 6
DECLARATION = r"""(id["']?: *["']?|^ *["']?)[A-Z]{2,8}-[0-9]{3,}"""
"""Begin of an intent, as a key or as the value of `id`: what else names an intent does not use up its number."""


def pick_id(context: WorkspaceContext, prefix: str = "INT", *, draw: Callable[[int], int] = secrets.randbelow) -> str:
    """Return an id that no branch, worktree, record or pending intent of this clone has. Raises ValueError for a prefix
    that begins no id.
    """
    if not is_intent_id(f"{prefix}-001"):
        raise ValueError(f"{prefix!r} cannot begin an intent id; expected 2 to 8 letters A-Z")
    used = find_used_ids(context)
    way = context.rules.config.intents.ids
    if way == "auto":
        way = "random" if has_remote(context) else "count"
    if way == "count":
        numbers = (int(name.rpartition("-")[2]) for name in used if name.startswith(f"{prefix}-"))
        return f"{prefix}-{max(numbers, default=0) + 1:03d}"
    low = 10 ** (RANDOM_DIGITS - 1)
    while True:
        name = f"{prefix}-{low + draw(9 * low)}"
        if name not in used:
            return name


def has_remote(context: WorkspaceContext) -> bool:
    if context.workspace.common_dir is None:
        return False
    with suppress(GitError):
        return bool(Git(context.workspace.root).text("remote"))
    return False


def find_used_ids(context: WorkspaceContext) -> set[str]:
    rules, workspace = context.rules, context.workspace
    found = {record.intent_id for record in read_life(workspace).values()}
    if rules.written is not None:
        found |= {i.id for i in rules.written.intents} | {f.intent_id or "" for f in rules.written.findings}
    with suppress(OSError, LedgerError), context.index() as index:
        found |= index.count_by("intent_id").keys()
    for path in life_path(workspace).parent.glob("*.yaml"):
        found |= find_ids_in_text(read_text(path))
    if workspace.common_dir is not None:
        with suppress(GitError, OSError):
            found |= find_ids_of_refs(workspace.root) | find_ids_of_worktrees(workspace.root)
    return {split_id(name)[0] for name in found}


def find_ids_of_refs(root: Path) -> set[str]:
    git = Git(root)
    newest = ("--sort=-committerdate", f"--count={NEWEST_REFS}", "--format=%(objectname)", "refs/heads", "refs/remotes")
    commits = list(dict.fromkeys(git.text("for-each-ref", *newest).split()))
    if not commits:
        return set()
    places = (f"{ORCHESTRATION_FOLDER}/{LIST_FILE}", f"{ORCHESTRATION_FOLDER}/{INTENTS_FOLDER}")
    out = git.run("grep", "-hoE", DECLARATION, *commits, "--", *places, ok=(0, 1))
    return find_ids_in_text(out.decode("ascii", "replace"))


def find_declaring_branches(root: Path, intent_id: str) -> list[str]:
    """Return the branches that declare an intent. Raises GitError, OSError."""
    git, newest = Git(root), ("--sort=-committerdate", f"--count={NEWEST_REFS}", "refs/heads", "refs/remotes")
    names = git.text("for-each-ref", "--format=%(refname)", *newest).split()
    word = DECLARATION.replace("[A-Z]{2,8}-[0-9]{3,}", f"{intent_id}([^0-9]|$)")
    out = git.run("grep", "-lE", word, *names, "--", f"{ORCHESTRATION_FOLDER}/", ok=(0, 1)) if names else b""
    rows = (row.partition(":")[0] for row in os.fsdecode(out).splitlines())
    return list(dict.fromkeys(row.removeprefix("refs/heads/").removeprefix("refs/remotes/") for row in rows))


def find_ids_of_worktrees(root: Path) -> set[str]:
    found: set[str] = set()
    for tree in list_worktrees(root):
        folder = tree / ORCHESTRATION_FOLDER
        for path in (folder / LIST_FILE, *(folder / INTENTS_FOLDER).rglob("*.yaml")):
            found |= find_ids_in_text(f"{path.name}\n{read_text(path)}")
    return found


def list_worktrees(root: Path) -> list[Path]:
    """Return the work trees of a clone, the main one first. Raises GitError."""
    rows = Git(root).text("worktree", "list", "--porcelain", "-z").split("\0")
    return [Path(row.removeprefix("worktree ")) for row in rows if row.startswith("worktree ")]


def find_ids_in_text(text: str) -> set[str]:
    rows = (INTENT_ID.search(row[0]) for row in re.finditer(DECLARATION, text, re.MULTILINE))
    return {found[0] for found in rows if found}


def read_text(path: Path) -> str:
    return os.fsdecode(read_tail(path, 1 << 20))
