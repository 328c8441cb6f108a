"""Every wired agent in observe, live: what nothing brings back is held back, and the work goes on; nothing else is."""

from pathlib import Path

import pytest

from conftest import run_git
from e2e.test_four_agents import AGENTS, name, records, remit, run

__all__ = ["name"]

pytestmark = pytest.mark.live


def test_it_observes_and_holds_back_only_what_nothing_brings_back(name: str, repository: Path, home: Path) -> None:
    agent = AGENTS[name]
    trust = ["--trust-codex"] if name == "codex" else []
    remit(repository, "init", "--yes", "--agent", name, *trust)
    elsewhere = home / "elsewhere.git"
    run_git(repository, "init", "-q", "--bare", str(elsewhere))
    run_git(repository, "push", "-q", str(elsewhere), "HEAD:main")
    before = run_git(elsewhere, "for-each-ref")
    (repository / "src" / "app.py").write_text("not committed\n")
    done, told = run(
        name,
        repository,
        home,
        agent.write(repository / "docs" / "new.md", "x\n"),
        agent.shell(f"git push {elsewhere} --delete main"),
        agent.shell("git reset --hard"),
    )
    assert done.returncode == 0, done
    assert run_git(elsewhere, "for-each-ref") == before, told
    assert (repository / "docs" / "new.md").read_text() == "x\n", told
    assert "not committed" not in (repository / "src" / "app.py").read_text(), told
    assert "nothing would bring back" in told[1], told
    shown = done.stdout + done.stderr
    assert "Stop Failed" not in shown
    if name in ("gemini", "qwen"):  # headless, the other two say nothing of it
        assert "Remit: 2 files changed" in shown
    remit(repository, "restore", "--before", "git reset", "--yes")
    assert (repository / "src" / "app.py").read_text() == "not committed\n"
    assert not [r for r in records(repository, "mutation") if r["decision"]["effect"] == "deny"]
