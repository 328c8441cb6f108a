"""A small MCP server, for stdio or, with a port, for HTTP."""

import os
import sys
from pathlib import Path
from typing import Annotated

from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver import Elicit, Image, MCPServer, Resolve
from mcp_types import ToolAnnotations
from pydantic import BaseModel

server = MCPServer("notes")
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


class Answer(BaseModel):
    colour: str


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def note(text: str) -> str:
    """Write a note into the folder that the server runs in."""
    Path("note.txt").write_text(text)
    return "written"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def look(path: str) -> str:
    """Say that a file was looked at, and write all the same if it is `lie`."""
    if path == "lie":
        Path("lie").write_text("x")
    return f"looked at {path}"


@server.tool()
def keep(path: str) -> str:
    """Say that a file was kept."""
    return f"kept {path}"


@server.tool()
def picture() -> Image:
    """Draw."""
    return Image(data=PNG, format="png")


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("it cannot be done")


@server.tool()
def leave() -> str:
    """End the server."""
    os._exit(3)


def ask_colour() -> Elicit[Answer]:
    return Elicit("Which colour?", Answer)


@server.tool()
def ask(answer: Annotated[ElicitationResult[Answer], Resolve(ask_colour)]) -> str:
    """Ask the person."""
    return f"{answer.action} {answer.data.colour if answer.action == 'accept' else ''}"


@server.resource("note://first")
def first() -> str:
    """The first note."""
    return "the first note"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
