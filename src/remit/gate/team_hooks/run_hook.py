"""Execution of a hook: a command with JSON on standard input and output, or a Python entry point in a thread."""

import json
import threading
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from remit.core.call import Outcome, ToolCall
from remit.core.decision import Finding
from remit.core.facts import Facts
from remit.core.intents.context_block import remove_invisible
from remit.core.team_hooks import AfterAnswer, HookAnswer, NamedHook
from remit.gate.environment import Environment
from remit.gate.team_hooks.registered_checks import load_function
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


class HookCall(Struct, frozen=True):
    """Call as seen by the workspace's hooks; `outcome` and `changed` are set after the call.

    `changed` are the differing paths, whether the call named them or not.
    """

    call: ToolCall
    facts: Facts
    workspace: Workspace
    environment: Environment
    outcome: Outcome | None = None
    changed: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        named = (str(target.path) for target in self.facts.targets if target.path is not None)
        return (*named, *self.changed)


def ask_hook(named: NamedHook, event: HookCall, timeout_s: float) -> HookAnswer:
    """Return a hook's answer before a call; further calls may run meanwhile. Raises HookFailed."""
    if named.hook.entry_point is None:
        ran = run_hook_command(named, event, timeout_s)
        if ran.failure or ran.exit_code != 0:
            raise HookFailed(ran.failure or f"it ended with exit code {ran.exit_code}")
        if ran.is_truncated:
            raise HookFailed(f"it printed more than {MAX_ANSWER_BYTES // 1024} KiB")
        return decode_answer(ran.output, HookAnswer) if ran.output.strip() else HookAnswer("allow")
    found = call_entry_point(named, event, timeout_s, event.facts)
    if found is None:
        return HookAnswer("allow")
    if not isinstance(found, Finding):
        raise HookFailed(f"it returned a {type(found).__name__}; expected a Finding or None")
    return HookAnswer(found.verdict, found.message)


def inform_hook(named: NamedHook, event: HookCall, timeout_s: float) -> str:
    """Return a hook's message after a call; further calls may run meanwhile. Raises HookFailed."""
    if named.hook.entry_point is not None:
        found = call_entry_point(named, event, timeout_s, event.outcome)
        return clean_text(found) if isinstance(found, str) else ""
    ran = run_hook_command(named, event, timeout_s)
    try:
        answer = decode_answer(ran.output, AfterAnswer)
        message = "\n".join(filter(None, (answer.reason, answer.context)))
    except HookFailed:
        message = ran.output.decode("utf-8", "replace")  # plain output counts as the message
    message = clean_text(message)
    if ran.failure or ran.exit_code != 0:
        raise HookFailed("\n".join(filter(None, (ran.failure or f"it ended with exit code {ran.exit_code}", message))))
    return message


def run_hook_command(named: NamedHook, event: HookCall, timeout_s: float) -> CommandResult:
    """Run the hook in the workspace's root, within its own time limit and the remaining time of the call."""
    if timeout_s <= 0:
        raise HookFailed("the hooks before it took all the time there is for one call")
    if named.hook.command is None:
        raise AssertionError("an entry point is no command")
    with event.environment.release_lock():
        return run_trusted_command(
            named.hook.command,
            folder=event.workspace.root,
            variables=command_environment(event.environment),
            timeout_s=min(named.hook.timeout_s, timeout_s),
            stdin=json.dumps(make_document(event)).encode("ascii"),
            head_bytes=MAX_ANSWER_BYTES,
        )


def call_entry_point(named: NamedHook, event: HookCall, timeout_s: float, second: object) -> object:
    """Return the result of a Python hook. A hook beyond its time continues in its thread, unheard."""
    timeout_s = min(named.hook.timeout_s, timeout_s)
    if timeout_s <= 0:
        raise HookFailed("the hooks before it took all the time there is for one call")
    returned: list[object] = []
    broken: list[str] = []

    def call_function() -> None:
        try:
            returned.append(load_function(named.hook.entry_point or "")(event.call, second))
        except (Exception, SystemExit) as error:  # noqa: BLE001  handled as the hook's `on_error` says
            broken.append(f"{type(error).__name__}: {error}"[:500])

    with event.environment.release_lock():
        thread = threading.Thread(target=call_function, daemon=True)
        thread.start()
        thread.join(timeout_s)
    if broken:
        raise HookFailed(broken[0])
    if not returned:
        raise HookFailed(f"it took longer than {timeout_s:g} s")
    return returned[0]


def command_environment(environment: Environment) -> dict[str, str]:
    """Return the environment of a repository's command, without bytecode caches that would change trusted files."""
    return {
        **environment.variables,
        "HOME": str(environment.home),
        "TMPDIR": str(environment.temporary),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def decode_answer(output: bytes, kind: type[T]) -> T:
    """Decode a hook's answer. Raises HookFailed."""
    try:
        return msgspec.json.decode(output, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise HookFailed(f"its answer is not the JSON that was expected ({str(error)[:200]})") from error


def clean_text(text: str) -> str:
    """Return a hook's text as shown to a model: bounded, and without invisible characters."""
    clean = remove_invisible(text[: MAX_CONTEXT_CHARS + 1]).strip()
    return clean if len(clean) <= MAX_CONTEXT_CHARS else clean[:MAX_CONTEXT_CHARS] + "…"


def make_document(event: HookCall) -> dict[str, Any]:
    """Return the hook's input. Of the workspace's intents, only the active intent is included."""
    call, facts, active, outcome = event.call, event.facts, event.facts.active, event.outcome
    document: dict[str, Any] = {
        "version": DOCUMENT_VERSION,
        "on": "before" if outcome is None else "after",
        "call": {
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
        },
        "facts": {
            "mode": facts.mode,
            "intent": active and {"id": active.id, "name": active.title, "owned_scope": active.owned_scope},
            "targets": [
                {"path": None if t.path is None else str(t.path), "resolved": t.resolved, "sha256": t.sha256}
                for t in facts.targets
            ],
        },
    }
    if outcome is not None:
        done = {"ok": outcome.ok, "exit_code": outcome.exit_code, "summary": outcome.summary, "changed": event.changed}
        document["outcome"] = done
    return document
