"""Remit, through the same function that its hook program calls, without a process for each call."""

import json
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from remit.core.agents import ROWS
from remit.core.decision import Mode
from remit.gate.effects.replays import run_replays
from remit.gate.gate import Gate
from remit.gate.governing.settings import govern_workspace, set_mode
from remit.gate.machine import Environment
from remit.ledger.index.index import Index
from remit.provenance.blame.blame import Blamer
from remit.provenance.blame.blamed_line import BlamedLine
from remit.provenance.notes.derived_notes import derive_notes
from remit.provenance.notes.note_writer import NoteWriter
from remit.servers.hook import EventClass, HookFrame, answer
from remit.workspace.git.repository import NOTES_REF
from remit.workspace.place.workspace import find_git_root, workspace_at
from remit.workspace.sandbox.containment import find_containment
from remit.workspace.sharing.shared_refs import NotesRef

from .lines import Claim
from .tools import Refused, Session

CLASSES: dict[str, EventClass] = {
    "PreToolUse": "pre",
    "PostToolUse": "post",
    "BeforeTool": "pre",
    "AfterTool": "post",
}


class RemitTool:
    """Remit in enforce: commands whose text does not tell what they write run contained."""

    name = "remit"
    mode: Mode = "enforce"
    config = ""

    def __init__(self) -> None:
        self.home = Path()
        self.root = Path()

    def install(self, root: Path, home: Path, intents: Sequence[str]) -> None:
        self.root, self.home = root, home
        (root / ".orchestration").mkdir(exist_ok=True)
        lines = ['version: "1.0"', "active_intents:"]
        for name in intents:
            lines += [
                f"  - id: {name}",
                f"    name: work {name}",
                "    status: IN_PROGRESS",
                '    owned_scope: ["**"]',
                "    constraints: [none]",
                "    acceptance_criteria: [it works]",
            ]
        (root / ".orchestration" / "active_intents.yaml").write_text("\n".join(lines) + "\n")
        workspace = workspace_at(root, find_git_root(root))
        workspace.config_path.write_text(self.config)
        govern_workspace(workspace)
        set_mode(workspace, self.mode)
        if not self.config and (found := find_containment(home, home / "tmp")).way != "overlay":
            raise Refused(f"THIS MACHINE CANNOT STAGE A COMMAND'S WRITES, SO NOTHING RUNS CONTAINED: {found.remarks}")

    def hook(self, session: Session, event: str, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        row = ROWS[session.agent]
        around = Environment(
            self.home,
            self.home / "tmp",
            settings=row.settings_files,
            own_folders=row.own_folders,
            variables={"PATH": os.pathsep.join((str(self.home.parent / "bin"), os.environ.get("PATH", os.defpath)))},
        )
        frame = HookFrame(session.agent, str(payload["cwd"]), CLASSES.get(event, "note"))
        reply = answer(json.dumps(payload, ensure_ascii=False).encode(), frame, around)
        answered: dict[str, Any] = json.loads(reply.stdout) if reply.stdout else {}
        said = {"decision": answered.get("decision"), **answered.get("hookSpecificOutput", {})}
        spoken = said["decision"] is not None or said.get("permissionDecision") is not None
        refused = frame.event_class == "pre" and (reply.exit_code or spoken)
        if refused or reply.stderr:
            raise Refused(f"{event} {payload.get('tool_name')}: {reply.stderr!r} {said}")
        return said.get("updatedInput") or said.get("tool_input") or {}

    def select(self, session: Session) -> None:
        event, shell = ("BeforeTool", "run_shell_command") if session.agent == "gemini" else ("PreToolUse", "Bash")
        payload: dict[str, Any] = {
            "session_id": session.id,
            "cwd": str(self.root),
            "hook_event_name": event,
            "tool_name": shell,
            "tool_input": {"command": f"remit intent select {session.intent}"},
            "tool_use_id": f"select-{session.id}-{session.subagent}-{session.intent}",
        }
        if session.subagent:
            payload["agent_id"] = session.subagent
        self.hook(session, event, payload)

    def message(self, subject: str, agents: Sequence[str]) -> str:
        return subject

    def publish(self, root: Path) -> Sequence[str]:
        with self.blamer(root) as blamer:
            writer = NoteWriter(blamer)
            writer.write(writer.find_commits(None))
        return (NOTES_REF,)

    def take_in(self, root: Path) -> None:
        workspace = workspace_at(root, find_git_root(root))
        NotesRef(workspace).sync_remote("origin", push=False)
        derive_notes(workspace, "origin")

    def blame(self, root: Path, path: str) -> list[Claim]:
        with self.blamer(root) as blamer:
            return [claim(line) for line in blamer.blame(path)]

    @contextmanager
    def blamer(self, root: Path) -> Generator[Blamer]:
        """Blame in that work tree, whether or not anything was ever recorded there."""
        gate = Gate.open(root)
        run_replays(gate.workspace, gate.environment)
        with Index.open(gate.workspace.state / "index.db", gate.workspace.log_folder) as index:
            index.catch_up()
            yield Blamer(gate.workspace, index, gate.contents)


class UncontainedRemitTool(RemitTool):
    """Remit as it observes: every command runs as the agent wrote it."""

    name = "remit-not-contained"
    mode = "observe"
    config = '[containment]\nrewrite = "off"\n'


def claim(line: BlamedLine) -> Claim:
    """A line of `remit blame`; `mixed` is nobody's alone."""
    if line.origin in ("ai", "human"):
        return Claim("ai" if line.origin == "ai" else "human", line.session_id, line.intent_id, line.grade)
    return Claim()
