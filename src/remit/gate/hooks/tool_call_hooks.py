"""Trusted hooks of a repository: commands with JSON on standard input and output, or Python entry points in a thread.
Before a call, a hook can object, ask, add text for the model, or replace the call's arguments. Hooks only tighten: a
rewritten call passes every check again, and an agent without support for new arguments gets a denial. After a call, the
call is finished and recorded: no hook turns it into a failure.
"""

import threading
import time
from json import dumps
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, json
from msgspec.structs import replace

from remit.adapters import can_rewrite, replace_arguments
from remit.core.call import Outcome, ToolCall
from remit.core.config import AfterAnswer, HookAnswer, HookMoment, NamedHook
from remit.core.decision import Facts, Finding
from remit.core.intents.context_block import remove_invisible
from remit.core.python_runtime import prepare_type
from remit.core.record import Body
from remit.core.redaction import redact
from remit.core.untrusted_input import sanitise_line
from remit.gate.context import Attempts, WorkspaceContext, join_lines
from remit.gate.gather import gather_facts
from remit.gate.governing.rules import Rules
from remit.gate.hooks.registered_checks import HookReplies, RegisteredHooks, load_function, objection_code
from remit.gate.machine import Environment
from remit.policy.decide import classify
from remit.workspace.processes.limited_command import CommandResult, run_trusted_command

DOCUMENT_VERSION = 1  # version of the hook's input document: a key may be added, none changes its meaning
MAX_ALL_HOOKS_S = 120.0
"""Time limit for every hook of one call together: an agent runs its tool when its own timeout ends."""

MAX_ANSWER_BYTES = 1 << 20
MAX_CONTEXT_CHARS = 10_000
MAX_REASON_CHARS = 2_000
MAX_SHOWN_CHARS = 4_000
T = TypeVar("T", HookAnswer, AfterAnswer)


def list_trusted_hooks(context: WorkspaceContext, rules: Rules) -> tuple[NamedHook, ...]:
    """Return the hooks that a person on the machine trusts. Raises OSError, GitError."""
    if not rules.hooks:
        return ()
    digests = context.trusted_digests()
    pairs = zip(rules.hooks, rules.repository_commands, strict=False)
    return tuple(hook for hook, command in pairs if command.digest in digests)


class HookFailed(Exception):
    """Hook without a valid answer. The message says how the hook failed."""


class HookCall(Struct, frozen=True):
    """Call as seen by the workspace's hooks; `outcome` and `changed` are set after the call. `changed` are the
    differing paths, whether the call named them or not.
    """

    context: WorkspaceContext
    call: ToolCall
    facts: Facts
    outcome: Outcome | None = None
    changed: tuple[str, ...] = ()

    def select_hooks(self, hooks: tuple[NamedHook, ...], on: HookMoment) -> list[NamedHook]:
        paths = (*(str(target.path) for target in self.facts.targets if target.path is not None), *self.changed)
        seen = (self.facts.mode, self.call.agent, self.call.tool, paths)
        return [named for named in hooks if named.hook.on == on and named.hook.when.covers(*seen)]


# Before a call


def ask_before_hooks(
    context: WorkspaceContext, hooks: tuple[NamedHook, ...], replies: HookReplies, facts: Facts
) -> HookReplies:
    """Ask each hook in turn; each sees the call as its predecessor left it."""
    event = HookCall(context, replies.call, facts)
    for named in event.select_hooks(hooks, "before"):
        began = time.monotonic()
        try:
            answer = ask_hook(named, replace(event, call=replies.call), MAX_ALL_HOOKS_S - replies.spent_s)
            replies = apply_answer(named, answer, replies, facts)
        except HookFailed as failure:
            # A denial or a note, by the hook's `on_error`; the context makes both a record.
            why = sanitise_line(str(failure))
            message = f"the hook {named.name} failed ({why}), and its `on_error` is deny: tell the person"
            seen = {"check": named.name, "exception": str(failure)[:500]}
            finding = Finding(named.name, "HOOK_BLOCKED", message, named.hook.on_error, context=seen)
            replies = replies.with_finding(finding)
        replies = replace(replies, ran=True, spent_s=replies.spent_s + time.monotonic() - began)
    return replies


