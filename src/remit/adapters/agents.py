"""The table of agents: a row each, with its names for tools and events, its files, and its abilities.

Sources: the clients themselves, run with dumping hooks; versions at the rows.
"""

from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.core.call import AfterCall, BeforeCall, Effect, HookEvent, PromptGiven, SessionStarted
from remit.core.decision import Decision

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
    patch: str | None = None  # Key of a V4A patch: the call's paths are the files in the patch
    content: str | None = None  # Key of the complete new content of the file
    old_text: str | None = None
    new_text: str | None = None
    replace_all: str | None = None
    """Keys of a search/replace edit: old text, new text, and whether all occurrences are replaced."""
    edits: str | None = None  # Key of a list of such edits, applied in order
    edits_notebook: bool = False  # True if the tool changes one notebook cell, with the arguments of Claude Code
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
    binary: str  # The command that starts the agent
    config_folder: str  # The folder of its settings, relative to HOME and to a project's root
    hooks_file: str  # The file of its hooks, relative to HOME
    mcp_file: str  # The file of its MCP servers, relative to HOME
    timeout_unit: TimeoutUnit
    max_timeout: int  # The hook timeout to request, in its unit. Each agent runs the tool if its own timeout expires
    settings_files: tuple[str, ...] = ()
    accepted_json_forms: frozenset[JsonForm] = frozenset(("bom", "comment", "comma"))
    """Accepted deviations from strict JSON in its hook file; other deviations make it ignore the file and its hooks."""
    own_folders: tuple[str, ...] = ()
    """Folders below HOME for its plans and notes: writing there is allowed and recorded."""
    can_ask: bool = False
    shows_turn_end: bool = False  # True if it shows the `systemMessage` of the answer to a turn's end to a person
    shows_forms: bool = False  # True if it shows a form of an MCP server to a person and only a person can answer
    rewrites: Literal["", "alone", "with allow"] = ""
    """Whether the answer before a call may replace the arguments of the row's tools.

    `alone`: the agent's own questions are still asked. `with allow`: only together with an explicit allow.
    """
    context_events: tuple[RowEvent, ...] = ("before", "after", "failed", "session_start", "prompt")
    """Events whose answer can carry text to the model."""
    has_unwatched_stdin: bool = False
    """True if it can write to a running command without a hook: interactive commands are marked."""
    has_sandbox: bool = False
    """True if it may run commands in its own sandbox, inside which no other works; its transcript tells."""
    hides_folder: bool = False  # True if its shell tool takes a folder that no hook hears of
    has_subagent_transcripts: bool = False  # True if a sub-agent's conversation is a separate file beside its parent's
    rule_files: tuple[str, ...] = ()
    """Files with a person's own permission rules: `/…` machine-wide, `~/…` in the agent's settings folder (without the
    folder's name), `./…` in a project. A last name with `*` stands for all matching files.
    """
    permissions: tuple[str, ...] = ()
    """Entries in `permissions.allow` of its settings that let Remit's tools run without a question."""
    servers_key: str = "mcpServers"  # The key of the MCP servers in `mcp_file`
    server_settings: dict[str, str | bool | int] = {}
    """More settings in the entry of Remit's server: its tools run without a question, and it may start slowly."""


def can_continue(row: AgentRow, decision: Decision, arguments: dict[str, object] | None) -> bool:
    """Return True if the call may proceed; a contained call only with the arguments that contain it."""
    return decision.effect == "allow" or (decision.effect == "contain" and bool(arguments) and row.rewrites != "")


def find_row_event(event: HookEvent) -> RowEvent | None:
    """Return the kind of an event whose answer may say something; None for other events."""
    match event:
        case BeforeCall():
            return "before"
        case AfterCall(failed=failed):
            return "failed" if failed else "after"
        case SessionStarted():
            return "session_start"
        case PromptGiven():
            return "prompt"
        case _:
            return None


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


REPLACE_TOOL = ToolRow(
    "write", ("file_path",), old_text="old_string", new_text="new_string", replace_all="replace_all", checks_itself=True
)
WRITE_FILE_TOOL = ToolRow("write", ("file_path",), content="content")
SHELL_TOOL = ToolRow("execute", command="command", whole_workspace=True)
READ_FILE_TOOL = ToolRow("read", ("file_path",))


