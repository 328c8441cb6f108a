"""`remit adopt`, and what init, status and doctor say of rules that a clone carries."""

import json
from pathlib import Path

import pytest

from cli.running import run_on_terminal
from cli.wired_home import Person
from conftest import run_git
from forked_commands import MAIN
from gate.driving import INTENTS, Agent, refusal
from gate.people.test_adoption import carry, clone
from remit.core.machine_paths import CONFIG_PATH

WIDER = INTENTS.replace('"src/**"', '"**"')


@pytest.fixture
def upstream(repository: Path) -> Path:
    carry(repository)
    return repository


@pytest.fixture
def person(home: Path) -> Person:
    return Person(home, ("claude",))


def test_a_clone_is_named_by_status_and_doctor_and_adopted_without_a_change_of_its_tree(
    upstream: Path, person: Person, tmp_path: Path
) -> None:
    root = clone(upstream, tmp_path / "c")
    assert "CARRIES REMIT RULES (enforce), AND THEY DO NOT HOLD HERE" in person.remit(root, "status")
    assert json.loads(person.remit(root, "status", "--json"))["data"]["carried"] == "enforce"
    told = person.run(root, "doctor", "--ci", "--runs", "1")
    assert told.returncode == 1
    assert "it carries Remit rules (enforce), and they do not hold in this clone" in told.stdout
    assert "no agent on PATH is wired" in told.stdout
    assert person.run(root, "adopt").returncode == 2

    said = person.remit(root, "adopt", "--yes")
    assert said.startswith(f"{root} is governed; mode: enforce.\n  mode: enforce, as its commits say\n")
    assert "  .orchestration/ its rules are committed; adopted\n" in said
    assert run_git(root, "status", "--porcelain") == ""
    told = person.run(root, "doctor", "--ci", "--runs", "1")
    assert told.returncode == 0, told.stdout
    assert person.remit(root, "adopt", "--yes").startswith("nothing to do")


def test_init_in_a_clone_says_that_the_rules_are_committed(upstream: Path, person: Person, tmp_path: Path) -> None:
    root = clone(upstream, tmp_path / "c")
    said = person.remit(root, "init", "--yes")
    assert "its rules are committed; adopted" in said
    assert "is new: commit it" not in said
    assert said.startswith(f"{root} is governed; mode: enforce.")
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    run_git(fresh, "init", "-q")
    assert "is new: commit it" in person.remit(fresh, "init", "--yes")


@pytest.mark.live
def test_what_doctor_ci_asks_of_a_runner(upstream: Path, person: Person, tmp_path: Path) -> None:
    """Rules in force and an agent that asks; a wired agent that is not on PATH asks nobody."""
    root = clone(upstream, tmp_path / "c")
    person.remit(root, "adopt", "--yes", "--no-agents")
    assert person.run(root, "doctor", "--runs", "1").returncode == 0
    assert person.run(root, "doctor", "--ci", "--runs", "1").returncode == 1
    person.remit(root, "adopt", "--ci")
    assert person.run(root, "doctor", "--ci", "--runs", "1").returncode == 0
    (person.home / "bin/claude").unlink()
    assert person.run(root, "doctor", "--ci", "--runs", "1").returncode == 1


def test_always_keeps_the_remote_in_the_persons_own_settings(upstream: Path, person: Person, tmp_path: Path) -> None:
    root, second = clone(upstream, tmp_path / "c"), clone(upstream, tmp_path / "d")
    settings = person.home / CONFIG_PATH
    settings.parent.mkdir(parents=True)
    settings.write_text('# mine\n[console]\norigin = "https://remit.example.org"\n')
    person.remit(root, "adopt", "--always", "--yes", "--no-agents")
    assert settings.read_text() == (
        f'# mine\n[console]\norigin = "https://remit.example.org"\n\n[adopt]\nremotes = ["{upstream}"]\n'
    )
    assert settings.stat().st_mode & 0o777 == 0o600
    assert "hold from an agent's first call on" in person.remit(second, "status")
    person.remit(root, "adopt", "--always", "--yes", "--no-agents")
    assert settings.read_text().count(str(upstream)) == 1


