"""MCP servers as tools: a real server, over stdio and HTTP."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from agent.tool_driving import SESSION, ToolDriver
from gate.driving import body, records
from remit.core.config import make_mcp_item
from remit.gate.gate import Gate
from remit.workspace.place.config import Trust, write_trust
from remit_agent.tools.mcp_client import McpConnections, make_mcp_tools
from waiting import wait_until

SERVER = Path(__file__).with_name("mcp_server.py")
ENTRY = {"command": sys.executable, "args": [str(SERVER)]}


@pytest.fixture
def driver(repository: Path, home: Path) -> ToolDriver:
    return ToolDriver(repository, home)


@pytest.fixture
def connections(driver: ToolDriver) -> Generator[McpConnections]:
    opened = McpConnections({"notes": ENTRY}, driver.root, {"PATH": os.defpath})
    yield opened
    opened.close()


def call(driver: ToolDriver, connections: McpConnections, tool: str, **arguments: Any) -> Any:
    use, _ = make_mcp_tools(connections)
    return driver.perform(use, server_name="notes", tool_name=tool, arguments=arguments).output


def test_a_tool_is_called_on_a_server_that_starts_at_its_first_use(
    driver: ToolDriver, connections: McpConnections
) -> None:
    assert connections.open == {}
    assert call(driver, connections, "add", a=1, b=2).text == "3"
    assert list(connections.open) == ["notes"]
    assert body(records(driver.root, "tool_use")[-1])["call"]["name"] == "use_mcp_tool"


def test_what_a_server_changes_is_compared_and_recorded(driver: ToolDriver, connections: McpConnections) -> None:
    assert call(driver, connections, "note", text="hello").text == "written"
    assert [file["path"] for file in body(records(driver.root, "mutation")[-1])["files"]] == ["note.txt"]


def test_the_tools_of_a_server_need_an_intent_by_what_they_are_given_and_by_what_the_server_says(
    driver: ToolDriver, connections: McpConnections
) -> None:
    driver.gate.intents.clear(SESSION, "remit")
    assert call(driver, connections, "add", a=1, b=2).text == "3"
    assert call(driver, connections, "look", path="README.md").text == "looked at README.md"
    use, _ = make_mcp_tools(connections)
    kept = driver.perform(use, server_name="notes", tool_name="keep", arguments={"path": "README.md"})
    assert kept.violation is not None
    assert kept.violation.error_type == "MISSING_OR_INVALID_INTENT"
    assert call(driver, connections, "look", path="lie").text == "looked at lie"
    assert not (driver.root / "lie").exists(), "its word is no proof: it is compared"


def test_images_and_failures_come_as_what_they_are(driver: ToolDriver, connections: McpConnections) -> None:
    output = call(driver, connections, "picture")
    (image,) = output.data["images"]
    assert image["media_type"] == "image/png"
    failed = call(driver, connections, "fail")
    assert (failed.ok, failed.data["error_type"]) == (False, "MCP_ERROR")
    assert "fail" in failed.text


def test_a_resource_is_read(driver: ToolDriver, connections: McpConnections) -> None:
    _, access = make_mcp_tools(connections)
    assert driver.run(access, server_name="notes", uri="note://first") == "the first note"
    failure = driver.fail(access, server_name="notes", uri="note://second")
    assert failure.error_type == "MCP_ERROR"


def test_a_wrong_call_is_answered_with_what_the_server_has(driver: ToolDriver, connections: McpConnections) -> None:
    use, _ = make_mcp_tools(connections)
    unknown = driver.fail(use, server_name="notes", tool_name="sub")
    assert "- add: Add two numbers." in str(unknown)
    missing = driver.fail(use, server_name="notes", tool_name="add", arguments={"a": 1})
    assert missing.error_type == "INVALID_ARGUMENTS"
    assert '"properties"' in str(missing)
    assert driver.fail(use, server_name="other", tool_name="x").error_type == "NO_SUCH_SERVER"


def test_a_server_that_left_is_started_again_for_the_next_call(driver: ToolDriver, connections: McpConnections) -> None:
    use, _ = make_mcp_tools(connections)
    assert call(driver, connections, "add", a=1, b=2).text == "3"
    failure = driver.fail(use, server_name="notes", tool_name="leave")
    assert failure.error_type == "MCP_ERROR"
    assert call(driver, connections, "add", a=2, b=2).text == "4"


def test_a_question_of_a_server_goes_to_the_person(driver: ToolDriver, connections: McpConnections) -> None:
    driver.person.answers["ask_person"] = "green"
    assert call(driver, connections, "ask").text == "accept green"
    assert "Which colour?" in driver.person.asked[0][1]
    driver.person.answers["ask_person"] = None
    assert call(driver, connections, "ask").text.startswith("cancel")


def test_a_server_that_does_not_start_is_a_failure(driver: ToolDriver) -> None:
    opened = McpConnections({"notes": {"command": "/nowhere/at-all"}}, driver.root, {})
    use, _ = make_mcp_tools(opened)
    assert driver.fail(use, server_name="notes", tool_name="add").error_type == "MCP_ERROR"
    opened.close()


def test_servers_of_the_repository_start_only_once_their_file_is_trusted(driver: ToolDriver, home: Path) -> None:
    path = driver.root / ".mcp.json"
    content = json.dumps({"mcpServers": {"notes": ENTRY}}).encode()
    path.write_bytes(content)
    found = McpConnections.of_gate(driver.gate)
    assert found.names == ()
    use, _ = make_mcp_tools(found)
    assert "remit trust" in str(driver.fail(use, server_name="notes", tool_name="add"))
    write_trust(home, Trust(driver.gate.recorder.repository, str(driver.root), "", (make_mcp_item(content),)))
    assert McpConnections.of_gate(Gate.open(driver.root, driver.gate.environment)).names == ("notes",)
    path.write_bytes(content + b" ")
    assert McpConnections.of_gate(Gate.open(driver.root, driver.gate.environment)).names == ()


def test_servers_of_the_person_need_no_trust(driver: ToolDriver, home: Path) -> None:
    (home / ".config" / "remit").mkdir(parents=True)
    (home / ".config" / "remit" / "mcp.json").write_text(json.dumps({"mcpServers": {"mine": ENTRY}}))
    assert McpConnections.of_gate(driver.gate).names == ("mine",)
    assert make_mcp_tools(McpConnections({}, driver.root, {})) == ()


def test_a_server_is_reached_over_http(driver: ToolDriver) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with subprocess.Popen([sys.executable, str(SERVER), str(port)], stderr=subprocess.DEVNULL) as process:
        try:
            wait_until(lambda: is_listening(port), has_failed=lambda: process.poll() is not None)
            opened = McpConnections({"notes": {"url": f"http://127.0.0.1:{port}/mcp"}}, driver.root, {})
            assert call(driver, opened, "add", a=20, b=22).text == "42"
            opened.close()
        finally:
            process.terminate()


def is_listening(port: int) -> bool:
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0
