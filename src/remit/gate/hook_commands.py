"""Hooks that are commands: one process a hook, the call as JSON on its standard input, its answer on the output."""

import json
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from remit.core.call import Outcome, ToolCall
from remit.core.context_block import visible
from remit.core.facts import Facts
from remit.core.hooks import AfterAnswer, HookAnswer, NamedHook
from remit.gate.environment import Environment
from remit.policy.classify import classify
from remit.workspace.place import Workspace
from remit.workspace.running import Ran, run

VERSION = 1
"""Of the document that a hook gets: a key may be added, none changes its meaning."""

ANSWER_BYTES = 1 << 20
CONTEXT_CHARS = 10_000
T = TypeVar("T", HookAnswer, AfterAnswer)


class HookFailed(Exception):
    """A hook did not answer as it should. The message says how."""


def variables_for(around: Environment) -> dict[str, str]:
    """The environment of a command that the repository brings. What it compiles must not change what was trusted."""
    return {
        **around.variables,
        "HOME": str(around.home),
        "TMPDIR": str(around.temporary),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def ask(named: NamedHook, document: bytes, workspace: Workspace, around: Environment, most_s: float) -> HookAnswer:
    """What a hook says before a call. Raises HookFailed for junk, an exit code, or no answer in time."""
    ran = ran_hook(named, document, workspace, around, most_s)
    if ran.why or ran.exit_code != 0:
        raise HookFailed(ran.why or f"it ended with exit code {ran.exit_code}")
    if ran.cut:
        raise HookFailed(f"it printed more than {ANSWER_BYTES // 1024} KiB")
    return decoded(ran.output, HookAnswer) if ran.output.strip() else HookAnswer("allow")


def hear(named: NamedHook, document: bytes, workspace: Workspace, around: Environment, most_s: float) -> str:
    """What a hook says after a call, for the model: its `context`, or whatever else it printed. Raises HookFailed."""
    ran = ran_hook(named, document, workspace, around, most_s)
    said = words_of(ran.output)
    if ran.why or ran.exit_code != 0:
        raise HookFailed("\n".join(filter(None, (ran.why or f"it ended with exit code {ran.exit_code}", said))))
    return said


def ran_hook(named: NamedHook, document: bytes, workspace: Workspace, around: Environment, most_s: float) -> Ran:
    """Run it, in the workspace's root, within its time and what is left of the time for all."""
    if most_s <= 0:
        raise HookFailed("the hooks before it took all the time there is for one call")
    if named.hook.command is None:
        raise AssertionError("an entry point is no command")
    return run(
        named.hook.command,
        folder=workspace.root,
        variables=variables_for(around),
        timeout_s=min(named.hook.timeout_s, most_s),
        stdin=document,
        first=ANSWER_BYTES,
    )


def decoded(output: bytes, kind: type[T]) -> T:
    """The answer. Raises HookFailed."""
    try:
        return msgspec.json.decode(output, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise HookFailed(f"its answer is not the JSON that was expected ({str(error)[:200]})") from error


def words_of(output: bytes) -> str:
    """The words of an answer after a call; text that is no such answer is the words itself."""
    try:
        found = decoded(output, AfterAnswer)
    except HookFailed:
        return spoken(output.decode("utf-8", "replace"))
    return spoken("\n".join(filter(None, (found.reason, found.context))))


def spoken(text: str) -> str:
    """What a hook says, as a model may be told it: bounded, and without characters that hide others."""
    clean = visible(text[: CONTEXT_CHARS + 1]).strip()
    return clean if len(clean) <= CONTEXT_CHARS else clean[:CONTEXT_CHARS] + "…"


def document_before(call: ToolCall, facts: Facts) -> bytes:
    """What a hook before a call gets."""
    document = {"version": VERSION, "on": "before", "call": told_call(call), "facts": told_facts(facts)}
    return json.dumps(document).encode("ascii")


def document_after(call: ToolCall, facts: Facts, outcome: Outcome, changed: tuple[str, ...]) -> bytes:
    """What a hook after a call gets: `changed` are the paths that differ, whatever the call named."""
    done = {"ok": outcome.ok, "exit_code": outcome.exit_code, "summary": outcome.summary, "changed": changed}
    document = {
        "version": VERSION,
        "on": "after",
        "call": told_call(call),
        "facts": told_facts(facts),
        "outcome": done,
    }
    return json.dumps(document).encode("ascii")


def told_call(call: ToolCall) -> Mapping[str, Any]:
    """The call, for a hook."""
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


def told_facts(facts: Facts) -> Mapping[str, Any]:
    """The situation, for a hook: what it may want to go by, and not every intent there is."""
    active = facts.active
    return {
        "mode": facts.mode,
        "intent": active and {"id": active.id, "name": active.title, "owned_scope": active.owned_scope},
        "targets": [
            {"path": None if t.path is None else str(t.path), "resolved": t.resolved, "sha256": t.sha256}
            for t in facts.targets
        ],
    }