def plain_tools(read: str, network: str, harmless: str) -> dict[str, ToolRow]:
    """Return the rows of tools that name no files: those that read, that fetch, and that do neither."""
    return {
        **dict.fromkeys(read.split(), ToolRow("read")),
        **dict.fromkeys(network.split(), ToolRow("network")),
        **dict.fromkeys(harmless.split(), ToolRow("none")),
    }


CLAUDE_EVENTS: dict[str, RowEvent] = {
    "PreToolUse": "before",
    "PostToolUse": "after",
    "PostToolUseFailure": "failed",
    "SessionStart": "session_start",
    "UserPromptSubmit": "prompt",
    "Stop": "turn_end",
    "SubagentStop": "turn_end",
    "SessionEnd": "session_end",
}
"""Events of Claude Code, and of agents that adopted its hooks completely."""

MCP_NAME_PATTERN = r"mcp__(?P<server>.+?)__(?P<tool>.+)"

CLAUDE_CODE = AgentRow(  # 2.1.330, 2026-11
    agent="claude-code",
    title="Claude Code",
    dialect="claude",
    events=CLAUDE_EVENTS,
    tools={
        "Write": WRITE_FILE_TOOL,
        "Edit": REPLACE_TOOL,
        "MultiEdit": replace(REPLACE_TOOL, edits="edits"),
        "NotebookEdit": ToolRow("write", ("notebook_path",), edits_notebook=True),
        "Bash": SHELL_TOOL,
        "PowerShell": ToolRow("execute", whole_workspace=True),
        "Read": READ_FILE_TOOL,
        **plain_tools(
            "Glob Grep LS LSP NotebookRead BashOutput TaskOutput ListMcpResourcesTool ReadMcpResourceTool",
            "WebFetch WebSearch",
            "Agent Task TaskCreate TaskGet TaskList TaskStop TaskUpdate KillShell TodoWrite ToolSearch Skill "
            "AskUserQuestion EnterPlanMode ExitPlanMode EnterWorktree ExitWorktree ListAgents ReportFindings "
            "ScheduleWakeup Workflow",
        ),
    },
    mcp_name=MCP_NAME_PATTERN,
    binary="claude",
    config_folder=".claude",
    hooks_file=".claude/settings.json",
    accepted_json_forms=frozenset(("bom",)),
    mcp_file=".claude.json",
    timeout_unit="s",
    max_timeout=600,
    shows_turn_end=True,
    settings_files=(".claude/settings.json", ".claude/settings.local.json", ".claude/hooks", ".mcp.json"),
    own_folders=(".claude/plans", ".claude/projects"),
    can_ask=True,
    shows_forms=True,  # in a terminal; with -p it cancels them itself, which is no yes
    rewrites="alone",
    has_subagent_transcripts=True,
    rule_files=(
        *("/etc/claude-code/managed-settings.json", "/etc/claude-code/managed-settings.d/*.json"),
        *("~/settings.json", "~/remote-settings.json"),
        *("./.claude/settings.json", "./.claude/settings.local.json"),
    ),
    permissions=("mcp__remit",),
)

CODEX = (
    AgentRow(  # 0.169.0, 2026-11. Its shell tools all come as Bash{command}; what `write_stdin` sends comes not at all.
        agent="codex",
        title="Codex CLI",
        dialect="claude",
        events={name: event for name, event in CLAUDE_EVENTS.items() if event != "failed"},
        tools={
            "apply_patch": ToolRow("write", patch="command"),
            "Bash": SHELL_TOOL,
            **plain_tools(
                "view_image list_mcp_resources list_mcp_resource_templates read_mcp_resource",
                "web_search",
                "tool_search request_user_input get_goal update_goal update_plan",
            ),
        },
        mcp_name=MCP_NAME_PATTERN,
        binary="codex",
        config_folder=".codex",
        hooks_file=".codex/hooks.json",
        accepted_json_forms=frozenset(),
        mcp_file=".codex/config.toml",
        timeout_unit="s",
        max_timeout=600,
        shows_turn_end=True,
        settings_files=tuple(
            f".codex/{name}" for name in ("config.toml", "hooks.json", "hooks", "rules", "requirements.toml")
        ),
        has_sandbox=True,
        hides_folder=True,  # `workdir` of exec_command
        has_unwatched_stdin=True,  # it declares forms too, and its `auto_review` lets a model answer them: not a person
        rewrites="with allow",
        rule_files=("/etc/codex/rules/*.rules", "~/rules/*.rules", "./.codex/rules/*.rules"),
        context_events=("before", "after", "session_start", "prompt"),
        servers_key="mcp_servers",
        # Its own 10 s pass on a busy machine, and a session without Remit's tools cannot select an intent.
        server_settings={"default_tools_approval_mode": "approve", "startup_timeout_sec": 60},
    )
)

