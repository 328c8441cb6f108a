"""A call belongs to its session's workspace: doors × ways to say that a command stands elsewhere.

What is looked at is the world: whether a file outside, out of scope, or of another repository changed, and by whom the
records say so; never the verdict alone.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gate.driving import Agent, allowed, body, governed, machine, overlay, records, refusal, run_shell
from redteam.folder_ways import FOLDERS, TEXTS, fill
from remit.core.agents import ROWS
from remit.core.call import SessionKey, ToolCall, hash_arguments
from remit.gate.gate import Gate
from remit.gate.governing.settings import set_mode
from remit.gate.perform import ToolOutput, WorkspaceAccess
from remit.servers.hook import HookFrame, answer
from remit.workspace.place.workspace import workspace_at

SESSION = SessionKey("session-1")
SCRIPT = """\
import os
root, home, other = {root!r}, {home!r}, {other!r}
for path in (home + "/.bashrc", root + "/docs/x.md", root + "/src/made.py", other + "/src/theirs.py", "here.txt"):
    try:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        open(path, "a").write("EVIL")
    except OSError:
        pass
"""


class Place:
    """A session's repository, another governed one, a folder without any, and the script that writes everywhere."""

    def __init__(self, repository: Path, home: Path) -> None:
        self.home = home
        shutil.copytree(repository, home / "other")
        self.root, self.other = governed(repository), governed(home / "other")
        self.temporary = home / "tmp"
        self.temporary.mkdir(exist_ok=True)
        self.free = home / "free"
        self.free.mkdir()
        (self.free / "link").symlink_to(self.temporary)
        (home / ".bashrc").write_text("mine\n")
        self.script = self.temporary / "x.py"
        self.script.write_text(SCRIPT.format(root=str(self.root), home=str(home), other=str(self.other)))
        self.command = f"python3 {self.script}"

    @property
    def changed(self) -> list[str]:
        """What changed that must not."""
        found = {
            "home": (self.home / ".bashrc").read_text() != "mine\n",
            "out of scope": (self.root / "docs").exists(),
            "another repository": (self.other / "src/theirs.py").exists(),
            "a free folder": (self.free / "here.txt").exists() or (self.home / "here.txt").exists(),
        }
        return [name for name, is_changed in found.items() if is_changed]

    @property
    def persons_changes(self) -> list[str]:
        edits = [body(r) for root in (self.root, self.other) for r in records(root, "human_edit")]
        return [f["path"] for one in edits if one["origin"] == "person" for f in one["files"]]


@pytest.fixture
def place(repository: Path, home: Path) -> Place:
    overlay(home)
    return Place(repository, home)


def run_hooked(place: Place, agent: Agent, command: str, folder: Path | str, **more: Any) -> bool:
    """Run a call of Claude Code's shell tool in a folder as its hook says; False if it was refused."""
    agent.cwd = Path(folder)
    before = agent.ask("Bash", command=command, **more)
    if before.get("permissionDecision") in ("deny", "ask"):
        return False
    given = before.get("updatedInput", {"command": command})["command"]
    where = more.get("workdir") or more.get("directory") or folder
    done = run_shell(given, Path(where))
    agent.tell("Bash", before["call_id"], {"stdout": done.stdout}, command=given)
    return True


@pytest.mark.parametrize("folder", FOLDERS.values(), ids=FOLDERS)
def test_a_hooked_command_is_contained_wherever_it_stands(place: Place, folder: str) -> None:
    agent = Agent(place.root, place.home)
    agent.select()
    run_hooked(place, agent, place.command, fill(folder, place.home))
    assert place.changed == []
    agent.cwd = place.root
    agent.send("Stop")
    assert place.persons_changes == []


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_folder_in_the_text_changes_nothing_of_it(place: Place, text: str) -> None:
    agent = Agent(place.root, place.home)
    agent.select()
    run_hooked(place, agent, text.format(folder=place.temporary, command=place.command), place.root)
    assert place.changed == []


@pytest.mark.parametrize("key", ["workdir", "directory", "dir_path"])
@pytest.mark.parametrize("name", ["codex", "gemini", "qwen-code"])
def test_a_folder_beside_the_command_leaves_its_writes_unproved(place: Place, name: str, key: str) -> None:
    agent = Agent(place.root, place.home)
    agent.select()
    folder = place.root / "docs"
    call = ToolCall(name, SESSION, "Bash", "execute", str(place.root), command="echo x > src/y", whole_workspace=True)
    gate = Gate.open(place.root, agent.environment)
    hidden = "contain" if name == "codex" else "allow"  # its hook never tells the folder
    assert gate.before(replace(call, call_id="1")).decision.verdict == hidden
    assert gate.before(replace(call, call_id="2", given_folder=str(folder))).decision.verdict == "contain"


