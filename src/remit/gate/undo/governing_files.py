"""Files that govern agents are put back where a call changed them: the workspace's rules, and the agents' settings. No
snapshot holds the settings files in HOME. Their content is copied before a command that does not run contained; where
the command removed Remit's hooks, or switched hooks off, the file is put back. Everything else in them is left alone.
"""

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

from remit.core.call import COMPARED_CLASSES, ToolCall
from remit.core.decision import Decision
from remit.core.intent import FINAL_STATUSES, Intent
from remit.core.machine_paths import CLIENT_PATH, CONFIG_PATH, MANIFEST_PATH
from remit.core.record import Body
from remit.core.untrusted_input import sanitise_line
from remit.gate.context import WorkspaceContext
from remit.gate.records.call_records import restore_record
from remit.policy.decide import classify
from remit.workspace.contents.content_store import BlobFolder
from remit.workspace.intents_file.storage import FILE_SUFFIX
from remit.workspace.observe.observation import GOVERNING_FILES, HOOKS_FOLDER, INTENT_FILES, Change
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER
from remit.workspace.safe_files import ObservedFile, remove_below, write_atomically, write_below

INTENTS_PATH = f"{ORCHESTRATION_FOLDER}/active_intents.yaml"


def revert_governing_files(
    context: WorkspaceContext, changes: Iterable[Change], intent_id: str | None
) -> tuple[str, ...]:
    """Put back the governing files among the changes, record that, and return their paths. A person changes such files
    with an editor or `remit`, never in the middle of an agent's call. The agent's version stays in the content store.
    Raises RECORDING_ERRORS.
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
    """Return True if the change alters a governing file. A deleted file is left alone, since the saved copy stays in
    force; a deleted hook is put back, since nothing else would run in its place. A stash or a checkout that turns back
    an intent's status and times alters no rule. A deleted file of one intent is put back.
    """
    if change.path.startswith(f"{HOOKS_FOLDER}/"):
        return not change.from_git
    if change.path.startswith(INTENT_FILES):
        has_rules = change.path.endswith(FILE_SUFFIX) and not change.from_git
        return has_rules and (change.before is None or change.after is None or has_other_rules(change))
    if change.path not in GOVERNING_FILES or change.from_git or change.after is None:
        return False
    if change.path != INTENTS_PATH:
        return True
    return has_other_rules(change)


def has_other_rules(change: Change) -> bool:
    before, after = (side.content if side else b"" for side in (change.before, change.after))
    return parse_intent_rules(before) != parse_intent_rules(after)


def is_bookkeeping(change: Change) -> bool:
    """Return True if only the progress and times of intents changed, or a comment: each content of the file has a
    record of its own.
    """
    is_own = change.path == INTENTS_PATH or change.path.startswith(INTENT_FILES)
    if not is_own or change.before is None or change.after is None:
        return False
    before, after = change.before.content, change.after.content
    rules = parse_intent_rules(after) if before is not None and after is not None else None
    return rules is not None and parse_intent_rules(before) == rules


def parse_intent_rules(content: bytes | None) -> dict[str, Intent] | None:
    """Return the intents by id, without their progress; None for a file with errors."""
    # Imported here: the parser takes milliseconds to load, and few calls change the file.
    from remit.workspace.intents_file.parse import parse_intents

    document = parse_intents(content or b"active_intents: []\n")
    if document.errors:
        return None
    kept = (*FINAL_STATUSES, "BLOCKED")
    statuses = {intent.id: intent.status if intent.status in kept else "DRAFT" for intent in document.intents}
    return {i.id: replace(i, status=statuses[i.id], updated_at=None, created_at=None) for i in document.intents}


def restore_file(root: Path, path: str, before: ObservedFile | None) -> None:
    """Write the former content of a file, or delete a new file. Raises OSError."""
    if before is None:
        remove_below(root, root / path)
    elif before.content is not None:
        write_below(root, root / path, before.content)


def describe_revert(paths: tuple[str, ...]) -> str:
    if not paths:
        return ""
    return (
        f"Remit: this call changed {', '.join(paths)}, which governs you; it was put back as it was, and recorded. "
        "Say in your answer which rule should change, and why."
    )


# Settings of agents

SETTINGS_NAME = "steering"
"""Fact that names the copies, and the folder in Remit's own folder that holds them: they may contain keys."""

