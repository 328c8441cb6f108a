"""`remit doctor --live` with every agent that it can drive."""

import shlex
from pathlib import Path

import pytest

from cli.wired_home import Person


@pytest.mark.live
@pytest.mark.parametrize(
    ("agent", "fixture"),
    [("claude", "claude_code"), ("codex", "codex_cli"), ("gemini", "gemini_cli"), ("qwen", "qwen_code")],
)
def test_live_runs_the_real_agent_and_it_is_refused(
    agent: str, fixture: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    command: Path | tuple[str, ...] = request.getfixturevalue(fixture)
    words = (command,) if isinstance(command, Path) else command
    someone = Person(tmp_path / "home", ())
    program = someone.home / "bin" / agent
    program.write_text(f'#!/bin/sh\nexec {shlex.join(map(str, words))} "$@"\n')
    program.chmod(0o755)
    done = someone.run(tmp_path, "doctor", "--live")
    line = next((each for each in done.stdout.splitlines() if "live:" in each), "")
    assert "its write without an intent was refused, and it was told why" in line, done
    assert done.returncode == 0
