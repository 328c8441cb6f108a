"""Calls of tools that stand in no agent's row: which of their arguments are paths here, what the person says of them,
and what they did before.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec.structs import replace

from remit.adapters.unlisted_tools import classify_unlisted
from remit.core.call import OWN_AGENT, ToolCall
from remit.core.decision import Finding, Target
from remit.core.machine_paths import CONFIG_PATH
from remit.core.untrusted_input import as_object, sanitise_line
from remit.gate.state.workspace_state import State
from remit.workspace.observe.observation import Change
from remit.workspace.place.config import ConfigError, read_personal_settings

CHANGING_TOOL_FACT = "changing-tool:"
"""Prefix of the facts with the names of tools that changed files although nothing in their calls said so."""


def settle_unlisted(
    call: ToolCall, root: Path, home: Path, state: State, max_paths: int
) -> tuple[ToolCall, Finding | None]:
    """Return the call with its effect and its paths as they are here, and what stands against the tool itself.

    1. A path or a command makes it execute, and so does a change that the tool made before. Any other is unproved.
    2. A person's word: `read` and `harmless` spare it the intent, and, where it names neither a path nor a command, the
       comparison too; `ask` holds it up. Raises StateError.
    """
    name = name_tool(call)
    named = classify_unlisted(as_object(call.arguments.get("arguments")) if call.agent == OWN_AGENT else call.arguments)
    folder, top = Path(call.cwd), os.path.realpath(root)
    paths = (*named.paths, *(text for text in named.guesses if leads_somewhere(text, folder)))
    if len(paths) > max_paths:
        return replace(call, effect="execute", malformed=f"they name more than {max_paths} paths"), None
    is_named = bool(paths or named.has_command)
    # The workspace itself says where a tool works, not what it changes there.
    paths = tuple(path for path in paths if "\0" in path or os.path.realpath(folder / path) != top)
    try:
        person = read_personal_settings(home).tools
    except ConfigError as error:
        return call, Finding("tools", "CONFIG_INVALID", f"{error}. A person has to mend it.")
    asked = find_pattern(name, person.ask)
    against = make_question(name, asked) if asked is not None else None
    spared = find_pattern(name, (*person.read, *person.harmless))
    if spared:
        return replace(call, effect="unproved" if is_named else "none", paths=()), against
    is_changing = not is_named and state.read_fact(f"{CHANGING_TOOL_FACT}{name}") is not None
    return replace(call, effect="execute" if is_named or is_changing else "unproved", paths=paths), against


def name_tool(call: ToolCall) -> str:
    if call.agent != OWN_AGENT:
        return call.tool
    return f"mcp__{call.arguments.get('server_name')}__{call.arguments.get('tool_name')}"


def leads_somewhere(text: str, folder: Path) -> bool:
    with suppress(OSError, ValueError):
        if text.startswith("/"):
            first = Path(text).parts[1:2]
            return bool(first) and Path("/", *first).exists()
        found = folder / text
        return found.exists() and ("/" in text or not found.is_dir())
    return False


def find_pattern(tool: str, patterns: Iterable[str]) -> str | None:
    return next((pattern for pattern in patterns if fnmatchcase(tool, pattern)), None)


def make_question(tool: str, pattern: str) -> Finding:
    message = (
        f"The person wants to be asked before {sanitise_line(tool, 80)} is called (`ask` has {pattern!r} in "
        f"~/{CONFIG_PATH}). People answer where `remit approvals watch` runs in a terminal; ask for it, then "
        "call again."
    )
    return Finding("tools", "USER_REJECTED", message, verdict="ask")


def exclude_folders(targets: tuple[Target, ...]) -> tuple[Target, ...]:
    """Return the targets without folders of the workspace: they say where a tool works. What it changes there is found
    by comparing.
    """
    return tuple(t for t in targets if t.path is None or t.protected or not Path(t.resolved).is_dir())


def note_changing_tool(state: State, call: ToolCall, changes: Iterable[Change]) -> str:
    """Remember that an unproved call changed files: from now on its tool needs an intent here. Return the message to
    the model; empty without a change. Raises StateError.
    """
    if all(change.from_git or change.possible_sessions for change in changes):
        return ""
    name = name_tool(call)
    state.put_fact(f"{CHANGING_TOOL_FACT}{name}", "1")
    tool = sanitise_line(name, 80)
    return f"Remit: {tool} changed files although its arguments name none. From now on it needs an intent here."
