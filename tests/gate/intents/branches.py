"""Two branches of one repository that each work on intents, and their merge: real git, real changes by Remit."""

import os
import random
import subprocess
from pathlib import Path
from typing import NamedTuple

from gate.driving import machine
from remit.core.call import SessionKey
from remit.core.clock import Clock
from remit.core.intent import Criterion, Intent
from remit.gate.gate import Gate
from remit.gate.governing import govern_workspace
from remit.workspace.place.workspace import find_git_root, workspace_at

BASE_INTENTS = 6
STEPS = ("add", "start", "widen", "criterion", "rename", "complete")


class Merge(NamedTuple):
    """How git merged: with conflicts or not, and what a person had then. `lost` names what one side did and is gone."""

    is_clean: bool
    errors: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


class Side:
    """One person's clone of the repository, with a machine of its own."""

    def __init__(self, root: Path, home: Path, clock: Clock) -> None:
        self.root, self.home, self.clock = root, home, clock
        home.mkdir(exist_ok=True)

    @property
    def gate(self) -> Gate:
        return Gate.open(self.root, machine(self.home, self.clock))

    def git(self, *words: str, ok: tuple[int, ...] = (0,)) -> str:
        name = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in IDENTITY}
        done = subprocess.run(
            ["git", *words], cwd=self.root, capture_output=True, text=True, env={**os.environ, **name}, check=False
        )
        assert done.returncode in ok, (words, done.stdout, done.stderr)
        return done.stdout

    def govern(self) -> None:
        govern_workspace(workspace_at(self.root, find_git_root(self.root)))

    def commit(self, message: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)

    def take_step(self, step: str, choose: random.Random, number: int) -> tuple[str, str]:
        """Do one thing to an intent, and commit; return the intent's name and the step."""
        intents = self.gate.intents
        if step == "add":
            name = f"{choose.choice('pqrstuvw')}{choose.randrange(10**6)}"
            intents.create(Intent("", (f"new/{name}/**",), name=name), by="person")
            self.commit(f"{step} {name}")
            return name, step
        now_open = [i for i in intents.document.intents if i.status in ("DRAFT", "IN_PROGRESS")]
        chosen = choose.choice(now_open)
        session = SessionKey(f"s{choose.randrange(10**6)}")
        match step:
            case "start":
                intents.select(session, "claude-code", chosen.id)
            case "widen":
                intents.edit(chosen.id, {"owned_scope": (*chosen.owned_scope, f"more/{number}/**")}, by="person")
            case "criterion":
                criteria = (*chosen.acceptance_criteria, Criterion(f"holds {number}"))
                intents.edit(chosen.id, {"acceptance_criteria": criteria}, by="person")
            case "rename":
                intents.edit(chosen.id, {"name": f"Named {number}"}, by="person")
            case _:
                if chosen.status == "DRAFT":
                    intents.select(session, "claude-code", chosen.id)
                intents.set_status(chosen.id, "DONE", by="person")
        self.commit(f"{step} {chosen.id}")
        return chosen.id, step


IDENTITY = (("NAME", "T"), ("EMAIL", "t@example.org"))


def merge_branches(folder: Path, seed: int, clock: Clock) -> Merge:
    """Let two people take two to five random steps each, on a branch each, and merge them."""
    choose = random.Random(seed)
    ours = Side(folder / "ours", folder / "home-a", clock)
    ours.root.mkdir()
    ours.git("init", "-q", "-b", "main")
    # Both have a remote, as in a team.
    ours.git("remote", "add", "origin", "https://example.org/acme/shop.git")
    ours.govern()
    for number in range(BASE_INTENTS):
        ours.gate.intents.create(Intent("", (f"src/{number}/**",), name=f"Base {number}"), by="person")
    ours.commit("base")
    subprocess.run(["git", "clone", "-q", str(ours.root), str(folder / "theirs")], check=True)
    theirs = Side(folder / "theirs", folder / "home-b", clock)
    theirs.git("remote", "set-url", "origin", "https://example.org/acme/shop.git")
    theirs.govern()
    done: list[tuple[str, str]] = []
    for side in (ours, theirs):
        for n in range(choose.randint(2, 5)):
            done.append(side.take_step(choose.choice(STEPS), choose, 100 * (side is theirs) + n))
    ours.git("fetch", "-q", str(theirs.root), "HEAD")
    ours.git("merge", "-q", "--no-edit", "FETCH_HEAD", ok=(0, 1))
    if ours.git("diff", "--name-only", "--diff-filter=U").strip():
        return Merge(is_clean=False)
    document = ours.gate.intents.document
    after = {i.id: i for i in document.intents}
    names = {i.name for i in document.intents}
    lost = [
        f"{step} {what}"
        for what, step in done
        if (step == "add" and what not in names) or (step == "complete" and after[what].status != "DONE")
    ]
    return Merge(True, tuple(f.message for f in document.errors), tuple(lost))
