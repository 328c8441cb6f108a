"""The tools that are offered in a workspace, and the first answers about them, prepared for the relay.

The relay (`remit_hook`) answers an agent's first words from the prepared file, while the process that serves tools is
still starting. The lines of a file: Remit's version; the workspace's root; the protocol's versions; the rest of the
answer to `initialize` after the version; the answer to `tools/list`. `init` writes it, and the server wherever it finds
another offer; a client that was answered from the file is told to ask again once the server is there.
"""

import os
from pathlib import Path

from msgspec import Struct, json

from remit.core.machine_paths import OFFERS_FOLDER
from remit.gate.context import RECORDING_ERRORS
from remit.gate.governing.rules import load_rules
from remit.gate.session_lifecycle import format_mcp_instructions
from remit.tools.catalogue import TOOLS, offered_tools
from remit.workspace.place.workspace import Workspace, locate_workspace
from remit.workspace.safe_files import write_atomically

PROTOCOL_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Versions that begin with `initialize`, as the SDK speaks them; the newest first."""


class ToolOffer(Struct, frozen=True):
    """What an agent in a folder is offered: nothing where Remit does not govern."""

    workspace: Workspace | None = None
    names: tuple[str, ...] = ()
    instructions: str = ""


def find_offer(folder: Path) -> ToolOffer:
    """Return the offer for this folder; an empty one where its rules cannot be read."""
    try:
        workspace = locate_workspace(folder)
        if workspace is None or not workspace.is_governed:
            return ToolOffer(workspace)
        rules = load_rules(workspace)
        names = offered_tools(rules, is_assigned=workspace.is_assigned)
        return ToolOffer(workspace, names, format_mcp_instructions(rules.mode, rules.offered))
    except RECORDING_ERRORS:
        return ToolOffer()


def put_offer(home: Path, offer: ToolOffer, version: str) -> None:
    """Write the answers for the relay, or remove them where nothing is offered. Raises OSError."""
    if offer.workspace is None or "\n" in str(offer.workspace.root):
        return
    path = home / OFFERS_FOLDER / hash_path(bytes(offer.workspace.root))
    content = render_offer(offer, bytes(offer.workspace.root), version) if offer.names else None
    try:
        found = path.read_bytes()
    except OSError:
        found = None
    if content is None:
        path.unlink(missing_ok=True)
    elif content != found:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(path, content, durable=False)


def renew_offers(home: Path, version: str) -> None:
    """Write all offers again, for another version of Remit. Raises OSError."""
    for path in (home / OFFERS_FOLDER).glob("*"):
        root = path.read_bytes().split(b"\n")[1:2]
        path.unlink()
        for each in root:
            put_offer(home, find_offer(Path(os.fsdecode(each))), version)


def hash_path(path: bytes) -> str:
    """Return the 64-bit FNV-1a of a path, which is a few lines in each of the relay's two languages."""
    found = 14695981039346656037
    for byte in path:
        found = (found ^ byte) * 1099511628211 % (1 << 64)
    return f"{found:016x}"


def render_offer(offer: ToolOffer, root: bytes, version: str) -> bytes:
    greeting = {"capabilities": {"tools": {"listChanged": True}}, "serverInfo": {"name": "remit", "version": version}}
    greeting |= {"instructions": offer.instructions} if offer.instructions else {}
    tools = [{"name": n, "description": TOOLS[n].description, "inputSchema": TOOLS[n].schema} for n in offer.names]
    versions = f" {' '.join(PROTOCOL_VERSIONS)} ".encode()
    lines = (version.encode(), root, versions, json.encode(greeting)[1:], json.encode({"tools": tools}))
    return b"".join(line + b"\n" for line in lines)
