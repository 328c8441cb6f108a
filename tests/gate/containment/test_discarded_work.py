"""Commands that discard work of the working tree: contained, with a snapshot before what they keep."""

import re

import pytest
from click.testing import CliRunner

from gate.containment.git_team import shell
from gate.containment.test_index_is_state import agent
from gate.containment.test_rewrite_call import run
from gate.driving import Agent, allowed
from remit.cli.restore import restore

__all__ = ["agent"]

BASE = """
mkdir -p src docs; echo 1 > src/a.py; echo 1 > docs/x.md; git add src docs; git commit -qm base
echo 2 > src/a.py; echo 'new' > src/new.py
"""
DISCARDING = {
    "reset --hard": ("git reset -q --hard", ["src/a.py"]),
    "reset --hard HEAD": ("git reset --hard HEAD", ["src/a.py"]),
    "reset by -C": ("git -C . reset -q --hard", ["src/a.py"]),
    "reset elsewhere": ("cd src && git reset -q --hard", ["src/a.py"]),
    "reset in a shell": ("sh -c 'git reset -q --hard'", ["src/a.py"]),
    "reset in a script": ("printf 'git reset -q --hard' > src/r.sh; sh src/r.sh", ["src/a.py"]),
    "checkout .": ("git checkout .", ["src/a.py"]),
    "checkout -- .": ("git checkout -- .", ["src/a.py"]),
    "checkout HEAD -- .": ("git checkout HEAD -- .", ["src/a.py"]),
    "checkout -f": ("git checkout -f", ["src/a.py"]),
    "restore .": ("git restore .", ["src/a.py"]),
    "restore of both": ("git restore --staged --worktree .", ["src/a.py"]),
    "restore of a source": ("git restore -s HEAD .", ["src/a.py"]),
    "clean -fd": ("git clean -fdq", ["src/new.py"]),
    "clean in a folder": ("cd src; git clean -f", ["src/new.py"]),
    "both": ("git reset -q --hard && git clean -fdq", ["src/a.py", "src/new.py"]),
    "a switch by force": ("git switch -qf -d HEAD", ["src/a.py"]),
}


def discard(agent: Agent, text: str) -> str:
    """Run a command as the agent would; what the model hears."""
    answer, done = run(agent, text)
    assert "updatedInput" in answer, f"{text!r} ran bare, or not at all: {answer}"
    return done.stderr


@pytest.mark.live
@pytest.mark.parametrize("name", DISCARDING)
def test_work_in_the_scope_is_discarded_and_can_be_restored(agent: Agent, name: str) -> None:
    shell(agent.cwd, BASE)
    text, paths = DISCARDING[name]
    before = {path: (agent.cwd / path).read_text() for path in paths}
    said = discard(agent, text)
    assert {
        path: path for path in paths if (agent.cwd / path).exists() and (agent.cwd / path).read_text() != "1\n"
    } == {}
    point = re.search(r"`remit restore (\S+)`", said)
    assert point is not None, said
    done = CliRunner().invoke(restore, [point[1], "--repo", str(agent.cwd), "--yes"])
    assert done.exit_code == 0, done.output
    assert {path: (agent.cwd / path).read_text() for path in paths} == before


@pytest.mark.parametrize("text", ["git reset -q --hard", "git checkout -- .", "git restore .", "git clean -fdq"])
def test_work_outside_the_scope_stays(agent: Agent, text: str) -> None:
    shell(agent.cwd, f"{BASE} echo person > docs/x.md; echo person > docs/new.md")
    said = discard(agent, text)
    assert (agent.cwd / "docs/x.md").read_text() == (agent.cwd / "docs/new.md").read_text() == "person\n"
    assert "docs/" in said


@pytest.mark.parametrize(
    "text", ["git clean -fdx", "git reset --hard && git push -f", "git reset --hard; git branch -D x"]
)
def test_what_no_snapshot_brings_back_is_asked(agent: Agent, text: str) -> None:
    shell(agent.cwd, BASE)
    assert not allowed(agent.ask("Bash", command=text))


def test_without_an_overlay_a_person_is_asked(agent: Agent) -> None:
    shell(agent.cwd, BASE)
    config = agent.cwd / ".orchestration" / "remit.toml"
    config.write_text(config.read_text() + '\n[containment]\nrewrite = "off"\n')
    assert not allowed(agent.ask("Bash", command="git reset --hard"))