def ask_about_rewritten(
    context: WorkspaceContext, hooks: tuple[NamedHook, ...], replies: HookReplies, facts: Facts
) -> HookReplies:
    """Ask again about the rewritten call. Hooks that rewrote the call do not rewrite twice."""
    found = ask_before_hooks(context, hooks, replace(replies, findings=(), words=()), facts)
    if found.call != replies.call:
        message = (
            f"the hooks {', '.join(found.rewriters)} each want other arguments for this call, whatever the others made "
            "of it: tell the person, who has to mend one of them"
        )
        found = found.with_finding(Finding(found.rewriters[-1], "HOOK_BLOCKED", message))
    return replace(found, call=replies.call, rewriters=replies.rewriters, words=(*replies.words, *found.words))


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


def apply_answer(named: NamedHook, answer: HookAnswer, replies: HookReplies, facts: Facts) -> HookReplies:
    name, call = named.name, replies.call
    if answer.context.strip():
        replies = replies.with_message(f"Hook {name}: {clean_text(answer.context)}")
    if answer.effect != "allow":
        reason = sanitise_line(redact(answer.reason[:MAX_REASON_CHARS]), MAX_REASON_CHARS)
        message = reason or f"the hook {name} refuses this call"
        return replies.with_finding(Finding(name, objection_code(answer.effect), message, answer.effect))
    if answer.arguments is None or answer.arguments == call.arguments or name in replies.rewriters:
        return replies
    if facts.mode != "enforce":
        message = f"Hook {name} would give this {call.tool} call other arguments; only enforce lets it."
        return replies.with_message(message)
    if not can_rewrite(call):
        wanted = sanitise_line(redact(json.encode(answer.arguments).decode()[:MAX_SHOWN_CHARS]), MAX_SHOWN_CHARS)
        message = (
            f"The hook {name} wants other arguments for this call, and {call.agent} cannot take them from a hook. "
            f"Make this {call.tool} call instead: {wanted}"
        )
        return replies.with_finding(Finding(name, "HOOK_BLOCKED", message))
    replies = replies.with_message(f"Hook {name} gave this {call.tool} call other arguments; it runs with those.")
    rewritten = replace_arguments(call, answer.arguments)
    return replace(replies, call=rewritten, rewriters=(*replies.rewriters, name))


# After a call


def run_after_hooks(
    context: WorkspaceContext, registered: RegisteredHooks, call: ToolCall, outcome: Outcome, changed: tuple[str, ...]
) -> str:
    """Run the listeners and the repository's hooks, record failures, and return the messages for the model."""
    tries = Attempts()
    messages: list[str] = []
    failures: dict[str, str] = {}
    for name, listener in list(registered.listeners.items()):
        try:
            messages.append(clean_text(listener(call, outcome) or ""))
        except (Exception, SystemExit) as error:  # noqa: BLE001  a hook's failure is not the call's
            failures[name] = f"{type(error).__name__}: {error}"
            messages.append(f"Hook {name} failed ({type(error).__name__}).")
    with tries:
        rules = context.last_rules or context.rules
        hooks = tuple(named for named in list_trusted_hooks(context, rules) if named.hook.on == "after")
        spent_s = 0.0
        facts = gather_facts(context, call, rules).facts if hooks else Facts(mode=rules.mode)
        event = HookCall(context, call, facts, outcome, changed)
        for named in event.select_hooks(hooks, "after"):
            began = time.monotonic()
            try:
                message = inform_hook(named, event, MAX_ALL_HOOKS_S - spent_s)
                messages.append(f"Hook {named.name}: {message}" if message else "")
            except HookFailed as failure:
                failures[named.name] = str(failure)
                messages.append(f"Hook {named.name} failed: {clean_text(str(failure))}")
            spent_s += time.monotonic() - began
    with tries:
        bodies = [
            Body(
                event="check_failed",
                intent_id=context.state.active_session(call.session).intent_id,
                session_id=call.session.session_id,
                detail={"check": name, "exception": failure[:500]},
            )
            for name, failure in failures.items()
        ]
        if bodies:
            context.recorder.append_or_spool([context.recorder.make_record(body, call.agent) for body in bodies])
    return join_lines(*messages, tries.failure_notice)


