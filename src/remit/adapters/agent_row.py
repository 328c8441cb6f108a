"""One agent is one row: what it calls things, and what it can be told."""

from typing import Literal, TypeAlias

from msgspec import Struct

from remit.core.call import Effect
from remit.core.decision import Decision
from remit.core.events import AfterCall, BeforeCall, HookEvent, PromptGiven, SessionStarted

DEFAULT_DENIAL = "Remit refused this call."
"""The reason where nobody gave one: some agents run a tool whose denial has no reason."""

RowEvent: TypeAlias = Literal["before", "after", "failed", "session_start", "prompt", "turn_end", "session_end"]
TimeoutUnit: TypeAlias = Literal["s", "ms"]
JsonForm: TypeAlias = Literal["bom", "comment", "comma"]


class ToolRow(Struct, frozen=True):
    """One tool of an agent: what it does, and under which keys its arguments stand.

    `paths` name files (the first one present counts as required for a write); `command` names the shell command.
    """

    effect: Effect
    paths: tuple[str, ...] = ()
    command: str | None = None
    patch: str | None = None
    """The argument that holds a V4A patch: the call's paths are the files it names."""
    content: str | None = None
    """The argument that holds all that the file is to hold."""
    old_text: str | None = None
    new_text: str | None = None
    replace_all: str | None = None
    """The arguments of a search/replace edit: what goes, what comes, and whether wherever it stands."""
    edits: str | None = None
    """The argument that holds a list of such edits, one after the other."""
    edits_notebook: bool = False
    """It changes one cell of a notebook, by the arguments of Claude Code."""
    checks_itself: bool = False
    whole_workspace: bool = False


class AgentRow(Struct, frozen=True):
    """One agent, as its dialect needs it. `settings` are files that steer it: protected from agents.

    `mcp_name` is a regular expression with the groups `server` and `tool`. `asks` tells whether its hook can
    hand a question on to a person; where it cannot, `ask` becomes `deny`.
    """

    agent: str
    title: str
    dialect: str
    events: dict[str, RowEvent]
    tools: dict[str, ToolRow]
    mcp_name: str
    binary: str
    """What a person types to start it."""
    config_folder: str
    """The folder of its settings: below HOME, and below a project's root."""
    hooks_file: str
    """Where its hooks stand, below HOME."""
    mcp_file: str
    """Where its MCP servers stand, below HOME."""
    timeout_unit: TimeoutUnit
    max_timeout: int
    """The longest hook timeout to ask it for, in its unit. Every agent runs the tool when its own timeout fires."""
    settings_files: tuple[str, ...] = ()
    accepted_json_forms: frozenset[JsonForm] = frozenset(("bom", "comment", "comma"))
    """What it puts up with in its file of hooks; for the rest it ignores the file, and runs no hook."""
    own_folders: tuple[str, ...] = ()
    """Folders below HOME where the agent keeps plans and notes of its own: writing there is allowed, and recorded."""
    can_ask: bool = False
    shows_turn_end: bool = False
    """Whether it shows a person the `systemMessage` of the answer to a turn's end."""
    shows_forms: bool = False
    """Whether a form that an MCP server asks for is shown to a person, and nothing but a person answers it."""
    rewrites: Literal["", "alone", "with allow"] = ""
    """Whether the answer before a call can carry other arguments, whole, for the tools of `tools`: alone, so that the
    agent's own questions are still asked, or only beside an explicit allow."""
    context_events: tuple[RowEvent, ...] = ("before", "after", "failed", "session_start", "prompt")
    """The events whose answer can carry text to the model."""
    has_unwatched_stdin: bool = False
    """It can write to a running command without any hook: a command that would wait for input is marked."""
    fires_twice: bool = False
    """Whether the program also runs the hooks of other agents' settings, so that one event fires two hooks."""
    has_sandbox: bool = False
    """It may run commands in a sandbox of its own, in which no other can be made; its transcript tells."""
    has_subagent_transcripts: bool = False
    """A sub-agent's conversation is a file of its own beside its parent's."""
    rule_files: tuple[str, ...] = ()
    """Where a person's own permission rules stand: `/…` for a machine, `~/…` in the agent's own folder of settings (its
    name is left out), `./…` in a project. A last name with `*` stands for each such file.
    """
    permissions: tuple[str, ...] = ()
    """What has to stand in `permissions.allow` of its settings for Remit's tools to run unasked."""
    servers_key: str = "mcpServers"
    """The key that its MCP servers stand under in `mcp_file`."""
    server_approval: dict[str, str | bool] = {}
    """What has to stand in the entry of Remit's server for its tools to run unasked."""


def can_continue(row: AgentRow, decision: Decision, arguments: dict[str, object] | None) -> bool:
    """Whether the call may go on: one that is to be contained only with the arguments that see to it."""
    return decision.effect == "allow" or (decision.effect == "contain" and bool(arguments) and row.rewrites != "")


def can_carry_context(row: AgentRow, event: HookEvent) -> bool:
    """Whether the answer to this event can carry text to the model."""
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
    """What goes back to the agent's hook process."""

    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int = 0


class AdapterError(ValueError):
    """The payload cannot be read as this agent's. `event` is what could be told of it."""

    def __init__(self, agent: str, why: str) -> None:
        super().__init__(f"this is no hook payload of {agent}: {why}")
        self.agent = agent
        self.why = why
