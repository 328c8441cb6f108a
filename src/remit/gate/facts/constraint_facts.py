"""Facts for constraints: the contents a call would leave, and the files already changed under the intent."""

import sqlite3
from collections.abc import Iterable

from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.decision import Facts, Target
from remit.core.diff.edits import ProposedFile, predict_contents
from remit.core.intent import Intent
from remit.ledger.index.index import open_index
from remit.ledger.log_files import LedgerError
from remit.workspace.observe.observation import Change, try_observe_file
from remit.workspace.place.workspace import Workspace

LINK_MODE = "120000"
"""Git's mode of a symbolic link."""

INTENT_WIDE_KINDS = frozenset({"max_files", "require_test_change"})
"""Constraints about every change under the intent."""


def add_constraint_facts(facts: Facts, call: ToolCall, workspace: Workspace) -> Facts:
    """Return the facts extended with proposed contents and changed paths. Raises OSError, LedgerError."""
    intent = facts.active
    if intent is None:
        return facts
    is_intent_wide = any(constraint.kind in INTENT_WIDE_KINDS for constraint in intent.rules)
    changed = tuple(find_paths_changed_under(intent.id, workspace)) if is_intent_wide else ()
    return replace(facts, proposed=tuple(propose_contents(call, facts.targets, workspace)), changed=changed)


def find_broken_constraints(intent: Intent, changes: Iterable[Change]) -> dict[str, str]:
    """Return, by path, a description of the constraints that a change broke by itself.

    Intent-wide constraints are skipped; unreadable contents break no constraint here.
    """
    # For those who have constraints: all kinds of them are loaded.
    from remit.policy.constraint_kinds import ProposedChange, describe_breach, find_all_breaches

    found: dict[str, str] = {}
    for change in changes:
        # A content counts if both sides are there, and no link is involved.
        sides = [side for side in (change.before, change.after) if side is not None]
        before, after = (side.content if side else None for side in (change.before, change.after))
        is_known = all(side.content is not None and side.version.mode != LINK_MODE for side in sides)
        situation = ProposedChange((ProposedFile(change.path, before, after),) if is_known else (), (change.path,))
        told = [
            describe_breach(intent.id, constraint, breach)
            for constraint, breach in find_all_breaches(intent, situation)
            if breach.weight and not breach.is_remark and constraint.kind not in INTENT_WIDE_KINDS
        ]
        if told:
            found[change.path] = " ".join(told)
    return found


def propose_contents(call: ToolCall, targets: Iterable[Target], workspace: Workspace) -> list[ProposedFile]:
    inside = [t for t in targets if t.path is not None]
    seen = {str(t.path): try_observe_file(workspace.root / str(t.path)) for t in inside}
    before = {path: found.content if found else None for path, found in seen.items()}
    unkept = {path for path, found in seen.items() if found is not None and found.content is None}
    by_raw = {t.raw: str(t.path) for t in inside}
    if call.effect == "delete" and call.command is None:
        return [ProposedFile(path, content, None) for path, content in before.items()]
    after = predict_contents(call.edit, call.paths, lambda raw: before.get(by_raw.get(raw, "")))
    return [
        ProposedFile(path, before[path], after.get(t.raw), t.raw in after and path not in unkept)
        for t, path in ((t, str(t.path)) for t in inside)
    ]


def find_paths_changed_under(intent_id: str, workspace: Workspace) -> dict[str, str | None]:
    """Return the files changed under an intent, with the git blob before the first change.

    A file with its original content is left out: the change was undone. Raises OSError, LedgerError.
    """
    try:
        with open_index(workspace.state, workspace.log_folder) as index:
            found = index.list_files_of_intent(intent_id)
    except sqlite3.Error as error:
        raise LedgerError(f"the index of the ledger cannot be asked: {error}") from error
    now = {path: try_observe_file(workspace.root / path) for path in found}
    current = {path: seen.version.git_blob if seen is not None else None for path, seen in now.items()}
    return {path: blob for path, blob in found.items() if current[path] != blob}
