"""The row of an agent: its names for tools and events, its files, and its abilities."""

from typing import Literal, TypeAlias

from msgspec import Struct

from remit.core.call import Effect
from remit.core.decision import Decision
from remit.core.events import AfterCall, BeforeCall, HookEvent, PromptGiven, SessionStarted

DEFAULT_DENIAL = "Remit refused this call."
"""Reason for a denial without one: some agents run a tool if the denial has no reason."""

RowEvent: TypeAlias = Literal["before", "after", "failed", "session_start", "prompt", "turn_end", "session_end"]
TimeoutUnit: TypeAlias = Literal["s", "ms"]
JsonForm: TypeAlias = Literal["bom", "comment", "comma"]


class ToolRow(Struct, frozen=True):
    """One tool of an agent: its effect and the keys of its arguments.

    `paths` are keys of file names (the first one is required for a write); `command` is the key of the shell command.
    """

    effect: Effect
    paths: tuple[str, ...] = ()
    command: str | None = None
    patch: str | None = None
    """Key of a V4A patch: the call's paths are the files in the patch."""
    content: str | None = None
    """Key of the complete new content of the file."""
    old_text: str | None = None
    new_text: str | None = None
    replace_all: str | None = None
    """Keys of a search/replace edit: old text, new text, and whether all occurrences are replaced."""
    edits: str | None = None
    """Key of a list of such edits, applied in order."""
    edits_notebook: bool = False
    """True if the tool changes one notebook cell, with the arguments of Claude Code."""
    checks_itself: bool = False
    whole_workspace: bool = False


class AgentRow(Struct, frozen=True):
    """One agent, as its dialect needs it. `settings_files` configure the agent and are protected from agents.

    `mcp_name` is a regular expression with the groups `server` and `tool`. If `can_ask` is false, `ask` becomes `deny`,
    because the agent's hook cannot pass a question on to a person.
    """

    agent: str
    title: str
    dialect: str
    events: dict[str, RowEvent]
    tools: dict[str, ToolRow]
    mcp_name: str
    binary: str
    """The command that starts the agent."""
    config_folder: str
    """The folder of its settings, relative to HOME and to a project's root."""
    hooks_file: str
    """The file of its hooks, relative to HOME."""
    mcp_file: str
    """The file of its MCP servers, relative to HOME."""
    timeout_unit: TimeoutUnit
    max_timeout: int
    """The hook timeout to request, in its unit. Each agent runs the tool if its own timeout expires."""
    settings_files: tuple[str, ...] = ()
    accepted_json_forms: frozenset[JsonForm] = frozenset(("bom", "comment", "comma"))
    """Accepted deviations from strict JSON in its hook file; other deviations make it ignore the file and its hooks."""
    own_folders: tuple[str, ...] = ()
    """Folders below HOME for its plans and notes: writing there is allowed and recorded."""
    can_ask: bool = False
    shows_turn_end: bool = False
    """True if it shows the `systemMessage` of the answer to a turn's end to a person."""
    shows_forms: bool = False
    """True if it shows a form of an MCP server to a person and only a person can answer."""
    rewrites: Literal["", "alone", "with allow"] = ""
    """Whether the answer before a call may replace the arguments of the row's tools.

    `alone`: the agent's own questions are still asked. `with allow`: only together with an explicit allow.
    """
    context_events: tuple[RowEvent, ...] = ("before", "after", "failed", "session_start", "prompt")
    """Events whose answer can carry text to the model."""
    has_unwatched_stdin: bool = False
    """True if it can write to a running command without a hook: interactive commands are marked."""
    fires_twice: bool = False
    """True if the program also runs the hooks in other agents' settings: one event then fires two hooks."""
    has_sandbox: bool = False
    """True if it may run commands in its own sandbox, inside which no other works; its transcript tells."""
    has_subagent_transcripts: bool = False
    """True if a sub-agent's conversation is a separate file beside its parent's."""
    rule_files: tuple[str, ...] = ()
    """Files with a person's own permission rules: `/…` machine-wide, `~/…` in the agent's settings folder (without the
    folder's name), `./…` in a project. A last name with `*` stands for all matching files.
    """
    permissions: tuple[str, ...] = ()
    """Entries in `permissions.allow` of its settings that let Remit's tools run without a question."""
    servers_key: str = "mcpServers"
    """The key of the MCP servers in `mcp_file`."""
    server_approval: dict[str, str | bool] = {}
    """Settings in the entry of Remit's server that let its tools run without a question."""


def can_continue(row: AgentRow, decision: Decision, arguments: dict[str, object] | None) -> bool:
    """Return True if the call may proceed; a contained call only with the arguments that contain it."""
    return decision.effect == "allow" or (decision.effect == "contain" and bool(arguments) and row.rewrites != "")


def can_carry_context(row: AgentRow, event: HookEvent) -> bool:
    """Return True if the answer to this event can carry text to the model."""
    match event:
        case BeforeCall():
            return "before" in row.context_events
        case AfterCall(failed=failed):
            return ("failed" if failed else "after") in row.context_events
        case SessionStarted():
            return "session_start" in row.context_events
        case PromptGiven():
            return "prompt" in row.context_events
        case _:
            return False


class HookReply(Struct, frozen=True):
    """The answer to the agent's hook process."""

    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int = 0


class AdapterError(ValueError):
    """A payload that is not of the agent's form."""

    def __init__(self, agent: str, why: str) -> None:
        super().__init__(f"this is no hook payload of {agent}: {why}")
        self.agent = agent
        self.why = why
