"""Trusted repository hooks before a call.

A hook can object, ask, add text for the model, or replace the call's arguments. Hooks only tighten: a rewritten call
passes every check again, and an agent without support for new arguments gets a denial.
"""

import time

from msgspec import Struct, json
from msgspec.structs import replace

from remit.adapters import can_rewrite, replace_arguments
from remit.core.call import ToolCall
from remit.core.decision import Finding
from remit.core.display_text import sanitise_line
from remit.core.facts import Facts
from remit.core.secrets.redaction import redact
from remit.core.team_hooks import HookAnswer, HookMoment, NamedHook
from remit.gate.environment import Environment
from remit.gate.team_hooks.registered_checks import objection_code
from remit.gate.team_hooks.run_hook import HookCall, HookFailed, ask_hook, clean_text
from remit.workspace.place.workspace import Workspace

MAX_ALL_HOOKS_S = 120.0
"""Time limit for every hook of one call together: an agent runs its tool when its own timeout ends."""

MAX_REASON_CHARS = 2_000
MAX_SHOWN_CHARS = 4_000


class HookReplies(Struct, frozen=True):
    """Replies of the hooks before a call.

    `call` has the latest arguments, `rewriters` are the hooks with replacements.
    """

    call: ToolCall
    findings: tuple[Finding, ...] = ()
    words: tuple[str, ...] = ()
    rewriters: tuple[str, ...] = ()
    ran: bool = False
    spent_s: float = 0.0

    def with_finding(self, finding: Finding) -> "HookReplies":
        return replace(self, findings=(*self.findings, finding))

    def with_message(self, message: str) -> "HookReplies":
        return replace(self, words=(*self.words, message))


class RepositoryHooks:
    """Trusted hooks of a workspace, for a single call."""

    def __init__(self, hooks: tuple[NamedHook, ...], workspace: Workspace, environment: Environment) -> None:
        self.hooks = hooks
        self.workspace = workspace
        self.environment = environment

    def ask_before_hooks(self, call: ToolCall, facts: Facts) -> HookReplies:
        return self.ask_each(HookReplies(call), facts)

    def ask_about_rewritten(self, replies: HookReplies, facts: Facts) -> HookReplies:
        """Ask again about the rewritten call. Hooks that rewrote the call do not rewrite twice."""
        found = HookReplies(replies.call, rewriters=replies.rewriters, ran=True, spent_s=replies.spent_s)
        found = self.ask_each(found, facts)
        if found.call != replies.call:
            names = ", ".join(found.rewriters)
            message = (
                f"the hooks {names} each want other arguments for this call, whatever the others made of it: "
                "tell the person, who has to mend one of them"
            )
            found = found.with_finding(Finding(found.rewriters[-1], "HOOK_BLOCKED", message))
        return replace(found, call=replies.call, rewriters=replies.rewriters, words=(*replies.words, *found.words))

    def ask_each(self, replies: HookReplies, facts: Facts) -> HookReplies:
        """Ask each hook in turn; each sees the call as its predecessor left it."""
        event = HookCall(replies.call, facts, self.workspace, self.environment)
        for named in select_hooks(self.hooks, "before", event):
            began = time.monotonic()
            try:
                answer = ask_hook(named, replace(event, call=replies.call), MAX_ALL_HOOKS_S - replies.spent_s)
                replies = apply_answer(named, answer, replies, facts)
            except HookFailed as failure:
                # A denial or a note, by the hook's `on_error`; the context makes both a record.
                why = sanitise_line(str(failure))
                message = f"the hook {named.name} failed ({why}), and its `on_error` is deny: tell the person"
                context = {"check": named.name, "exception": str(failure)[:500]}
                replies = replies.with_finding(
                    Finding(named.name, "HOOK_BLOCKED", message, named.hook.on_error, context=context)
                )
            replies = replace(replies, ran=True, spent_s=replies.spent_s + time.monotonic() - began)
        return replies


def select_hooks(hooks: tuple[NamedHook, ...], on: HookMoment, event: HookCall) -> list[NamedHook]:
    mode, call = event.facts.mode, event.call
    return [
        named
        for named in hooks
        if named.hook.on == on and named.hook.when.covers(mode, call.agent, call.tool, event.paths)
    ]


def apply_answer(named: NamedHook, answer: HookAnswer, replies: HookReplies, facts: Facts) -> HookReplies:
    """Return the replies with the answer of a further hook."""
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
        return replies.with_message(
            f"Hook {name} would give this {call.tool} call other arguments; only enforce lets it."
        )
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
