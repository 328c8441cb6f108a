"""In enforce, what a command had no right to change is as it was again, and the agent's version is not lost."""

import os
import pty
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from conftest import run_git
from gate.driving import Agent, body, governed, machine, records
from remit.cli.restore import restore
from remit.core.call import SessionKey
from remit.gate.gate import Gate
from remit.workspace.observe.observation import find_changes, observe_workspace
from remit.workspace.place.workspace import workspace_at

UNKNOWN = "sh ./.run.sh"
"""A command whose text tells nothing: what it does stands in a file that git ignores."""


@pytest.fixture
def repo(repository: Path) -> Path:
    """A repository with something outside of every scope."""
    (repository / "docs").mkdir()
    (repository / "docs" / "a.md").write_text("one\n")
    (repository / "docs" / "link").symlink_to("a.md")
    (repository / "docs" / "run").write_text("#!/bin/sh\n")
    (repository / "docs" / "run").chmod(0o755)
    (repository / ".gitignore").write_text(".run.sh\nbuild/\n")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "docs")
    return repository


def working(repo: Path, home: Path, mode: str = "enforce") -> Agent:
    """An agent under INT-001, whose commands run as they are: what they do is compared afterwards."""
    agent = Agent(governed(repo, mode), home)
    config = repo / ".orchestration" / "remit.toml"
    config.write_text(config.read_text() + '[containment]\nrewrite = "off"\n')
    agent.select()
    return agent


def does(agent: Agent, script: str) -> str:
    """Let the agent do that behind a command that says nothing; what it is told."""
    (agent.cwd / ".run.sh").write_text(script)
    found = agent.shell(UNKNOWN)
    assert "after" in found, found
    return found["after"].get("additionalContext", "")


def restores(root: Path) -> list[dict[str, Any]]:
    return [body(r) for r in records(root, "restore")]


EFFECTS = [
    "echo two > docs/a.md",
    "echo new > docs/b.md",
    "rm docs/a.md",
    "rm -r docs",
    "rm -r docs; echo now a file > docs",
    "chmod +x docs/a.md",
    "chmod -x docs/run",
    "rm docs/link; ln -s ../README.md docs/link",
    "rm docs/link; echo a file > docs/link",
    "rm docs/a.md; mkdir docs/a.md; echo x > docs/a.md/x",
    "mv docs/a.md src/a.md",
    "mv docs src/docs",
    "ln -s /etc/passwd docs/out",
    "mkdir -p new/deep; echo x > new/deep/x",
    r"echo x > docs/$(printf 'caf\351')",
    'echo x > "docs/new\nline"',
    "echo y >> README.md; echo two > docs/a.md; git commit -qam sneaked",
]


@pytest.mark.parametrize("script", EFFECTS)
def test_what_lies_outside_the_scope_is_as_before_and_what_lies_inside_stays(
    repo: Path, home: Path, script: str
) -> None:
    agent = working(repo, home)
    (repo / "docs" / "draft.md").write_text("a person's, in no commit\n")
    workspace = workspace_at(repo, repo)
    before = observe_workspace(workspace)
    said = does(agent, f"{script}\necho in scope > src/own.py")
    found = {c.path for c in find_changes(workspace, before, observe_workspace(workspace))}
    assert {path for path in found if not path.startswith("src/")} == set()
    assert (repo / "src" / "own.py").read_text() == "in scope\n"
    assert "was undone" in said
    assert restores(repo)[-1]["rules"]


def test_the_agents_version_comes_back_by_the_command_that_is_named(repo: Path, home: Path) -> None:
    said = does(working(repo, home), "echo two > docs/a.md; echo b > docs/b.md")
    command = said.partition("`remit ")[2].partition("`")[0].split()
    assert command[0] == "restore"
    done = CliRunner().invoke(restore, [*command[1:], "docs/b.md", "--repo", str(repo), "--yes"])
    assert done.exit_code == 0, done.output
    assert ((repo / "docs" / "a.md").read_text(), (repo / "docs" / "b.md").read_text()) == ("two\n", "b\n")


def test_what_was_undone_is_no_edit_of_anybodys(repo: Path, home: Path) -> None:
    agent = working(repo, home)
    does(agent, "echo two > docs/a.md")
    agent.send("Stop")
    agent.shell("true")
    assert records(repo, "human_edit") == []


@pytest.mark.parametrize("mode", ["observe", "warn"])
def test_outside_of_enforce_it_is_only_said(repo: Path, home: Path, mode: str) -> None:
    said = does(working(repo, home, mode), "echo two > docs/a.md")
    assert (repo / "docs" / "a.md").read_text() == "two\n"
    assert restores(repo) == []
    assert "docs/a.md" in said


