"""Trusted repository hooks before and after a call.

A hook can object, ask, add text for the model, or replace the call's arguments. Hooks only tighten: a rewritten call
passes every check again, and an agent that cannot take other arguments gets a denial.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

from msgspec import Struct, json
from msgspec.structs import replace

from remit.adapters import can_rewrite, replace_arguments
from remit.core.call import Outcome, ToolCall
from remit.core.decision import Finding
from remit.core.display_text import sanitise_line
from remit.core.facts import Facts
from remit.core.secrets.redaction import redact
from remit.core.team_hooks import HookAnswer, HookMoment, NamedHook
from remit.gate.environment import Environment
from remit.gate.team_hooks import run_command
from remit.gate.team_hooks.registry import load_function, objection_code
from remit.gate.team_hooks.run_command import HookFailed, clean_text
from remit.workspace.place.workspace import Workspace

MAX_ALL_HOOKS_S = 120.0
"""Time limit for every hook of one call together: an agent runs its tool when its own timeout ends."""

MAX_REASON_CHARS = 2_000
MAX_SHOWN_CHARS = 4_000


class HookReplies(Struct, frozen=True):
    """Replies of the hooks before a call.

    `call` has the latest arguments, `rewriters` are the hooks that replaced them.
    """

    call: ToolCall
    findings: tuple[Finding, ...] = ()
    words: tuple[str, ...] = ()
    rewriters: tuple[str, ...] = ()
    ran: bool = False
    spent_s: float = 0.0


class RepositoryHooks:
    """Trusted hooks of one workspace, for one call."""

    def __init__(self, hooks: tuple[NamedHook, ...], workspace: Workspace, environment: Environment) -> None:
        self.hooks = hooks
        self.workspace = workspace
        self.environment = environment

    def ask_before_hooks(self, call: ToolCall, facts: Facts) -> HookReplies:
        """Ask each hook in turn; each sees the call as its predecessor left it."""
        said = HookReplies(call)
        for named in self.select_hooks("before", call, facts, named_paths(facts)):
            said = self.ask_hook(named, said, facts)
        return said

    def run_on_rewritten(self, replies: HookReplies, facts: Facts) -> HookReplies:
        """Ask again about the rewritten call. Hooks that rewrote the call do not rewrite twice."""
        found = HookReplies(replies.call, rewriters=replies.rewriters, ran=True, spent_s=replies.spent_s)
        for named in self.select_hooks("before", replies.call, facts, named_paths(facts)):
            found = self.ask_hook(named, found, facts)
        if found.call != replies.call:
            found = replace(found, call=replies.call, findings=(*found.findings, rewrite_conflict(found.rewriters)))
        return replace(found, rewriters=replies.rewriters, words=(*replies.words, *found.words))

    def select_hooks(self, on: HookMoment, call: ToolCall, facts: Facts, paths: tuple[str, ...]) -> list[NamedHook]:
        return [
            named
            for named in self.hooks
            if named.hook.on == on and named.hook.when.covers(facts.mode, call.agent, call.tool, paths)
        ]

    def ask_hook(self, named: NamedHook, replies: HookReplies, facts: Facts) -> HookReplies:
        began = time.monotonic()
        try:
            answer = self.call_before_hook(named, replies.call, facts, MAX_ALL_HOOKS_S - replies.spent_s)
            found = apply_answer(named, answer, replies, facts)
        except HookFailed as failure:
            found = replace(replies, findings=(*replies.findings, failed_hook_finding(named, failure)))
        return replace(found, ran=True, spent_s=replies.spent_s + time.monotonic() - began)

    def call_before_hook(self, named: NamedHook, call: ToolCall, facts: Facts, timeout_s: float) -> HookAnswer:
        """Return the answer of one hook; other calls may run meanwhile. Raises HookFailed."""
        with self.environment.release_lock():
            if named.hook.entry_point is None:
                document = run_command.make_before_document(call, facts)
                return run_command.run_before_hook(named, document, self.workspace, self.environment, timeout_s)
            found = call_with_timeout(named, min(named.hook.timeout_s, timeout_s), call, facts)
        if found is None:
            return HookAnswer("allow")
        if not isinstance(found, Finding):
            raise HookFailed(f"it returned a {type(found).__name__}; expected a Finding or None")
        return HookAnswer(found.verdict, found.message)

    def call_after_hooks(
        self, call: ToolCall, facts: Facts, outcome: Outcome, changed: tuple[str, ...]
    ) -> tuple[list[str], list[str]]:
        """Return the hooks' messages for the model, and a description of each failed hook."""
        words: list[str] = []
        troubles: list[str] = []
        spent = 0.0
        document = run_command.make_after_document(call, facts, outcome, changed)
        for named in self.select_hooks("after", call, facts, (*named_paths(facts), *changed)):
            began = time.monotonic()
            try:
                found = self.call_after_hook(named, document, call, outcome, MAX_ALL_HOOKS_S - spent)
                words += [f"Hook {named.name}: {found}"] if found else []
            except HookFailed as failure:
                troubles.append(f"{named.name}: {failure}")
                words.append(f"Hook {named.name} failed: {clean_text(str(failure))}")
            spent += time.monotonic() - began
        return words, troubles

    def call_after_hook(
        self, named: NamedHook, document: bytes, call: ToolCall, outcome: Outcome, timeout_s: float
    ) -> str:
        """Return the message of one hook after a call. Raises HookFailed."""
        with self.environment.release_lock():
            if named.hook.entry_point is None:
                return run_command.run_after_hook(named, document, self.workspace, self.environment, timeout_s)
            found = call_with_timeout(named, min(named.hook.timeout_s, timeout_s), call, outcome)
        return clean_text(found) if isinstance(found, str) else ""


