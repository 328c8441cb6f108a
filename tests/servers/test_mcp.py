"""The MCP server as a process, spoken to by the official client."""

import asyncio
import json
import subprocess
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from io import TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO, cast

import anyio
import pytest
from mcp.client.client import Client
from mcp.server.stdio import stdio_server
from mcp_types import CallToolResult, Implementation, ToolListChangedNotification
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS

from coroutines import run_coroutine
from forked_commands import start_process
from gate.driving import INTENTS, Agent, body, governed, machine, records
from remit.core.call import SessionKey
from remit.core.machine_paths import OFFERS_FOLDER
from remit.gate.gate import Gate
from remit.servers.tool_offer import hash_path
from remit.tools.catalogue import TOOLS
from remit.tools.coordination import COORDINATION_TOOLS
from waiting import WAIT_S

ERAS = ("auto", "legacy")
NO_INTENTS = "active_intents: []\n"
OFFERED = [name for name in TOOLS if name not in COORDINATION_TOOLS]
SELECT = "mcp__remit__select_active_intent"
Work = Callable[[Client], Awaitable[Any]]


@asynccontextmanager
async def open_server(folder: Path, home: Path) -> AsyncGenerator[Any]:
    """Yield the client's two streams to a server; the lines of this protocol are the same in both directions."""
    environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "GIT_CONFIG_NOSYSTEM": "1"}
    with start_process(
        ["mcp", "--direct"], folder, environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        read, write = (TextIOWrapper(cast(BinaryIO, end), "utf-8") for end in (server.stdout, server.stdin))
        async with stdio_server(anyio.wrap_file(read), anyio.wrap_file(write)) as (heard, told):
            yield heard.clone(), told
            write.close()
            async with heard:
                async for _ in heard:
                    pass  # what the server says while it ends


def connected(
    folder: Path, home: Path, work: Work, *, client: str = "unheard-of", mode: str = "auto", hear: Any = None
) -> Any:
    """What `work` gives, with a client of that name; `hear` gets its notifications."""

    async def run() -> Any:
        about = Implementation(name=client, version="1")
        async with Client(open_server(folder, home), client_info=about, mode=mode, message_handler=hear) as found:
            return await work(found)

    return run_coroutine(run())


def calling(name: str, given: dict[str, Any], meta: dict[str, Any] | None = None) -> Work:
    async def work(client: Client) -> CallToolResult:
        return await client.call_tool(name, given, meta=meta)  # pyright: ignore[reportArgumentType]

    return work


def text(result: CallToolResult) -> str:
    return "".join(getattr(block, "text", "") for block in result.content)


def intent_of(root: Path, home: Path, session: str) -> str | None:
    return Gate.open(root, machine(home)).state.active_session(SessionKey(session)).intent_id


@pytest.mark.parametrize("mode", ERAS)
def test_both_protocol_eras_list_strict_tools_and_call_them(repository: Path, home: Path, mode: str) -> None:
    async def work(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) >= {"select_active_intent", "propose_intent", "why", "query_traces", "record_lesson"}
        assert all(tool.input_schema["additionalProperties"] is False for tool in tools.values())
        assert all(tool.description for tool in tools.values())
        listed = await client.call_tool("list_active_intents", {})
        assert "INT-001 [IN_PROGRESS] Names" in text(listed)
        assert listed.structured_content is not None
        assert [i["id"] for i in listed.structured_content["intents"]] == ["INT-001", "INT-002"]

    connected(governed(repository), home, work, mode=mode)


@pytest.mark.parametrize(("client", "key"), [("claude-code", "claudecode/toolUseId"), ("codex-mcp-client", "callId")])
def test_a_call_is_joined_to_its_session_by_its_id(repository: Path, home: Path, client: str, key: str) -> None:
    agent = Agent(governed(repository), home)
    given = {"intent_id": "INT-001"}
    assert agent.ask(SELECT, "toolu_other", **given) == {"call_id": "toolu_other"}
    Agent(repository, home, session="session-2").ask(SELECT, "toolu_mine", **given)
    result = connected(repository, home, calling("select_active_intent", given, {key: "toolu_mine"}), client=client)
    assert not result.is_error, text(result)
    assert (intent_of(repository, home, "session-2"), intent_of(repository, home, "session-1")) == ("INT-001", None)


def test_a_call_without_an_id_is_joined_by_its_arguments(repository: Path, home: Path) -> None:
    agent = Agent(governed(repository), home)
    agent.ask(SELECT, intent_id="INT-002")
    agent.ask(SELECT, intent_id="INT-001", reasoning="r")
    work = calling("select_active_intent", {"reasoning": "r", "intent_id": "INT-001"})
    assert not connected(repository, home, work).is_error
    assert intent_of(repository, home, "session-1") == "INT-001"


@pytest.mark.parametrize(("client", "meta"), [("claude-code", {"claudecode/toolUseId": "toolu_1"}), ("gemini", None)])
def test_what_no_hook_announced_does_nothing_and_names_doctor(
    repository: Path, home: Path, client: str, meta: dict[str, Any] | None
) -> None:
    calls: dict[str, dict[str, Any]] = {
        "select_active_intent": {"intent_id": "INT-001"},
        "clear_active_intent": {},
        "record_lesson": {"kind": "lesson", "lesson": "x"},
        "propose_intent": {"name": "n", "owned_scope": ["a"], "reason": "r"},
    }

    async def work(found: Client) -> list[CallToolResult]:
        return [await calling(name, given, meta)(found) for name, given in calls.items()]

    for result in connected(governed(repository), home, work, client=client):
        assert result.is_error
        assert "remit doctor" in text(result)
    assert records(repository, "intent_selected") == []
    assert not (repository / ".orchestration" / "AGENT.md").exists()


def test_an_announcement_serves_one_call(repository: Path, home: Path) -> None:
    agent = Agent(governed(repository), home)
    agent.ask(SELECT, "toolu_1", intent_id="INT-001")
    meta = {"claudecode/toolUseId": "toolu_1"}

    async def work(client: Client) -> tuple[CallToolResult, CallToolResult]:
        given = {"intent_id": "INT-001"}
        select = calling("select_active_intent", given, meta)
        return await select(client), await select(client)

    first, second = connected(repository, home, work, client="claude-code")
    assert (first.is_error, second.is_error) == (False, True)


def test_without_hooks_the_connection_is_the_session(repository: Path, home: Path) -> None:
    async def work(client: Client) -> None:
        chosen = await client.call_tool("select_active_intent", {"intent_id": "INT-001"})
        assert "<intent_context" in text(chosen)
        listed = await client.call_tool("list_active_intents", {})
        assert "Active in this session: INT-001" in text(listed)
        assert not (await client.call_tool("record_lesson", {"kind": "lesson", "lesson": "use tabs"})).is_error

    connected(governed(repository), home, work)
    [record] = [body(r) for r in records(repository, "lesson")]
    assert record["session_id"].startswith("mcp-")
    assert record["intent_id"] == "INT-001"

    async def again(client: Client) -> str:
        return text(await client.call_tool("list_active_intents", {}))

    assert "Active in this session: none" in connected(repository, home, again)


def test_errors_are_results(repository: Path, home: Path) -> None:
    async def work(client: Client) -> None:
        for name, given, code in (
            ("select_active_intent", {"intent_id": "INT-404"}, "INTENT_NOT_FOUND"),
            ("select_active_intent", {"intent": "INT-001"}, "INVALID_ARGUMENTS"),
            ("why", {"path": "../x"}, "INVALID_ARGUMENTS"),
            ("propose_intent", {"name": "n", "owned_scope": ["a"], "reason": "r"}, "USER_REJECTED"),
        ):
            result = await client.call_tool(name, given)
            assert result.is_error
            assert result.structured_content is not None
            assert result.structured_content["error_type"] == code
            assert json.loads(text(result)) == result.structured_content
        assert "There is no tool 'nope'" in text(await client.call_tool("nope", {}))
        assert "no such path" in text(await client.call_tool("why", {"path": "no/such.py"}))

    connected(governed(repository), home, work)


def test_an_ungoverned_folder_says_so(repository: Path, home: Path) -> None:
    result = connected(repository, home, calling("list_active_intents", {}))
    assert result.is_error
    assert "remit init" in text(result)
    assert not (repository / ".git" / "remit").exists()


async def offer(client: Client) -> tuple[str | None, list[str]]:
    """The server's instructions, and the names of the tools that it offers."""
    return client.instructions, [tool.name for tool in (await client.list_tools()).tools]


HELPFUL = ["record_lesson", "query_traces", "why"]


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("place", ["repository", "plain folder", "clone with intents"])
def test_where_remit_does_not_govern_the_server_says_and_offers_nothing(
    repository: Path, home: Path, tmp_path: Path, place: str, mode: str
) -> None:
    if place == "plain folder":
        repository = tmp_path / "plain"
        repository.mkdir()
    elif place == "clone with intents":
        (repository / ".orchestration").mkdir()
        (repository / ".orchestration" / "active_intents.yaml").write_text(INTENTS)
    assert connected(repository, home, offer, mode=mode) == (None, [])
    assert not (home / ".local").exists()


@pytest.mark.parametrize(
    ("mode", "intents", "demands", "offers"),
    [
        ("observe", NO_INTENTS, False, HELPFUL),
        ("observe", INTENTS, False, OFFERED),
        ("warn", NO_INTENTS, False, OFFERED),
        ("warn", INTENTS, True, OFFERED),
        ("enforce", NO_INTENTS, True, OFFERED),
        ("enforce", INTENTS, True, OFFERED),
    ],
)
def test_the_server_demands_an_intent_only_where_one_is_needed(
    repository: Path, home: Path, mode: str, intents: str, demands: bool, offers: list[str]
) -> None:
    instructions, tools = connected(governed(repository, mode, intents), home, offer)
    assert ("select the intent" in (instructions or ""), tools) == (demands, offers)


def test_a_client_is_told_when_its_repository_becomes_governed(repository: Path, home: Path) -> None:
    told = asyncio.Event()

    async def hear(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            told.set()

    async def work(client: Client) -> list[str]:
        assert (await offer(client))[1] == []
        governed(repository)
        async with asyncio.timeout(WAIT_S):
            await told.wait()
        return (await offer(client))[1]

    assert connected(repository, home, work, mode="legacy", hear=hear) == OFFERED


def test_a_client_that_listens_is_told_when_its_repository_becomes_governed(repository: Path, home: Path) -> None:
    async def work(client: Client) -> list[str]:
        assert (await offer(client))[1] == []
        async with client.listen(tools_list_changed=True) as events:
            governed(repository)
            async with asyncio.timeout(WAIT_S):
                async for _ in events:
                    return (await offer(client))[1]
        return []

    assert connected(repository, home, work) == OFFERED


@pytest.mark.parametrize("mode", ["observe", "enforce"])
def test_the_prepared_answers_are_those_of_the_server(repository: Path, home: Path, mode: str) -> None:
    governed(repository, mode)

    async def work(client: Client) -> tuple[object, object]:
        session = client.session
        listed = (await client.list_tools()).tools
        return session.initialize_result, [tool.model_dump(by_alias=True, exclude_none=True) for tool in listed]

    greeting, tools = connected(repository, home, work, mode="legacy")
    [prepared] = (home / OFFERS_FOLDER).iterdir()
    lines = prepared.read_bytes().splitlines()
    assert json.loads(b"{" + lines[3]) == {
        key: value
        for key, value in greeting.model_dump(by_alias=True, exclude_none=True).items()
        if key != "protocolVersion"
    }
    assert json.loads(lines[4])["tools"] == tools
    assert lines[:3] == [
        version("remit").encode(),
        bytes(repository),
        f" {' '.join(reversed(HANDSHAKE_PROTOCOL_VERSIONS))} ".encode(),
    ]
    assert prepared.name == hash_path(bytes(repository))


def test_arguments_that_do_not_fit_are_told_with_those_that_do(repository: Path, home: Path) -> None:
    given = {"intent_id": "INT-001", "notes": "done"}
    result = connected(governed(repository), home, calling("complete_intent", given))
    assert "`notes`" in text(result)
    assert "It takes `intent_id`, `verification_notes`." in text(result)