def test_a_barred_path_inside_the_scope_is_undone(repo: Path, home: Path) -> None:
    (repo / ".intentignore").write_text("src/vendor/\n")
    said = does(working(repo, home), "mkdir src/vendor; echo x > src/vendor/x; echo y > src/y")
    assert not (repo / "src" / "vendor").exists()
    assert (repo / "src" / "y").exists()
    assert "INTENTIGNORE_PATH_BLOCKED" in said


GUARDED = [
    ("printf '#!/bin/sh\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit", "hooks/pre-commit"),
    ("git config core.hooksPath /tmp/x", "config"),
    ("git config alias.st '!sh'", "config"),
    ("echo '*.md' >> .git/info/exclude", "info/exclude"),
    ("mkdir -p .claude; echo '{}' > .claude/settings.json", ""),
]


@pytest.mark.parametrize(("script", "name"), GUARDED, ids=[n or "settings" for _, n in GUARDED])
def test_what_steers_git_or_an_agent_is_put_back(repo: Path, home: Path, script: str, name: str) -> None:
    agent = working(repo, home)
    path = repo / ".git" / name if name else repo / ".claude" / "settings.json"
    before = path.read_bytes() if path.exists() else None
    said = does(agent, script)
    assert (path.read_bytes() if path.exists() else None) == before
    assert "PROTECTED_PATH" in said


def test_what_git_itself_notes_of_branches_and_remotes_stays(repo: Path, home: Path) -> None:
    does(working(repo, home), "git remote add origin https://example.org/x; git config branch.main.remote origin")
    assert run_git(repo, "remote").split() == ["origin"]
    assert restores(repo) == []


def test_a_secret_comes_back_for_its_owners_eyes(repo: Path, home: Path) -> None:
    (repo / ".env").write_text("KEY=1\n")
    (repo / ".env").chmod(0o600)
    agent = working(repo, home)
    does(agent, "rm .env")
    assert (repo / ".env").read_text() == "KEY=1\n"
    assert stat.S_IMODE((repo / ".env").stat().st_mode) == 0o600


def test_what_a_person_said_yes_to_is_not_undone(repo: Path, home: Path) -> None:
    agent = working(repo, home)
    (repo / ".run.sh").write_text("echo two > docs/a.md")
    before = agent.ask("Bash", command=UNKNOWN)
    gate = Gate.open(repo, machine(home))
    [open_call] = gate.state.list_open_calls()
    assert open_call.pending
    gate.state.replace_pending_call(open_call.row, replace(open_call.pending, grants=("once",)))
    gate.close()
    subprocess.run(["sh", ".run.sh"], cwd=repo, check=True)
    said = agent.tell("Bash", before["call_id"], {"stdout": ""}, command=UNKNOWN)
    assert (repo / "docs" / "a.md").read_text() == "two\n"
    assert "docs/a.md" in said["additionalContext"]


def test_a_merge_that_stops_keeps_what_it_brings(repo: Path, home: Path) -> None:
    """Put back, the upstream's files would be lost with the next `git commit -a`."""
    agent = working(repo, home)
    run_git(repo, "checkout", "-qb", "theirs")
    (repo / "docs" / "a.md").write_text("theirs\n")
    (repo / "src" / "app.py").write_text("theirs\n")
    run_git(repo, "commit", "-qam", "theirs")
    run_git(repo, "checkout", "-q", "main")
    (repo / "src" / "app.py").write_text("ours\n")
    run_git(repo, "commit", "-qam", "ours")
    does(agent, "git merge -q theirs; echo stray > docs/stray")
    assert (repo / ".git" / "MERGE_HEAD").exists()
    assert (repo / "docs" / "a.md").read_text() == "theirs\n"
    assert not (repo / "docs" / "stray").exists()


def test_a_merge_of_what_the_call_itself_committed_brings_nothing(repo: Path, home: Path) -> None:
    agent = working(repo, home)
    does(
        agent,
        "git checkout -qb mine; echo sneaked > docs/a.md; git commit -qam x; git checkout -q main\n"
        "git merge -q --no-ff --no-commit mine",
    )
    assert (repo / "docs" / "a.md").read_text() == "one\n"


@contextmanager
def editor(path: Path, *, terminal: bool) -> Generator[None]:
    """A process that was started with the file's name, in a session of its own, at a terminal or without one."""
    words = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()", str(path)]
    end, other = pty.openpty()
    lead = "import fcntl, os, sys, termios; os.setsid()\n"
    lead += "fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n" if terminal else ""
    lead += "os.execv(sys.argv[1], sys.argv[1:])"
    source = other if terminal else subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", lead, *words], stdin=source, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()
            os.close(end)
            os.close(other)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
