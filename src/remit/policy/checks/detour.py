"""A path refused to a session by one tool stays refused to the session's tools."""

import re

from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.decision import DeniedPath, Facts, Finding
from remit.core.scope.path_patterns import Scope
from remit.core.shell_commands import UnreadableShell, parse_simple_commands
from remit.core.untrusted_input import sanitise_line
from remit.policy.commands import analyse
from remit.policy.grants import covers_finding

MAX_SEARCHED_CHARS = 64 * 1024  # Characters of a searched command


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
        inside = (f"{write.path.rstrip('/')}/{name}" for write in analysis.writes for name in write.names_inside)
        return (*(write.path for write in analysis.writes), *inside)
    try:
        return (command, *(word.text for one in parse_simple_commands(command) for word in one.words))
    except UnreadableShell:
        return (command,)


def names_denied_path(text: str, denied: DeniedPath) -> bool:
    return any(re.search(rf"(?<![\w./-])(?:\./)*{re.escape(n)}(?![\w/-]|\.\w)", text) for n in denied.names if n)
