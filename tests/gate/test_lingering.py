"""What would go on after its call came back is refused where its text shows it."""

from pathlib import Path

import pytest

from conftest import run_git
from gate.driving import Agent, allowed, body, governed, records, refusal

CONFIG = '[containment]\nrewrite = "off"\n'


def working(repository: Path, home: Path, mode: str = "enforce") -> Agent:
    """An agent under INT-001, whose commands run as they are."""
    (repository / "docs").mkdir()
    (repository / "docs" / "a.md").write_text("one\n")
    (repository / ".gitignore").write_text(".run.sh\n")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "docs")
    agent = Agent(governed(repository, mode), home)
    config = repository / ".orchestration" / "remit.toml"
    config.write_text(config.read_text() + CONFIG)
    agent.select()
    return agent


REFUSED = ["make &", "nohup make", "setsid make", "(sleep 1; make) > /dev/null 2>&1 &", "bash -c 'make &'"]
PASSED = ["make", "make & wait", "sleep 1 && cat README.md &", "echo x > src/new.py &", "./serve & curl x; kill $!"]


@pytest.mark.parametrize("command", REFUSED)
def test_what_would_go_on_unseen_is_refused_with_the_way_to_do_it(repository: Path, home: Path, command: str) -> None:
    agent = working(repository, home)
    answer = agent.ask("Bash", command=command)
    assert refusal(answer) == "COMMAND_BLOCKED"
    assert "Run it in the foreground" in str(answer)
    assert body(records(repository, "denied")[-1])["violation"]["error_type"] == "COMMAND_BLOCKED"


@pytest.mark.parametrize("command", PASSED)
def test_what_waits_or_tells_what_it_writes_is_not(repository: Path, home: Path, command: str) -> None:
    assert allowed(working(repository, home).ask("Bash", command=command))


def test_the_agents_own_way_into_the_background_is_refused_too(repository: Path, home: Path) -> None:
    agent = working(repository, home)
    assert refusal(agent.ask("Bash", command="make", run_in_background=True)) == "COMMAND_BLOCKED"
    assert allowed(agent.ask("Bash", command="tail -f README.md", run_in_background=True))


@pytest.mark.parametrize("mode", ["observe", "warn"])
def test_outside_of_enforce_nothing_is_refused_for_that(repository: Path, home: Path, mode: str) -> None:
    assert allowed(working(repository, home, mode).ask("Bash", command="make &"))
