"""The MCP server: the catalogue of `tools`, offered on stdio. The agent's hook announces the caller of each call."""

import sqlite3
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.session import ServerSession
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from msgspec import Struct

from remit.adapters import ROWS
from remit.core.call import SessionKey, hash_arguments
from remit.gate.answer import RECORDING_ERRORS
from remit.gate.environment import Environment
from remit.gate.gate import Gate
from remit.gate.rules.load import Rules, load_rules
from remit.gate.sessions.protocol import format_mcp_instructions
from remit.servers.elicitation import Elicitations, add_reply, can_show_forms, elicit_answer
from remit.tools.catalogue import TOOLS, offered_tools, run_tool
from remit.tools.result import Caller, NeedsPerson, ToolAnswer
from remit.workspace.intents_file.storage import IntentsFileChanged
from remit.workspace.place.workspace import locate_workspace

CALL_ID_KEYS = ("claudecode/toolUseId", "callId")
"""Keys under which agents send the id of an announced call."""

ANNOUNCEMENT_TIMEOUT_S = 30.0
NEEDS_SESSION = frozenset(name for name, tool in TOOLS.items() if tool.acts_for_session)

OFFER_CHECK_INTERVAL_S = 2.0
"""Interval of checks for changed tools: `remit init`, a mode or an intent may change the offer."""


class McpClient(Struct, frozen=True):
    """Name and capabilities sent by the client."""

    name: str
    capabilities: types.ClientCapabilities | None


class McpConnection:
    """Connection of one client. Without hooks, the connection itself is the session."""

    def __init__(self, folder: Path, environment: Environment) -> None:
        self.folder = folder
        self.environment = environment
        self.own_caller = Caller(SessionKey(f"mcp-{uuid4()}"), "mcp")
        self.elicitations = Elicitations()

    def call_tool(
        self,
        name: str,
        arguments: dict[str, Any],
        meta: dict[str, Any],
        client: McpClient,
        known_caller: Caller | None = None,
    ) -> ToolAnswer:
        """Run one tool for its caller; `known_caller` is set for a repeated call. Raises NeedsPerson."""
        gate = Gate.open(self.folder, self.environment)
        if not gate.is_governed:
            return make_failure("Remit does not govern this folder. A person can start it with `remit init`.")
        if name not in TOOLS:
            return make_failure(f"There is no tool {name!r}; there are {', '.join(TOOLS)}.")
        try:
            caller = known_caller or self.find_caller(gate, name, arguments, meta, client)
            return run_tool(gate, caller, name, arguments) if caller else unknown_caller()
        except IntentsFileChanged as error:
            return make_failure(f"{error}. Nothing was selected or changed: call it again.")
        except (*RECORDING_ERRORS, sqlite3.Error) as error:
            return make_failure(f"Remit cannot reach its records: {error}. Nothing was selected or changed.")

    @property
    def rules(self) -> Rules | None:
        """Return the rules of this folder; None if ungoverned."""
        workspace = locate_workspace(self.folder)
        return load_rules(workspace) if workspace is not None and workspace.is_governed else None

    def find_offered_tools(self) -> tuple[str, ...]:
        """Return the tools to offer now; none if the rules cannot be read."""
        try:
            return offered_tools(self.rules)
        except RECORDING_ERRORS:
            return ()

    def format_instructions(self) -> str:
        """Return the instructions for the model; "" if no duty applies."""
        try:
            rules = self.rules
        except RECORDING_ERRORS:
            return ""
        return "" if rules is None else format_mcp_instructions(rules.mode, rules.document)

    def find_caller(
        self, gate: Gate, name: str, arguments: dict[str, Any], meta: dict[str, Any], client: McpClient
    ) -> Caller | None:
        """Return the session announced by a hook; None if a required announcement is missing."""
        digest = hash_arguments([name, hash_arguments(arguments)])
        call_id = next((str(meta[key]) for key in CALL_ID_KEYS if meta.get(key)), "")
        since = self.environment.clock() - ANNOUNCEMENT_TIMEOUT_S
        announced = gate.state.take_remit_call(call_id, digest, since)
        if announced is not None:
            dialog = can_show_forms(announced.agent, client.capabilities)
            return Caller(announced.session, announced.agent, dialog)
        hooked = bool(call_id) or client.name in ROWS
        return None if hooked and name in NEEDS_SESSION else self.own_caller


