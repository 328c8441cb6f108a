"""The words of a denial: the violation as data, and in five parts for surfaces that show text."""

import shlex
from typing import Literal, TypeAlias

from msgspec import UNSET

from remit.core.call import ToolCall
from remit.core.decision import Decision, ErrorType, Finding, Violation
from remit.core.untrusted_input import escape_surrogates, sanitise_line

HINTS: dict[ErrorType, str] = {
    "MISSING_OR_INVALID_INTENT": "select_active_intent",
    "INVALID_INTENT_ID": "select_active_intent",
    "INTENT_NOT_FOUND": "select_active_intent",
    "INTENT_BLOCKED": "select_active_intent",
    "INTENT_CLOSED": "select_active_intent",
    "INTENT_IGNORED": "select_active_intent",
    "INTENT_ALREADY_ACTIVE": "clear_active_intent",
    "INTENT_MISMATCH": "select_active_intent",
    "INTENT_SWITCH_NEEDS_PERSON": "ask_user",
    "INTENTS_FILE_INVALID": "ask_user",
    "INTENTS_FILE_MISSING": "ask_user",
    "CONFIG_INVALID": "ask_user",
    "SCOPE_VIOLATION": "request_scope_expansion",
    "INTENTIGNORE_PATH_BLOCKED": "choose_another_path",
    "PROTECTED_PATH": "use_remit_tools",
    "OUTSIDE_WORKSPACE": "choose_another_path",
    "STALE_FILE": "read_file",
    "FILE_LEASED": "retry_later",
    "CONSTRAINT_VIOLATION": "revise_content",
    "COMMAND_BLOCKED": "revise_command",
    "INVALID_ARGUMENTS": "revise_arguments",
    "USER_REJECTED": "ask_user",
    "CIRCUIT_OPEN": "stop_and_report",
    "HOOK_BLOCKED": "ask_user",
    "ASSIGNMENT_ENDED": "stop_and_report",
    "ASSIGNMENT_PAUSED": "retry_later",
}

MEANINGS: dict[ErrorType, str] = {
    "MISSING_OR_INVALID_INTENT": "a change, and no intent is selected",
    "INVALID_INTENT_ID": "what was to be selected is not shaped like an id",
    "INTENT_NOT_FOUND": "no intent has that id; the known ones are listed",
    "INTENT_BLOCKED": "it is BLOCKED; the reason is given",
    "INTENT_CLOSED": "it is DONE or ABORTED",
    "INTENT_IGNORED": "`.intentignore` bars it",
    "INTENT_ALREADY_ACTIVE": "the session works under another one",
    "INTENT_MISMATCH": "the call cites another intent than the active one",
    "INTENT_SWITCH_NEEDS_PERSON": "the intent owns what was refused to this session: a person changes intents for it",
    "INTENTS_FILE_INVALID": "the file of the intent, or the list, has errors; the first one's place is given",
    "INTENTS_FILE_MISSING": "no file declares an intent to select",
    "CONFIG_INVALID": "`remit.toml`, or a file of the hooks folder, cannot be used",
    "SCOPE_VIOLATION": "a path is not in the intent's `owned_scope`",
    "INTENTIGNORE_PATH_BLOCKED": "a pattern of `.intentignore` bars the path",
    "PROTECTED_PATH": "Remit's own files, an agent's hook settings, git's internals",
    "OUTSIDE_WORKSPACE": "the path, links followed, leaves the workspace",
    "STALE_FILE": "the file is not as this session last read it; the difference is given",
    "FILE_LEASED": "another session's call holds the path",
    "CONSTRAINT_VIOLATION": "the content would break a structured constraint",
    "COMMAND_BLOCKED": "the command is not an agent's to run",
    "INVALID_ARGUMENTS": "a path or command is missing, or no text",
    "USER_REJECTED": "a person said no",
    "ASSIGNMENT_ENDED": "the attempt that this worktree was assigned to is over, or its lease is",
    "ASSIGNMENT_PAUSED": "a person or a rule has paused the attempt, and the call has waited as long as it may",
    "CIRCUIT_OPEN": "the same denial too often in a row",
    "HOOK_BLOCKED": "a [hook](../how-to/add-hooks.md) refuses, one of Remit's own checks broke,"
    " or nothing can be recorded",
}
"""When each code is given, for the reference page of violations."""

HINTS_AFTER_REFUSAL = {
    "request_scope_expansion": "choose_another_path",
    "select_active_intent": "ask_user",
    "propose_intent": "ask_user",
    "clear_active_intent": "ask_user",
}
"""Hints in place of those that would put the same question to a person who has just refused."""

REFUSED_BY_PERSON = "person_said_no"  # The key in a finding's context for a refusal by a person

NOT_RECOVERABLE: frozenset[ErrorType] = frozenset(
    {
        "INTENTS_FILE_INVALID",
        "INTENTS_FILE_MISSING",
        "CONFIG_INVALID",
        "CIRCUIT_OPEN",
        "HOOK_BLOCKED",
        "ASSIGNMENT_ENDED",
    }
)

