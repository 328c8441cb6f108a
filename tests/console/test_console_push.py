"""Pushes to a phone: what they say, when they are sent, and that their link decides nothing."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from console.console_world import Browser, put_on_clock, serving
from console.test_console import HOSTILE, Asked, body_for
from gate.driving import Agent, governed, records
from gate.hooks.trusted_hooks import trust_all
from remit.console.push import LOOK_INTERVAL_S, WAITING_S
from remit.console.server import ConsoleServer
from remit.core.config import ConsoleSettings
from remit.gate.gate import Gate
from remit.gate.people.ask import NOBODY_LEFT_REPLY
from remit.gate.people.questions import WATCHER_TIMEOUT_S, ApprovalReply
from remit.workspace.place.workspace import register_repository, workspace_at
from stepped_clock import SteppedClock
from waiting import wait_until


class Phone(HTTPServer):
    """A server that a push goes to, and what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, dict[str, str], bytes]] = []
        self.status = 200
        phone = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                phone.told.append((self.path, dict(self.headers), body))
                self.send_response(phone.status)
                if phone.status == 302:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@pytest.fixture
def phone() -> Iterator[Phone]:
    found = Phone()
    thread = threading.Thread(target=found.serve_forever)
    thread.start()
    yield found
    found.shutdown()
    thread.join()
    found.server_close()


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def agent(repository: Path, home: Path, phone: Phone, clock: SteppedClock) -> Agent:
    governed(repository)
    register_repository(home, workspace_at(repository, repository))
    config = repository / ".orchestration/remit.toml"
    settings = f'[console]\nntfy = "{phone.address}/topic"\nwebhook = "{phone.address}/hook"\n'
    config.write_text(f"{config.read_text()}\n{settings}")
    found = put_on_clock(Agent(repository, home), clock)
    found.select()
    return found


@pytest.fixture
def server(agent: Agent, clock: SteppedClock) -> Iterator[ConsoleServer]:
    with serving(agent.home, clock=clock) as found:
        clock.wait_for_waiter()
        yield found


def trust(agent: Agent, server: ConsoleServer, clock: SteppedClock) -> Gate:
    """Trust the addresses: from the next look on the console counts as somebody who answers."""
    trust_all(agent.cwd, agent.home)
    gate = Gate.open(agent.cwd, agent.environment)
    assert not gate.questions.is_watcher_present()
    clock.advance(LOOK_INTERVAL_S)
    assert gate.questions.is_watcher_present()
    assert server.is_in_use
    return gate


def ask(agent: Agent, gate: Gate) -> Asked:
    """Let the agent ask; its question is open."""
    asked = Asked(agent)
    wait_until(gate.questions.list_open_questions, has_failed=lambda: asked.reply)
    return asked


def test_a_question_that_waits_is_told_with_agent_and_intent_and_without_what_it_is_about(
    agent: Agent, server: ConsoleServer, phone: Phone, clock: SteppedClock
) -> None:
    asked = ask(agent, trust(agent, server, clock))
    clock.advance(WAITING_S - LOOK_INTERVAL_S)
    assert phone.told == []
    clock.advance(LOOK_INTERVAL_S)
    (_, headers, body), (path, _, message) = sorted(phone.told, key=lambda told: told[0], reverse=True)
    assert (headers["Title"], body) == ("claude-code waits for you", b"INT-001")
    told = json.loads(message)
    assert (path, told["agent"], told["intent_id"], told["link"]) == (
        *("/hook", "claude-code", "INT-001"),
        headers["Click"],
    )
    everything = repr(phone.told)
    assert "docs/b.md" not in everything
    assert HOSTILE[:8] not in everything
    assert str(agent.cwd) not in everything
    browser = Browser(server)
    browser.pair()
    link = headers["Click"].removeprefix(server.guard.origin)
    before = records(agent.cwd)
    for _ in range(2):
        assert browser.get(link).status == 200
    assert Browser(server).get(link).status == 401
    assert records(agent.cwd) == before
    assert asked.reply is None
    name = link.removeprefix("/p/")
    card = browser.get(f"{link}.json").data["card"]
    assert browser.post(f"/approvals/{name}/answer", body_for(card)).status == 200
    assert asked.decision == "allow"
    assert "already allowed this once by A Person &lt;person@example.org&gt; in the console" in browser.get(link).text
    clock.advance(3 * LOOK_INTERVAL_S)
    assert len(phone.told) == 2


def test_a_question_that_is_answered_at_once_is_not_pushed(
    agent: Agent, server: ConsoleServer, phone: Phone, clock: SteppedClock
) -> None:
    gate = trust(agent, server, clock)
    asked = ask(agent, gate)
    [question] = gate.questions.list_open_questions()
    gate.questions.answer_question(question.id, ApprovalReply(False))
    assert asked.decision == "deny"
    clock.advance(WAITING_S + 2 * LOOK_INTERVAL_S)
    assert phone.told == []


def test_an_address_that_nobody_trusts_is_told_nothing_and_waits_for_nobody(
    agent: Agent, server: ConsoleServer, phone: Phone, clock: SteppedClock
) -> None:
    clock.advance(2 * LOOK_INTERVAL_S)
    assert Asked(agent).decision == "deny"
    assert not server.is_in_use
    gate = trust(agent, server, clock)
    config = agent.cwd / ".orchestration/remit.toml"
    config.write_text(config.read_text().replace("/topic", "/stolen"))
    clock.advance(WATCHER_TIMEOUT_S + LOOK_INTERVAL_S)
    assert not gate.questions.is_watcher_present()
    assert Asked(agent).decision == "deny"
    assert phone.told == []


@pytest.mark.parametrize("status", [500, 302])
def test_after_a_push_that_failed_nobody_is_taken_to_be_there(
    agent: Agent,
    server: ConsoleServer,
    phone: Phone,
    clock: SteppedClock,
    status: int,
    capfd: pytest.CaptureFixture[str],
) -> None:
    phone.status = status
    asked = ask(agent, trust(agent, server, clock))
    clock.advance(WAITING_S + LOOK_INTERVAL_S)
    assert asked.decision == "deny"
    [answer] = [record["metadata"]["dev.remit"]["approval"] for record in records(agent.cwd, "approval_answered")]
    assert answer["words"] == NOBODY_LEFT_REPLY.words  # and not that its time was over
    assert Asked(agent).decision == "deny"
    assert {path for path, _, _ in phone.told} <= {"/topic", "/hook"}
    assert f"answered {status}" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("http://ntfy.sh/x", "in the clear"),
        ("ntfy.sh/x", "expected one such as https://ntfy.sh/my-topic"),
        ("file:///etc/passwd", "is no address"),
        ("https://", "is no address"),
        ("https://[x", "is no address"),
        ("https://ntfy.sh:port/x", "is no address"),
        ("https://ntfy.sh/a\nb", "is no address"),
        ("https://ntfy.sh/a b", "holds a space"),
        ("https://ntfy.sh/a#b", "holds a space or a `#`"),
        ("", "is no address"),
    ],
)
def test_an_address_that_cannot_be_told_is_refused_with_the_reason(address: str, words: str) -> None:
    for name in ("ntfy", "webhook"):
        fields: dict[str, Any] = {name: address}
        with pytest.raises(ValueError, match=rf"\[console\] {name}: .*{words}"):
            ConsoleSettings(**fields)
    ConsoleSettings(ntfy="https://ntfy.sh/topic", webhook="http://localhost:8123/api/hook")
