"""Remit's own agent put together: a model by its name, the tools, and the open session that a face shows."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from remit.gate.gate import Gate
from remit.gate.machine import Environment
from remit_agent.models.providers import open_provider
from remit_agent.session.offer import AgentToolbox
from remit_agent.session.session import Session, SessionOptions, fork_run
from remit_agent.session.system_prompt import PromptSettings
from remit_agent.tools.gate_access import GateAccess
from remit_agent.tools.mcp_client import McpConnections

NEWEST_RUN = ""


class ImageFile(Struct, frozen=True):
    """An image that a person shows to the model."""

    name: str
    media_type: str
    content: bytes


class RunRequest(Struct, frozen=True):
    """A run to open. `resumed` is the run to go on, NEWEST_RUN for the newest, None for a new run; with `is_fork` a
    copy of the run goes on, up to line `fork_at`. `window` is the context window of a model missing from the tables.
    """

    folder: Path
    model_id: str
    options: SessionOptions
    task: str = ""
    images: tuple[ImageFile, ...] = ()
    resumed: str | None = None
    is_fork: bool = False
    fork_at: int | None = None
    window: int | None = None
    mcp_servers: dict[str, dict[str, Any]] = {}
    """MCP servers of the person's editor by name, as entries of `.mcp.json`."""


def make_toolbox(access: GateAccess, connections: McpConnections) -> AgentToolbox:
    """Return the tools and the prompt, as `[run]` of remit.toml sets them."""
    settings = access.gate.rules.config.run
    prompt = PromptSettings(settings.language, settings.instructions)
    return AgentToolbox(access.gate, connections, settings.edit_tools, prompt)


async def open_run(request: RunRequest, variables: Mapping[str, str], environment: Environment) -> Session:
    """Open the run that is asked for; a task is sent at once. The model's library is loaded in a thread.

    Raises NoSuchModel, NoKey, ExtraMissing, ModelNotOpened, JournalError, IntentRefused, LookupError without a
    workspace, OSError.
    """
    provider = await asyncio.to_thread(open_provider, request.model_id, variables, request.window)
    opened: list[McpConnections] = []

    def make_tools(access: GateAccess) -> AgentToolbox:
        opened.append(McpConnections.of_gate(access.gate, request.mcp_servers))
        return make_toolbox(access, opened[-1])

    async def resume(run_id: str) -> Session:
        return await Session.resume(
            request.folder,
            run_id,
            request.options,
            provider=provider,
            make_toolbox=make_tools,
            environment=environment,
        )

    if request.resumed is None:
        session = await Session.open(
            request.folder,
            replace(request.options, task="" if request.images else request.task),
            provider=provider,
            make_toolbox=make_tools,
            environment=environment,
        )
    else:
        run_id = request.resumed
        if request.is_fork:
            run_id = fork_run(Gate.open(request.folder, environment).workspace, run_id, request.fork_at)
        session = await resume(run_id)
    session.closers += [connections.close for connections in opened]
    if request.task and (request.resumed is not None or request.images):
        kept = (session.run.folder.keep_image(image.content, image.media_type, image.name) for image in request.images)
        await session.send(request.task, tuple(kept))
    return session
