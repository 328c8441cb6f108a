"""Whose process this is: told by the programs above it, not by what they work on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from remit.workspace.processes.process_tracking import ProcessFollower, find_agent_name, program_name
from waiting import wait_until


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("claude", "-p", "x"), "claude"),
        (("/usr/local/bin/codex", "exec"), "codex"),
        (("node", "--no-warnings", "/usr/bin/gemini"), "gemini"),
        (("/usr/bin/node", "--max-old-space-size=4096", "-r", "hook.js", "/opt/gemini.js"), "gemini"),
        (("bash", "/home/u/.asdf/shims/claude", "-c"), "claude"),
        (("python3.11", "-m", "qwen"), "qwen"),
        (("-zsh",), "zsh"),
        (("vim", "claude"), "vim"),
        (("less", "codex"), "less"),
        (("tail", "-f", "gemini"), "tail"),
        (("bash", "-c", "claude"), "bash"),
        (("python", "x.py", "claude"), "x"),
        (("git", "checkout", "codex"), "git"),
        ((), ""),
        (("",), ""),
    ],
)
def test_a_program_is_what_runs_and_not_what_it_works_on(words: tuple[str, ...], name: str) -> None:
    assert program_name(words) == name


CHILD = (
    "import os; from remit.workspace.processes.process_tracking import find_agent, list_ancestors; "
    "found = find_agent(list_ancestors(os.getpid()), ['claude']); print(found and found[1])"
)


def started_by(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_a_shell_below_an_agent_is_told_by_its_ancestors(tmp_path: Path) -> None:
    script = tmp_path / "claude"
    script.write_text(f'#!/bin/sh\n{sys.executable} -c "{CHILD}"\ntrue\n')
    script.chmod(0o755)
    assert started_by([str(script)]) == "claude"


def test_a_persons_program_that_has_a_file_of_that_name_open_is_no_agent(tmp_path: Path) -> None:
    script = f'{sys.executable} -c "{CHILD}"; true'
    assert started_by(["sh", "-c", script, "claude"]) == "None"


@pytest.mark.parametrize(
    ("line", "agent"),
    [
        ("remit run fix it", "remit run"),
        ("/x/.venv/bin/python /x/.venv/bin/remit run --json", "remit run"),
        ("python -m remit acp-agent", "remit acp-agent"),
        ("remit approvals watch", ""),
        ("remit blame run", ""),
        ("vim run", ""),
        ("claude -p x", "claude"),
    ],
)
def test_remits_own_agent_is_told_by_its_subcommand(line: str, agent: str) -> None:
    assert find_agent_name(line.split(), {"claude"}) == agent


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_a_process_of_a_session_stays_one_when_it_shows_no_variables_any_more(tmp_path: Path) -> None:
    """One that is about to end, or that executed a program without variables, after it was looked at once."""
    follower = ProcessFollower(tmp_path)
    words = ["sh", "-c", "read go; exec env -i sleep 600"]
    variables = {**os.environ, "CLAUDE_CODE_SESSION_ID": "one"}
    process = subprocess.Popen(words, stdin=subprocess.PIPE, env=variables)
    assert process.stdin is not None
    try:
        follower.look(())
        process.stdin.write(b"\n")
        process.stdin.flush()
        wait_until(lambda: Path(f"/proc/{process.pid}/cmdline").read_bytes().startswith(b"sleep"))
        follower.look(())
        assert process.pid in {one.pid for one in follower.live_processes}
    finally:
        process.kill()
        process.communicate()
    follower.look(())
    assert process.pid in {one.pid for one in follower.recent_looks[-1][2]}
