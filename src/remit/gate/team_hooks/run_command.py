"""Execution of a hook command: one process for each hook, JSON on its standard input, its answer on standard output."""

import json
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from remit.core.call import Outcome, ToolCall
from remit.core.facts import Facts
from remit.core.intents.context_block import remove_invisible
from remit.core.team_hooks import AfterAnswer, HookAnswer, NamedHook
from remit.gate.environment import Environment
from remit.policy.classify import classify
from remit.workspace.place.workspace import Workspace
from remit.workspace.processes.trusted_command import CommandResult, run_trusted_command

DOCUMENT_VERSION = 1
"""Version of the hook's input document: a key may be added, none changes its meaning."""

MAX_ANSWER_BYTES = 1 << 20
MAX_CONTEXT_CHARS = 10_000
T = TypeVar("T", HookAnswer, AfterAnswer)


class HookFailed(Exception):
    """Hook without a valid answer. The message says how the hook failed."""


def command_environment(environment: Environment) -> dict[str, str]:
    """Return the environment of a repository's command, without bytecode caches that would change trusted files."""
    return {
        **environment.variables,
        "HOME": str(environment.home),
        "TMPDIR": str(environment.temporary),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def run_before_hook(
    named: NamedHook, document: bytes, workspace: Workspace, environment: Environment, timeout_s: float
) -> HookAnswer:
    """Return a hook's answer before a call. Raises HookFailed for junk, an exit code, or a timeout."""
    ran = run_hook_command(named, document, workspace, environment, timeout_s)
    if ran.failure or ran.exit_code != 0:
        raise HookFailed(ran.failure or f"it ended with exit code {ran.exit_code}")
    if ran.is_truncated:
        raise HookFailed(f"it printed more than {MAX_ANSWER_BYTES // 1024} KiB")
    return decode_answer(ran.output, HookAnswer) if ran.output.strip() else HookAnswer("allow")


def run_after_hook(
    named: NamedHook, document: bytes, workspace: Workspace, environment: Environment, timeout_s: float
) -> str:
    """Return a hook's message after a call: its `context`, or its plain output. Raises HookFailed."""
    ran = run_hook_command(named, document, workspace, environment, timeout_s)
    said = parse_after_answer(ran.output)
    if ran.failure or ran.exit_code != 0:
        raise HookFailed("\n".join(filter(None, (ran.failure or f"it ended with exit code {ran.exit_code}", said))))
    return said


def run_hook_command(
    named: NamedHook, document: bytes, workspace: Workspace, environment: Environment, timeout_s: float
) -> CommandResult:
    """Run the hook in the workspace's root, within its own time limit and the remaining time of the call."""
    if timeout_s <= 0:
        raise HookFailed("the hooks before it took all the time there is for one call")
    if named.hook.command is None:
        raise AssertionError("an entry point is no command")
    return run_trusted_command(
        named.hook.command,
        folder=workspace.root,
        variables=command_environment(environment),
        timeout_s=min(named.hook.timeout_s, timeout_s),
        stdin=document,
        head_bytes=MAX_ANSWER_BYTES,
    )


def decode_answer(output: bytes, kind: type[T]) -> T:
    """Decode a hook's answer. Raises HookFailed."""
    try:
        return msgspec.json.decode(output, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise HookFailed(f"its answer is not the JSON that was expected ({str(error)[:200]})") from error


def parse_after_answer(output: bytes) -> str:
    """Return the message in a hook's answer after a call; other text counts as the message."""
    try:
        found = decode_answer(output, AfterAnswer)
    except HookFailed:
        return clean_text(output.decode("utf-8", "replace"))
    return clean_text("\n".join(filter(None, (found.reason, found.context))))


def clean_text(text: str) -> str:
    """Return a hook's text as shown to a model: bounded, and without characters that hide others."""
    clean = remove_invisible(text[: MAX_CONTEXT_CHARS + 1]).strip()
    return clean if len(clean) <= MAX_CONTEXT_CHARS else clean[:MAX_CONTEXT_CHARS] + "…"


def make_before_document(call: ToolCall, facts: Facts) -> bytes:
    document = {
        "version": DOCUMENT_VERSION,
        "on": "before",
        "call": call_document(call),
        "facts": facts_document(facts),
    }
    return json.dumps(document).encode("ascii")


def make_after_document(call: ToolCall, facts: Facts, outcome: Outcome, changed: tuple[str, ...]) -> bytes:
    """Return the input document of an after hook; `changed` are the paths that differ, named or not."""
    done = {"ok": outcome.ok, "exit_code": outcome.exit_code, "summary": outcome.summary, "changed": changed}
    document = {
        "version": DOCUMENT_VERSION,
        "on": "after",
        "call": call_document(call),
        "facts": facts_document(facts),
        "outcome": done,
    }
    return json.dumps(document).encode("ascii")


def call_document(call: ToolCall) -> Mapping[str, Any]:
    return {
        "agent": call.agent,
        "session_id": call.session.session_id,
        "agent_id": call.session.agent_id,
        "id": call.call_id,
        "tool": call.tool,
        "effect": call.effect,
        "class": classify(call),
        "cwd": call.cwd,
        "paths": call.paths,
        "command": call.command,
        "arguments": call.arguments,
    }


def facts_document(facts: Facts) -> Mapping[str, Any]:
    """Return the facts useful to a hook; not every intent of the workspace."""
    active = facts.active
    return {
        "mode": facts.mode,
        "intent": active and {"id": active.id, "name": active.title, "owned_scope": active.owned_scope},
        "targets": [
            {"path": None if t.path is None else str(t.path), "resolved": t.resolved, "sha256": t.sha256}
            for t in facts.targets
        ],
    }
