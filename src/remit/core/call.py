"""What an agent asks to do, and what came of it, whichever agent it is."""

import hashlib
from typing import Any, Literal, TypeAlias

from msgspec import Struct, json

from remit.core.diff.contents import LineRange
from remit.core.diff.edits import Edit

Effect: TypeAlias = Literal["read", "write", "delete", "execute", "network", "meta", "none"]
CallClass: TypeAlias = Literal["safe", "meta", "destructive"]


REMIT_TOOLS = frozenset(
    {
        "select_active_intent",
        "list_active_intents",
        "get_intent_context",
        "clear_active_intent",
        "complete_intent",
        "propose_intent",
        "request_scope_expansion",
        "record_lesson",
        "update_todo_list",
        "query_traces",
        "why",
    }
)
"""The agent-facing tools that exist; `tools` offers exactly these."""

REMIT_COMMANDS = frozenset(
    {
        ("intent", "select"),
        ("intent", "clear"),
        ("intent", "list"),
        ("intent", "show"),
        ("intent", "complete"),
        ("log",),
        ("show",),
        ("blame",),
        ("why",),
        ("lesson",),
        ("todo",),
        ("status",),
        ("--help",),
        ("--version",),
    }
)
"""The first words of those `remit …` commands that an agent may run; the rest are for people."""


class SessionKey(Struct, frozen=True):
    """One conversation of one agent. A sub-agent carries its parent's id and an `agent_id` of its own."""

    session_id: str
    agent_id: str = ""

    @property
    def parent(self) -> "SessionKey | None":
        """The session that started this sub-agent; None for a session of its own."""
        return SessionKey(self.session_id) if self.agent_id else None


class Citation(Struct, frozen=True):
    """What a write tool of Remit's own agent says about itself; other agents' calls have none."""

    intent_id: str | None = None
    mutation_class: str | None = None
    expected_content_hash: str | None = None


class ToolCall(Struct, frozen=True):
    """One tool call, normalised by an adapter. Nothing in it has been believed yet.

    `paths` are as the agent wrote them: absolute, or relative to `cwd`. `call_id` is empty where the agent
    gives none. `malformed` says why the arguments do not fit the agent's row.
    """

    agent: str
    session: SessionKey
    tool: str
    effect: Effect
    cwd: str
    call_id: str = ""
    paths: tuple[str, ...] = ()
    command: str | None = None
    arguments_sha256: str = ""
    remit_tool: str | None = None
    malformed: str | None = None
    citation: Citation = Citation()
    whole_workspace: bool = False
    """Its effects cannot be told from its arguments: compare the whole workspace around it."""
    transcript: str | None = None
    """Where the agent says it writes the conversation."""
    checks_itself: bool = False
    """A search/replace edit: it fails by itself on a file that changed, so it is never stale."""
    has_unwatched_stdin: bool = False
    """The agent may type into a running command without asking its hooks."""
    arguments: dict[str, Any] = {}
    """As the agent gave them, for a team's own hooks. Remit's rules go by what the adapter read from them."""
    edit: Edit | None = None
    """What a file tool would do to its files; None where the arguments do not tell."""
    proposal: str | None = None
    """What the agent had proposed, where a person changed that before they let the call pass."""
    permission_mode: str = ""
    """The agent's word for how it asks its person (`default`, `auto`, `bypassPermissions`), where it says one."""
    hook_pid: int = 0
    """The process that brought the call: the agent is above it. 0 where that is not known."""
    unproved: str | None = None
    """Why what the command's text proves does not hold where it runs: settings make git start a program."""


class Outcome(Struct, frozen=True):
    """What the agent says came of a call. Evidence of last resort: the workspace is compared all the same.

    `positions` are the lines that the tool's own answer says it wrote, by the path as the agent wrote it;
    `changed_by_person`, that it says a person changed what the agent had proposed; `read_only`, that its output speaks
    of a file system that cannot be written to.
    """

    ok: bool = True
    exit_code: int | None = None
    summary: str = ""
    duration_ms: int | None = None
    positions: dict[str, tuple[LineRange, ...]] = {}
    changed_by_person: bool = False
    read_only: bool = False


def hash_arguments(arguments: object) -> str:
    """SHA-256 of a call's arguments in canonical JSON: the same in the hook and in the MCP server."""
    return hashlib.sha256(json.encode(arguments or {}, order="sorted")).hexdigest()
