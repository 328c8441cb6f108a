"""The hook client as an agent's MCP server, in both languages: what it passes on, and what it answers by itself."""

import json
import select
import socket
import subprocess
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from gate.driving import governed
from remit.servers.daemon import has_hung_up
from remit.servers.tool_offer import find_offer, hash_path, render_offer
from waiting import WAIT_S, wait_until

HELLO: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": "hello",
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}
GREETED: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/initialized"}
CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
LONG = 3_000_000


def asking(number: int, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, **({"params": params} if params else {})}


def answering(number: Any, **result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "result": result}


class Ends:
    """One end of a conversation, by lines."""

    def __init__(self, reading: Any, writing: Any) -> None:
        self.reading, self.writing = reading, writing

    def say(self, *messages: dict[str, Any] | bytes) -> None:
        for message in messages:
            self.writing.write(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")
        self.writing.flush()

    def hear(self) -> Any:
        """The next message; None at the end."""
        assert select.select([self.reading], [], [], WAIT_S)[0], "nothing came"
        line = self.reading.readline()
        return json.loads(line) if line else None


class Server(Ends):
    """The process that serves tools, at its end of the client's connection."""

    def __init__(self, line: socket.socket) -> None:
        self.line = line
        super().__init__(line.makefile("rb", buffering=0), line.makefile("wb"))

    def close(self) -> None:
        with suppress(OSError):
            self.line.shutdown(socket.SHUT_RDWR)
        with suppress(OSError):
            self.writing.close()
        self.reading.close()
        self.line.close()


class Agent(Ends):
    """An agent that started the client as its MCP server."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        super().__init__(process.stdout, process.stdin)
        self.process = process


@pytest.fixture
def agent(client: list[str], repository: Path) -> Generator[Agent]:
    pipe = subprocess.PIPE
    with subprocess.Popen([*client, "mcp"], cwd=repository, stdin=pipe, stdout=pipe, bufsize=0) as process:
        yield Agent(process)
        process.kill()


@contextmanager
def accepted(door: socket.socket, acknowledgement: bytes = b"A") -> Generator[Server]:
    """The server at the next connection."""
    door.settimeout(WAIT_S)
    line, _ = door.accept()
    head = b""
    while not head.endswith(b"\0\0"):
        head += line.recv(1)
    version, name, kind, _, *variables = head[:-2].split(b"\0")[1:]
    assert (version, name, kind) == (b"1", b"mcp", b"note")
    assert any(each.startswith(b"PATH=") for each in variables)
    line.sendall(acknowledgement)
    with closing(Server(line)) as server:
        yield server


@pytest.fixture
def offered(client: list[str], repository: Path, tmp_path: Path) -> list[str]:
    """The tools of the offer that was prepared for the agent's folder."""
    offer = find_offer(governed(repository))
    (tmp_path / "offers").mkdir()
    root = bytes(repository)
    (tmp_path / "offers" / hash_path(root)).write_bytes(render_offer(offer, root, "1"))
    return list(offer.names)


@contextmanager
def greeted(agent: Agent, door: socket.socket) -> Generator[Server]:
    """A server that has answered the agent's first words."""
    door.listen(8)
    agent.say(HELLO, GREETED)
    with accepted(door) as server:
        assert [server.hear(), server.hear()] == [HELLO, GREETED]
        server.say(answering("hello", protocolVersion="2025-06-18"))
        assert agent.hear() == answering("hello", protocolVersion="2025-06-18")
        yield server


def test_lines_are_passed_on_both_ways_however_long(door: socket.socket, agent: Agent) -> None:
    with greeted(agent, door) as server:
        call = asking(1, "tools/call", text="x" * LONG)
        agent.say(call)
        assert server.hear() == call
        server.say(answering(1, text="y" * LONG), {"jsonrpc": "2.0", "id": 7, "method": "elicitation/create"})
        assert agent.hear() == answering(1, text="y" * LONG)
        assert agent.hear()["method"] == "elicitation/create"
        agent.say(answering(7, action="decline"), b"no JSON\n", b'{"half": "a lin')
        assert server.hear() == answering(7, action="decline")
        assert server.reading.readline() == b"no JSON\n"
        agent.say(b'e"}\n')
        assert server.hear() == {"half": "a line"}


def test_the_first_words_are_answered_while_no_server_is_there(
    door: socket.socket, agent: Agent, offered: list[str]
) -> None:
    call = asking(3, "tools/call", name="why")
    agent.say(HELLO, GREETED, asking(1, "tools/list"), call, asking(2, "ping"))
    greeting, tools, pong = agent.hear(), agent.hear(), agent.hear()
    assert greeting["id"] == "hello"
    assert greeting["result"]["protocolVersion"] == "2025-06-18"
    assert greeting["result"]["capabilities"] == {"tools": {"listChanged": True}}
    assert "select the intent" in greeting["result"]["instructions"]
    assert ([tool["name"] for tool in tools["result"]["tools"]], pong) == (offered, answering(2))

    door.listen(8)
    with accepted(door) as server:
        assert [server.hear(), server.hear(), server.hear()] == [HELLO, GREETED, call]
        assert agent.hear() == CHANGED
        server.say(answering("hello", protocolVersion="2025-06-18"), answering(3, content=[]))
        assert agent.hear() == answering(3, content=[])


def test_a_version_that_is_not_known_is_answered_with_the_newest(agent: Agent, offered: list[str]) -> None:
    del offered
    agent.say({**HELLO, "params": {"protocolVersion": "2025"}})
    assert agent.hear()["result"]["protocolVersion"] == "2025-11-25"


@pytest.mark.parametrize("why", ["none", "another version", "another folder", "a repository inside"])
def test_without_an_offer_for_this_place_the_server_answers(
    door: socket.socket, agent: Agent, offered: list[str], repository: Path, tmp_path: Path, why: str
) -> None:
    del offered
    [offer] = (tmp_path / "offers").iterdir()
    text = offer.read_bytes()
    if why == "none":
        offer.unlink()
    elif why == "another version":
        offer.write_bytes(text.replace(b"1\n", b"2\n", 1))
    elif why == "another folder":
        offer.write_bytes(text.replace(bytes(repository), b"/elsewhere", 1))
    else:
        offer.rename(offer.with_name(hash_path(bytes(repository.parent))))
        moved = text.replace(bytes(repository), bytes(repository.parent), 1)
        offer.with_name(hash_path(bytes(repository.parent))).write_bytes(moved)
    agent.say(asking(2, "ping"))
    assert agent.hear() == answering(2)  # it looks for no server yet
    with greeted(agent, door):
        pass


def test_the_calls_of_a_server_that_ends_are_answered_once_and_the_next_hears_it_all(
    door: socket.socket, agent: Agent
) -> None:
    with greeted(agent, door) as server:
        agent.say(asking(1, "tools/list"))
        assert server.hear()["id"] == 1
        server.say(answering(1, tools=[]))
        assert agent.hear() == answering(1, tools=[])
        agent.say(asking(2, "tools/call"), {**asking(3, "tools/call"), "id": 'odd "id"'})
        assert [server.hear()["id"], server.hear()["id"]] == [2, 'odd "id"']
        server.close()
    failed = [agent.hear(), agent.hear()]
    assert sorted(str(each["id"]) for each in failed) == ["2", 'odd "id"']
    assert all("call again" in each["error"]["message"] for each in failed)

    agent.say(asking(4, "tools/call"))
    with accepted(door) as server:
        assert [server.hear(), server.hear(), server.hear()] == [HELLO, GREETED, asking(4, "tools/call")]
        assert agent.hear() == CHANGED
        server.say(answering("hello"), answering(4, done=True))
        assert agent.hear() == answering(4, done=True)


def test_first_words_that_were_not_answered_are_said_again(door: socket.socket, agent: Agent) -> None:
    door.listen(8)
    agent.say(HELLO)
    with accepted(door) as server:
        assert server.hear() == HELLO
    with accepted(door) as server:
        assert server.hear() == HELLO
        server.say(answering("hello"))
        assert agent.hear() == answering("hello")


def test_a_daemon_of_another_version_is_asked_again(door: socket.socket, agent: Agent) -> None:
    door.listen(8)
    with accepted(door, b"V"):
        pass
    with greeted(agent, door):
        pass


def test_what_was_asked_before_the_last_line_is_answered(door: socket.socket, agent: Agent) -> None:
    with greeted(agent, door) as server:
        agent.say(asking(1, "tools/call"))
        agent.writing.close()
        assert server.hear() == asking(1, "tools/call")
        server.say(answering(1))
        assert agent.hear() == answering(1)
        assert server.hear() is None
        server.close()
    assert agent.hear() is None
    assert agent.process.wait(WAIT_S) == 0


@pytest.mark.parametrize("how", ["its pipes close", "the client is killed"])
def test_the_server_learns_that_the_agent_is_gone_during_a_call(door: socket.socket, agent: Agent, how: str) -> None:
    with greeted(agent, door) as server:
        agent.say(asking(1, "tools/call"))
        assert server.hear() == asking(1, "tools/call")
        if how == "the client is killed":
            agent.process.kill()
        else:
            agent.writing.close()
            agent.reading.close()
        wait_until(lambda: has_hung_up(server.line))


IDS = ("1", '"a\\u0020b"', "-1.5e3", '"}]{[\\""', "null")
FORMS = (
    '{"id":%s,"method":"ping"}',
    ' {"params":{"id":9,"a":[{"method":"x"},"]"]}, "method" : "ping" , "id" : %s}  ',
    '{"a":true,"b":null,"method":"ping","c":{},"d":[],"id":%s,"e":"\\\\"}',
)


def test_lines_are_read_as_json_is(agent: Agent) -> None:
    for form in FORMS:
        for number in IDS:
            agent.say((form % number).encode() + b"\n", asking(77, "ping"))
            if number != "null":
                assert agent.hear() == answering(json.loads(number)), form % number
            assert agent.hear() == answering(77), form % number


NO_MESSAGES = (
    *(b"{", b'{"id":1', b'{"id":1,"method":"ping"', b'["ping"]', b'{"id":1 "method":"ping"}', b'"\\', b"   "),
    *(b'{"id":1,"method":"ping"}}', b'{"id":,"method":"ping"}', b'{"id":1,"method":"ping\\"}'),
    *(b"\xff\x00{", b"{" * 10_000),
)


def test_what_is_no_message_answers_nothing(agent: Agent) -> None:
    for number, line in enumerate(NO_MESSAGES, 100):
        agent.say(line + b"\n", asking(number, "ping"))
        assert agent.hear() == answering(number), line
