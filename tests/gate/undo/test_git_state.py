"""Where nothing contains commands, index and names of others are put back after the call, told and recorded."""

from pathlib import Path

import pytest

from conftest import run_git
from gate.containment.git_team import shell
from gate.driving import Agent, allowed, body, governed, records

STATE = "git for-each-ref; cat .git/HEAD; git ls-files -s docs; git ls-tree -r --name-only HEAD docs"


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    (repository / "docs").mkdir()
    (repository / "docs/x.md").write_text("doc\n")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "docs")
    run_git(repository, "branch", "other")
    run_git(repository, "branch", "behind", "HEAD~1")
    run_git(repository, "tag", "v1")
    found = Agent(governed(repository), home)
    found.select()
    return found


SCRIPTS = {
    "out of the index": "git rm -rq --cached docs",
    "out of the index, and committed": "git rm -rq --cached docs; git commit -qm work",
    "into the index": "git update-index --add --cacheinfo 100644,$(echo evil | git hash-object -w --stdin),docs/x.md",
    "no branch": "git branch -d other",
    "another name": "git branch -m other zz",
    "another name for the present one": "git branch -m zz",
    "another commit": "git update-ref refs/heads/behind HEAD",
    "an older commit": "git update-ref refs/heads/other HEAD~1",
    "back": "git reset -q --soft HEAD~1",
    "no tag": "git tag -d v1",
    "a tag elsewhere": "git tag -f v1 HEAD~1",
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_what_a_script_does_to_index_and_names_is_put_back(agent: Agent, script: str) -> None:
    agent.write("src/script.sh", script)
    before = shell(agent.cwd, STATE)
    answer = agent.shell("sh src/script.sh")
    assert "was undone" in answer["after"]["additionalContext"]
    assert [line for line in shell(agent.cwd, STATE).splitlines() if "/zz" not in line] == before.splitlines()
    assert any(body(one).get("git") for one in records(agent.cwd, "restore"))


def test_the_agents_own_work_stays(agent: Agent) -> None:
    shell(agent.cwd, "echo 2 >> docs/x.md; git add docs")
    for command in (
        "mkdir -p src; echo 1 > src/a.py; git add src; git commit -qm one",
        "git checkout -q -b own; echo 2 > src/a.py; git commit -qam two; git commit -q --amend -m better",
        "git tag t; git checkout -q -; git merge -q own; git branch -m own mine; git tag -d t",
        "git branch -d mine",
        "git worktree add -q -b side src/side",
        "git worktree remove src/side",
        "git branch -d side",
    ):
        answer = agent.shell(command)
        assert "was undone" not in answer["after"].get("additionalContext", ""), answer
    assert run_git(agent.cwd, "log", "-1", "--format=%s") == "better\n"
    assert "2\n" in run_git(agent.cwd, "show", "HEAD:docs/x.md")


def test_what_a_person_staged_is_put_back(agent: Agent) -> None:
    shell(agent.cwd, "echo 2 >> docs/x.md; git add docs; echo 3 >> docs/x.md")
    before = shell(agent.cwd, STATE)
    for command in ("git stash -q; git stash pop -q", "git add -A", "git read-tree HEAD"):
        agent.shell(command)
        assert shell(agent.cwd, STATE) == before


@pytest.mark.parametrize(
    ("command", "asks"),
    [
        ("git branch -d other", True),
        ("git branch -m other zz", True),
        ("git reset -q", True),
        ("git reset --soft HEAD~1", True),
        ("git rm -r --cached docs", True),
        ("cd docs && git rm --cached x.md", True),
        ("git restore --staged .", True),
        ("git reset -q src/a.py", False),
        ("git rm --cached src/a.py", False),
        ("git branch new", False),
        ("git add -A", False),
        ("git commit -qm x", False),
    ],
)
def test_what_takes_names_or_entries_away_needs_a_person(agent: Agent, command: str, asks: bool) -> None:
    answer = agent.ask("Bash", command=command)
    assert ("needs a person's yes" in answer.get("permissionDecisionReason", "")) is asks
    assert allowed(answer) is not asks
