"""The process that serves all MCP clients, behind hook client and daemon: by the official client, in both eras."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.shared.exceptions import MCPError
from mcp_types import Implementation

from coroutines import run_coroutine
from gate.driving import Agent, body, governed, machine, records
from processes import daemons_of, fields, kill_daemons, list_below
from remit.gate.gate import Gate
from remit.servers.tool_offer import find_offer, put_offer
from remit.wiring.hook_client import client_path, install_client
from servers.test_elicitation import PROPOSAL, YES, Desk, Shown
from servers.test_mcp import ERAS, OFFERED, text
from waiting import wait_until

pytestmark = pytest.mark.live


@pytest.fixture
def hook(home: Path) -> str:
    install_client(home)
    return str(client_path(home))


def connect(hook: str, root: Path, mode: str) -> Client:
    variables = {name: os.environ[name] for name in ("HOME", "PATH", "GIT_CONFIG_NOSYSTEM")}
    server = StdioServerParameters(command=hook, args=["mcp"], cwd=str(root), env=variables)
    return Client(stdio_client(server), client_info=Implementation(name="unheard-of", version="1"), mode=mode)


async def list_intents(client: Client) -> None:
    """Call a tool; once more where the call was on its way while the server ended."""
    try:
        listed = await client.call_tool("list_active_intents", {})
    except MCPError:
        listed = await client.call_tool("list_active_intents", {})
    assert "INT-001" in text(listed)


def find_tool_server(home: Path) -> int | None:
    """The process that serves clients; None while it is not there."""
    below = [pid for daemon in daemons_of(home) for pid in list_below(daemon)]
    return next((pid for pid in below if "--clients-fd" in fields(Path(f"/proc/{pid}/cmdline"))), None)


def test_clients_of_both_eras_are_served_by_one_process_that_may_end(repository: Path, home: Path, hook: str) -> None:
    governed(repository)
    put_offer(home, find_offer(repository), "another version")

    async def use() -> None:
        async with connect(hook, repository, "legacy") as old, connect(hook, repository, "auto") as new:
            served: set[int | None] = set()
            for client in (old, new):
                assert [tool.name for tool in (await client.list_tools()).tools] == OFFERED
                chosen = await client.call_tool("select_active_intent", {"intent_id": "INT-001"})
                assert not chosen.is_error, text(chosen)
                served.add(find_tool_server(home))
            [server] = served
            assert server is not None
            os.kill(server, signal.SIGKILL)
            await asyncio.to_thread(wait_until, lambda: find_tool_server(home) is None)
            await list_intents(old)
            await asyncio.to_thread(kill_daemons, home)
            for client in (old, new):
                await list_intents(client)

    run_coroutine(use())


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("above", ["claude", "a-program"])
def test_a_form_is_shown_below_the_agent_only(repository: Path, home: Path, hook: str, mode: str, above: str) -> None:
    desk, shown = Desk(repository, home), Shown(YES)
    desk.words = [hook, "mcp"]
    result = desk.call(shown, mode=mode, above=above)
    assert result.is_error is (above != "claude")
    assert len(shown.messages) == (above == "claude")


def test_the_question_of_a_client_that_is_killed_is_closed(repository: Path, home: Path, hook: str) -> None:
    agent = Agent(governed(repository), home)
    gate = Gate.open(repository, machine(home))

    def is_open() -> bool:
        gate.questions.mark_watcher_present(watcher="a person")
        return bool(gate.questions.list_open_questions())

    async def ask() -> None:
        async with connect(hook, repository, "legacy") as client:
            await client.list_tools()
            agent.ask("mcp__remit__propose_intent", **PROPOSAL)
            assert not is_open()
            call = asyncio.create_task(client.call_tool("propose_intent", PROPOSAL))
            await asyncio.to_thread(wait_until, is_open)
            [relay] = [pid for pid in list_below(os.getpid()) if "mcp" in fields(Path(f"/proc/{pid}/cmdline"))]
            os.kill(relay, signal.SIGKILL)
            with pytest.raises(MCPError):
                await call
            await asyncio.to_thread(wait_until, lambda: not is_open())

    run_coroutine(ask())
    assert [body(r)["approval"]["answer"] for r in records(repository, "approval_answered")] == ["deny"]
