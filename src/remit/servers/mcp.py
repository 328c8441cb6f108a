"""The MCP server: the catalogue of `tools`, offered to one client. The agent's hook announces the caller of each call.

A person is asked through the agent by MCP elicitation, a form shown by the client. A client could answer by itself.
Elicitation is therefore used only for agents whose row promises that a person sees the form, for calls announced by the
agent's hook, and if the parent of the process that connected is that agent. A deceptive program of the same user can
still answer; such an answer is recorded as `elicitation`.
"""

import os
import secrets
import sqlite3
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing, suppress
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
from mcp.shared.exceptions import MCPError
from msgspec import Struct
from msgspec.structs import replace

from remit.core.agents import ROWS
from remit.core.call import SessionKey, hash_arguments
from remit.gate.context import RECORDING_ERRORS
from remit.gate.gate import Gate
from remit.gate.machine import Environment
from remit.gate.people.answer import format_question
from remit.gate.people.questions import CLIENT_GONE, ApprovalReply, Question
from remit.servers.tool_offer import ToolOffer, find_offer, put_offer
from remit.tools.agent_tool import Caller, DialogAnswer, NeedsPerson, ToolAnswer
from remit.tools.catalogue import TOOLS, run_tool
from remit.workspace.intents_file.storage import IntentsFileChanged
from remit.workspace.processes.process_tracking import program_name, read_process

CALL_ID_KEYS = tuple(
    {row.call_id_key: None for row in ROWS.values()}
)  # keys under which agents send the id of an announced call
ANNOUNCEMENT_TIMEOUT_S = 30.0
OFFER_CHECK_INTERVAL_S = 2.0
"""Interval of checks for changed tools: `remit init`, a mode or an intent may change the offer."""

REQUEST_KEY = "person"  # name of the only input request
ANSWER_FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "answer": {"type": "string", "enum": ["no", "yes"], "title": "May the agent do this?"},
        "words": {"type": "string", "title": "Why not, or what instead", "maxLength": 500},
    },
    "required": ["answer"],
}
MAX_WAITING_CALLS = 64


# -- asking a person -----------------------------------------------------------------------------------------


class WaitingCall(Struct, frozen=True):
    """Call that waits for the client's answer. `digest` covers the tool and its arguments."""

    caller: Caller
    question: Question
    digest: str


class Elicitations:
    """Calls of one connection that wait for a person."""

    def __init__(self) -> None:
        self.waiting_calls: dict[str, WaitingCall] = {}

    def request_answer(self, needed: NeedsPerson, name: str, arguments: dict[str, Any]) -> types.InputRequiredResult:
        """Ask the client for an answer and a repeated call: since 2026-07-28 servers send no requests of their own."""
        while len(self.waiting_calls) >= MAX_WAITING_CALLS:
            self.waiting_calls.pop(next(iter(self.waiting_calls)))
        token = secrets.token_urlsafe(18)
        self.waiting_calls[token] = WaitingCall(needed.caller, needed.question, digest_call(name, arguments))
        form = types.ElicitRequestFormParams(message=format_question(needed.question), requested_schema=ANSWER_FORM)
        return types.InputRequiredResult(
            input_requests={REQUEST_KEY: types.ElicitRequest(params=form)}, request_state=token
        )

    def resume_call(self, params: types.CallToolRequestParams, now: float) -> Caller | None:
        held = self.waiting_calls.pop(params.request_state, None) if params.request_state else None
        if held is None or held.digest != digest_call(params.name, params.arguments or {}):
            return None
        result = (params.input_responses or {}).get(REQUEST_KEY)
        is_late = now >= held.question.expires_at
        reply = parse_reply(result) if isinstance(result, types.ElicitResult) and not is_late else None
        return add_reply(held.caller, held.question, reply)


async def elicit_answer(session: ServerSession, question: Question, seconds: float) -> ApprovalReply | None:
    with anyio.move_on_after(seconds):
        try:
            return parse_reply(await session.elicit_form(format_question(question), ANSWER_FORM))
        except (MCPError, ValueError):  # it said no to the question itself, or answered in another shape
            return None
    return None