@pytest.mark.parametrize(
    ("command", "typed", "kept"), [("adopt", b"y\n\n", True), ("adopt", b"y\nn\n", False), ("init", b"y\ny\n", True)]
)
def test_the_first_time_it_is_asked_about_further_clones(
    command: str, typed: bytes, kept: bool, upstream: Path, home: Path, tmp_path: Path
) -> None:
    root = clone(upstream, tmp_path / "c")
    code, text = run_on_terminal(root, ["-c", MAIN, command, "--no-agents"], b"Apply?", typed)
    assert code == 0, text
    assert f"Also in further clones of {upstream}?" in text
    assert (home / CONFIG_PATH).exists() is kept


def test_a_person_declines_and_hears_no_more_of_it(upstream: Path, person: Person, tmp_path: Path) -> None:
    root = clone(upstream, tmp_path / "c")
    assert "do not hold in this clone" in person.remit(root, "adopt", "--never")
    assert "you said so" in person.remit(root, "status")
    assert person.run(root, "doctor", "--runs", "1").returncode == 0
    person.remit(root, "adopt", "--yes", "--no-agents")
    done = person.run(root, "adopt", "--never")
    assert (done.returncode, "remit uninstall" in done.stderr) == (2, True)


def test_there_is_nothing_to_adopt_without_committed_rules(repository: Path, person: Person) -> None:
    done = person.run(repository, "adopt", "--yes")
    assert done.returncode == 2
    assert "carries no rules" in done.stderr
    assert not (repository / ".git/remit").exists()


@pytest.mark.parametrize("words", [("adopt", "--always", "--yes"), ("adopt", "--never"), ("adopt", "--ci")])
def test_no_agent_adopts_or_declines(words: tuple[str, ...], upstream: Path, person: Person) -> None:
    person.variables["CLAUDECODE"] = "1"
    done = person.run(upstream, *words)
    assert done.returncode == 3, done.stderr
    assert "is for a person" in done.stderr
    assert not (upstream / ".git/remit/governed").exists()
    assert not (person.home / CONFIG_PATH).exists()


@pytest.mark.parametrize(
    ("variable", "change"),
    [
        ("GITHUB_BASE_REF", {".orchestration/remit.toml": 'mode = "observe"\n'}),
        ("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", {".orchestration/active_intents.yaml": WIDER}),
        ("CHANGE_TARGET", {".orchestration/remit.toml": None, ".orchestration/active_intents.yaml": None}),
    ],
)
def test_a_runner_holds_to_the_rules_of_the_base_commit(
    variable: str, change: dict[str, str | None], upstream: Path, person: Person, tmp_path: Path
) -> None:
    """A pull request cannot loosen the rules under which an agent works on it."""
    run_git(upstream, "switch", "-qc", "proposal")
    for path, content in change.items():
        (upstream / path).unlink()
        if content is not None:
            (upstream / path).write_text(content)
    run_git(upstream, "add", "-A")
    run_git(upstream, "commit", "-qm", "looser")
    root = clone(upstream, tmp_path / "runner")
    person.variables[variable] = "main"
    person.remit(root, "adopt", "--ci", "--no-agents")
    agent = Agent(root, person.home)
    agent.select()
    code = "SCOPE_VIOLATION" if None not in change.values() else "MISSING_OR_INVALID_INTENT"
    assert refusal(agent.ask("Write", file_path=str(root / "docs/x.md"), content="x")) == code


def test_a_runner_without_the_base_commit_ends(upstream: Path, person: Person) -> None:
    person.variables["GITHUB_BASE_REF"] = "release"
    done = person.run(upstream, "adopt", "--ci", "--no-agents")
    assert done.returncode == 2
    assert "fetch-depth: 0" in done.stderr
    assert not (upstream / ".git/remit").exists()
