"""The daemon has blame's answers found before anybody asks, in a process of its own."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import run_git
from gate.driving import Agent, governed
from provenance.test_blame import commit
from provenance.test_kept_attributions import PATH, kept_rows
from remit.ledger.index.index import open_index
from remit.provenance.blame.committed_files import CommittedFiles
from remit.provenance.stats.answer_fill import FillPosition, fill_answers
from remit.servers.answer_upkeep import PAUSE_S, REST_FACTOR, AnswerUpkeep
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.place.workspace import workspace_at
from servers.test_daemon import Installed, binary, installed
from servers.test_watches import Warm
from waiting import wait_until

__all__ = ["binary", "installed"]

TEXT = "first_value = compute_value(1)\n"


@pytest.fixture
def agent(repository: Path, home: Path) -> Iterator[Warm]:
    governed(repository)
    found = Warm(repository, home)
    found.select()
    yield found
    found.watch.close()


def finish(upkeep: AnswerUpkeep, now: float) -> None:
    """Wait for the end of the process that fills, and let it be noticed."""
    process = upkeep.process
    assert process is not None
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # its words wait in the pipe
    upkeep.run_if_due(0.0, now)
    assert upkeep.process is None


def test_a_file_that_a_record_or_a_commit_changed_is_blamed_once(agent: Warm) -> None:
    workspace = workspace_at(agent.cwd, agent.cwd)
    agent.write(PATH, TEXT)
    commit(agent.cwd)
    first = fill_answers(workspace, FillPosition())
    rows = kept_rows(agent.cwd)
    assert rows
    assert first.number
    assert first.head
    assert fill_answers(workspace, first) == first
    (agent.cwd / PATH).write_text(f"{TEXT}second_value = typed_by_hand(2)\n")
    commit(agent.cwd)
    second = fill_answers(workspace, first)
    assert (second.number, second.head == first.head) == (first.number, False)
    assert len(kept_rows(agent.cwd)) > len(rows)


def test_a_file_that_is_gone_or_outside_of_git_ends_nothing(agent: Warm) -> None:
    agent.write("src/gone.py", TEXT)
    agent.write("src/déjà vu.py", TEXT)
    agent.write(PATH, TEXT)
    commit(agent.cwd)
    (agent.cwd / "src/gone.py").unlink()
    run_git(agent.cwd, "rm", "-q", "--cached", "src/déjà vu.py")
    fill_answers(workspace_at(agent.cwd, agent.cwd), FillPosition())
    assert kept_rows(agent.cwd)


def test_it_runs_after_a_pause_and_not_again_until_something_changed(agent: Warm) -> None:
    upkeep = AnswerUpkeep(agent.gates)
    agent.write(PATH, TEXT)
    commit(agent.cwd)
    called = 100.0
    upkeep.run_if_due(called, called + PAUSE_S / 2)
    assert upkeep.process is None
    upkeep.run_if_due(called, called + PAUSE_S)
    assert upkeep.process is not None
    finish(upkeep, called + 30)
    assert kept_rows(agent.cwd)
    later = called + 600
    upkeep.run_if_due(called, later)
    assert upkeep.process is None
    run_git(agent.cwd, "commit", "-q", "--amend", "-m", "another message")
    upkeep.run_if_due(called, later)
    assert upkeep.process is not None
    finish(upkeep, later + 1)


def test_one_that_fails_is_told_of_and_waits(agent: Warm, capsys: pytest.CaptureFixture[str]) -> None:
    upkeep = AnswerUpkeep(agent.gates)
    agent.write(PATH, TEXT)
    upkeep.positions[agent.cwd] = "no position"
    upkeep.run_if_due(0.0, PAUSE_S)
    finish(upkeep, PAUSE_S + 10)
    assert "left for later" in capsys.readouterr().err
    assert upkeep.not_before == PAUSE_S + 10 + REST_FACTOR * 10
    upkeep.run_if_due(0.0, upkeep.not_before - 1)
    assert upkeep.process is None


def test_a_daemon_of_its_own_does_it(installed: Installed, home: Path) -> None:
    installed.start()
    agent = Agent(installed.repository, home)
    agent.select()
    agent.write(PATH, TEXT)
    commit(installed.repository)
    installed.tell("Read", {"file_path": str(installed.repository / PATH)}, installed.repository)
    wait_until(lambda: kept_rows(installed.repository))


def test_statistics_find_what_was_filled(agent: Warm, monkeypatch: pytest.MonkeyPatch) -> None:
    long_ago = int(agent.environment.clock.now()) - 60  # the next record is clearly later
    monkeypatch.setenv("GIT_COMMITTER_DATE", f"{long_ago} +0000")
    workspace = workspace_at(agent.cwd, agent.cwd)
    position = FillPosition()
    for number in range(3):
        agent.write(f"src/file_{number}.py", f"{TEXT}value_of_{number} = {number}\n")
        commit(agent.cwd)
        position = fill_answers(workspace, position)
    agent.write("src/last.py", TEXT)
    fill_answers(workspace, position)
    with open_index(workspace.state, workspace.log_folder) as index:
        files = CommittedFiles(workspace, index, ContentStore(workspace, ""))
        last_commits = files.find_last_commits([f"src/file_{number}.py" for number in range(3)])
        kept = dict(files.find_kept_lines(list(last_commits), last_commits))
        assert all(lines and files.blamer.find_kept_attributions(lines) for lines in kept.values())
