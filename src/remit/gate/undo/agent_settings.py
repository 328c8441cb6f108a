"""The files by which a person steers agents, in HOME: Remit's hooks that an uncontained command takes out come back.

No snapshot holds them. So what they say is kept before such a command, and where it took Remit's hooks out of one, or
switched hooks off, that file is put back. All else in them is the agent's and the person's own affair.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import UNSET

from remit.core.call import ToolCall
from remit.core.decision import Decision, Verdict
from remit.core.display_text import sanitise_line
from remit.core.record import Body
from remit.gate.containment.rewrite_call import CLIENT_PATH
from remit.gate.context import WorkspaceContext
from remit.gate.records import record_parts
from remit.policy.classify import classify
from remit.workspace.contents.blob_folder import BlobFolder
from remit.workspace.files.atomic import write_atomically

SETTINGS_FACT = "steering"
COPIES_FOLDER = "steering"
"""In Remit's own folder: copies of these files, which may hold keys."""

MAX_FILE_BYTES = 1 << 20
"""Bytes of a file that is looked at."""

HOOK_SWITCHES = (b'"disableAllHooks"', b'"hooksConfig"')
"""What switches hooks off (Claude Code and Qwen Code; Gemini CLI)."""

MANIFEST_PATH = ".local/state/remit/wired.json"
"""Below HOME; `wiring.manifest` writes it. A file that it does not name is no longer Remit's concern."""


RUNNING_VERDICTS: frozenset[Verdict] = frozenset({"allow", "contain"})


class AgentSettings:
    """Keeps those files, and puts them back. All of it raises what CannotRecord names."""

    def __init__(self, context: WorkspaceContext) -> None:
        self.context = context
        self.home = context.environment.home
        self.copies = BlobFolder(context.workspace.state / COPIES_FOLDER)

    def keep_settings(self) -> None:
        """A command is about to run: keep what the wired files say now."""
        found = {str(path): (self.copies.store(content), str(path.resolve())) for path, content in self.wired_files()}
        if found != self.kept_settings():
            self.context.state.put_fact(SETTINGS_FACT, json.dumps(found))

    def kept_settings(self) -> dict[str, tuple[str, str]]:
        """By path, the name of the copy, and the file itself, where links lead to it."""
        return {
            path: (key, real)
            for path, (key, real) in json.loads(self.context.state.read_fact(SETTINGS_FACT) or "{}").items()
        }

    def wired_files(self) -> Iterator[tuple[Path, bytes]]:
        """The files that hold Remit's hooks."""
        for setting in self.context.environment.settings:
            content = read_file(self.home / setting)
            if CLIENT_PATH.encode() in content:
                yield self.home / setting, content

    def restore_hooks(self, call: ToolCall) -> str:
        """A command came back: put back what it unhooked, record that, and say so."""
        if not call.whole_workspace or classify(call) != "destructive" or self.context.read_mode() != "enforce":
            return ""
        before = self.settings_before()
        unhooked = {path: real for path, (content, real) in before.items() if has_fewer_hooks(content, read_file(path))}
        if not unhooked:
            return ""
        versions = [str(self.copies.blob_path(self.copies.store(read_file(path)))) for path in unhooked]
        for path, real in unhooked.items():
            write_through(path, real, before[path][0])
        self.record_restore(call, list(unhooked), versions)
        names = ", ".join(map(self.display_path, unhooked))
        return (
            f"Remit [PROTECTED_PATH]: this {call.tool} call took Remit's hooks out of {names}, or switched them off; "
            "it was put back as it was, and recorded. No agent changes what steers it. "
            f"Your version is kept as {', '.join(versions)}."
        )

    def settings_before(self) -> dict[Path, tuple[bytes, Path]]:
        """What these files held before the command, and where they lie; not of those that were unwired since."""
        wired = read_file(self.home / MANIFEST_PATH)
        kept = {path: found for path, found in self.kept_settings().items() if msgspec.json.encode(path)[1:-1] in wired}
        return {Path(path): (self.copies.load(key), Path(real)) for path, (key, real) in kept.items()}

    def record_restore(self, call: ToolCall, paths: list[Path], versions: list[str]) -> None:
        """That they were put back, and where the agent's version is."""
        detail: dict[str, object] = {
            "paths": list(map(self.display_path, paths)),
            "why": "it steers an agent, and the call took Remit's hooks out of it",
            "copies": versions,
        }
        body = Body(
            event="restore",
            intent_id=self.context.state.active_session(call.session).intent_id,
            session_id=call.session.session_id,
            agent_id=call.session.agent_id or UNSET,
            call=record_parts.call_part(call),
            detail=detail,
        )
        self.context.recorder.append_or_spool([self.context.recorder.make_record(body)])

    def display_path(self, path: Path) -> str:
        """A file as a person says it."""
        inside = path.is_relative_to(self.home)
        return sanitise_line(f"~/{path.relative_to(self.home)}" if inside else str(path), 200)


def can_execute(decision: Decision) -> bool:
    """Whether a call that was judged so runs, in enforce.

    One that runs contained cannot change these files. But a person may have, since they were kept last.
    """
    return decision.mode == "enforce" and decision.call_class == "destructive" and decision.effect in RUNNING_VERDICTS


def write_through(path: Path, real: Path, content: bytes) -> None:
    """Write the file that `path` led to, and have it lead there again: a link may have been put in its place."""
    if path.resolve() != real:
        path.unlink(missing_ok=True)
    real.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(real, content, 0o600)
    if path.resolve() != real:
        path.symlink_to(real)


def read_file(path: Path) -> bytes:
    """What the file holds; nothing where it is gone, no file, or too large to be one of these."""
    with suppress(OSError):
        if path.is_file() and path.stat().st_size <= MAX_FILE_BYTES:
            return path.read_bytes()
    return b""


def has_fewer_hooks(before: bytes, now: bytes) -> bool:
    """Whether fewer of Remit's hooks stand there, or a switch that was not there."""
    hooks = CLIENT_PATH.encode()
    return now.count(hooks) < before.count(hooks) or any(now.count(word) > before.count(word) for word in HOOK_SWITCHES)
