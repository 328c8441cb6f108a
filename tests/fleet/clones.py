"""Clones of one bare repository with homes of their own, in this process: hosts without workers and database."""

from pathlib import Path

from conftest import run_git
from gate.driving import Agent, allowed, machine
from remit.core.assignment import Assignment
from remit.gate.gate import Gate
from remit.gate.governing.settings import govern_workspace, set_mode
from remit.workspace.merging import Identity
from remit.workspace.place.assignment_file import AssignmentFile
from remit.workspace.place.workspace import find_git_root, workspace_at
from remit.workspace.worktrees import Worktrees
from remit_fleet.board import Landing
from remit_fleet.landing.land import LandingMember, TrainResult
from remit_fleet.remote import FleetRemote
from remit_fleet.workers.landing_rounds import land_members, make_lander

AUTHOR = Identity("An Agent", "agent@example.org", 1_700_000_000)
TARGET = "refs/heads/remit/next"


class Clone:
    """A clone, with its gate, its worktrees, and the agents that hand in there."""

    def __init__(self, root: Path, home: Path) -> None:
        self.root, self.home = root, home
        home.mkdir(exist_ok=True)
        workspace = workspace_at(root, find_git_root(root))
        govern_workspace(workspace)
        set_mode(workspace, "enforce")
        self.gate = Gate.open(root, machine(home))
        self.trees = Worktrees(self.gate.workspace, home / "trees")
        self.remote = FleetRemote(self.gate, "origin")

    def commit(self, name: str) -> str:
        return run_git(self.root, "rev-parse", name).strip()

    def hand_in(self, intent: str, number: int, files: dict[str, str]) -> LandingMember:
        """What an agent that writes these files hands in here, and this host pushes."""
        tree = self.trees.prepare(intent, number, "main")
        scope = (f"src/{intent.lower()}/**",)
        terms = Assignment(f"p:{intent}", intent, number, number, scope, base=self.commit("main"))
        AssignmentFile(tree).write(terms, 3600)
        agent = Agent(tree.root, self.home, f"s-{intent}-{number}")
        agent.send("SessionStart", source="startup")
        for path, content in files.items():
            said = agent.write(path, content)
            assert allowed(said), said
        done = self.trees.hand_in(tree, terms.sets, intent, AUTHOR)
        assert done.outside == ()
        self.remote.push_attempt(f"{intent}/{number}")
        branch = f"refs/heads/remit/{intent}/{number}"
        return LandingMember(intent, number, number, branch, terms.sets, f"Work of {intent}")

    def land(self, *members: LandingMember, target: str = "remit/next") -> TrainResult:
        """Land as a worker of this host does."""
        landing = Landing(1, "r", target, tuple(member.intent for member in members))
        return land_members(self.gate, make_lander(self.gate, self.trees), landing, members)

    def change_settings(self, more: str) -> None:
        """Add to the settings, and read them anew."""
        settings = self.root / ".orchestration" / "remit.toml"
        settings.write_text(settings.read_text() + more)
        self.gate.close()
        self.gate = Gate.open(self.root, machine(self.home))
        self.remote = FleetRemote(self.gate, "origin")


def make_clones(folder: Path, count: int) -> tuple[Clone, Clone, list[str]]:
    """Return two clones of `far.git` with so many intents, each the owner of a folder with one file."""
    first = folder / "clone-a"
    first.mkdir()
    run_git(first, "init", "-q", "-b", "main")
    ids = [f"INT-{number:03d}" for number in range(1, count + 1)]
    for id in ids:
        place = first / "src" / id.lower() / "old.py"
        place.parent.mkdir(parents=True)
        place.write_text("".join(f"{id.lower().replace('-', '_')}_{n} = {n}\n" for n in range(9)))
    entries = "".join(
        f"  - id: {id}\n    name: Part {id}\n    status: IN_PROGRESS\n    owned_scope: [src/{id.lower()}/**]\n"
        "    constraints: [none]\n    acceptance_criteria: [it works]\n"
        for id in ids
    )
    (first / ".orchestration").mkdir()
    (first / ".orchestration" / "active_intents.yaml").write_text(f'version: "1.0"\nactive_intents:\n{entries}')
    workspace = workspace_at(first, find_git_root(first))
    govern_workspace(workspace)
    settings = first / ".orchestration" / "remit.toml"
    text = settings.read_text() if settings.exists() else ""
    text += '[share]\nlog = "ref"\nnotes = true\n[orchestrator]\nremote = "origin"\n'
    settings.write_text(text)
    run_git(first, "add", "-A")
    run_git(first, "commit", "-qm", "base")
    run_git(folder, "init", "-q", "--bare", "-b", "main", "far.git")
    run_git(first, "remote", "add", "origin", str(folder / "far.git"))
    run_git(first, "push", "-q", "origin", "main")
    run_git(folder, "clone", "-q", str(folder / "far.git"), "clone-b")
    a, b = Clone(first, folder / "home-a"), Clone(folder / "clone-b", folder / "home-b")
    return a, b, ids
