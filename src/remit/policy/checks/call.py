"""Checks on the call itself: unreadable arguments, repeated failures, dangerous commands, and ways round a refusal."""

import re

from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.decision import DeniedPath, Facts, Finding, Verdict
from remit.core.scope.path_patterns import Scope
from remit.core.shell_commands import UnreadableShell, parse_simple_commands
from remit.core.untrusted_input import sanitise_line
from remit.policy.commands import analyse
from remit.policy.commands.background_and_input import find_background_word, may_wait_for_input
from remit.policy.commands.dangers import ALONE, find_mixed_act, is_fetching, is_for_agents
from remit.policy.grants import covers_finding

MAX_EQUAL_DENIALS = 3
MAX_FAILURES = 5


def check_arguments(call: ToolCall, facts: Facts) -> Finding | None:
    """Find INVALID_ARGUMENTS if the path or the command is missing or is no text: such a call cannot be judged."""
    if call.malformed is None:
        return None
    message = f"The arguments of {call.tool} cannot be judged: {call.malformed}."
    return Finding("arguments", "INVALID_ARGUMENTS", message)


def check_circuit(call: ToolCall, facts: Facts) -> Finding | None:
    """Find CIRCUIT_OPEN after three equal denials, or five failed tools, in a row: the session has to stop and ask
    (circuit breaker).
    """
    session = facts.session
    if session.denials >= MAX_EQUAL_DENIALS:
        # Behind the tabulator stands which call it was.
        denial = sanitise_line(session.denial.partition("\t")[0], 200)
        why = f"The same was refused {session.denials} times in a row ({denial})"
    elif session.failures >= MAX_FAILURES:
        why = f"{session.failures} tool calls failed in a row"
    else:
        return None
    return Finding(
        rule="circuit",
        code="CIRCUIT_OPEN",
        message=f"{why}. Stop here: say in your answer what you tried and what you need, and wait for the person. "
        "Reading is still possible; changes are taken again after a minute, or when the person writes.",
        context={"denials": session.denials, "failures": session.failures},
    )


MAX_SEARCHED_CHARS = 64 * 1024
GIT_COMMAND = r"\bgit\b[^\n|;&]{0,2000}?"
HIDING_FLAGS = re.compile(rf"{GIT_COMMAND}\bupdate-index\b[^\n|;&]{{0,2000}}?\s--(?:as|sk)[a-z-]*")
"""Long options may be shortened to a unique beginning. Source: gitcli(7), read 2026-11."""

PUBLISHED_REFS = re.compile(
    rf"{GIT_COMMAND}\bpush\b[^\n|;&]{{0,2000}}?(?:\s--mi[a-z]*|\srefs/(?:\*|remit\b)|\s[+'\"]+refs/(?:\*|remit\b))"
)


