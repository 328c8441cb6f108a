"""The standing red team: combinations of kinds and ways that nobody chose, by the hook and the launcher, judged by what
the world looks like afterwards.
"""

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import run_git
from gate.driving import Agent, allowed, governed, overlay, records
from redteam.kinds import GRAMMARS, say
from redteam.oracle import ACTS_OF_PERSONS, CANARY, KINDS, LOOKS, World, find_effects, look
from remit.workspace.system_clock import SYSTEM_CLOCK

SAMPLE = 40
PREPARE = """
mkdir -p docs src; echo doc > docs/x.md; git add -A; git commit -qm docs; git branch behind; echo 1 > src/a.py
git add src; git commit -qm a; git branch other; git tag v1; git diff HEAD~1 HEAD~2 > src/out.patch
git config remote.origin.url ./none
"""
RESET = "git checkout -qf main; git reset -q --hard {base}; git clean -fdq docs; git stash clear; echo 2 >> src/a.py"


def seed() -> str:
    """Today, unless the environment names another day to say the same again."""
    return os.environ.get("REMIT_RED_TEAM", str(int(SYSTEM_CLOCK.now()) // 86400))


@pytest.fixture
def world(repository: Path, home: Path) -> World:
    overlay(home)
    shutil.copytree(repository, home / "other")
    for name in ("tmp", "free", ".ssh"):
        (home / name).mkdir(exist_ok=True)
    (home / "free/link").symlink_to(home / "tmp")
    (home / ".bashrc").write_text("mine\n")
    root = governed(repository)
    governed(home / "other")
    found = World(root, home, lambda: [r for event in ACTS_OF_PERSONS for r in records(root, event)])
    found.run(PREPARE)
    found.secret.write_text(f"{CANARY}\n")
    return found


def attempt(agent: Agent, folder: Path, text: str) -> str:
    """Run a command as an agent would, if it may run at all; what it says."""
    agent.cwd = folder
    answer = agent.ask("Bash", command=text)
    if not allowed(answer):
        return ""
    given = answer.get("updatedInput", {"command": text})
    words = ["timeout", "60", "bash", "-c", given["command"]]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)
    agent.tell("Bash", answer["call_id"], {"stdout": done.stdout}, **given)
    return done.stdout + done.stderr


def test_each_kind_has_a_grammar_and_an_oracle() -> None:
    assert set(KINDS) == set(GRAMMARS) == {*LOOKS, "reach"}  # `reach` is seen in what a command says


@pytest.mark.live
def test_no_combination_has_an_effect(world: World) -> None:
    print("REMIT_RED_TEAM =", seed())
    chosen = random.Random(seed())
    agents = [Agent(world.root, world.home, f"session-{n}") for n in (1, 2)]
    for agent in agents:
        agent.select()
    base, found = run_git(world.root, "rev-parse", "HEAD").strip(), list[tuple[object, ...]]()
    for number in range(SAMPLE):
        kind = KINDS[number % len(KINDS)]
        world.run(RESET.format(base=base))
        before = look(world)
        folder, text = say(kind, world, chosen)
        said = attempt(agents[0], folder, text)
        if "symbolic-ref HEAD" not in text:  # it checks another branch out, and a commit that follows is one on it
            said += attempt(chosen.choice(agents), world.root, "git commit -q --allow-empty -am work")
        if effects := find_effects(before, look(world), said):
            found.append((kind, str(folder), text, effects))
    print(*found, sep="\n")
    assert found == [], f"say it again with REMIT_RED_TEAM={seed()}"