def named_paths(facts: Facts) -> tuple[str, ...]:
    return tuple(str(target.path) for target in facts.targets if target.path is not None)


def apply_answer(named: NamedHook, answer: HookAnswer, replies: HookReplies, facts: Facts) -> HookReplies:
    """Return the replies with one more hook's answer."""
    words = [f"Hook {named.name}: {clean_text(answer.context)}"] if answer.context.strip() else []
    if answer.effect != "allow":
        found = Finding(named.name, objection_code(answer.effect), format_reason(named, answer.reason), answer.effect)
        return replace(replies, findings=(*replies.findings, found), words=(*replies.words, *words))
    if answer.arguments is None or answer.arguments == replies.call.arguments or named.name in replies.rewriters:
        return replace(replies, words=(*replies.words, *words))
    if facts.mode != "enforce":
        would = f"Hook {named.name} would give this {replies.call.tool} call other arguments; only enforce lets it."
        return replace(replies, words=(*replies.words, *words, would))
    if not can_rewrite(replies.call):
        found = Finding(named.name, "HOOK_BLOCKED", describe_rewrite(named, replies.call, answer.arguments))
        return replace(replies, findings=(*replies.findings, found), words=(*replies.words, *words))
    told = f"Hook {named.name} gave this {replies.call.tool} call other arguments; it runs with those."
    return replace(
        replies,
        call=replace_arguments(replies.call, answer.arguments),
        words=(*replies.words, *words, told),
        rewriters=(*replies.rewriters, named.name),
    )


def format_reason(named: NamedHook, reason: str) -> str:
    return (
        sanitise_line(redact(reason[:MAX_REASON_CHARS]), MAX_REASON_CHARS) or f"the hook {named.name} refuses this call"
    )


def describe_rewrite(named: NamedHook, call: ToolCall, arguments: dict[str, Any]) -> str:
    """Return the denial text with the arguments that the agent's hook cannot replace."""
    wanted = sanitise_line(redact(json.encode(arguments).decode()[:MAX_SHOWN_CHARS]), MAX_SHOWN_CHARS)
    return (
        f"The hook {named.name} wants other arguments for this call, and {call.agent} cannot take them from a hook. "
        f"Make this {call.tool} call instead: {wanted}"
    )


def rewrite_conflict(rewriters: tuple[str, ...]) -> Finding:
    """Return the denial of a call over whose arguments two hooks disagree."""
    names = ", ".join(rewriters)
    return Finding(
        rewriters[-1],
        "HOOK_BLOCKED",
        f"the hooks {names} each want other arguments for this call, whatever the others made of it: "
        "tell the person, who has to mend one of them",
    )


def failed_hook_finding(named: NamedHook, failure: HookFailed) -> Finding:
    """Return the finding of a failed hook: a denial or a note, by its `on_error`. Both are recorded."""
    return Finding(
        named.name,
        "HOOK_BLOCKED",
        f"the hook {named.name} failed ({sanitise_line(str(failure))}), and its `on_error` is deny: tell the person",
        named.hook.on_error,
        context={"check": named.name, "exception": str(failure)[:500]},
    )


def call_with_timeout(named: NamedHook, timeout_s: float, *arguments: object) -> object:
    """Return the result of a Python hook. A hook beyond its time continues in its thread, unheard."""
    if timeout_s <= 0:
        raise HookFailed("the hooks before it took all the time there is for one call")
    returned: list[object] = []
    broken: list[str] = []
    work = threading.Thread(target=run_entry_point, args=(named, arguments, returned, broken), daemon=True)
    work.start()
    work.join(timeout_s)
    if broken:
        raise HookFailed(broken[0])
    if not returned:
        raise HookFailed(f"it took longer than {timeout_s:g} s")
    return returned[0]


def run_entry_point(named: NamedHook, arguments: tuple[object, ...], returned: list[object], broken: list[str]) -> None:
    """Call the hook in its own thread; append its result, or its error."""
    try:
        function: Callable[..., object] = load_function(named.hook.entry_point or "")
        returned.append(function(*arguments))
    except (Exception, SystemExit) as error:  # noqa: BLE001  any failure of a hook is handled as its `on_error` says
        broken.append(f"{type(error).__name__}: {error}"[:500])
