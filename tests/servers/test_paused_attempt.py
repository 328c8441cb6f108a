"""A paused attempt, with processes: the agent's hook waits in the daemon or alone, and holds up nobody else."""

import json
import subprocess
import sys
from collections.abc import Generator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import remit_hook
from conftest import run_git
from forked_commands import start_ready
from gate.driving import governed
from processes import daemons_of
from remit.core.assignment import Assignment
from remit.servers.daemon import socket_path
from remit.workspace.place.assignment_file import AssignmentFile
from remit.workspace.place.workspace import locate_workspace
from remit.workspace.worktrees import Worktrees
from waiting import WAIT_S

MAIN = "from remit.cli import main; main()"
TERMS = Assignment(task="p:INT-001", intent="INT-001", attempt=7, token=3, scope=("src/**",))


@pytest.fixture
def file(repository: Path, tmp_path: Path) -> AssignmentFile:
    governed(repository)
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "governed")
    found = locate_workspace(repository)
    assert found is not None
    written = AssignmentFile(Worktrees(found, tmp_path / "trees").prepare("INT-001", 7, "main"))
    written.write(TERMS, 600)
    return written


@pytest.fixture(params=["daemon", "alone"])
def client(request: pytest.FixtureRequest, home: Path, tmp_path: Path) -> Generator[list[str]]:
    """The words of the hook: the thin client in front of a daemon, or a process that answers by itself."""
    if request.param == "alone":
        yield [sys.executable, "-I", "-c", MAIN, "hook"]
        return
    place = tmp_path / "client" / "hook"
    place.parent.mkdir()
    script = Path(remit_hook.__file__).with_name("__main__.py").read_text()
    place.write_text(f"#!{sys.executable} -ISE\n{script}")
    place.chmod(0o755)
    lines = (version("remit"), sys.executable, str(socket_path(home)), "20", "made from", "exec")
    place.with_name("hook.conf").write_text("".join(f"{line}\n" for line in lines))
    process = start_ready(["daemon"])
    yield [str(place)]
    assert daemons_of(home)
    process.kill()
    process.wait()


def knock(client: list[str], cwd: Path, session: str, event: str, **fields: Any) -> subprocess.Popen[bytes]:
    """A hook process of Claude Code's."""
    payload = {"session_id": session, "cwd": str(cwd), "hook_event_name": event, **fields}
    words = [*client, "claude-code", "pre" if event == "PreToolUse" else "note"]
    process = subprocess.Popen(words, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(json.dumps(payload).encode())
    process.stdin.close()
    process.stdin = None
    return process


def write(client: list[str], cwd: Path, session: str, path: str, call: str) -> subprocess.Popen[bytes]:
    given = {"file_path": str(cwd / path), "content": "a = 1\n"}
    return knock(client, cwd, session, "PreToolUse", tool_name="Write", tool_use_id=call, tool_input=given)


def heard(process: subprocess.Popen[bytes]) -> str:
    """The reason of the refusal; empty where the call may go on."""
    out = process.communicate(timeout=WAIT_S)[0]
    said: dict[str, Any] = json.loads(out)["hookSpecificOutput"] if out else {}
    return str(said.get("permissionDecisionReason", ""))


def test_a_paused_attempt_holds_up_nobody_else(file: AssignmentFile, repository: Path, client: list[str]) -> None:
    root = Path(run_git(repository, "worktree", "list", "--porcelain").split("worktree ")[2].split("\n")[0])
    knock(client, root, "attempt", "SessionStart", source="startup").communicate(timeout=WAIT_S)
    assert heard(write(client, root, "attempt", "src/a.py", "t1")) == ""
    file.change_state(replace(TERMS, state="paused"), 600)
    waiting = write(client, root, "attempt", "src/b.py", "t2")
    select = {"command": "remit intent select INT-002"}
    asked = knock(client, repository, "other", "PreToolUse", tool_name="Bash", tool_use_id="u1", tool_input=select)
    asked.communicate(timeout=WAIT_S)
    assert heard(write(client, repository, "other", "docs/x.md", "u2")) == ""
    assert waiting.poll() is None
    file.change_state(TERMS, 600)
    assert heard(waiting) == ""
    file.change_state(replace(TERMS, state="ended"), 600)
    assert "ASSIGNMENT_ENDED" in heard(write(client, root, "attempt", "src/c.py", "t3"))
