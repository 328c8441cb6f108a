"""An attempt in its jail with the door open, as its worker has it: the agent is a script, its hooks are real."""

import json
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conftest import run_git
from gate.driving import governed, records
from processes import kill_daemons
from remit.core.assignment import Assignment
from remit.gate.machine import Environment
from remit.wiring.hook_client import install_client
from remit.workspace.place.assignment_file import AssignmentFile
from remit.workspace.place.workspace import locate_workspace
from remit.workspace.sandbox.jail import find_bubblewrap
from remit.workspace.sandbox.private_git_folder import PrivateGitFolder
from remit.workspace.worktrees import Worktrees
from remit_fleet.workers.agent import AgentEnd, AgentProcess, AgentRun, AttemptPlaces, make_jail, prepare_state
from remit_fleet.workers.attempt_door import AttemptDoor, DaemonStarter, DoorTerms

LEASE_S = 600.0


class JailedAttempt:
    """A governed repository, the worktree of an attempt at INT-001, and what its agent leaves behind."""

    def __init__(self, repository: Path, home: Path) -> None:
        self.home = home
        self.root = governed(repository)
        run_git(repository, "add", "-A")
        run_git(repository, "commit", "-q", "-m", "governed")
        install_client(home)
        main = locate_workspace(repository)
        assert main is not None
        self.trees = Worktrees(main, home / ".local/share/remit/trees/r")
        head = run_git(repository, "rev-parse", "HEAD").strip()
        tree = self.trees.prepare("INT-001", 1, head)
        self.other = self.trees.prepare("INT-002", 1, head)
        assignment = AssignmentFile(tree)
        terms = Assignment(
            task="r:INT-001",
            intent="INT-001",
            attempt=1,
            token=1,
            scope=("src/**",),
            role="builder",
            paths=("**",),
            effects=("read", "write", "execute"),
            target="remit/next",
            base=head,
        )
        assignment.write(terms, LEASE_S)
        folder = home / ".local/share/remit/trees/r"
        temporary = folder / "INT-001-1.tmp"
        temporary.mkdir()
        branch = "remit/INT-001/1"
        self.places = AttemptPlaces(main, tree, temporary, folder / "INT-001-1.state", branch)
        prepare_state(self.places)
        PrivateGitFolder(tree).make("INT-001/1")
        self.starter = DaemonStarter(home)
        self.told: list[str] = []
        self.process: AgentProcess | None = None

    @property
    def tree(self) -> Path:
        return self.places.tree.root

    def list_places(self) -> dict[str, Path | None]:
        """Return what an attack goes for, by the name that it uses."""
        return {
            "GIT": self.root / ".git",
            "OWN": self.places.tree.git_dir,
            "SHARED": PrivateGitFolder(self.places.tree).shared,
            "STATE": self.home / ".local/state/remit",
            "OTHER": self.other.root,
            "MAIN": self.root,
        }

    def variables(self) -> dict[str, str]:
        own = {"PATH": os.environ["PATH"], "HOME": str(self.home), "GIT_CONFIG_NOSYSTEM": "1"}
        return {**own, "TMPDIR": str(self.places.temporary), "REMIT_INTENT": "INT-001"}

    @contextmanager
    def open_door(self, patience_s: float = 30.0) -> Generator[None]:
        terms = DoorTerms(self.places, "INT-001", self.home, self.variables())
        with AttemptDoor(terms, self.starter, self.told.append, patience_s).open():
            yield

    def run(self, script: str, *, agent: str = "claude-code") -> tuple[AgentEnd, str]:
        """Run a script of Python as the agent, and return how it ended and what it printed."""
        words = (sys.executable, "-c", PRELUDE + script)
        around = Environment(home=self.home, temporary=self.home / "tmp")
        jail = make_jail(self.places, agent, words, around, os.environ["PATH"])
        log = self.home / "agent.log"
        self.process = AgentProcess(AgentRun(words, self.variables(), jail, log, find_bubblewrap()))
        end = self.process.wait()
        return end, log.read_text("utf-8", "replace")

    def records(self, event: str = "") -> list[dict[str, Any]]:
        return records(self.root, event)

    def end_daemons(self) -> None:
        kill_daemons(self.home)
        for process in self.starter.started:
            process.wait()


PRELUDE = '''
import json, os, subprocess, sys
HOME, TREE = os.environ["HOME"], os.getcwd()

def hook(event, kind, **fields):
    payload = {"session_id": "s1", "cwd": TREE, "hook_event_name": event, "transcript_path": "", **fields}
    words = [HOME + "/.local/share/remit/bin/hook", "claude-code", kind]
    done = subprocess.run(words, input=json.dumps(payload).encode(), capture_output=True)
    said = json.loads(done.stdout) if done.stdout.strip() else {}
    return done.returncode, said.get("hookSpecificOutput", {}), done.stderr.decode()

def ask(tool, call, **given):
    return hook("PreToolUse", "pre", tool_name=tool, tool_use_id=call, tool_input=given)

def tell(tool, call, **given):
    return hook("PostToolUse", "post", tool_name=tool, tool_use_id=call, tool_input=given, tool_response={})

def write(path, text, call):
    given = {"file_path": path, "content": text}
    answer = ask("Write", call, **given)
    if answer[0] == 0 and answer[1].get("permissionDecision") != "deny":
        open(path, "w").write(text)
        tell("Write", call, **given)
    return answer

def shell(command, call):
    code, said, errors = ask("Bash", call, command=command)
    if code or said.get("permissionDecision") == "deny":
        return said.get("permissionDecisionReason") or errors
    changed = said.get("updatedInput", {}).get("command", command)
    done = subprocess.run(["bash", "-c", changed], capture_output=True, text=True)
    tell("Bash", call, command=changed)
    return done.stdout + done.stderr

def attempt(action):
    """Print what came of an attack: its error, or `done`."""
    try:
        print(action() or "done")
    except Exception as error:
        print(type(error).__name__, error)
'''


def decode(line: str) -> dict[str, Any]:
    return json.loads(line)