EXAMPLES: dict[str, str] = {
    "select_active_intent": 'select_active_intent(intent_id="{intent}")',
    "propose_intent": 'propose_intent(name="what you are about to do", owned_scope=["src/that/**"], reason="why"), '
    "or ask the person to run `remit intent new`",
    "clear_active_intent": "clear_active_intent()",
    "request_scope_expansion": "stay inside {scope}, or ask the person to widen the scope of {active}",
    "choose_another_path": "write to a path inside {scope}",
    "use_remit_tools": "say in your answer which setting should change, and why; the person changes it",
    "read_file": "read {path}, then write it again with the change taken in",
    "revise_content": "the same change, so that it keeps to {constraint}",
    "revise_command": "the same work with your file tools, inside {scope}",
    "revise_arguments": "the same call with a file path (or a command) that is text",
}

SHELL_FORMS: dict[str, str] = {
    "select_active_intent": "remit intent select {intent}",
    "clear_active_intent": "remit intent clear",
    "propose_intent": 'remit intent propose "what you are about to do" --scope "src/that/**" --why "why"',
    "request_scope_expansion": 'remit intent widen {file} --why "why"',
}
"""Commands that do what a tool of Remit's does: a session may have no such tool, or not have it yet."""

Ways: TypeAlias = Literal["shell first", "tool first", "tool only"]
"""Which way to a tool of Remit's a refusal names: the tool leads where the session has used one."""

REASONS: dict[str, str] = {
    "select_active_intent": "Work is done under an intent, so that every line can say why it is there.",
    "clear_active_intent": "A session works under one intent at a time.",
    "propose_intent": "Work is done under an intent that a person agreed to, and none is open.",
    "ask_user": "What governs agents is a person's to mend; until then changes are refused.",
    "request_scope_expansion": "A change outside the agreed scope surprises the people and agents who own it.",
    "choose_another_path": "Some places are nobody's to change under an intent.",
    "use_remit_tools": "An agent that could edit its own rules would not be bound by them.",
    "read_file": "Writing over a change one has not seen loses somebody's work.",
    "revise_content": "What an intent must keep to was agreed with people before the work began.",
    "revise_command": "That command is not an agent's to run.",
    "retry_later": "Someone else has it just now: two at the same time lose somebody's work.",
    "stop_and_report": "Trying the same again costs time and brings nothing; a person can.",
    "revise_arguments": "A call that cannot be read cannot be judged.",
}


def leading_violation(call: ToolCall, decision: Decision) -> Violation | None:
    return None if decision.leading is None else make_violation(decision.leading, call, decision)


def make_violation(finding: Finding, call: ToolCall, decision: Decision) -> Violation:
    """Return a finding as a violation; the codes of other findings stand in `context.also`."""
    also: list[str] = [f.code for f in decision.findings if f is not finding and f.verdict not in ("allow", "contain")]
    # The next step: to propose an intent if none is open, and another way after a person's refusal.
    hint = HINTS[finding.code]
    if finding.context.get(REFUSED_BY_PERSON):
        hint = HINTS_AFTER_REFUSAL.get(hint, hint)
    elif hint == "select_active_intent" and finding.context.get("available_intents") == []:
        hint = "propose_intent"
    return Violation(
        error_type=finding.code,
        error=finding.message,
        message=finding.message,
        tool=call.tool,
        classification=decision.call_class,
        intent_id=decision.intent_id,
        recoverable=finding.code not in NOT_RECOVERABLE,
        action_hint=hint,
        context={**finding.context, **({"also": also} if also else {})},
        path=UNSET if finding.path is None else escape_surrogates(str(finding.path)),
    )


def explain(violation: Violation, ways: Ways = "shell first") -> str:
    """Return the violation in five parts: the violated rule, what happened, what to do, an example, and the reason."""
    hint, context = violation.action_hint, violation.context
    offered = [*context.get("owning_intents", []), *context.get("available_intents", [])]
    scope = context.get("owned_scope") or ["the scope of your intent"]
    path = violation.path if isinstance(violation.path, str) else "the file"
    words = {
        "intent": offered[0] if offered else "INT-001",
        "active": violation.intent_id or "your intent",
        "scope": sanitise_line(", ".join(map(str, scope[:5])), 500),
        "constraint": "; ".join(str(b["constraint"]) for b in context.get("broken", [])[:3]) or "the constraint",
        "path": path,
        "file": sanitise_line(shlex.quote(path)),
    }
    example = EXAMPLES.get(hint, "").format(**words)
    parts = [
        f"[{violation.error_type}] {violation.error}",
        f"What happened: {violation.tool} was not run; nothing was changed.",
        f"Do: {describe_step(hint, words, ways)}",
        *([f"Example: {example}"] if example else []),
        f"Why: {REASONS.get(hint, REASONS['ask_user'])}",
    ]
    if diff := context.get("diff"):
        parts.append(f"Changed since you read it:\n{diff}")
    return "\n".join(parts)


def describe_step(hint: str, words: dict[str, str], ways: Ways) -> str:
    """Return the next step, with the command that does the same as a tool of Remit's."""
    if hint not in SHELL_FORMS or ways == "tool only":
        return hint
    command = SHELL_FORMS[hint].format(**words)
    if ways == "tool first":
        return f"{hint}   (or run alone in your shell: {command})"
    return f"run alone in your shell: {command}   (or {hint})"
