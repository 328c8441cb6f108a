"""Governing files changed by a call: intents, configuration, ignore rules and hooks are put back."""

from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from remit.core.intent import FINAL_STATUSES, Intent
from remit.core.record import Body
from remit.gate.context import WorkspaceContext
from remit.workspace.files.atomic import remove_below, write_below
from remit.workspace.files.read_files import ObservedFile
from remit.workspace.observe.observation import GOVERNING_FILES, HOOKS_FOLDER, Change
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER

INTENTS_PATH = f"{ORCHESTRATION_FOLDER}/active_intents.yaml"


def revert_governing_files(
    context: WorkspaceContext, changes: Iterable[Change], intent_id: str | None
) -> tuple[str, ...]:
    """Put back the governing files among the changes, record that, and return their paths.

    A person changes such files with an editor or `remit`, never in the middle of an agent's call. The agent's version
    stays in the content store. Raises RECORDING_ERRORS.
    """
    governing = [change for change in changes if must_revert(change)]
    for change in governing:
        restore_file(context.workspace.root, change.path, change.before)
    if governing:
        detail: dict[str, object] = {"paths": [c.path for c in governing], "why": "it governs the agent"}
        body = Body(event="restore", intent_id=intent_id, session_id=None, detail=detail)
        context.recorder.append_or_spool([context.recorder.make_record(body)])
    return tuple(change.path for change in governing)


def must_revert(change: Change) -> bool:
    """Return True if the change alters a governing file.

    A deleted file is left alone, since the saved copy stays in force; a deleted hook is put back, since nothing else
    would run in its place. A stash or a checkout that turns back an intent's status and times alters no rule.
    """
    if change.path.startswith(f"{HOOKS_FOLDER}/"):
        return not change.from_git
    if change.path not in GOVERNING_FILES or change.from_git or change.after is None:
        return False
    if change.path != INTENTS_PATH:
        return True
    before = change.before.content if change.before else b""
    return parse_intent_rules(before) != parse_intent_rules(change.after.content)


def is_bookkeeping(change: Change) -> bool:
    """Return True if only the status and times of intents changed, or a comment.

    Remit itself writes them when an intent is selected, and each content of the file has a record of its own.
    """
    if change.path != INTENTS_PATH or change.before is None or change.after is None:
        return False
    before, after = change.before.content, change.after.content
    if before is None or after is None:
        return False
    rules = parse_intent_rules(after)
    return rules is not None and parse_intent_rules(before) == rules


def parse_intent_rules(content: bytes | None) -> dict[str, Intent] | None:
    """Return the intents by id, without their progress; None for a file with errors."""
    # Imported here: the parser takes milliseconds to load, and few calls change the file.
    from remit.workspace.intents_file.parse import parse_intents

    document = parse_intents(content or b"active_intents: []\n")
    return None if document.errors else {intent.id: without_progress(intent) for intent in document.intents}


def without_progress(intent: Intent) -> Intent:
    status = intent.status if intent.status in FINAL_STATUSES or intent.status == "BLOCKED" else "DRAFT"
    return replace(intent, status=status, updated_at=None, created_at=None)


def restore_file(root: Path, path: str, before: ObservedFile | None) -> None:
    """Write the former content of a file, or delete a new file. Raises OSError."""
    if before is None:
        remove_below(root, root / path)
    elif before.content is not None:
        write_below(root, root / path, before.content)


def revert_notice(paths: tuple[str, ...]) -> str:
    """Return the message to the model about governing files that were put back."""
    if not paths:
        return ""
    return (
        f"Remit: this call changed {', '.join(paths)}, which governs you; it was put back as it was, and recorded. "
        "Say in your answer which rule should change, and why."
    )
