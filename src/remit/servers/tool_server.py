"""The process beside the daemon that serves MCP clients with the official SDK, which takes a second to import.

The daemon hands it each client's connection with the client's frame. It acknowledges, and speaks the protocol. When the
daemon leaves, it finishes the calls under way and ends: the relay of a client that is still there comes again.
"""

import os
import socket
from collections.abc import AsyncIterator
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import anyio
from anyio import BrokenResourceError, ClosedResourceError, EndOfStream
from anyio.abc import UNIXSocketStream
from mcp.server.stdio import stdio_server

from remit.gate.open_gates import write_log_line
from remit.servers.call_slots import MAX_CALLS
from remit.servers.daemon import ACKNOWLEDGEMENT, FINISH_TIMEOUT_S, unpack_request
from remit.servers.environment import make_environment
from remit.servers.mcp import McpConnection
from remit.servers.questions import receive_question
from remit.workspace.processes.peer_identity import read_peer
from remit.workspace.processes.process_tracking import read_process

BLOCK_BYTES = 1 << 16
LOOK_INTERVAL_S = 0.05
ENDINGS = (EndOfStream, BrokenResourceError, ClosedResourceError)


class ClientText:
    """A client's lines, read and written as the SDK does it with the files of a process. `is_over` at their end."""

    def __init__(self, stream: UNIXSocketStream) -> None:
        self.stream = stream
        self.is_over = False

    async def __aiter__(self) -> AsyncIterator[str]:
        blocks: list[bytes] = []
        try:
            while True:
                *lines, rest = (await self.stream.receive(BLOCK_BYTES)).split(b"\n")
                for line in lines:
                    blocks.append(line)
                    yield b"".join(blocks).decode("utf-8", "replace")
                    blocks.clear()
                blocks.append(rest)
        except ENDINGS:
            self.is_over = True

    async def write(self, text: str) -> None:
        try:
            await self.stream.send(text.encode())
        except ENDINGS:
            self.is_over = True

    async def flush(self) -> None:
        pass


class ToolServer:
    """Server of all clients. `is_leaving` once the daemon is gone."""

    def __init__(self) -> None:
        self.is_leaving = False
        self.connections: set[McpConnection] = set()
        self.version = version("remit")

    async def serve_clients(self, line: socket.socket) -> None:
        """Serve the clients that come through this socket, until the daemon closes it."""
        # A call may wait for a person for minutes, in a thread.
        anyio.to_thread.current_default_thread_limiter().total_tokens = MAX_CALLS
        async with anyio.create_task_group() as tasks:
            while asked := await anyio.to_thread.run_sync(receive_question, line):
                tasks.start_soon(self.serve_client, *asked)
            self.is_leaving = True
            with anyio.move_on_after(FINISH_TIMEOUT_S):
                while any(connection.active_calls for connection in self.connections):
                    await anyio.sleep(LOOK_INTERVAL_S)
            os._exit(0)  # threads of calls may still wait

    async def serve_client(self, client: socket.socket, head: bytes) -> None:
        try:
            request = unpack_request(head)
            process = read_process(read_peer(client)[0])
            async with await UNIXSocketStream.from_socket(client) as stream:
                text = ClientText(stream)
                connection = McpConnection(
                    Path(request.frame.cwd),
                    make_environment(request.variables),
                    self.version,
                    process.parent if process else 0,
                    lambda: text.is_over or self.is_leaving,
                )
                self.connections.add(connection)
                try:
                    await stream.send(ACKNOWLEDGEMENT)
                    # The SDK's transport takes what reads and writes lines of text.
                    await connection.serve(stdio_server(cast(Any, text), cast(Any, text)))
                finally:
                    self.connections.discard(connection)
        except Exception as error:  # noqa: BLE001  one client's trouble is not that of the others
            write_log_line(f"an MCP client was dropped: {type(error).__name__}: {error}")


def serve_clients(descriptor: int) -> None:
    """Serve the MCP clients whose connections come through a descriptor."""
    with socket.socket(fileno=descriptor) as line:
        anyio.run(ToolServer().serve_clients, line)