def inform_hook(named: NamedHook, event: HookCall, timeout_s: float) -> str:
    """Return a hook's message after a call; further calls may run meanwhile. Raises HookFailed."""
    if named.hook.entry_point is not None:
        found = call_entry_point(named, event, timeout_s, event.outcome)
        return clean_text(found) if isinstance(found, str) else ""
    ran = run_hook_command(named, event, timeout_s)
    try:
        answer = decode_answer(ran.output, AfterAnswer)
        message = join_lines(answer.reason, answer.context)
    except HookFailed:
        message = ran.output.decode("utf-8", "replace")  # plain output counts as the message
    message = clean_text(message)
    if ran.failure or ran.exit_code != 0:
        raise HookFailed(join_lines(ran.failure or f"it ended with exit code {ran.exit_code}", message))
    return message


# Running a hook


def run_hook_command(named: NamedHook, event: HookCall, timeout_s: float) -> CommandResult:
    if named.hook.command is None:
        raise AssertionError("an entry point is no command")
    environment = event.context.environment
    with environment.release_lock():
        return run_trusted_command(
            named.hook.command,
            folder=event.context.workspace.root,
            variables=command_environment(environment),
            timeout_s=limit_time(named, timeout_s),
            stdin=dumps(make_document(event)).encode("ascii"),
            head_bytes=MAX_ANSWER_BYTES,
        )


def call_entry_point(named: NamedHook, event: HookCall, timeout_s: float, second: object) -> object:
    timeout_s = limit_time(named, timeout_s)
    returned: list[object] = []
    broken: list[str] = []

    def call_function() -> None:
        try:
            returned.append(load_function(named.hook.entry_point or "")(event.call, second))
        except (Exception, SystemExit) as error:  # noqa: BLE001  handled as the hook's `on_error` says
            broken.append(f"{type(error).__name__}: {error}"[:500])

    with event.context.environment.release_lock():
        thread = threading.Thread(target=call_function, daemon=True)
        thread.start()
        thread.join(timeout_s)
    if broken:
        raise HookFailed(broken[0])
    if not returned:
        raise HookFailed(f"it took longer than {timeout_s:g} s")
    return returned[0]


def limit_time(named: NamedHook, timeout_s: float) -> float:
    if timeout_s <= 0:
        raise HookFailed("the hooks before it took all the time there is for one call")
    return min(named.hook.timeout_s, timeout_s)


def command_environment(environment: Environment) -> dict[str, str]:
    """Return the environment of a repository's command, without bytecode caches that would change trusted files."""
    own = {"HOME": str(environment.home), "TMPDIR": str(environment.temporary), "PYTHONDONTWRITEBYTECODE": "1"}
    return {**environment.variables, **own}


def decode_answer(output: bytes, kind: type[T]) -> T:
    try:
        return json.decode(output, type=prepare_type(kind))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise HookFailed(f"its answer is not the JSON that was expected ({str(error)[:200]})") from error


def clean_text(text: str) -> str:
    clean = remove_invisible(text[: MAX_CONTEXT_CHARS + 1]).strip()
    return clean if len(clean) <= MAX_CONTEXT_CHARS else clean[:MAX_CONTEXT_CHARS] + "…"


def make_document(event: HookCall) -> dict[str, Any]:
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
            "targets": [{"path": t.path, "resolved": t.resolved, "sha256": t.sha256} for t in facts.targets],
        },
    }
    if outcome is not None:
        done = {"ok": outcome.ok, "exit_code": outcome.exit_code, "summary": outcome.summary, "changed": event.changed}
        document["outcome"] = done
    return document
