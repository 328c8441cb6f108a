"""Where nothing contains commands, a commit that no file shows is told, recorded, and named by `remit verify`."""

from pathlib import Path

from click.testing import CliRunner

from conftest import run_git
from gate.containment.test_git_laundering import STRANGER
from gate.driving import Agent, governed
from remit.cli.ledger.verify import verify
from remit.core.call import SessionKey
from remit.gate.gate import Gate


def test_a_commit_that_no_file_shows_is_told_and_verify_names_it(repository: Path, home: Path) -> None:
    (repository / "docs").mkdir()
    (repository / "docs/x.md").write_text("doc\n")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "docs")
    agent = Agent(governed(repository), home, "s1")
    Gate.open(repository, agent.environment).intents.select(SessionKey("s1"), "claude-code", "INT-001")
    head = run_git(repository, "rev-parse", "HEAD")
    after = agent.shell(f"{STRANGER}git update-ref HEAD $made")["after"]
    assert "a commit of this call holds docs/x.md" in after["additionalContext"]
    # The branch is back at its commit; whoever names the other one again is told.
    assert run_git(repository, "rev-parse", "HEAD") == head
    said = CliRunner().invoke(verify, ["--repo", str(repository), "HEAD@{1}"])
    assert "RMT001" in said.output
    assert "docs/x.md" in said.output
    assert said.exit_code == 1
    assert CliRunner().invoke(verify, ["--repo", str(repository), "HEAD"]).exit_code == 0
