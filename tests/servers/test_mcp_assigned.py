"""The MCP server in a worktree with an assignment offers what attempts need beside each other, and nowhere else."""

from pathlib import Path

import pytest
from mcp.client.client import Client

from conftest import run_git
from gate.driving import governed
from remit.core.assignment import Assignment
from remit.tools.catalogue import TOOLS
from remit.workspace.place.assignment_file import AssignmentFile
from remit.workspace.place.workspace import locate_workspace
from servers.test_mcp import OFFERED, calling, connected, offer, text


@pytest.fixture
def tree(repository: Path, tmp_path: Path) -> Path:
    governed(repository)
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "base")
    run_git(repository, "worktree", "add", "-q", "-b", "remit/INT-001/1", str(tmp_path / "tree"))
    place = locate_workspace(tmp_path / "tree")
    assert place is not None
    AssignmentFile(place).write(Assignment("r:INT-001", "INT-001", 1, 1, ("src/**",)), 600)
    return tmp_path / "tree"


def test_a_session_of_an_attempt_is_offered_all_tools(tree: Path, repository: Path, home: Path) -> None:
    assert connected(tree, home, offer)[1] == list(TOOLS)
    assert connected(repository, home, offer)[1] == OFFERED


def test_a_client_reads_its_notes(tree: Path, home: Path) -> None:
    async def work(client: Client) -> object:
        return await calling("read_notes", {})(client)

    assert text(connected(tree, home, work)) == "There are no notes for this task."
