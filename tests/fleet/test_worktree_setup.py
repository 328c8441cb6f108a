"""The setup command of a plan's worktrees: trusted first, run before the agent, and named where it fails."""

import pytest

from fleet.fleet_driving import Fleet, git
from gate.hooks.trusted_hooks import trust_all

pytestmark = pytest.mark.timeout(900)


def set_setup_command(fleet: Fleet, command: str) -> None:
    (fleet.root / ".orchestration" / "remit.toml").write_text(f"[orchestrator]\nsetup = '{command}'\n")
    git(fleet.root, "commit", "-qam", "a setup command")


def test_worktrees_are_set_up_once_a_person_trusts_the_command(fleet: Fleet) -> None:
    fleet.govern(1)
    (fleet.root / ".gitignore").write_text("ready\n")
    git(fleet.root, "add", "-A")
    set_setup_command(fleet, "test ! -e .orchestration && echo yes > ready")
    fleet.remit("plan", "start", "INT-001", "--yes", "--pace=0.2", fleet.agent_option(0.1))
    fleet.wait_for_state("stuck", "INT-001")
    assert "`remit trust` shows it and asks" in fleet.remit("plan", "log")
    trust_all(fleet.root, fleet.home)
    fleet.remit("task", "retry", "INT-001")
    fleet.start_worker(1, 0.1)
    fleet.wait_until_landed()
    assert "ready" not in git(fleet.root, "ls-tree", "-r", "--name-only", "remit/next").split()
    set_setup_command(fleet, "echo no package here; exit 3")
    trust_all(fleet.root, fleet.home)
    fleet.remit("intent", "new", "another", "--scope", "src/int-002/**")
    fleet.remit(
        "plan", "start", "INT-002", "--yes", "--database", f"sqlite:///{fleet.home}/.local/state/remit/fleet.db"
    )
    fleet.wait_for_state("stuck", "INT-002")
    assert "the setup command failed (it ended with 3): no package here" in fleet.remit("plan", "log")
