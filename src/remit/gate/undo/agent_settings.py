"""Settings files of agents in HOME: Remit's hooks that a command takes out of them are put back.

No snapshot holds these files. Their content is copied before a command that does not run contained; where the command
removed Remit's hooks, or switched hooks off, the file is put back. Everything else in them is left alone.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from remit.core.call import ToolCall
from remit.core.decision import Decision, Verdict
from remit.core.display_text import sanitise_line
from remit.core.machine_paths import MANIFEST_PATH
from remit.gate.context import WorkspaceContext
from remit.gate.environment import CLIENT_PATH
from remit.gate.records.call_records import restore_record
from remit.policy.classify import classify
from remit.workspace.contents.blob_folder import BlobFolder
from remit.workspace.files.atomic import write_atomically

SETTINGS_FACT = "steering"
COPIES_FOLDER = "steering"
"""Folder in Remit's own folder that holds copies of the settings, which may contain keys."""

MAX_FILE_BYTES = 1 << 20
"""Size of the largest settings file that is looked at."""

HOOK_SWITCHES = (b'"disableAllHooks"', b'"hooksConfig"')
"""Settings that switch hooks off (Claude Code and Qwen Code; Gemini CLI)."""


RUNNING_VERDICTS: frozenset[Verdict] = frozenset({"allow", "contain"})


class AgentSettings:
    """Copies of the wired settings files. Methods raise RECORDING_ERRORS."""

    def __init__(self, context: WorkspaceContext) -> None:
        self.context = context
        self.home = context.environment.home
        self.copies = BlobFolder(context.workspace.state / COPIES_FOLDER)

    def keep_settings(self) -> None:
        """Copy the wired settings before a command runs."""
        found = {str(path): (self.copies.store(content), str(path.resolve())) for path, content in self.wired_files()}
        if found != self.kept_settings():
            self.context.state.put_fact(SETTINGS_FACT, json.dumps(found))

    def kept_settings(self) -> dict[str, tuple[str, str]]:
        """Return (name of the copy, real path) of each settings file, by path."""
        kept = json.loads(self.context.state.read_fact(SETTINGS_FACT) or "{}")
        return {path: (key, real) for path, (key, real) in kept.items()}

    def wired_files(self) -> Iterator[tuple[Path, bytes]]:
        for setting in self.context.environment.settings:
            content = read_file(self.home / setting)
            if CLIENT_PATH.encode() in content:
                yield self.home / setting, content

    def restore_hooks(self, call: ToolCall) -> str:
        """Put back unhooked settings, record the restoring, and return the message to the model."""
        if not call.whole_workspace or classify(call) != "destructive" or self.context.read_mode() != "enforce":
            return ""
        before = self.settings_before()
        unhooked = {path: real for path, (content, real) in before.items() if has_fewer_hooks(content, read_file(path))}
        if not unhooked:
            return ""
        versions = [str(self.copies.blob_path(self.copies.store(read_file(path)))) for path in unhooked]
        for path, real in unhooked.items():
            write_through(path, real, before[path][0])
        names = [self.display_path(path) for path in unhooked]
        detail: dict[str, object] = {
            "paths": names,
            "why": "it steers an agent, and the call took Remit's hooks out of it",
            "copies": versions,
        }
        intent_id = self.context.state.active_session(call.session).intent_id
        record = restore_record(self.context.recorder, call, intent_id, detail)
        self.context.recorder.append_or_spool([record])
        return (
            f"Remit [PROTECTED_PATH]: this {call.tool} call took Remit's hooks out of {', '.join(names)}, or switched "
            "them off; it was put back as it was, and recorded. No agent changes what steers it. "
            f"Your version is kept as {', '.join(versions)}."
        )

    def settings_before(self) -> dict[Path, tuple[bytes, Path]]:
        """Return (content, real path) of the settings before the command, without unwired files."""
        wired = read_file(self.home / MANIFEST_PATH)
        kept = {path: found for path, found in self.kept_settings().items() if msgspec.json.encode(path)[1:-1] in wired}
        return {Path(path): (self.copies.load(key), Path(real)) for path, (key, real) in kept.items()}

    def display_path(self, path: Path) -> str:
        is_below_home = path.is_relative_to(self.home)
        return sanitise_line(f"~/{path.relative_to(self.home)}" if is_below_home else str(path), 200)


def can_execute(decision: Decision) -> bool:
    """Return True if a call with this decision runs, in enforce.

    A contained command cannot change the settings, but a person may have done so since they were kept last.
    """
    return decision.mode == "enforce" and decision.call_class == "destructive" and decision.effect in RUNNING_VERDICTS


def write_through(path: Path, real: Path, content: bytes) -> None:
    """Write the real file behind `path`, and restore the link at `path` if replaced."""
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


def has_fewer_hooks(before: bytes, now: bytes) -> bool:
    """Return True if some of Remit's hooks are gone, or a switch for hooks was added."""
    hooks = CLIENT_PATH.encode()
    return now.count(hooks) < before.count(hooks) or any(now.count(word) > before.count(word) for word in HOOK_SWITCHES)