GEMINI = AgentRow(  # 0.61.0, 2026-11. An `ask` without a person hangs it for ever.
    agent="gemini",
    title="Gemini CLI",
    dialect="gemini",
    events={
        "BeforeTool": "before",
        "AfterTool": "after",
        "SessionStart": "session_start",
        "BeforeAgent": "prompt",
        "AfterAgent": "turn_end",
        "SessionEnd": "session_end",
    },
    tools={
        "write_file": WRITE_FILE_TOOL,
        "replace": replace(REPLACE_TOOL, replace_all="allow_multiple"),
        "run_shell_command": SHELL_TOOL,
        "read_file": READ_FILE_TOOL,
        **plain_tools(
            "read_many_files glob grep_search search_file_content list_directory get_internal_docs "
            "list_background_processes read_background_output",
            "web_fetch google_web_search",
            "update_topic write_todos activate_skill ask_user enter_plan_mode exit_plan_mode",
        ),
    },
    mcp_name=r"mcp_(?P<server>[^_]+)_(?P<tool>.+)",
    binary="gemini",
    config_folder=".gemini",
    hooks_file=".gemini/settings.json",
    mcp_file=".gemini/settings.json",
    timeout_unit="ms",
    max_timeout=600_000,
    shows_turn_end=True,
    settings_files=tuple(
        f".gemini/{name}" for name in ("settings.json", "trustedFolders.json", "hooks", "extensions", "policies")
    ),
    own_folders=(".gemini/tmp",),
    rewrites="alone",
    rule_files=(
        *("/etc/gemini-cli/settings.json", "/etc/gemini-cli/policies/*.toml"),
        *("~/settings.json", "~/policies/*.toml"),
        *("./.gemini/settings.json", "./.gemini/policies/*.toml"),
    ),
    context_events=("after", "session_start", "prompt"),
    server_settings={"trust": True},
)

QWEN = AgentRow(  # 0.24.4, 2026-11. It unwraps `tool_call` before its hooks; a timeout of 1000 or more is in ms.
    agent="qwen",
    title="Qwen Code",
    dialect="claude",
    events=CLAUDE_EVENTS,
    tools={
        "write_file": WRITE_FILE_TOOL,
        "edit": REPLACE_TOOL,
        "notebook_edit": ToolRow("write", ("notebook_path",), edits_notebook=True),
        "run_shell_command": SHELL_TOOL,
        "read_file": READ_FILE_TOOL,
        **plain_tools(
            "read_many_files glob grep_search list_directory lsp task_output",
            "web_fetch web_search",
            "agent task_create task_get task_list task_stop task_update todo_write skill tool_search tool_call "
            "get_goal ask_user_question exit_plan_mode",
        ),
    },
    mcp_name=MCP_NAME_PATTERN,
    binary="qwen",
    config_folder=".qwen",
    hooks_file=".qwen/settings.json",
    mcp_file=".qwen/settings.json",
    timeout_unit="s",
    max_timeout=600,
    shows_turn_end=True,
    settings_files=(".qwen/settings.json", ".qwen/trustedFolders.json", ".qwen/hooks", ".qwen/extensions"),
    own_folders=(".qwen/plans", ".qwen/projects", ".qwen/tmp"),
    can_ask=True,
    context_events=("after", "failed", "session_start", "prompt"),
    server_settings={"trust": True},
)

ROWS: dict[str, AgentRow] = {"claude-code": CLAUDE_CODE, "codex": CODEX, "gemini": GEMINI, "qwen": QWEN}

AGENT_BINARIES = frozenset(row.binary for row in ROWS.values())  # Programs that write files by themselves
