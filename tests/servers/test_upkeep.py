"""The daemon keeps the intent map and the index up with the ledger, while nobody waits for it."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gate.driving import body, governed, overlay, records
from remit.gate.gate import Gate
from remit.gate.governing.settings import set_mode
from remit.ledger.index.index import Index
from remit.servers.daemon import MAX_DELAY_S, QUIET_INTERVAL_S, Upkeep
from remit.workspace.place.workspace import find_git_root, workspace_at
from servers.test_daemon import Installed, binary, installed
from servers.test_watches import Warm
from stepped_clock import SteppedClock
from waiting import WAIT_S, wait_until

__all__ = ["binary", "installed"]
"""Fixtures of a daemon in a process of its own."""

MAP = ".orchestration/intent_map.md"


@pytest.fixture
def agent(repository: Path, home: Path) -> Iterator[Warm]:
    governed(repository)
    found = Warm(repository, home)
    found.select()
    yield found
    found.watch.close()


def run_to_its_end(upkeep: Upkeep, last_call: float | None = None, now: float = 0.0) -> None:
    """Let it run, where it is due, until nothing is left: a step of its own ends after a fifth of a second."""
    while True:
        if last_call is None:
            upkeep.run_all_jobs()
        else:
            upkeep.run_if_due(last_call, now)
        if not upkeep.has_backlog:
            return


def test_a_change_is_in_the_map_once_it_is_quiet(agent: Warm) -> None:
    clock = SteppedClock()
    upkeep = Upkeep(agent.gates, clock)
    agent.write("src/new.py", "def first():\n    return 1\n")
    called = clock.elapsed()
    upkeep.run_if_due(called, called + QUIET_INTERVAL_S / 2)
    assert not (agent.cwd / MAP).exists()
    run_to_its_end(upkeep, called, called + QUIET_INTERVAL_S)
    assert "function `first`" in (agent.cwd / MAP).read_text()


def test_a_filter_of_an_agents_runs_again_once_it_is_quiet(agent: Warm, home: Path) -> None:
    overlay(home)
    set_mode(workspace_at(agent.cwd, find_git_root(agent.cwd)), "observe")
    agent.shell(r"sed -i -E 's/(ma)(in)/\2\1/' src/app.py")
    assert not records(agent.cwd, "replay")
    clock = SteppedClock()
    upkeep = Upkeep(agent.gates, clock)
    called = clock.elapsed()
    run_to_its_end(upkeep, called, called + QUIET_INTERVAL_S)
    [proof] = [body(record) for record in records(agent.cwd, "replay")]
    assert (proof["replays"], proof["proved"]) == (records(agent.cwd, "mutation")[-1]["id"], 1)


def test_an_agent_without_pause_does_not_put_it_off_for_ever(agent: Warm) -> None:
    clock = SteppedClock()
    upkeep = Upkeep(agent.gates, clock)
    agent.write("src/new.py", "x = 1\n")
    later = clock.elapsed() + MAX_DELAY_S
    run_to_its_end(upkeep, later, later)
    assert "src/new.py" in (agent.cwd / MAP).read_text()


def test_without_a_call_nothing_is_looked_at(agent: Warm) -> None:
    clock = SteppedClock()
    upkeep = Upkeep(agent.gates, clock)
    agent.write("src/new.py", "x = 1\n")
    now = clock.elapsed()
    run_to_its_end(upkeep, now, now + 1)
    (agent.cwd / MAP).unlink()
    upkeep.run_if_due(now, now + 3600)
    assert not (agent.cwd / MAP).exists()
    run_to_its_end(upkeep, now + 3601, now + 3602)
    assert (agent.cwd / MAP).exists()


def test_what_cannot_be_written_is_told_once_and_ends_nothing(agent: Warm, capsys: pytest.CaptureFixture[str]) -> None:
    upkeep = Upkeep(agent.gates)
    agent.write("src/new.py", "x = 1\n")
    (agent.cwd / MAP).mkdir()
    for _ in range(2):
        run_to_its_end(upkeep)
    assert capsys.readouterr().err.count("the intent map of") == 1
    (agent.cwd / MAP).rmdir()
    run_to_its_end(upkeep)
    assert (agent.cwd / MAP).is_file()


def test_the_watcher_and_the_calls_after_it_see_no_effect_of_it(agent: Warm) -> None:
    agent.watching()
    upkeep = Upkeep(agent.gates)
    before = agent.ask("Bash", command="make all")
    agent.write("src/new.py", "x = 1\n")
    run_to_its_end(upkeep)
    assert (agent.cwd / MAP).exists()
    agent.tell("Bash", before["call_id"], {"stdout": ""}, command="make all")
    agent.send("Stop")
    log = b"".join(path.read_bytes() for path in Gate.open(agent.cwd).workspace.log_folder.glob("*.jsonl"))
    assert b"intent_map" not in log


def test_a_daemon_of_its_own_does_it_and_remit_map_changes_nothing(installed: Installed) -> None:
    installed.tell("Bash", {"command": "remit intent select INT-001"}, installed.repository)
    installed.start()
    installed.call()
    (installed.repository / "src/new.py").write_text("x\n")
    told: dict[str, object] = {
        "session_id": "s1",
        "cwd": str(installed.repository),
        "tool_use_id": "t1",
        "tool_response": {},
    }
    told |= {"hook_event_name": "PostToolUse", "tool_name": "Write"}
    told |= {"tool_input": {"file_path": str(installed.repository / "src/new.py"), "content": "x\n"}}
    client = [installed.path, "claude-code", "post"]
    subprocess.run(client, input=json.dumps(told).encode(), cwd=installed.repository, timeout=WAIT_S, check=True)
    path = installed.repository / MAP
    wait_until(lambda: path.exists() and b"#### src/new.py" in path.read_bytes())  # an earlier one is without the file
    text = path.read_bytes()
    assert "is as the ledger says" in installed.remit("map")
    assert path.read_bytes() == text


def test_who_asks_for_blame_finds_the_index_and_the_words_of_all_records_there(agent: Warm) -> None:
    for n in range(30):
        agent.write(f"src/new_{n}.py", f"def first_{n}():\n    return {n}\n")
    workspace = workspace_at(agent.cwd, agent.cwd)
    upkeep = Upkeep(agent.gates)
    run_to_its_end(upkeep)
    with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
        assert index.catch_up() == 0
        assert index.list_changes_without_marks(None, 1) == ()
        assert len(index.list_put_marks()) == 30
