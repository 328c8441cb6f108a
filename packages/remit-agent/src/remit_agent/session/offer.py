"""The table of the agent's tools, and the tools offered in a mode and to a model.

A known tool without an offer runs all the same, unless the mode's groups leave the tool out.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from remit.core.call import MUTATION_CLASSES
from remit.core.decision import Mode
from remit.gate.gate import Gate
from remit.policy.checks.paths import NO_FILE
from remit.tools.coordination import COORDINATION_TOOLS
from remit_agent.models.endpoints import name_family
from remit_agent.models.port import ToolSchema
from remit_agent.session.modes import DEFAULT_MODE, AgentMode, find_modes
from remit_agent.session.system_prompt import PromptSettings, build_system_prompt
from remit_agent.tools.asking import ASKING_TOOLS
from remit_agent.tools.commands import COMMAND_TOOLS
from remit_agent.tools.finding import FINDING_TOOLS
from remit_agent.tools.guides import GUIDE_TOOLS
from remit_agent.tools.intents import INTENT_TOOLS
from remit_agent.tools.mcp_client import McpConnections, make_mcp_tools
from remit_agent.tools.patching import PATCHING_TOOLS
from remit_agent.tools.reading import READ_FILE
from remit_agent.tools.replacing import REPLACING_TOOLS
from remit_agent.tools.tool import HostTool
from remit_agent.tools.writing import WRITING_TOOLS

TOOLS: dict[str, HostTool] = {
    tool.name: tool
    for tool in (
        *(READ_FILE, *FINDING_TOOLS, *REPLACING_TOOLS, *PATCHING_TOOLS, *WRITING_TOOLS),
        *(*COMMAND_TOOLS, *ASKING_TOOLS, *GUIDE_TOOLS, *INTENT_TOOLS),
    )
}
"""All tools but those of MCP servers, which belong to the connections of a run."""
EDIT_TOOLS_BY_PROVIDER = {"anthropic": ("edit", "write_to_file"), "openai": ("apply_patch", "write_to_file")}
DEFAULT_EDIT_TOOLS = ("apply_diff", "write_to_file")
CITATION_SCHEMAS: dict[str, dict[str, Any]] = {
    "intent_id": {"type": "string", "description": "the active intent"},
    "mutation_class": {"enum": list(MUTATION_CLASSES)},
    "expected_content_hash": {"type": "string", "description": "the content_hash that read_file gave"},
}


def choose_edit_tools(model: str, chosen: Sequence[str] = ()) -> tuple[str, ...]:
    if chosen:
        return tuple(chosen)
    return EDIT_TOOLS_BY_PROVIDER.get(name_family(model), DEFAULT_EDIT_TOOLS)


def add_citation(schema: ToolSchema) -> ToolSchema:
    properties = {**schema.schema.get("properties", {}), **CITATION_SCHEMAS}
    required = [*schema.schema.get("required", ()), "intent_id", "mutation_class"]
    return replace(schema, schema={**schema.schema, "properties": properties, "required": required})


class AgentToolbox:
    """The tools and the system prompt of a run."""

    def __init__(
        self,
        gate: Gate,
        connections: McpConnections | None = None,
        edit_tools: Sequence[str] = (),
        settings: PromptSettings | None = None,
    ) -> None:
        self.root = gate.workspace.root
        self.governed: Mode | None = gate.rules.mode if gate.is_governed else None
        self.is_assigned = gate.workspace.is_assigned
        self.servers = connections.names if connections is not None else ()
        self.tools = {**TOOLS, **({t.name: t for t in make_mcp_tools(connections)} if connections is not None else {})}
        self.edit_tools = tuple(edit_tools)
        self.settings = settings
        self.modes = find_modes(self.root)

    def find_mode(self, slug: str) -> AgentMode:
        return self.modes.get(slug) or self.modes[DEFAULT_MODE]

    def find_tool(self, name: str) -> HostTool | None:
        return self.tools.get(name)

    def list_names(self) -> tuple[str, ...]:
        return tuple(self.tools)

    def is_offered(self, tool: HostTool, mode: str) -> bool:
        return tool.group in self.find_mode(mode).groups

    def has_mode(self, mode: str) -> bool:
        return mode in self.modes

    def is_wider_mode(self, mode: str, than: str) -> bool:
        return self.find_mode(mode).is_wider_than(self.find_mode(than))

    def list_writable_paths(self, mode: str) -> tuple[str, ...] | None:
        paths = self.find_mode(mode).paths
        return NO_FILE if paths == () else paths

    def list_schemas(self, mode: str, model: str) -> tuple[ToolSchema, ...]:
        edits = choose_edit_tools(model, self.edit_tools)
        offered = (
            tool
            for tool in self.tools.values()
            if self.is_offered(tool, mode)
            and (tool.group != "write" or tool.name in edits)
            and (tool.group != "intent" or self.governed)
            and (self.is_assigned or tool.name not in COORDINATION_TOOLS)
        )
        return tuple(add_citation(t.schema) if t.cites_intent and self.governed else t.schema for t in offered)

    def build_system(self, mode: str, model: str) -> str:
        return build_system_prompt(
            self.root,
            self.find_mode(mode),
            self.modes,
            [schema.name for schema in self.list_schemas(mode, model)],
            governed=self.governed,
            servers=self.servers,
            settings=self.settings,
        )
