"""The MCP server: the catalogue of `tools`, offered on stdio. Whose call it is, the agent's hook has told."""

import sqlite3
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from msgspec import Struct

from remit.adapters import ROWS
from remit.core.call import SessionKey, hash_arguments
from remit.gate.answer import CannotRecord
from remit.gate.environment import Environment
from remit.gate.gate import Gate
from remit.servers.dialogs import Dialogs, elicited, shows_forms, with_said
from remit.tools.catalogue import TOOLS, run_tool
from remit.tools.result import Caller, NeedsPerson, ToolResult
from remit.workspace.intents_writing import IntentsFileChanged

CALL_ID_KEYS = ("claudecode/toolUseId", "callId")
"""Where agents put the id of the call that their hook announced."""

JOIN_WITHIN_S = 30.0
NEEDS_SESSION = frozenset(name for name, tool in TOOLS.items() if tool.writes)

INSTRUCTIONS = (
    "This workspace is governed by Remit: select the intent you work under before you change anything, "
    "stay inside its owned_scope, and complete it when its acceptance criteria are met."
)


class Client(Struct, frozen=True):
    """What the other end says of itself."""

    name: str
    capabilities: types.ClientCapabilities | None


class Doorway:
    """One connection. Without hooks, the connection itself is the session."""

    def __init__(self, folder: Path, environment: Environment) -> None:
        self.folder = folder
        self.environment = environment
        self.own = Caller(SessionKey(f"mcp-{uuid4()}"), "mcp")
        self.dialogs = Dialogs()

    def call(
        self,
        name: str,
        arguments: dict[str, Any],
        meta: dict[str, Any],
        about: Client,
        known: Caller | None = None,
    ) -> ToolResult:
        """Run one tool for whoever called it; `known` is who, where it runs again. Raises NeedsPerson."""
        gate = Gate.open(self.folder, self.environment)
        if not gate.governed:
            return problem("Remit does not govern this folder. A person can start it with `remit init`.")
        if name not in TOOLS:
            return problem(f"There is no tool {name!r}; there are {', '.join(TOOLS)}.")
        try:
            caller = known or self.caller(gate, name, arguments, meta, about)
            return run_tool(gate, caller, name, arguments) if caller else unknown_caller()
        except IntentsFileChanged as error:
            return problem(f"{error}. Nothing was selected or changed: call it again.")
        except (*CannotRecord, sqlite3.Error) as error:
            return problem(f"Remit cannot reach its records: {error}. Nothing was selected or changed.")

    def caller(
        self, gate: Gate, name: str, arguments: dict[str, Any], meta: dict[str, Any], about: Client
    ) -> Caller | None:
        """Whose call it is: the session that a hook announced; None where a hook should have and did not."""
        digest = hash_arguments([name, hash_arguments(arguments)])
        call_id = next((str(meta[key]) for key in CALL_ID_KEYS if meta.get(key)), "")
        since = self.environment.clock() - JOIN_WITHIN_S
        announced = gate.state.take_remit_call(call_id, digest, since)
        if announced is not None:
            dialog = shows_forms(announced.agent, about.capabilities)
            return Caller(announced.session, announced.agent, dialog)
        hooked = bool(call_id) or about.name in ROWS
        return None if hooked and name in NEEDS_SESSION else self.own


def unknown_caller() -> ToolResult:
    """No hook announced the call: selecting for a guessed session would bind the wrong one."""
    return problem(
        "Remit's hook did not announce this call, so nothing was selected or changed. The hooks are not wired, or did "
        "not fire: ask the person to run `remit doctor`."
    )


def problem(text: str) -> ToolResult:
    """A failure that is no violation."""
    return ToolResult(text, {"status": "error", "error": text}, ok=False)


def build(folder: Path, environment: Environment, version: str) -> Server[Any]:
    """The server, for any transport."""
    doorway = Doorway(folder, environment)

    async def list_tools(ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[described(name) for name in TOOLS])

    async def call_tool(
        ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        known = ctx.session.client_params
        about = Client(known.client_info.name if known else "", ctx.session.client_capabilities)
        arguments = params.arguments or {}
        call = partial(doorway.call, params.name, arguments, dict(params.meta or {}), about)
        try:
            again = doorway.dialogs.resumed(params, environment.clock())
            result = await anyio.to_thread.run_sync(partial(call, again))  # a person may think for minutes
        except NeedsPerson as needed:
            if not ctx.session.can_send_request:
                return doorway.dialogs.hold(needed, params.name, arguments)
            left = needed.question.expires_at - environment.clock()
            reply = await elicited(ctx.session, needed.question, left)
            again = with_said(needed.caller, needed.question, reply)
            result = await anyio.to_thread.run_sync(partial(call, again))
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=result.text)],
            structured_content=result.data,
            is_error=not result.ok,
        )

    return Server("remit", version=version, instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool)


def described(name: str) -> types.Tool:
    """A tool as MCP describes it."""
    tool = TOOLS[name]
    return types.Tool(name=name, description=tool.description, input_schema=tool.schema)


def serve(folder: Path, environment: Environment, version: str) -> None:
    """Serve on standard input and output until the client goes."""
    server = build(folder, environment, version)

    async def run() -> None:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    anyio.run(run)
