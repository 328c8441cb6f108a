"""Types of agents' rows: frozen data. Functions are named by their modules, and loaded by the rooms that call them."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct, field

from remit.core.call import Effect

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


class AgentCommand(Struct, frozen=True):
    """Command that starts an agent on one task, without a terminal. Words may hold `{prompt}`, `{intent}` and
    `{model}`.

    `variables` names the worker's variables passed to this agent in addition to the variables of every program;
    `settings` are variables with fixed values for this agent.
    """

    words: tuple[str, ...]
    variables: tuple[str, ...] = ()
    model_words: tuple[str, ...] = ("--model", "{model}")
    settings: Mapping[str, str] = {}


class LiveProbe(Struct, frozen=True):
    """How `remit doctor --live` runs the agent against a scripted model, with its `AgentCommand` and these words.

    `wire` is the model's protocol. `{url}` in words and variables is the model's address; `{file}` in the arguments of
    the tool that writes is the file. `files` are settings below HOME that the agent needs first.
    """

    wire: Literal["anthropic messages", "google generate", "openai chat", "openai responses"]
    model: str
    tool: str = "write_file"
    arguments: Mapping[str, str] = field(default_factory=lambda: {"file_path": "{file}", "content": "probe\n"})
    words: tuple[str, ...] = ()
    variables: Mapping[str, str] = {}
    files: Mapping[str, str] = {}


class HookSwitches(Struct, frozen=True):
    """Settings under which an agent runs no hooks: dotted key and value of each, and the files that may hold them, as
    in `rule_files`. Those of `managed` count in machine-wide files only. `listed` names lists of hooks that are left
    out, `variables` environment variables, which the table `env` of the settings sets, too.
    """

    files: tuple[str, ...]
    switches: tuple[tuple[str, bool], ...]
    managed: tuple[tuple[str, bool], ...] = ()
    listed: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    file_variables: tuple[str, ...] = ()
    """Variables that name another machine-wide file."""


class Agent(Struct, frozen=True, kw_only=True):
    """One agent. `binary` is the command that starts it, `command` starts it on a task of a plan."""

    agent: str
    title: str
    binary: str
    command: AgentCommand
    transcripts: str = ""
    """The module of `adapters.transcripts` that reads its transcript; none is read without one."""
    shell_variables: tuple[str, ...] = ()
    """Variables that it sets in its shells, besides the session's. A shell can unset them."""


