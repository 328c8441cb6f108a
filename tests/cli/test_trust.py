"""`remit trust`, in a real terminal and out of one."""

from pathlib import Path

import pytest

from cli.running import data, run, run_on_terminal
from gate.driving import governed
from gate.hooks.trusted_hooks import hook


@pytest.fixture
def hooked(repository: Path) -> Path:
    """A governed repository that brings a hook and a command for a criterion."""
    text = (
        'version: "1.0"\nactive_intents:\n  - id: INT-001\n    status: IN_PROGRESS\n    owned_scope: ["src/**"]\n'
        '    acceptance_criteria:\n      - {text: ok, verify: "test -f README.md"}\n'
    )
    governed(repository, intents=text)
    (repository / ".orchestration" / "hooks").mkdir()
    (repository / ".orchestration" / "hooks" / "a.toml").write_text(hook("sh .orchestration/hooks/check.sh"))
    (repository / ".orchestration" / "hooks" / "check.sh").write_text("exit 0\n")
    return repository


def at_a_terminal(folder: Path, answer: str, *words: str) -> tuple[int, str]:
    """Run `remit trust` in a terminal, and type this once it asks."""
    return run_on_terminal(folder, ["-m", "remit", "trust", *words], b"[y/N]", answer.encode() + b"\n")


def shown(folder: Path) -> dict[str, bool]:
    """By name, whether a command is trusted."""
    return {c["name"]: c["trusted"] for c in data(folder, "trust", "--show")["commands"]}


def test_a_person_at_a_terminal_sees_all_and_says_yes(hooked: Path) -> None:
    code, seen = at_a_terminal(hooked, "y")
    assert code == 0, seen
    assert "before: sh .orchestration/hooks/check.sh" in seen
    assert "test -f README.md" in seen
    assert "hooks/check.sh" in seen
    assert shown(hooked) == {"hooks/a.toml#1": True, "INT-001": True}
    assert "not trusted" not in run(hooked, "status").stdout
    code, seen = at_a_terminal(hooked, "", "--revoke")
    assert (code, shown(hooked)["INT-001"]) == (0, False)


def test_servers_that_a_repository_brings_are_shown_and_trusted_to_the_byte(hooked: Path) -> None:
    servers = hooked / ".mcp.json"
    servers.write_text('{"mcpServers": {"notes": {"command": "sh", "args": ["serve.sh"]}}}')
    code, seen = at_a_terminal(hooked, "y")
    assert code == 0, seen
    assert "serve.sh" in seen
    assert shown(hooked)[".mcp.json"]
    servers.write_text('{"mcpServers": {"notes": {"command": "sh", "args": ["other.sh"]}}}')
    assert not shown(hooked)[".mcp.json"]
    servers.write_text("{")
    assert ".mcp.json" not in shown(hooked)


def test_anything_but_yes_trusts_nothing(hooked: Path) -> None:
    assert at_a_terminal(hooked, "")[0] != 0
    assert not any(shown(hooked).values())


def test_what_changed_is_shown_as_changed(hooked: Path) -> None:
    at_a_terminal(hooked, "y")
    (hooked / ".orchestration" / "hooks" / "check.sh").write_text("exit 1\n")
    assert shown(hooked) == {"hooks/a.toml#1": False, "INT-001": True}
    out = run(hooked, "trust", "--show").stdout
    assert [line[:1] for line in out.splitlines()[:3]] == ["-", "+", " "]
    assert "1 commands of this repository are not trusted" in run(hooked, "status").stdout


@pytest.mark.parametrize("words", [[], ["--revoke"]])
def test_no_terminal_no_yes(hooked: Path, words: list[str]) -> None:
    done = run(hooked, "trust", *words)
    assert (done.returncode, "terminal" in done.stderr) == (3, True)


def test_an_agent_cannot_trust(hooked: Path) -> None:
    done = run(hooked, "trust", CLAUDECODE="1")
    assert done.returncode == 3


def test_a_list_names_what_is_trusted_on_this_machine(hooked: Path) -> None:
    at_a_terminal(hooked, "y")
    assert str(hooked) in run(hooked, "trust", "--list").stdout


def test_a_broken_file_cannot_be_trusted(hooked: Path) -> None:
    (hooked / ".orchestration" / "hooks" / "a.toml").write_text("[[")
    done = run(hooked, "trust", "--show")
    assert (done.returncode, "hooks/a.toml" in done.stderr) == (2, True)


def test_a_person_completes_what_the_commands_agree_with(hooked: Path) -> None:
    at_a_terminal(hooked, "y")
    (hooked / "README.md").rename(hooked / "read.me")
    done = run(hooked, "intent", "complete", "INT-001", "--notes", "x")
    assert (done.returncode, "failed (exit code 1)" in done.stderr) == (3, True)
    (hooked / "read.me").rename(hooked / "README.md")
    assert "DONE" in run(hooked, "intent", "complete", "INT-001", "--notes", "x").stdout


def test_patterns_of_generated_files_that_a_clone_brings_are_shown_and_have_no_effect(
    repository: Path, home: Path
) -> None:
    (repository / ".orchestration").mkdir()
    (repository / ".orchestration" / "remit.toml").write_text('[containment]\ngenerated = ["**"]\n')
    said = run(repository, "init", "--yes", "--no-agents").stdout
    assert "[containment] generated is not trusted, and has no effect" in said
    assert "**" in said
    said = run(repository, "doctor").stdout
    assert "[containment] generated is not trusted, and has no effect" in said
    assert "generated matches 2 tracked files, which it does not cover" in said
    code, _ = at_a_terminal(repository, "y")
    assert code == 0
    said = run(repository, "doctor").stdout
    assert "is not trusted" not in said
    assert "generated matches 2 tracked files, which it does not cover" in said
