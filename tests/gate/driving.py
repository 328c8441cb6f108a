"""An agent that speaks Claude Code's hooks to `answer`, and does to real files what it was allowed to do."""

import json
import shlex
import subprocess
import sys
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from forked_commands import run_command
from remit.adapters import HookReply
from remit.core.agents import ROWS
from remit.core.clock import Clock
from remit.gate.containment.rewrite_call import PYTHON_WORDS
from remit.gate.gate import Gate
from remit.gate.governing.settings import govern_workspace, set_mode
from remit.gate.machine import Environment
from remit.ledger.reader import read_lines as log_lines
from remit.servers.hook import EventClass, HookFrame, answer
from remit.workspace.place.workspace import find_git_root, workspace_at
from remit.workspace.sandbox.containment import Containment, find_containment, probe_stamp
from remit.workspace.sandbox.jail import find_bubblewrap
from remit.workspace.sandbox.staging import SCRATCH_FOLDER
from remit.workspace.system_clock import SYSTEM_CLOCK

INTENTS = """\
version: "1.0"
active_intents:
  - id: INT-001
    name: Names
    status: IN_PROGRESS
    owned_scope: ["src/**"]
    constraints: [none]
    acceptance_criteria: [it works]
  - id: INT-002
    name: Docs
    status: IN_PROGRESS
    owned_scope: ["docs/**"]
    constraints: [none]
    acceptance_criteria: [it works]
"""

TRIED: dict[str, bytes] = {}
"""What a try of containment in this process wrote, by what was tried: it is the same for each home."""

CLASSES: dict[str, EventClass] = {"PreToolUse": "pre", "PostToolUse": "post", "PostToolUseFailure": "post"}


def machine(home: Path, clock: Clock = SYSTEM_CLOCK) -> Environment:
    """The machine of a test: its temporary folder is not the one that the test's repository lies in."""
    row = ROWS["claude-code"]
    return Environment(home, home / "tmp", settings=row.settings_files, own_folders=row.own_folders, clock=clock)


def compared(home: Path) -> None:
    """No command of this home runs contained, unless the test tried before whether that works."""
    kept = home / SCRATCH_FOLDER / "containment.json"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps({"stamp": probe_stamp(find_bubblewrap()), "found": {"way": "none"}}))


def overlay(home: Path) -> Containment:
    """The containment of this machine, from here on of this home, too. Skips the test where it is no overlay."""
    kept, stamp = home / SCRATCH_FOLDER / "containment.json", probe_stamp(find_bubblewrap())
    kept.unlink(missing_ok=True)
    if stamp in TRIED:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(TRIED[stamp])
    found = find_containment(home, home / "tmp")
    TRIED[stamp] = kept.read_bytes()
    if found.way != "overlay":
        pytest.skip(f"THIS KERNEL HAS NO OVERLAY FOR US, CONTAINMENT IS NOT TESTED: {found.remarks}")
    return found


def overlay_untried(home: Path) -> None:
    """Let decisions of this home count on an overlay, whatever this machine can do: no command may run."""
    kept = home / SCRATCH_FOLDER / "containment.json"
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps({"stamp": probe_stamp(find_bubblewrap()), "found": {"way": "overlay"}}))


def governed(root: Path, mode: Any = "enforce", intents: str = INTENTS) -> Path:
    """Govern the workspace at `root`, with these intents."""
    compared(Path.home())
    (root / ".orchestration").mkdir(exist_ok=True)
    workspace = workspace_at(root, find_git_root(root))
    (root / ".orchestration" / "active_intents.yaml").write_text(intents)
    govern_workspace(workspace)
    set_mode(workspace, mode)
    return root