class AgentRow(Agent, frozen=True, kw_only=True):
    """One agent with hooks. `settings_files` configure the agent and are protected from agents.

    `mcp_name` is a regular expression with the groups `server` and `tool`. If `can_ask` is false, `ask` becomes `deny`,
    because the agent's hook cannot pass a question on to a person.
    """

    dialect: str  # The module of `adapters` that speaks its hooks' form
    events: dict[str, RowEvent]
    tools: dict[str, ToolRow]
    mcp_name: str = r"mcp__(?P<server>.+?)__(?P<tool>.+)"
    config_folder: str  # The folder of its settings, relative to HOME and to a project's root
    hooks_file: str  # The file of its hooks, relative to HOME
    project_hooks_file: str = ""  # The file of one project's hooks, where it is another one
    mcp_file: str  # The file of its MCP servers, relative to HOME
    folder_variable: tuple[str, str]
    """The variable that moves its settings folder, and the folder's path below the variable's value."""
    timeout_unit: TimeoutUnit = "s"
    max_timeout: int = (
        600  # The hook timeout to request, in its unit. Each agent runs the tool if its own timeout expires
    )
    settings_files: tuple[str, ...] = ()
    accepted_json_forms: frozenset[JsonForm] = frozenset(("bom", "comment", "comma"))
    """Accepted deviations from strict JSON in its hook file; other deviations make it ignore the file and its hooks."""
    instructions_file: str = ""  # A file of rules at a workspace's root that Remit's own agent reads, too
    skills_folder: str = ""  # The same of skills
    own_folders: tuple[str, ...] = ()
    """Folders below HOME for its plans and notes: writing there is allowed and recorded."""
    login_files: tuple[str, ...] = ()  # Files in its settings folder that log in: no jail shows them
    login_variables: tuple[str, ...] = ()  # More variables that may name the folder of these files
    can_ask: bool = False
    shows_turn_end: bool = False  # True if it shows the `systemMessage` of the answer to a turn's end to a person
    shows_forms: bool = False  # True if it shows a form of an MCP server to a person and only a person can answer
    rewrites: Literal["", "alone", "with allow"] = ""
    """Whether the answer before a call may replace the arguments of the row's tools.

    `alone`: the agent's own questions are still asked. `with allow`: only together with an explicit allow.
    """
    context_events: tuple[RowEvent, ...] = ("before", "after", "failed", "session_start", "prompt")
    """Events whose answer can carry text to the model."""
    trusts_by_hash: bool = False  # True if it runs a hook only if the hook's hash is in its `mcp_file`
    switches: HookSwitches
    has_unwatched_stdin: bool = False
    """True if it can write to a running command without a hook: interactive commands are marked."""
    has_sandbox: bool = False
    """True if it may run commands in its own sandbox, inside which no other works; its transcript tells."""
    hides_folder: bool = False  # True if its shell tool takes a folder that no hook hears of
    has_subagent_transcripts: bool = False  # True if a sub-agent's conversation is a separate file beside its parent's
    transcript_path: str
    """Its transcripts relative to HOME; `start` is the first 8 characters of the session id."""
    answer_sign: bytes = b'"assistant"'  # What a transcript's line with an answer, and its model, holds
    session_variable: str = ""  # The variable of its shells that names the session; its processes are found by that
    rules: str = ""
    """The module of `adapters.permissions` that reads a person's own permission rules for it."""
    rule_files: tuple[str, ...] = ()
    """Files with a person's own permission rules: `/…` machine-wide, `~/…` in the agent's settings folder (without the
    folder's name), `./…` in a project. A last name with `*` stands for all matching files.
    """
    rules_in_enforce: str  # Effect of these rules in enforce mode, as text for people
    has_dialog: bool = False  # True if `rules` tells whether a question of a hook about a command is surely a person's
    permissions: tuple[str, ...] = ()
    """Entries in `permissions.allow` of its settings that let Remit's tools run without a question."""
    unguarded_options: tuple[str, ...] = ()  # Options of its command that switch its own questions off
    prompt_options: tuple[str, ...] = ()  # Options before the first prompt of a session at a terminal
    servers_key: str = "mcpServers"  # The key of the MCP servers in `mcp_file`
    server_settings: dict[str, str | bool | int] = {}
    """More settings in the entry of Remit's server: its tools run without a question, and it may start slowly."""
    call_id_key: str = "callId"  # The key under which its MCP calls carry the id of the announced call
    note_name: str = ""  # Its name in authorship notes, where it is another one
    author_names: str
    """A regular expression of the names in commit messages that only this agent has; people are called `Claude`."""
    author_addresses: str = ""  # The same of mail addresses
    live: LiveProbe


REPLACE_TOOL = ToolRow(
    "write", ("file_path",), old_text="old_string", new_text="new_string", replace_all="replace_all", checks_itself=True
)
WRITE_FILE_TOOL = ToolRow("write", ("file_path",), content="content")
SHELL_TOOL = ToolRow("execute", command="command", whole_workspace=True)
READ_FILE_TOOL = ToolRow("read", ("file_path",))
NOTEBOOK_TOOL = ToolRow("write", ("notebook_path",), edits_notebook=True)

HOOK_EVENTS: dict[str, RowEvent] = {
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

DUMMY_KEY = "scripted"  # a placeholder: the scripted model checks no key


def plain_tools(read: str, network: str, harmless: str) -> dict[str, ToolRow]:
    """Return the rows of tools that name no files: those that read, that fetch, and that do neither."""
    return {
        **dict.fromkeys(read.split(), ToolRow("read")),
        **dict.fromkeys(network.split(), ToolRow("network")),
        **dict.fromkeys(harmless.split(), ToolRow("none")),
    }


def fill_words(command: AgentCommand, *, prompt: str, intent: str, model: str) -> tuple[str, ...]:
    """Return the words of the command. A value is a single word, regardless of its content."""
    words = (*command.words, *(command.model_words if model else ()))
    values = {"{prompt}": prompt, "{intent}": intent, "{model}": model}
    # Only whole words and the id of the intent are replaced: a prompt that holds `{model}` stays as it is.
    return tuple(values[word] if word in values else word.replace("{intent}", intent) for word in words)
