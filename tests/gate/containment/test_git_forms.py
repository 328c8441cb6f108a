"""What contained git commands do to HEAD, branches of others and settings, as the repository shows it."""

import random
from pathlib import Path

import pytest

from conftest import run_git
from gate.containment.git_team import shell
from gate.containment.test_index_is_state import PERSONS, agent, staged
from gate.containment.test_rewrite_call import launched
from gate.driving import Agent, allowed
from redteam.git_forms import COMMANDS, FORMS

__all__ = ["agent"]

OTHERS = """
git ls-tree -r HEAD -- docs; git for-each-ref refs/heads/other refs/heads/behind refs/tags; git config --list --local
"""
SWITCHING = "git symbolic-ref HEAD refs/heads/other"
"""It checks the other branch out, like `git switch`: the commit that follows is one on it."""


def prepare(root: Path) -> None:
    """Give the repository what the commands name."""
    shell(root, "git branch behind HEAD~1; git tag v1; mkdir -p src; echo 1 > src/a.py; git add src; git commit -qm a")
    shell(root, "git diff HEAD~1 HEAD~2 > src/out.patch; echo 2 >> src/a.py; git config remote.origin.url ./none")


def attempt(agent: Agent, text: str) -> None:
    """Run a command as an agent would, if it may run at all."""
    answer = agent.ask("Bash", command=text)
    if allowed(answer):
        given = answer.get("updatedInput", {"command": text})
        launched(agent, given["command"])
        agent.tell("Bash", answer["call_id"], {"stdout": ""}, **given)


@pytest.mark.live
@pytest.mark.parametrize("at", range(len(COMMANDS)), ids=COMMANDS)
def test_nothing_of_others_leaves_or_moves(agent: Agent, at: int) -> None:
    prepare(agent.cwd)
    before = shell(agent.cwd, OTHERS)
    for text in (
        COMMANDS[at],
        [*FORMS.values()][at % len(FORMS)](COMMANDS[at]),
        "git commit -q --allow-empty -am work" if COMMANDS[at] != SWITCHING else "true",
    ):
        attempt(agent, text)
    assert shell(agent.cwd, OTHERS) == before


def run_sequences(agent: Agent, seeds: range) -> None:
    prepare(agent.cwd)
    base = run_git(agent.cwd, "rev-parse", "HEAD").strip()
    for seed in seeds:
        chosen = random.Random(seed)
        shell(agent.cwd, f"git reset -q --hard {base}; git clean -fdq docs")
        shell(agent.cwd, chosen.choice([*PERSONS.values()]))
        before = staged(agent.cwd)
        for command in chosen.choices(COMMANDS, k=3):
            attempt(agent, command)
            assert staged(agent.cwd) == before, (seed, command)
        run_git(agent.cwd, "stash", "clear")


def test_what_a_person_staged_stays_through_any_commands(agent: Agent) -> None:
    run_sequences(agent, range(2))


@pytest.mark.live
@pytest.mark.parametrize("first", range(2, 42, 4))
def test_what_a_person_staged_stays_through_many_commands(agent: Agent, first: int) -> None:
    run_sequences(agent, range(first, first + 4))