def parse_reply(result: types.ElicitResult) -> ApprovalReply | None:
    content = result.content or {}
    if result.action == "accept" and content.get("answer") in ("yes", "no"):
        return ApprovalReply(content["answer"] == "yes", str(content.get("words") or ""), by="elicitation")
    if result.action == "decline":
        return ApprovalReply(False, "the dialog was declined, or the agent did not show it", by="elicitation")
    return None


def add_reply(caller: Caller, question: Question, reply: ApprovalReply | None) -> Caller:
    return replace(caller, dialog_answer=DialogAnswer(question, reply))


def digest_call(name: str, arguments: dict[str, Any]) -> str:
    return hash_arguments([name, hash_arguments(arguments)])


def can_show_forms(agent: str, capabilities: types.ClientCapabilities | None, parent_pid: int) -> bool:
    row = ROWS.get(agent)
    declared = capabilities.elicitation if capabilities else None
    if row is None or not row.shows_forms or declared is None or (declared.url and not declared.form):
        return False
    parent = read_process(parent_pid)
    return parent is not None and program_name(parent.argv) == row.binary


# -- serving -------------------------------------------------------------------------------------------------


class McpConnection:
    """Connection of one client, without hooks itself the session. Changes of `last_offered` tools are told.

    `parent_pid` is the process that started the client's end. `is_over` is asked during each call: a call whose client
    is gone waits for nobody.
    """

    def __init__(
        self,
        folder: Path,
        environment: Environment,
        version: str,
        parent_pid: int,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        self.folder = folder
        self.environment = environment
        self.version = version
        self.parent_pid = parent_pid
        self.is_over = is_over
        self.active_calls = 0
        self.own_caller = Caller(SessionKey(f"mcp-{uuid4()}"), "mcp")
        self.elicitations = Elicitations()
        self.last_offered: tuple[str, ...] | None = None
        self.session: ServerSession | None = None
        self.listeners = InMemorySubscriptionBus()

    def call_tool(
        self,
        name: str,
        arguments: dict[str, Any],
        meta: dict[str, Any],
        session: ServerSession,
        known_caller: Caller | None = None,
    ) -> ToolAnswer:
        """Run one tool for its caller; `known_caller` is set for a repeated call. Raises NeedsPerson."""
        CLIENT_GONE.set(self.is_over)
        with closing(Gate.open(self.folder, self.environment)) as gate:
            return self.run_call(gate, name, arguments, meta, session, known_caller)

    def run_call(
        self,
        gate: Gate,
        name: str,
        arguments: dict[str, Any],
        meta: dict[str, Any],
        session: ServerSession,
        known_caller: Caller | None,
    ) -> ToolAnswer:
        if not gate.is_governed:
            return make_failure("Remit does not govern this folder. A person can start it with `remit init`.")
        if name not in TOOLS:
            return make_failure(f"There is no tool {name!r}; there are {', '.join(TOOLS)}.")
        try:
            caller = known_caller or self.find_caller(gate, name, arguments, meta, session)
            if caller is not None:
                return run_tool(gate, caller, name, arguments)
        except IntentsFileChanged as error:
            return make_failure(f"{error}. Nothing was selected or changed: call it again.")
        except (*RECORDING_ERRORS, sqlite3.Error) as error:
            return make_failure(f"Remit cannot reach its records: {error}. Nothing was selected or changed.")
        # A guessed session could be the wrong one.
        return make_failure(
            "Remit's hook did not announce this call, so nothing was selected or changed. The hooks are not wired, or "
            "did not fire: ask the person to run `remit doctor`."
        )

    def find_caller(
        self, gate: Gate, name: str, arguments: dict[str, Any], meta: dict[str, Any], session: ServerSession
    ) -> Caller | None:
        """Return the session announced by a hook; None if a required announcement is missing."""
        call_id = next((str(meta[key]) for key in CALL_ID_KEYS if meta.get(key)), "")
        since = self.environment.clock.now() - ANNOUNCEMENT_TIMEOUT_S
        announced = gate.state.take_remit_call(call_id, digest_call(name, arguments), since)
        if announced is not None:
            dialog = can_show_forms(announced.agent, session.client_capabilities, self.parent_pid)
            return Caller(announced.session, announced.agent, dialog)
        known = session.client_params
        hooked = bool(call_id) or (known is not None and known.client_info.name in ROWS)
        return None if hooked and TOOLS[name].acts_for_session else self.own_caller

    def find_offer(self) -> ToolOffer:
        """Return what is offered in this folder now, and keep it for the next client's first answers."""
        offer = find_offer(self.folder)
        with suppress(*RECORDING_ERRORS):
            put_offer(self.environment.home, offer, self.version)
        return offer

    async def watch_changes(self) -> None:
        """Notify the client of each changed offer while the connection lasts."""
        while True:
            await anyio.sleep(OFFER_CHECK_INTERVAL_S)
            session, told = self.session, self.last_offered
            if session is None or told is None:
                continue
            if (await anyio.to_thread.run_sync(self.find_offer)).names != told:
                self.last_offered = None
                with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):  # the client is disconnecting
                    await session.send_tool_list_changed()  # for clients from before `subscriptions/listen`
                    await self.listeners.publish(ToolsListChanged())

    async def list_tools(
        self, ctx: ServerRequestContext[Any, Any], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        self.last_offered, self.session = self.find_offer().names, ctx.session
        tools = [(name, TOOLS[name]) for name in self.last_offered]
        return types.ListToolsResult(
            tools=[types.Tool(name=name, description=t.description, input_schema=t.schema) for name, t in tools]
        )

    async def answer_call(
        self, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        self.active_calls += 1
        try:
            return await self.await_answer(ctx, params)
        finally:
            self.active_calls -= 1

    async def await_answer(
        self, ctx: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        arguments, clock = params.arguments or {}, self.environment.clock
        call = partial(self.call_tool, params.name, arguments, dict(params.meta or {}), ctx.session)
        try:
            again = self.elicitations.resume_call(params, clock.now())
            result = await anyio.to_thread.run_sync(partial(call, again))  # a person may think for minutes
        except NeedsPerson as needed:
            if not ctx.session.can_send_request:
                return self.elicitations.request_answer(needed, params.name, arguments)
            reply = await elicit_answer(ctx.session, needed.question, needed.question.expires_at - clock.now())
            again = add_reply(needed.caller, needed.question, reply)
            result = await anyio.to_thread.run_sync(partial(call, again))
        text = types.TextContent(type="text", text=result.text)
        return types.CallToolResult(content=[text], structured_content=result.data, is_error=not result.ok)

    def make_server(self) -> Server[Any]:
        return Server(
            "remit",
            version=self.version,
            instructions=self.find_offer().instructions or None,
            on_list_tools=self.list_tools,
            on_call_tool=self.answer_call,
            on_subscriptions_listen=ListenHandler(self.listeners),
        )

    async def serve(self, streams: AbstractAsyncContextManager[Any]) -> None:
        """Serve the client at these streams until it disconnects."""
        server = self.make_server()
        options = server.create_initialization_options(NotificationOptions(tools_changed=True))
        async with streams as (read, write), anyio.create_task_group() as tasks:
            tasks.start_soon(self.watch_changes)
            await server.run(read, write, options)
            tasks.cancel_scope.cancel()


def make_failure(text: str) -> ToolAnswer:
    return ToolAnswer(text, {"status": "error", "error": text}, ok=False)


def serve_stdio(folder: Path, environment: Environment, version: str) -> None:
    """Serve on standard input and output until the client disconnects."""
    anyio.run(McpConnection(folder, environment, version, os.getppid()).serve, stdio_server())
