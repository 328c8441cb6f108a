"""MCP servers as two tools: calls of their tools, and reads of their resources.

Servers stand in the person's `~/.config/remit/mcp.json`, and in the repository's `.mcp.json`: the repository's
file counts only after `remit trust` of its exact bytes. A server is started at its first use, and connected again once
if the server has gone. Each call is judged by its effects; a server's description of its own tools is shown, never
believed.
"""

import base64
import os
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from remit.core.config import MAX_MCP_BYTES, MCP_FILE, make_mcp_item, parse_mcp_servers
from remit.core.untrusted_input import as_object, sanitise_line
from remit.gate.gate import Gate
from remit.gate.perform import ToolOutput, WorkspaceAccess
from remit.workspace.safe_files import read_regular_file
from remit_agent.tools.tool import HostTool, PreparedCall, RunControl, ToolContext, ToolFailure

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal
    from mcp.client.client import Client

PERSONAL_FILE = ".config/remit/mcp.json"
TIME_LIMIT_S = 60.0
MAX_TEXT_CHARS = 100_000
T = TypeVar("T")


class UseMcpTool(Struct, frozen=True, forbid_unknown_fields=True):
    """Call a tool of an MCP server; an unknown `tool_name` is answered with the tools that the server has. Example:
    {"server_name": "tickets", "tool_name": "find", "arguments": {"text": "login"}}
    """

    server_name: str
    tool_name: str
    arguments: dict[str, Any] = {}


class AccessMcpResource(Struct, frozen=True, forbid_unknown_fields=True):
    """Read a resource of an MCP server. Example: {"server_name": "tickets", "uri": "ticket://42"}"""

    server_name: str
    uri: str


class Connection(Struct):
    """An open connection, and the schemas of the server's tools."""

    client: "Client"
    stack: AbstractContextManager[Any]
    schemas: dict[str, dict[str, Any]]
    about: dict[str, str]
    readers: set[str]
    """Tools that the server says only read (`readOnlyHint`): no proof, so that they are compared all the same."""


def read_server_settings(gate: Gate) -> tuple[dict[str, dict[str, Any]], str]:
    personal = parse_mcp_servers(read_settings(gate.environment.home / PERSONAL_FILE))
    content = read_settings(gate.workspace.root / MCP_FILE)
    brought = parse_mcp_servers(content)
    if not brought:
        return personal, ""
    if make_mcp_item(content).digest not in gate.trusted_digests():
        names = ", ".join(sanitise_line(name, 60) for name in brought)
        return personal, f"{MCP_FILE} of this repository is not trusted ({names}): the person can run `remit trust`"
    return {**brought, **personal}, ""


def read_settings(path: Path) -> bytes:
    try:
        return read_regular_file(path, MAX_MCP_BYTES)
    except OSError:
        return b""


