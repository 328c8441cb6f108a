"""Rules that git brings hold at once where they are stricter, and where they are looser only after a person's word."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import run_git
from gate.driving import INTENTS, Agent, allowed, governed, machine, refusal, said
from remit.gate.gate import Gate
from remit.gate.governing.settings import IGNORED_FILES, set_mode
from remit.gate.intents.intents import Intents
from remit.gate.people.adoption import adopt_workspace
from remit.workspace.place.workspace import locate_workspace

STRICT = 'mode = "enforce"\noverrides = ["STALE_FILE"]\n[approvals]\nthreshold = 50\n'
IGNORE = "secrets/**\nsrc/locked.py\nINT-002\n"


def put(root: Path, config: str = STRICT, intents: str = INTENTS, ignore: str = IGNORE) -> None:
    (root / ".orchestration/remit.toml").write_text(config)
    (root / ".orchestration/active_intents.yaml").write_text(intents)
    (root / ".intentignore").write_text(ignore)


def commit(root: Path, message: str = "rules") -> None:
    run_git(root, "add", "-A")
    run_git(root, "commit", "-qm", message)


LOOSER: dict[str, tuple[dict[str, str], str, str]] = {
    "mode": ({"config": STRICT.replace("enforce", "observe")}, "docs/x.md", "SCOPE_VIOLATION"),
    "no mode": ({"config": "", "intents": "active_intents: []\n"}, "docs/x.md", "INTENT_NOT_FOUND"),
    "scope": ({"intents": INTENTS.replace('"src/**"', '"**"')}, "docs/x.md", "SCOPE_VIOLATION"),
    "another scope": ({"intents": INTENTS.replace('"src/**"', '"docs/**"')}, "docs/x.md", "SCOPE_VIOLATION"),
    "ignored file": ({"ignore": "secrets/**\n"}, "src/locked.py", "INTENTIGNORE_PATH_BLOCKED"),
    "taken out again": ({"ignore": f"{IGNORE}!src/locked.py\n"}, "src/locked.py", "INTENTIGNORE_PATH_BLOCKED"),
}
"""What a branch says, and a call that the accepted rules refuse."""


@pytest.fixture
def root(repository: Path) -> Path:
    governed(repository)
    put(repository)
    (repository / ".orchestration/.gitignore").write_bytes(IGNORED_FILES)
    commit(repository)
    return repository


def begin(root: Path, home: Path) -> Agent:
    agent = Agent(root, home)
    agent.send("SessionStart", source="startup")
    agent.select()
    return agent


def make_branch(root: Path, files: dict[str, str]) -> None:
    """Commit other rules on a branch, out of Remit's sight as a colleague's machine is."""
    other = root.parent / "colleague"
    run_git(root.parent, "clone", "-q", str(root), str(other))
    run_git(other, "switch", "-qc", "loose")
    put(other, **files)
    commit(other, "loose")
    run_git(root, "fetch", "-q", str(other), "loose:loose")


def stash(root: Path) -> None:
    run_git(root, "switch", "-q", "--detach", "loose")
    run_git(root, "reset", "-q", "--soft", "main")
    run_git(root, "switch", "-q", "main")
    run_git(root, "stash", "-q")
    run_git(root, "stash", "pop", "-q")


WAYS: dict[str, Callable[[Path], object]] = {
    "checkout": lambda root: run_git(root, "checkout", "-q", "loose"),
    "switch": lambda root: run_git(root, "switch", "-q", "--detach", "loose"),
    "merge": lambda root: run_git(root, "merge", "-q", "--no-ff", "--no-edit", "loose"),
    "fast forward": lambda root: run_git(root, "merge", "-q", "--ff-only", "loose"),
    "pull": lambda root: run_git(root, "pull", "-q", str(root.parent / "colleague"), "loose"),
    "reset": lambda root: run_git(root, "reset", "-q", "--hard", "loose"),
    "cherry-pick": lambda root: run_git(root, "cherry-pick", "loose"),
    "restore": lambda root: run_git(root, "restore", "--source", "loose", "--", ".orchestration", ".intentignore"),
    "stash pop": stash,
}


QUICK_WAYS = ("checkout", "stash pop")
"""The other ways take as much time again for each, and are tried by the live tests."""


@pytest.mark.parametrize(
    ("way", "kind"),
    [
        *((way, "scope") for way in QUICK_WAYS),
        *(pytest.param(way, "scope", marks=pytest.mark.live) for way in WAYS if way not in QUICK_WAYS),
        *(pytest.param(way, "mode", marks=pytest.mark.live) for way in WAYS),
    ],
)
def test_looser_rules_that_a_person_brings_by_git_do_not_hold(way: str, kind: str, root: Path, home: Path) -> None:
    files, path, code = LOOSER[kind]
    make_branch(root, files)
    agent = begin(root, home)
    assert refusal(agent.write(path, "x\n")) == code
    WAYS[way](root)
    assert refusal(agent.write(path, "x\n")) == code
    told = said(agent.send("UserPromptSubmit", prompt="go on")).get("additionalContext", "")
    assert "looser rules" in told
    assert "`remit rules accept`" in told
    assert "looser rules" not in said(agent.send("UserPromptSubmit", prompt="go on")).get("additionalContext", "")
    # An agent's own writes into the file, such as the status at a selection, make it no person's.
    agent.select()
    other = begin(root, home)
    assert refusal(other.write(path, "x\n")) == code
    run_git(root, "reset", "-q", "--hard", "main~1" if way in ("merge", "fast forward", "pull") else "main")


@pytest.mark.parametrize("kind", LOOSER)
def test_every_way_to_be_looser_is_seen(kind: str, root: Path, home: Path) -> None:
    files, path, code = LOOSER[kind]
    make_branch(root, files)
    agent = begin(root, home)
    run_git(root, "checkout", "-q", "loose")
    assert refusal(agent.write(path, "x\n")) == code
    # The person accepts exactly these bytes: they hold wherever they come again.
    gate = Gate.open(root, machine(home))
    accept(gate)
    if kind != "no mode":
        assert allowed(begin(root, home).write(path, "x\n"))
    run_git(root, "reset", "-q", "--hard")
    run_git(root, "checkout", "-q", "main")
    assert refusal(begin(root, home).write("docs/y.md", "x\n")) == "SCOPE_VIOLATION"


def test_settings_and_limits_are_compared_too(root: Path, home: Path) -> None:
    config = 'mode = "enforce"\noverrides = ["STALE_FILE", "SCOPE_VIOLATION"]\n[containment]\nrewrite = "off"\n'
    make_branch(root, {"config": f"{config}size_limit_mib = 9000\nssh_agent = true\n[session]\ndetour_minutes = 1\n"})
    agent = begin(root, home)
    run_git(root, "checkout", "-q", "loose")
    agent.send("UserPromptSubmit", prompt="x")
    rules = Gate.open(root, machine(home)).rules
    assert rules.config.overrides == ("STALE_FILE",)
    assert (rules.config.approvals.threshold, rules.config.containment.rewrite) == (50, "auto")
    assert (rules.config.containment.size_limit_mib, rules.config.containment.ssh_agent) == (4096, False)
    assert rules.config.session.detour_minutes == 10
    assert len(rules.loosened) == 6


def test_stricter_rules_hold_at_once(root: Path, home: Path) -> None:
    make_branch(root, {"intents": INTENTS.replace('"src/**"', '"src/app.py"')})
    agent = begin(root, home)
    assert allowed(agent.write("src/new.py", "x\n"))
    (root / "src/new.py").unlink()
    run_git(root, "stash", "-q")
    run_git(root, "checkout", "-q", "loose")
    assert refusal(begin(root, home).write("src/new.py", "x\n")) == "SCOPE_VIOLATION"
    run_git(root, "reset", "-q", "--hard")
    run_git(root, "checkout", "-q", "main")
    assert allowed(begin(root, home).write("src/other.py", "x\n"))


def test_what_the_teams_default_branch_has_holds(root: Path, home: Path) -> None:
    make_branch(root, LOOSER["scope"][0])
    run_git(root, "remote", "add", "origin", str(root.parent / "colleague"))
    run_git(root, "update-ref", "refs/remotes/origin/main", "loose")
    agent = begin(root, home)
    run_git(root, "reset", "-q", "--hard", "origin/main")
    assert allowed(agent.write("docs/x.md", "x\n"))


def test_a_persons_editor_and_a_persons_commands_hold(root: Path, home: Path) -> None:
    agent = begin(root, home)
    text = (root / ".orchestration/active_intents.yaml").read_text()
    (root / ".orchestration/active_intents.yaml").write_text(text.replace('"src/**"', '"src/**", "notes/**"'))
    assert allowed(agent.write("notes/x.md", "x\n"))
    agent.send("UserPromptSubmit", prompt="x")
    commit(root, "a person's commit of what held already")
    assert allowed(agent.write("notes/y.md", "x\n"))

    make_branch(root, {"config": STRICT.replace("enforce", "observe"), "intents": INTENTS.replace("src/**", "**")})
    run_git(root, "checkout", "-q", "loose")
    agent = begin(root, home)
    assert refusal(agent.write("docs/x.md", "x\n")) == "SCOPE_VIOLATION"
    gate = Gate.open(root, machine(home))
    set_mode(gate.workspace, "observe")
    assert Gate.open(root, machine(home)).rules.mode == "observe"
    set_mode(gate.workspace, "enforce")
    # The mode was the person's word; the scope is not.
    assert refusal(agent.write("docs/x.md", "x\n")) == "SCOPE_VIOLATION"
    Intents(Gate.open(root, machine(home))).edit("INT-001", {"owned_scope": ("src/**", "docs/**")}, by="person")
    assert allowed(agent.write("docs/x.md", "x\n"))


def test_rules_hold_from_the_adoption_on_whatever_is_checked_out_before_the_first_call(root: Path, home: Path) -> None:
    make_branch(root, LOOSER["scope"][0])
    clone = root.parent / "clone"
    run_git(root.parent, "clone", "-q", str(root), str(clone))
    run_git(clone, "fetch", "-q", "origin", "loose:loose")
    workspace = locate_workspace(clone)
    assert workspace is not None
    adopt_workspace(home, workspace)
    run_git(clone, "checkout", "-q", "loose")
    assert refusal(begin(clone, home).write("docs/x.md", "x\n")) == "SCOPE_VIOLATION"


def test_a_new_worktree_begins_with_the_rules_that_were_accepted(root: Path, home: Path) -> None:
    make_branch(root, LOOSER["scope"][0])
    begin(root, home)
    run_git(root, "worktree", "add", "-q", str(root.parent / "side"), "loose")
    assert refusal(begin(root.parent / "side", home).write("docs/x.md", "x\n")) == "SCOPE_VIOLATION"


def test_git_that_does_not_answer_is_no_yes(root: Path, home: Path) -> None:
    agent = begin(root, home)
    put(root, STRICT.replace("enforce", "observe"))
    (root / ".git/HEAD").rename(root / ".git/HEAD-gone")
    (root / ".git/HEAD").write_text("ref: refs/heads/none\n")
    subprocess.run(["rm", "-rf", str(root / ".git/objects")], check=True)
    assert refusal(agent.write("docs/x.md", "x\n")) != ""


def accept(gate: Gate) -> None:
    from remit.gate.people.trust import accept_found_rules

    accept_found_rules(gate)
