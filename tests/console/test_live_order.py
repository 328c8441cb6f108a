"""The live stream tells what is so now: its first state is never that of the pages before, and none goes missing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import run_git
from console.console_world import Browser, open_page, serving
from console.test_live_resume import Stream
from gate.driving import Agent, governed, machine
from remit.console.server import ConsoleServer
from remit.gate.gate import Gate
from remit.gate.people.questions import Question
from remit.workspace.place.workspace import (
    GOVERNED_FOLDER,
    list_governed_roots,
    locate_workspace,
    register_repository,
    workspace_at,
)
from waiting import wait_until


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    governed(repository)
    register_repository(home, workspace_at(repository, repository))
    return Agent(repository, home)


@pytest.fixture
def server(agent: Agent) -> Iterator[ConsoleServer]:
    with serving(agent.home) as found:
        yield found


@pytest.fixture
def browser(server: ConsoleServer) -> Browser:
    found = Browser(server)
    found.pair()
    return found


def put_question(agent: Agent, name: str) -> None:
    """Put a question as an agent's call does."""
    gate = Gate(locate_workspace(agent.cwd), agent.environment)
    now = gate.questions.clock.now()
    about: dict[str, Any] = {"session_id": "s", "agent": "claude-code", "intent_id": None}
    about |= {"code": "SCOPE_VIOLATION", "action": "x", "message": "x", "asked_at": now, "expires_at": now + 600}
    gate.questions.put_question(Question(name, **about))
    gate.close()


def test_a_stream_begins_with_the_questions_of_now(agent: Agent, server: ConsoleServer, browser: Browser) -> None:
    with open_page(browser):
        pass
    watcher = server.console.watcher
    wait_until(lambda: watcher.listeners == 0 and watcher.task is not None and watcher.task.done())
    put_question(agent, "q-now")
    stream = Stream(browser)
    assert stream.read_event("state")["questions"] == ["q-now"]
    stream.close()


def test_a_repository_whose_state_is_broken_silences_no_other(agent: Agent, browser: Browser, tmp_path: Path) -> None:
    other = tmp_path / "another"
    other.mkdir()
    run_git(other, "init", "-q")
    governed(other)
    register_repository(agent.home, workspace_at(other, other))
    put_question(Agent(other, agent.home), "q-0")
    broken = Gate(locate_workspace(other), machine(agent.home))
    broken.state.execute("UPDATE approvals SET question='{}'")  # of a version that this one cannot read
    broken.close()
    stream = Stream(browser)
    put_question(agent, "q-1")
    while stream.read_event("state")["questions"] != ["q-1"]:
        pass
    put_question(agent, "q-2")
    while stream.read_event("state")["questions"] != ["q-1", "q-2"]:
        pass
    stream.close()


def test_a_repository_that_another_process_forgets_meanwhile_is_left_out(agent: Agent) -> None:
    (agent.home / GOVERNED_FOLDER / "0gone").symlink_to(agent.home / "nowhere")  # as one listed, and removed since
    assert list_governed_roots(agent.home) == [str(agent.cwd)]
