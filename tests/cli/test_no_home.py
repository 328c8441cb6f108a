"""Without HOME nobody's settings or state are touched, whatever the password database says."""

import json
from pathlib import Path

import pytest

from forked_commands import run_in_bytes
from gate.driving import Agent, governed

COMMANDS = (("init", "--yes"), ("uninstall", "--yes"), ("status",), ("intent", "new", "x", "--scope", "a"), ("mcp",))


def without_home(folder: Path, *words: str, home: str | None = None, sent: bytes = b"") -> tuple[int, str, str]:
    environment = {"PATH": "/usr/bin:/bin"} | ({} if home is None else {"HOME": home})
    done = run_in_bytes(words, folder, environment, sent)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@pytest.mark.parametrize("value", [None, "", "here"])
@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_a_command_refuses_and_says_what_to_set(repository: Path, words: tuple[str, ...], value: str | None) -> None:
    code, _, error = without_home(repository, *words, home=value)
    assert (code, "HOME" in error, "set it" in error) == (2, True, True), error
    assert not (repository / ".orchestration").exists()
    assert not (repository / ".git" / "remit").exists()


def test_json_says_so_too(repository: Path) -> None:
    code, output, _ = without_home(repository, "status", "--json")
    assert (code, json.loads(output)["error"]["code"]) == (2, "NO_HOME")


@pytest.mark.parametrize(
    ("mode", "kind", "code"), [("enforce", "pre", 2), ("enforce", "post", 0), ("observe", "pre", 0)]
)
def test_a_hook_refuses_only_where_remit_enforces(
    repository: Path, home: Path, mode: str, kind: str, code: int
) -> None:
    agent = Agent(governed(repository, mode), home)
    event = "PreToolUse" if kind == "pre" else "PostToolUse"
    sent = agent.payload(event, tool_name="Write", tool_input={"file_path": "a", "content": "x"}, tool_use_id="t")
    found, output, error = without_home(repository, "hook", "claude-code", kind, sent=sent)
    assert (found, output, "HOME is not set" in error) == (code, "", True)


def test_a_hook_elsewhere_lets_pass(repository: Path, home: Path) -> None:
    sent = Agent(repository, home).payload("PreToolUse", tool_name="Bash", tool_input={"command": "ls"})
    assert without_home(repository, "hook", "claude-code", "pre", sent=sent)[0] == 0