class Agent:
    """One session. `cwd` moves as a shell's would."""

    numbers = count(1)

    def __init__(
        self, cwd: Path, home: Path, session: str = "session-1", agent_id: str = "", clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.cwd = cwd
        self.home = home
        self.session = session
        self.agent_id = agent_id
        self.environment = machine(home, clock)
        self.permission_mode = "bypassPermissions"
        """As the client says: in this one it asks its person nothing by itself."""

    def payload(self, event: str, **fields: Any) -> bytes:
        """A payload of that event."""
        document: dict[str, Any] = {"session_id": self.session, "cwd": str(self.cwd), "hook_event_name": event}
        document["permission_mode"] = self.permission_mode
        document |= fields
        if self.agent_id:
            document["agent_id"] = self.agent_id
        return json.dumps(document, ensure_ascii=False).encode()

    def send(self, event: str, **fields: Any) -> HookReply:
        """What Remit answers to that event."""
        frame = HookFrame("claude-code", str(self.cwd), CLASSES.get(event, "note"))
        return answer(self.payload(event, **fields), frame, self.environment)

    def ask(self, tool: str, call_id: str = "", **arguments: Any) -> dict[str, Any]:
        """What the hook says before the call; empty where it says nothing."""
        call_id = call_id or f"toolu_{next(self.numbers)}"
        reply = self.send("PreToolUse", tool_name=tool, tool_input=arguments, tool_use_id=call_id)
        assert reply.exit_code == 0, reply
        return {"call_id": call_id, **said(reply)}

    def tell(self, tool: str, call_id: str, response: Any = None, **arguments: Any) -> dict[str, Any]:
        """What the hook says after the call."""
        reply = self.send(
            "PostToolUse", tool_name=tool, tool_input=arguments, tool_use_id=call_id, tool_response=response or {}
        )
        assert reply.exit_code == 0, reply
        return said(reply)

    def write(self, path: str | Path, content: str | bytes) -> dict[str, Any]:
        """Write a file, as far as that is allowed; the answer before, and `after`."""
        data = content if isinstance(content, bytes) else content.encode()
        arguments = {"file_path": str(path), "content": data.decode("utf-8", "replace")}
        before = self.ask("Write", **arguments)
        if allowed(before):
            target = self.cwd / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
            return {**before, "after": self.tell("Write", before["call_id"], **arguments)}
        return before

    def read(self, path: str | Path) -> dict[str, Any]:
        """Read a file."""
        before = self.ask("Read", file_path=str(path))
        return {**before, "after": self.tell("Read", before["call_id"], file_path=str(path))}

    def shell(self, command: str) -> dict[str, Any]:
        """Run a shell command, as far as that is allowed."""
        before = self.ask("Bash", command=command)
        if not allowed(before):
            return before
        subprocess.run(["sh", "-c", command], cwd=self.cwd, check=True, capture_output=True)
        return {**before, "after": self.tell("Bash", before["call_id"], {"stdout": ""}, command=command)}

    def select(self, intent_id: str = "INT-001") -> dict[str, Any]:
        """Select an intent by the command for agents without MCP."""
        return self.ask("Bash", command=f"remit intent select {intent_id}")


def run_shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as an agent's shell does. One that is Remit's launcher and nothing else is forked instead: most of
    its time goes to imports.
    """
    words, start = shlex.split(command), [sys.executable, *PYTHON_WORDS]
    if words[: len(start)] == start and shlex.join(words) == command:
        return run_command(words[len(start) :], folder)
    return subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, check=False)


def said(reply: HookReply) -> dict[str, Any]:
    """The hook's output."""
    return json.loads(reply.stdout)["hookSpecificOutput"] if reply.stdout else {}


def allowed(answer: dict[str, Any]) -> bool:
    """Whether the call may go on."""
    return answer.get("permissionDecision") is None


def refusal(answer: dict[str, Any]) -> str:
    """The error type of a denial; empty for none."""
    reason = str(answer.get("permissionDecisionReason", ""))
    return reason[1 : reason.find("]")] if reason.startswith("[") else reason


def lines(root: Path) -> list[bytes]:
    """The lines of the machine log."""
    gate = Gate.open(root)
    return [line.raw for line in log_lines(gate.workspace.log_folder)]


def records(root: Path, event: str = "") -> list[dict[str, Any]]:
    """What the log holds, oldest first; of one event, where one is named."""
    found = [json.loads(line) for line in lines(root)]
    return [r for r in found if not event or body(r)["event"] == event]


def body(record: dict[str, Any]) -> dict[str, Any]:
    """Remit's part of a record."""
    return record["metadata"]["dev.remit"]


def effects(root: Path) -> dict[str, str]:
    """What the newest mutation did, in all its records: path -> operation."""
    found = [body(record) for record in records(root, "mutation")]
    newest = found[-1:] if found and "part" not in found[-1] else found
    first = found[-1].get("part", {}).get("first") if found else None
    parts = [one for one in newest if one.get("part", {}).get("first") == first]
    return {f["path"]: f["operation"] for one in parts for f in one["files"]}


def uncontained(repository: Path, home: Path) -> Agent:
    """An agent under INT-001 whose commands run as they are."""
    found = Agent(governed(repository), home)
    config = repository / ".orchestration" / "remit.toml"
    config.write_text(config.read_text() + '\n[containment]\nrewrite = "off"\n')
    found.select()
    return found
