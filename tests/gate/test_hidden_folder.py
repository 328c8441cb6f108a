"""An agent that may run a command in a folder that its hook does not tell: no relative write is taken as proved."""

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from conftest import run_git
from gate.driving import governed, machine, overlay, run_shell
from remit.servers.hook import EventClass, HookFrame, answer

NUMBERS = count(1)


def send(root: Path, home: Path, kind: EventClass, call_id: str, command: str, **more: Any) -> dict[str, Any]:
    """What the hook says to Codex's payload, in which no folder of the command stands."""
    event = "PreToolUse" if kind == "pre" else "PostToolUse"
    payload = {"session_id": "cx", "cwd": str(root), "hook_event_name": event, "permission_mode": "bypassPermissions"}
    payload |= {"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": call_id, **more}
    reply = answer(json.dumps(payload).encode(), HookFrame("codex", str(root), kind), machine(home))
    return json.loads(reply.stdout).get("hookSpecificOutput", {}) if reply.stdout else {}


def run_in(root: Path, folder: str, home: Path, command: str) -> str:
    """Run a command in a folder of the repository as Codex does with a `workdir`; what the model is told afterwards."""
    call_id = f"call-{next(NUMBERS)}"
    said = send(root, home, "pre", call_id, command)
    assert said.get("permissionDecision") != "deny", said
    given = said.get("updatedInput", {"command": command})["command"]
    run_shell(given, root / folder)
    told = send(root, home, "post", call_id, given, tool_response="ok")
    return str(told.get("additionalContext", ""))


@pytest.mark.parametrize("contained", [True, False])
@pytest.mark.parametrize("command", ["echo x > src/w.md", "mkdir -p src && cp README.md src/w.md", "tee src/w.md < r"])
def test_a_relative_write_elsewhere_does_not_stay(
    repository: Path, home: Path, command: str, *, contained: bool
) -> None:
    (repository / "docs" / "src").mkdir(parents=True)
    for name in ("README.md", "r"):
        (repository / "docs" / name).write_text("x\n")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "docs")
    root = governed(repository)
    if contained:
        overlay(home)
    else:
        config = root / ".orchestration" / "remit.toml"
        config.write_text(config.read_text() + '\n[containment]\nrewrite = "off"\n')
    run_in(root, ".", home, "remit intent select INT-001")
    run_in(root, "docs", home, command)
    assert not (root / "docs" / "src" / "w.md").exists()
    run_in(root, ".", home, "echo y > src/y.md")
    assert (root / "src" / "y.md").read_text() == "y\n"


def test_what_names_the_whole_path_stays_proved(repository: Path, home: Path) -> None:
    overlay(home)
    root = governed(repository)
    run_in(root, ".", home, "remit intent select INT-001")
    assert "updatedInput" not in send(root, home, "pre", "c1", f"echo x > {root}/src/w.md")
    assert "updatedInput" not in send(root, home, "pre", "c2", "cat README.md")