def check_command(call: ToolCall, facts: Facts) -> Finding | None:
    """Find COMMAND_BLOCKED for Remit's commands for people, for dangerous commands, and for commits not judged yet: an
    agent may not run these by itself.

    A person may approve a dangerous command, unless the command changes what governs agents. A destructive call that is
    literally `remit …` is a command for people: the rest are meta.
    """
    if call.command is None:
        return None
    analysis = analyse(call.command)
    verdict: Verdict = "deny"
    context: dict[str, object] = {"command": call.command[:4096]}
    if analysis.remit_words is not None:
        shown = sanitise_line(" ".join(("remit", *analysis.remit_words)))
        # A program of that name may lie at another path.
        why = (
            "names a program by its path, which anybody may have put there. Run it as plain `remit …`, or use the MCP "
            "tools"
            if is_for_agents(analysis.remit_words)
            else "is for a person at a terminal. Say in your answer what you need and why"
        )
        message = f"`{shown}` {why}."
    elif act := find_mixed_act(call.command):
        message = f"`{sanitise_line(act, 120)}` acts for this session, which only a command of its own can: {ALONE}."
    elif analysis.outcome == "dangerous" and not facts.restorable:
        advice = (
            "No agent may do that. Say in your answer what should change and why: the person changes it."
            if analysis.is_forbidden
            else "It needs a person's yes: say in your answer what you want and why, or take a way that can be undone."
        )
        message = f"{sanitise_line('; '.join(analysis.reasons))}. {advice}"
        verdict = "deny" if analysis.is_forbidden else "ask"
        context |= {"reasons": list(analysis.reasons), "lasting": analysis.is_irreversible}
    elif facts.unjudged:
        # They would leave this machine, or get a working tree of their own.
        listed = ", ".join(f"`{sanitise_line(name, 80)}`" for name in facts.unjudged[:3])
        message = (
            f"{listed} names a commit that no branch or tag leads to, and only what is on one is sent or checked out. "
            "Commit your work on a branch, and name that branch."
        )
    elif facts.containable and analysis.outcome == "unknown" and not analysis.git_verbs and is_fetching(call.command):
        # The fetched commits could not be told from those of another program in the same command.
        message = (
            "`git fetch` and `git pull` bring in others' work, which is told from your own only where they fetch from "
            "a remote by its name, and no other program runs in the same command. Run `git pull` by itself, then the "
            "rest."
        )
    elif facts.exposed:
        listed = ", ".join(f"`{sanitise_line(command, 80)}`" for command in facts.exposed[:3])
        message = (
            f"{listed} changes git's index or the names of branches, and nothing here contains it. It needs a person's "
            "yes: say in your answer what you want and why, or name files of your scope (`git reset -q src`)."
        )
        verdict = "ask"
    else:
        return None
    return Finding("command", "COMMAND_BLOCKED", message, verdict=verdict, context=context)


def check_detour(call: ToolCall, facts: Facts) -> Finding | None:
    """Find COMMAND_BLOCKED for a command with a path refused to this session before, and still refused: another tool is
    no way round.
    """
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


def check_blinding(call: ToolCall, facts: Facts) -> Finding | None:
    """Find COMMAND_BLOCKED for marking files assume-unchanged or skip-worktree, which makes git overlook changes, and
    for pushing `refs/remit`.

    The text allows only an early message: a flag set in a different way hides no file from the comparison.
    """
    text = (call.command or "")[:MAX_SEARCHED_CHARS]
    message = ""
    if "git" in text and HIDING_FLAGS.search(text):
        message = "`git update-index` with such a flag hides changes from people and from Remit. Leave it out."
    elif "git" in text and PUBLISHED_REFS.search(text):
        message = (
            "`git push --mirror` publishes every ref, also `refs/remit/*`, where Remit keeps older contents of files. "
            "Push the branches and tags that are meant: `git push --all`, `git push --tags`."
        )
    return Finding("blinding", "COMMAND_BLOCKED", message) if message else None


def check_unwatched(call: ToolCall, facts: Facts) -> Finding | None:
    """Find COMMAND_BLOCKED if the program would wait for input that the agent can send without a hook."""
    if call.command is None or not may_wait_for_input(call):
        return None
    return Finding(
        rule="unwatched",
        code="COMMAND_BLOCKED",
        message="This command waits for input, and what would be typed into it cannot be judged. "
        "Run the work as one command (bash -c '…', python3 script.py), or give it its input (< file, <<'EOF').",
        context={"command": call.command[:4096]},
    )


def check_lingering(call: ToolCall, facts: Facts) -> Finding | None:
    """Find COMMAND_BLOCKED for a command that leaves a process running, cannot run contained here, and does not show
    the writes in the text: the comparison after the call would miss later writes of the process.
    """
    if call.command is None or not facts.bare or analyse(call.command).outcome != "unknown":
        return None
    word = find_background_word(call.command, call.arguments)
    if not word:
        return None
    return Finding(
        rule="lingering",
        code="COMMAND_BLOCKED",
        message=f"By `{word}` this command leaves something running, its text does not tell what that will write, and "
        f"it cannot run contained ({sanitise_line(facts.bare)}). Run it in the foreground, or start, use and end it in one "  # noqa: E501
        "command (`… & …; kill $!`, `… & wait`). What has to stay up, ask the person to start in a terminal of theirs.",
        context={"command": call.command[:4096], "word": word},
    )