def ask_as(place: Place, name: str, folder: str, command: str) -> None:
    """Send a shell call's payload as that agent does."""
    row = ROWS[name]
    event = next(event for event, kind in row.events.items() if kind == "before")
    tool = next(tool for tool, entry in row.tools.items() if entry.command is not None)
    payload = {"session_id": "session-1", "cwd": folder, "hook_event_name": event, "tool_name": tool}
    payload |= {"tool_input": {"command": command}, "tool_use_id": f"t-{folder}"}
    answer(json.dumps(payload).encode(), HookFrame(name, folder, "pre"), machine(place.home))


@pytest.mark.parametrize("folder", FOLDERS.values(), ids=FOLDERS)
@pytest.mark.parametrize("name", ["codex", "gemini", "qwen"])
def test_no_agents_command_runs_bare_elsewhere(place: Place, name: str, folder: str) -> None:
    ask_as(place, name, str(place.root), "remit intent select INT-001")
    ask_as(place, name, str(fill(folder, place.home)), place.command)
    uses = [(u["decision"]["effect"], u["call"].get("command")) for u in map(body, records(place.root, "tool_use"))]
    denied = [body(r) for r in (*records(place.root, "denied"), *records(place.other, "denied"))]
    assert ("contain", place.command) in uses or denied
    assert ("allow", place.command) not in uses, records(place.root, "tool_use")[-1]


def perform(place: Place, folder: str, command: str) -> str:
    """Run a command as Remit's own agent does; what it is told."""
    gate = Gate.open(place.root, machine(place.home))
    gate.intents.select(SESSION, "remit", "INT-001")
    call = ToolCall("remit", SESSION, "execute_command", "execute", folder, "c1", command=command)
    call = replace(call, arguments_sha256=hash_arguments({"command": command}), whole_workspace=True)

    def act(access: WorkspaceAccess) -> ToolOutput:
        with (place.home / "output").open("wb") as output:
            return ToolOutput(True, "", exit_code=access.run_command(output.fileno()).code)

    return "\n".join(gate.perform(call, act).messages)


@pytest.mark.parametrize("folder", FOLDERS.values(), ids=FOLDERS)
def test_a_command_of_the_own_agent_is_contained_wherever_it_stands(place: Place, folder: str) -> None:
    perform(place, str(fill(folder, place.home)), place.command)
    assert place.changed == []


def test_a_session_keeps_its_workspace_when_it_gives_its_intent_back(place: Place) -> None:
    agent = Agent(place.root, place.home)
    agent.select()
    agent.ask("Bash", command="remit intent clear")
    assert not run_hooked(place, agent, place.command, place.temporary)
    assert place.changed == []


def test_a_file_tool_elsewhere_is_judged_by_the_sessions_workspace(place: Place) -> None:
    agent = Agent(place.root, place.home)
    agent.select()
    agent.cwd = place.free
    assert refusal(agent.ask("Write", file_path=str(place.home / ".bashrc"), content="EVIL")) == "OUTSIDE_WORKSPACE"
    assert refusal(agent.ask("Write", file_path="here.txt", content="EVIL")) == "OUTSIDE_WORKSPACE"


def test_a_command_that_nothing_can_contain_elsewhere_needs_a_yes(place: Place) -> None:
    config = place.root / ".orchestration" / "remit.toml"
    config.write_text(config.read_text() + '\n[containment]\nrewrite = "off"\n')
    agent = Agent(place.root, place.home)
    agent.select()
    agent.cwd = place.temporary
    answered = agent.ask("Bash", command=place.command)
    assert refusal(answered) == "COMMAND_BLOCKED"
    assert "containment is switched off" in answered["permissionDecisionReason"]
    assert allowed(agent.ask("Bash", command="ls"))


def test_a_session_that_stands_in_another_repository_is_told_where_it_works(place: Place) -> None:
    set_mode(workspace_at(place.other, place.other), "observe")
    agent = Agent(place.root, place.home)
    agent.select()
    agent.cwd = place.other
    told = agent.ask("Bash", command=place.command)
    assert f"this session works in {place.root}; its commands only read {place.other}" in told["additionalContext"]


def test_a_change_by_a_session_without_an_intent_that_ran_elsewhere_is_no_persons(place: Place) -> None:
    agent = Agent(place.root, place.home)
    agent.send("SessionStart", source="startup")
    agent.send("UserPromptSubmit", prompt="x")
    run_hooked(place, agent, place.command, place.temporary)
    agent.cwd = place.root
    agent.send("UserPromptSubmit", prompt="y")
    assert (place.root / "docs/x.md").exists()
    assert place.persons_changes == []