@pytest.mark.parametrize("terminal", [True, False])
def test_what_a_person_has_in_an_editor_is_reported_and_not_undone(repo: Path, home: Path, terminal: bool) -> None:
    agent = working(repo, home)
    with editor(repo / "docs" / "a.md", terminal=terminal):
        said = does(agent, "echo two > docs/a.md; echo x > docs/b.md")
    assert (repo / "docs" / "a.md").read_text() == ("two\n" if terminal else "one\n")
    assert ("a person may have written it" in said) == terminal
    assert not (repo / "docs" / "b.md").exists()


def other_session(agent: Agent) -> Agent:
    found = Agent(agent.cwd, agent.home, "session-2")
    found.select()
    return found


def sub_agent(agent: Agent) -> Agent:
    found = Agent(agent.cwd, agent.home, agent.session, "sub-1")
    found.select("INT-002")
    return found


@pytest.mark.parametrize("second", [other_session, sub_agent])
def test_what_somebody_else_may_have_written_is_reported_and_not_undone(
    repo: Path, home: Path, second: Callable[[Agent], Agent]
) -> None:
    agent = working(repo, home)
    other = second(agent)
    before = agent.ask("Bash", command=UNKNOWN)
    also = other.ask("Bash", command="make docs")
    (repo / "docs" / "a.md").write_text("whose?\n")
    said = agent.tell("Bash", before["call_id"], {"stdout": ""}, command=UNKNOWN)
    other.tell("Bash", also["call_id"], {"stdout": ""}, command="make docs")
    assert (repo / "docs" / "a.md").read_text() == "whose?\n"
    assert "not undone" in said["additionalContext"]
    assert restores(repo) == []


def test_what_a_sub_agent_wrote_with_right_meanwhile_stays(repo: Path, home: Path) -> None:
    agent = working(repo, home)
    before = agent.ask("Bash", command=UNKNOWN)
    sub_agent(agent).write("docs/a.md", "the sub-agent's\n")
    agent.tell("Bash", before["call_id"], {"stdout": ""}, command=UNKNOWN)
    assert (repo / "docs" / "a.md").read_text() == "the sub-agent's\n"


def test_two_commands_of_one_session_do_not_shield_each_other(repo: Path, home: Path) -> None:
    agent = working(repo, home)
    one, two = agent.ask("Bash", command="make one"), agent.ask("Bash", command="make two")
    (repo / "docs" / "a.md").write_text("two\n")
    agent.tell("Bash", one["call_id"], {"stdout": ""}, command="make one")
    assert (repo / "docs" / "a.md").read_text() == "one\n"
    agent.tell("Bash", two["call_id"], {"stdout": ""}, command="make two")
    assert (repo / "docs" / "a.md").read_text() == "one\n"


def test_clearing_the_intent_in_the_same_command_opens_nothing(repo: Path, home: Path) -> None:
    agent = working(repo, home)
    before = agent.ask("Bash", command=UNKNOWN)
    (repo / "docs" / "a.md").write_text("two\n")
    gate = Gate.open(repo, machine(home))
    gate.intents.clear(SessionKey("session-1"), "claude-code")
    gate.close()
    agent.tell("Bash", before["call_id"], {"stdout": ""}, command=UNKNOWN)
    assert (repo / "docs" / "a.md").read_text() == "one\n"


def test_where_the_agents_version_cannot_be_kept_it_stays_and_that_is_said(repo: Path, home: Path) -> None:
    agent = working(repo, home)
    before = agent.ask("Bash", command=UNKNOWN)
    (repo / "docs" / "a.md").write_text("two\n")
    [refs] = (repo / ".git" / "remit" / "objects.git" / "refs" / "remit" / "snapshots").iterdir()
    shutil.move(refs, repo.parent / "refs")
    refs.write_text("")
    said = agent.tell("Bash", before["call_id"], {"stdout": ""}, command=UNKNOWN)
    assert (repo / "docs" / "a.md").read_text() == "two\n"
    assert "docs/a.md" in said["additionalContext"]


def test_without_git_it_is_undone_too(tmp_path: Path, home: Path) -> None:
    root = tmp_path / "plain"
    (root / "src").mkdir(parents=True)
    (root / "notes.md").write_text("one\n")
    agent = working(root, home)
    does(agent, "echo two > notes.md; echo x > other.md; echo y > src/y")
    assert (root / "notes.md").read_text() == "one\n"
    assert not (root / "other.md").exists()
    assert (root / "src" / "y").exists()