MAX_FILE_BYTES = 1 << 20  # size of the largest settings file that is looked at
HOOK_SWITCHES = (b'"disableAllHooks"', b'"hooksConfig"')
"""Settings that switch hooks off (Claude Code and Qwen Code; Gemini CLI)."""


class AgentSettings:
    """Copies of the wired settings files. Methods raise RECORDING_ERRORS."""

    def __init__(self, context: WorkspaceContext) -> None:
        self.context = context
        self.home = context.environment.home
        self.copies = BlobFolder(context.workspace.state / SETTINGS_NAME)

    def keep_settings(self) -> None:
        """Copy the wired settings before a command runs, with their real paths."""
        paths = (self.home / setting for setting in self.context.environment.settings)
        wired = [(path, content) for path in paths if count_hooks(content := read_file(path))]
        own = self.home / CONFIG_PATH
        kept = (*wired, (own, read_file(own)))
        found = {str(path): [self.copies.store(content), str(path.resolve())] for path, content in kept}
        if found != self.kept_settings():
            self.context.state.put_fact(SETTINGS_NAME, json.dumps(found))

    def kept_settings(self) -> dict[str, list[str]]:
        return json.loads(self.context.state.read_fact(SETTINGS_NAME) or "{}")

    def restore_hooks(self, call: ToolCall, *, ran_bare: bool) -> str:
        """Put back unhooked settings, record the restoring, and return the message to the model. After a call that was
        kept as pending and ran bare, also the person's own settings of Remit, which say what tools may do.
        """
        if not call.whole_workspace or classify(call) not in COMPARED_CLASSES or self.context.read_mode() != "enforce":
            return ""
        manifest, names, versions = read_file(self.home / MANIFEST_PATH), list[str](), list[str]()
        for name, (key, real) in self.kept_settings().items():
            path, before = Path(name), self.copies.load(key)
            if path == self.home / CONFIG_PATH:
                if ran_bare and (now := read_file(path)) != before:
                    versions.append(str(self.copies.blob_path(self.copies.store(now))))
                    if before:
                        write_through(path, Path(real), before)
                    else:
                        path.unlink(missing_ok=True)
                    names.append(f"~/{CONFIG_PATH}")
                continue
            # A file that a person unwired meanwhile is left alone.
            if msgspec.json.encode(name)[1:-1] not in manifest or not has_fewer_hooks(before, now := read_file(path)):
                continue
            versions.append(str(self.copies.blob_path(self.copies.store(now))))
            write_through(path, Path(real), before)
            names.append(
                sanitise_line(f"~/{path.relative_to(self.home)}" if path.is_relative_to(self.home) else name, 200)
            )
        if not names:
            return ""
        why = "it steers an agent, and the call took Remit's hooks out of it, or changed what the person says of tools"
        detail: dict[str, object] = {"paths": names, "why": why, "copies": versions}
        intent_id = self.context.state.active_session(call.session).intent_id
        self.context.recorder.append_or_spool([restore_record(self.context.recorder, call, intent_id, detail)])
        return (
            f"Remit [PROTECTED_PATH]: this {call.tool} call changed {', '.join(names)}: Remit's hooks in it, or what "
            "the person says of tools. It was put back as it was, and recorded. No agent changes what steers it. "
            f"Your version is kept as {', '.join(versions)}."
        )


def can_execute(decision: Decision) -> bool:
    """Return True if a call with this decision runs, in enforce. A contained command cannot change the settings, but a
    person may have done so since they were kept last.
    """
    is_change = decision.mode == "enforce" and decision.call_class in COMPARED_CLASSES
    return is_change and decision.effect in ("allow", "contain")


def write_through(path: Path, real: Path, content: bytes) -> None:
    if path.resolve() != real:
        path.unlink(missing_ok=True)
    real.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(real, content, 0o600)
    if path.resolve() != real:
        path.symlink_to(real)


def read_file(path: Path) -> bytes:
    with suppress(OSError):
        if path.is_file() and path.stat().st_size <= MAX_FILE_BYTES:
            return path.read_bytes()
    return b""


def count_hooks(content: bytes) -> int:
    client = CLIENT_PATH.encode()
    return content.count(client) - content.count(client + b'"')


def has_fewer_hooks(before: bytes, now: bytes) -> bool:
    return count_hooks(now) < count_hooks(before) or any(now.count(word) > before.count(word) for word in HOOK_SWITCHES)
