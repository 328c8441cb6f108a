"""A page's write is the act that its body says: who may only tighten says no, and raises the mode."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.console_world import Browser, serving
from console.test_console import ATTEMPT
from gate.driving import Agent, governed
from remit.console.routes import WRITES
from remit.console.server import ConsoleServer
from remit.core.acts import Act
from remit.servers.authority import AgentRoots
from remit.workspace.place.workspace import register_repository, workspace_at
from servers import asking
from waiting import wait_until

MODE, ANSWER = "/r/{repository}/mode", "/approvals/{question}/answer"
ACTS: list[tuple[str, object, Act]] = [
    (MODE, {"mode": "enforce", "shown": "observe"}, Act.RAISE_MODE),
    (MODE, {"mode": "warn", "shown": "observe"}, Act.RAISE_MODE),
    (MODE, {"mode": "observe", "shown": "warn"}, Act.LOWER_MODE),
    (MODE, {"mode": "warn", "shown": "warn"}, Act.LOWER_MODE),
    (MODE, {"mode": "enforce"}, Act.LOWER_MODE),
    (MODE, [], Act.LOWER_MODE),
    (ANSWER, {"repository": "r", "shown_sha256": "", "allow": False}, Act.SAY_NO),
    (ANSWER, {"repository": "r", "shown_sha256": "", "allow": True}, Act.SAY_YES),
    (ANSWER, {"allow": False}, Act.SAY_YES),
    ("/approvals/answer-equal", {"repository": "r", "shown": {}}, Act.SAY_YES),
    ("/r/{repository}/grants/{grant}/revoke", {}, Act.REVOKE_GRANT),
]


@pytest.mark.parametrize(("url", "body", "act"), ACTS)
def test_the_act_is_the_bodys_and_what_cannot_be_read_needs_most(url: str, body: object, act: Act) -> None:
    [write] = [write for write in WRITES if write.url == url]
    assert write.choose_act(json.dumps(body).encode()) == act


def test_acts_that_take_back_are_of_the_class_that_asks_least() -> None:
    kinds = {act: act.kind for act in (Act.RAISE_MODE, Act.SAY_NO, Act.REVOKE_GRANT, Act.UNPAIR)}
    assert set(kinds.values()) == {"tighten"}
    assert {Act.LOWER_MODE.kind, Act.SAY_YES.kind, Act.PAIR.kind} == {"loosen"}


@pytest.fixture
def server(repository: Path, home: Path) -> Iterator[ConsoleServer]:
    governed(repository, mode="warn")
    register_repository(home, workspace_at(repository, repository))
    with serving(Agent(repository, home).home) as found:
        yield found


@pytest.mark.system
@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_who_cannot_be_seen_raises_the_mode_and_does_not_lower_it(
    server: ConsoleServer, repository: Path, home: Path, tmp_path: Path
) -> None:
    """An orphan asks that began while an agent worked beside: unclear, and no agent."""
    browser = Browser(server)
    assert browser.pair().status == 200
    claude, path = tmp_path / "claude", f"/r/{repository.name}/mode"
    claude.write_text("import sys; sys.stdin.read()")
    code = f"import sys; sys.path.insert(0, {str(Path(asking.HERE).parent)!r}); import asking; asking.become_orphan()"
    with subprocess.Popen([sys.executable, str(claude)], stdin=subprocess.PIPE) as agent:
        roots = AgentRoots(home)
        wait_until(lambda: roots.find_new(agent.pid), "the agent's name is not seen")
        root = roots.find_new(agent.pid)
        assert root is not None
        roots.keep(*root, "session-1")
        for mode, shown, status in (("enforce", "warn", "200"), ("warn", "enforce", "403")):
            body = json.dumps({"mode": mode, "shown": shown})
            words = [str(server.port), path, body, browser.host, f"remit_read={browser.cookie}"]
            command = [sys.executable, "-c", code + ATTEMPT, *words, browser.proof("POST", path, body.encode())]
            assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == status
        agent.communicate()