def unknown_caller() -> ToolAnswer:
    """Return the failure for a call without an announcement: a guessed session could be the wrong one."""
    return make_failure(
        "Remit's hook did not announce this call, so nothing was selected or changed. The hooks are not wired, or did "
        "not fire: ask the person to run `remit doctor`."
    )


def make_failure(text: str) -> ToolAnswer:
    return ToolAnswer(text, {"status": "error", "error": text}, ok=False)


class ToolOffer:
    """Tools last offered to a connection, with notifications about changes."""

    def __init__(self, connection: McpConnection) -> None:
        self.connection = connection
        self.last_offered: tuple[str, ...] | None = None
        self.session: ServerSession | None = None
        self.listeners = InMemorySubscriptionBus()

    def list_tool_names(self, session: ServerSession) -> tuple[str, ...]:
        self.last_offered, self.session = self.connection.find_offered_tools(), session
        return self.last_offered

    async def watch_changes(self) -> None:
        """Notify the client of each changed offer while the connection lasts."""
        while True:
            await anyio.sleep(OFFER_CHECK_INTERVAL_S)
            session, told = self.session, self.last_offered
            if (
                session is None
                or told is None
                or await anyio.to_thread.run_sync(self.connection.find_offered_tools) == told
            ):
                continue
            self.last_offered = None
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # the client is disconnecting
                await session.send_tool_list_changed()  # for clients from before `subscriptions/listen`
                await self.listeners.publish(ToolsListChanged())


def build_server(folder: Path, environment: Environment, version: str) -> tuple[Server[Any], ToolOffer]:
    """Return the server for any transport, and its offer, to be watched while the server runs."""
    doorway = McpConnection(folder, environment)
    offer = ToolOffer(doorway)

    async def list_tools(
        ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[describe_tool(name) for name in offer.list_tool_names(ctx.session)])

    async def call_tool(
        ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        known = ctx.session.client_params
        about = McpClient(known.client_info.name if known else "", ctx.session.client_capabilities)
        arguments = params.arguments or {}
        call = partial(doorway.call_tool, params.name, arguments, dict(params.meta or {}), about)
        try:
            again = doorway.elicitations.resume_call(params, environment.clock())
            result = await anyio.to_thread.run_sync(partial(call, again))  # a person may think for minutes
        except NeedsPerson as needed:
            if not ctx.session.can_send_request:
                return doorway.elicitations.request_answer(needed, params.name, arguments)
            left = needed.question.expires_at - environment.clock()
            reply = await elicit_answer(ctx.session, needed.question, left)
            again = add_reply(needed.caller, needed.question, reply)
            result = await anyio.to_thread.run_sync(partial(call, again))
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=result.text)],
            structured_content=result.data,
            is_error=not result.ok,
        )

    server = Server(
        "remit",
        version=version,
        instructions=doorway.format_instructions() or None,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_subscriptions_listen=ListenHandler(offer.listeners),
    )
    return server, offer


def describe_tool(name: str) -> types.Tool:
    tool = TOOLS[name]
    return types.Tool(name=name, description=tool.description, input_schema=tool.schema)


def serve_stdio(folder: Path, environment: Environment, version: str) -> None:
    """Serve on standard input and output until the client disconnects."""
    server, offer = build_server(folder, environment, version)
    options = server.create_initialization_options(NotificationOptions(tools_changed=True))

    async def run_server() -> None:
        async with stdio_server() as (read, write), anyio.create_task_group() as tasks:
            tasks.start_soon(offer.watch_changes)
            await server.run(read, write, options)
            tasks.cancel_scope.cancel()

    anyio.run(run_server)