class McpConnections:
    """The connections of a run and of its children. One call at a time for each server."""

    def __init__(
        self, servers: Mapping[str, dict[str, Any]], folder: Path, variables: Mapping[str, str], remark: str = ""
    ) -> None:
        self.servers = dict(servers)
        self.folder, self.variables, self.remark = folder, dict(variables), remark
        self.locks = {name: threading.Lock() for name in self.servers}
        self.open: dict[str, Connection] = {}
        self.talks: dict[str, RunControl] = {}
        """Run that a server's question goes to, while a call is under way."""
        self.stack = ExitStack()
        self.portal: BlockingPortal | None = None
        self.silent: TextIO | None = None
        """Where the servers' error streams go."""
        self.portal_lock = threading.Lock()

    @classmethod
    def of_gate(cls, gate: Gate, given: Mapping[str, dict[str, Any]] | None = None) -> "McpConnections":
        """Return the connections to the servers of the settings, and to the servers given by a person's editor."""
        servers, remark = read_server_settings(gate)
        return cls({**servers, **(given or {})}, gate.workspace.root, gate.environment.variables, remark)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self.servers))

    def close(self) -> None:
        """Close the connections, and end the started servers."""
        for name in list(self.open):
            self.disconnect(name)
        self.stack.close()

    def run_call(self, name: str, talk: RunControl, work: "Callable[[Connection], Awaitable[T]]") -> T:
        """Return the value of `work` with an open connection. Raises ToolFailure.

        A connection lost before the call is opened once more; a sent call is not sent again.
        """
        if name not in self.servers:
            known = ", ".join(self.names) or "none"
            remark = f"; {self.remark}" if self.remark else ""
            raise ToolFailure("NO_SUCH_SERVER", f"there is no server {name[:60]!r} (there are: {known}){remark}")
        with self.locks[name]:
            self.talks[name] = talk
            try:
                connection = self.open.get(name) or self.connect(name)
                if not self.is_alive(connection):
                    self.disconnect(name)
                    connection = self.connect(name)
                return self.call(work, connection)
            except ToolFailure:
                raise
            except Exception as error:  # whatever a server does must become the failure of its call
                if is_connection_error(error):
                    self.disconnect(name)
                raise ToolFailure("MCP_ERROR", describe_error(name, error), "try_another_way") from error
            finally:
                del self.talks[name]

    def open_portal(self) -> "BlockingPortal":
        from anyio.from_thread import start_blocking_portal

        with self.portal_lock:
            if self.portal is None:
                self.portal = self.stack.enter_context(start_blocking_portal())
        return self.portal

    def call(self, work: Callable[..., Awaitable[T]], *given: Any) -> T:
        """Run async work in the thread of the connections, within the time limit."""
        import anyio

        async def call_within_limit() -> T:
            with anyio.fail_after(TIME_LIMIT_S):
                return await work(*given)

        return self.open_portal().call(call_within_limit)

    def is_alive(self, connection: Connection) -> bool:
        """Return whether the server still answers; a fresh list of tools comes with it."""
        try:
            self.call(list_tools, connection)
        except Exception:  # noqa: BLE001  a server that does not answer is gone, whatever the reason
            return False
        return True

    def connect(self, name: str) -> Connection:
        from mcp.client.client import Client
        from mcp.client.stdio import StdioServerParameters, stdio_client

        entry = self.servers[name]
        if "url" in entry:
            headers = {key: str(value) for key, value in as_object(entry.get("headers")).items()}
            server: Any = open_http_transport(str(entry["url"]), headers)
        else:
            given = as_object(entry.get("env"))
            parameters = StdioServerParameters(
                command=str(entry.get("command", "")),
                args=[str(word) for word in entry.get("args", ())],
                env={**self.variables, **{key: str(value) for key, value in given.items()}},
                cwd=self.folder,
            )
            if self.silent is None:
                self.silent = self.stack.enter_context(os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
            server = stdio_client(parameters, errlog=self.silent)
        client = Client(server, read_timeout_seconds=TIME_LIMIT_S, elicitation_callback=partial(self.ask, name))
        opened = self.open_portal().wrap_async_context_manager(client)
        connection = Connection(opened.__enter__(), opened, {}, {}, set())
        self.open[name] = connection
        self.call(list_tools, connection)
        return connection

    def is_reader(self, name: str, tool: str) -> bool:
        """Return whether an open server says of its tool that it only reads; an unopened one has said nothing yet."""
        connection = self.open.get(name)
        return connection is not None and tool in connection.readers

    def disconnect(self, name: str) -> None:
        connection = self.open.pop(name, None)
        if connection is not None:
            with suppress(Exception):  # what is gone may not be able to say goodbye
                connection.stack.__exit__(None, None, None)

    async def ask(self, name: str, context: Any, params: Any) -> Any:
        """Answer a server's question by the person; a form of more than one field is declined."""
        import anyio
        from mcp_types import ElicitResult

        schema = as_object(getattr(params, "requested_schema", None))
        fields = list(as_object(schema.get("properties")))
        if len(fields) != 1:
            return ElicitResult(action="decline")
        question = f"The MCP server {name} asks: {sanitise_line(str(params.message), 1000)} ({fields[0]})"
        words = await anyio.to_thread.run_sync(self.talks[name].ask_person, question, ())
        return (
            ElicitResult(action="cancel")
            if words is None
            else ElicitResult(action="accept", content={fields[0]: words})
        )


@asynccontextmanager
async def open_http_transport(url: str, headers: dict[str, str]) -> AsyncGenerator[Any]:
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client

    async with create_mcp_http_client(headers) as client, streamable_http_client(url, http_client=client) as streams:
        yield streams


async def list_tools(connection: Connection) -> None:
    connection.schemas.clear()
    found = await connection.client.list_tools(cache_mode="refresh")
    connection.schemas |= {tool.name: dict(tool.input_schema) for tool in found.tools}
    connection.readers.clear()
    connection.readers |= {t.name for t in found.tools if t.annotations and t.annotations.read_only_hint is True}
    connection.about |= {tool.name: sanitise_line(tool.description or "", 200) for tool in found.tools}


def is_connection_error(error: Exception) -> bool:
    from mcp.shared.exceptions import MCPError
    from mcp_types import CONNECTION_CLOSED

    return not isinstance(error, MCPError) or error.error.code == CONNECTION_CLOSED


def describe_error(name: str, error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"the server {name} did not answer within {TIME_LIMIT_S:g} s; the call may have had effects"
    return f"the server {name} failed: {type(error).__name__}: {sanitise_line(str(error), 500)}"


# --- the tools --------------------------------------------------------------------------------------------


def check_arguments(connection: Connection, given: UseMcpTool) -> None:
    """Require a tool of the server with its required arguments. Raises ToolFailure with the schema."""
    schema = connection.schemas.get(given.tool_name)
    if schema is None:
        rows = "\n".join(f"- {name}: {connection.about[name]}" for name in sorted(connection.schemas))
        raise ToolFailure("INVALID_ARGUMENTS", f"{given.server_name} has no tool {given.tool_name!r}; it has:\n{rows}")
    missing = [name for name in schema.get("required", ()) if name not in given.arguments]
    if missing:
        raise wrong_arguments(given, f"{', '.join(missing)} missing", schema)


def wrong_arguments(given: UseMcpTool, why: str, schema: dict[str, Any]) -> ToolFailure:
    shown = msgspec.json.encode(schema).decode()
    return ToolFailure("INVALID_ARGUMENTS", f"{given.tool_name} of {given.server_name}: {why}. Its schema: {shown}")


def show_content(context: ToolContext, blocks: list[Any], structured: Any) -> tuple[str, list[Any]]:
    texts: list[str] = []
    images: list[Any] = []
    for block in blocks:
        match getattr(block, "type", ""):
            case "text":
                texts.append(block.text)
            case "image" if context.has_vision:
                kept = context.folder.keep_image(base64.b64decode(block.data), block.mime_type, "")
                images.append(msgspec.to_builtins(kept))
            case "resource":
                texts.append(show_resource(block.resource))
            case kind:
                texts.append(f"[{kind}, which is not shown]")
    if structured is not None and not any(texts):
        texts.append(msgspec.json.encode(structured).decode())
    text = "\n".join(texts)
    return text if len(text) <= MAX_TEXT_CHARS else f"{text[:MAX_TEXT_CHARS]}… [{len(text)} characters]", images


def show_resource(resource: Any) -> str:
    text = getattr(resource, "text", None)
    return text if text is not None else f"[{resource.uri}: {resource.mime_type or 'bytes'}, which is not text]"


def make_mcp_tools(connections: McpConnections) -> tuple[HostTool, ...]:
    """Return the two tools; none without a server."""

    def prepare_tool(context: ToolContext, given: UseMcpTool) -> PreparedCall:
        async def call(connection: Connection) -> Any:
            from mcp.shared.exceptions import MCPError
            from mcp_types import INVALID_PARAMS

            check_arguments(connection, given)
            try:
                return await connection.client.call_tool(given.tool_name, given.arguments)
            except MCPError as error:
                if error.error.code != INVALID_PARAMS:
                    raise
                raise wrong_arguments(given, str(error), connection.schemas[given.tool_name]) from error

        def act(access: WorkspaceAccess) -> ToolOutput:
            result = connections.run_call(given.server_name, context.talk, call)
            text, images = show_content(context, result.content, result.structured_content)
            failure = {"error_type": "MCP_ERROR"} if result.is_error else {}
            return ToolOutput(not result.is_error, text, {"images": images, **failure})

        is_reader = connections.is_reader(given.server_name, given.tool_name)
        effect = "unproved" if is_reader else "execute"
        call_asked = replace(context.new_call(), effect=effect, whole_workspace=True, is_unlisted=not is_reader)
        return PreparedCall(call_asked, act)

    def prepare_resource(context: ToolContext, given: AccessMcpResource) -> PreparedCall:
        async def read_resource(connection: Connection) -> Any:
            return await connection.client.read_resource(given.uri)

        def act(access: WorkspaceAccess) -> ToolOutput:
            result = connections.run_call(given.server_name, context.talk, read_resource)
            return ToolOutput(True, "\n".join(map(show_resource, result.contents))[:MAX_TEXT_CHARS])

        return PreparedCall(replace(context.new_call(), effect="read"), act)

    if not connections.servers and not connections.remark:
        return ()
    return (
        HostTool("use_mcp_tool", UseMcpTool, "mcp", prepare_tool),
        HostTool("access_mcp_resource", AccessMcpResource, "read", prepare_resource),
    )
