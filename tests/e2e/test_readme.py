"""The first five minutes of the README, as a reader would type them."""

import stat
import sys
from pathlib import Path

import pytest

from e2e.transcripts import play, report

README = Path(__file__).parents[2] / "README.md"

CLAUDE = """\
#!{python}
# Plays Claude Code: each call asks the hook, tools come from the real server.
import os, sys
from pathlib import Path
from remit.cli.demo import ScriptedAgent

VERSIONS = (
    'def greet(name):\\n    return f"hello {{name}}"\\n',
    'def greet(name, hour):\\n    return f"good morning {{name}}" if hour < 12 else f"hello {{name}}"\\n',
)
here, prompt = Path.cwd(), sys.argv[-1]
hello = here / "src/hello.py"
agent = ScriptedAgent(here, dict(os.environ))
agent.hook("SessionStart", source="startup")
agent.say("user", prompt)
agent.hook("UserPromptSubmit", prompt=prompt)
if hello.exists():
    agent.use("mcp__remit__select_active_intent", intent_id="INT-001", reasoning=prompt)
    agent.use("Read", file_path=str(hello))
hello.parent.mkdir(exist_ok=True)
refused = agent.use("Write", file_path=str(hello), content=VERSIONS[hello.exists()])
agent.hook("Stop")
print(refused or "I wrote a greeting.")
"""


def test_the_first_five_minutes_of_the_readme_come_out_as_shown(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claude = tmp_path / "bin" / "claude"
    claude.parent.mkdir()
    claude.write_text(CLAUDE.format(python=sys.executable))
    claude.chmod(claude.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(claude.parent), prepend=":")
    repository.rename(repository.with_name("your-repository"))
    played = play(README.read_text("utf-8"), repository.parent)
    assert len(played) >= 6
    assert not (wrong := report(played)), wrong


def test_the_readme_stays_short() -> None:
    assert len(README.read_text("utf-8").splitlines()) <= 150
