"""A path through a link that this user may not read: an answer like any other."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gate.driving import governed

MAIN = "from remit.cli import main; main()"
LESS = [] if os.getuid() else ["setpriv", "--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace"]
"""As root, without the right to read the links of another user's processes."""


@pytest.mark.parametrize("command", ["ls /proc/1/cwd", "cat /proc/1/cwd/x", "echo x > /proc/1/cwd/x"])
def test_a_link_that_nobody_may_read_breaks_no_call(command: str, repository: Path) -> None:
    governed(repository)
    payload = {"session_id": "s1", "cwd": str(repository), "hook_event_name": "PreToolUse", "tool_name": "Bash"}
    payload |= {"tool_use_id": "t1", "tool_input": {"command": command}}
    words = [*LESS, sys.executable, "-I", "-c", MAIN, "hook", "claude-code", "pre"]
    done = subprocess.run(words, input=json.dumps(payload), cwd=repository, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert ("deny" in done.stdout) == command.startswith("echo")
