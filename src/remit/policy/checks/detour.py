"""A path refused to a session by one tool stays refused to the session's tools."""

import re

from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.decision import Finding
from remit.core.display_text import sanitise_line
from remit.core.facts import DeniedPath, Facts
from remit.core.scope.globs import Scope
from remit.core.shell.simple_commands import UnreadableShell, parse_simple_commands
from remit.policy.approval.grants import covers_finding
from remit.policy.commands import Write, analyse

MAX_SEARCHED_CHARS = 64 * 1024
"""Characters of a searched command."""


def check(call: ToolCall, facts: Facts) -> Finding | None:
    """Find COMMAND_BLOCKED for a command with a path refused to this session before, and still refused."""
    if call.command is None:
        return None
    barred = [denied for denied in facts.denied if not is_allowed_now(denied, call, facts)]
    texts = searched_texts(call) if barred else ()
    named = next((d for d in barred if any(names_denied_path(text, d) for text in texts)), None)
    if named is None:
        return None
    return Finding(
        rule="detour",
        code="COMMAND_BLOCKED",
        message=f"This command names {sanitise_line(named.path)}, which was refused to this session before "
        f"({named.code}, by {sanitise_line(named.tool, 60)}). Another tool is no way round that: ask the person, "
        "or do the work without that file.",
        path=named.path,
        context={"command": call.command[:4096], **denial_context(named)},
    )


def mark_repeated_denial(finding: Finding, call: ToolCall, facts: Facts) -> Finding:
    """Return the finding, marked as a second attempt if the same path was refused to another tool before."""
    first = next((d for d in facts.denied if d.path == finding.path and d.tool != call.tool), None)
    if first is None or "detour" in finding.context:
        return finding
    return replace(finding, context={**finding.context, **denial_context(first)})


def denial_context(denied: DeniedPath) -> dict[str, object]:
    return {"detour": True, "first_denial": {"error_type": denied.code, "path": denied.path, "tool": denied.tool}}


def is_allowed_now(denied: DeniedPath, call: ToolCall, facts: Facts) -> bool:
    """Return True if the refusal no longer holds: the active intent owns the path by now, or a grant covers it."""
    active = facts.active
    if denied.code == "SCOPE_VIOLATION" and active is not None and Scope(active.owned_scope).matches(denied.path):
        return True
    earlier = Finding("detour", denied.code, "", path=denied.path)
    return any(covers_finding(g, earlier, call, facts) for g in facts.grants)


def searched_texts(call: ToolCall) -> tuple[str, ...]:
    """Return the texts of a command in which a changed file may be named.

    For a command with proved writes: the written paths, since reading stays allowed. For other commands: the text, and
    the words without quotes if the text is readable.
    """
    command = (call.command or "")[:MAX_SEARCHED_CHARS]
    analysis = analyse(call.command or "")
    if analysis.outcome == "literal_writes" and analysis.writes is not None and call.unproved is None:
        return tuple(text for write in analysis.writes for text in written_paths(write))
    try:
        commands = parse_simple_commands(command)
    except UnreadableShell:
        return (command,)
    words = [word.text for c in commands for word in c.words]
    return (command, *words)


def written_paths(write: Write) -> tuple[str, ...]:
    return (write.path, *(f"{write.path.rstrip('/')}/{name}" for name in write.names_inside))


def names_denied_path(text: str, denied: DeniedPath) -> bool:
    """Return True if the path stands alone in `text`, not as a part of a longer path."""
    return any(re.search(rf"(?<![\w./-])(?:\./)*{re.escape(n)}(?![\w/-]|\.\w)", text) for n in denied.names if n)
