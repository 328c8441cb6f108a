"""Hooks after a call. The call is finished and recorded: no hook turns it into a failure."""

import time

from msgspec import Struct

from remit.core.call import Outcome, ToolCall
from remit.core.record import Body
from remit.gate.answer import Attempts, join_lines
from remit.gate.context import WorkspaceContext
from remit.gate.gather import gather_facts
from remit.gate.rules.trust import trusted_hooks
from remit.gate.team_hooks.before_call import MAX_ALL_HOOKS_S, select_hooks
from remit.gate.team_hooks.registered_checks import RegisteredHooks
from remit.gate.team_hooks.run_hook import HookCall, HookFailed, clean_text, inform_hook


class HookReport(Struct, frozen=True):
    """Message of one hook for the model; `failure` describes a broken hook for the record."""

    name: str
    message: str
    failure: str = ""


def run_after_hooks(
    context: WorkspaceContext,
    registered: RegisteredHooks,
    call: ToolCall,
    outcome: Outcome,
    changed: tuple[str, ...],
) -> str:
    """Return the messages for the model, with the names of failed hooks."""
    tries = Attempts()
    reports = call_listeners(registered, call, outcome)
    with tries.step():
        reports += run_repository_hooks(context, call, outcome, changed)
    with tries.step():
        record_failures(context, call, reports)
    return join_lines(*(report.message for report in reports), tries.failure_notice)


def call_listeners(registered: RegisteredHooks, call: ToolCall, outcome: Outcome) -> list[HookReport]:
    reports: list[HookReport] = []
    for name, listener in list(registered.listeners.items()):
        try:
            reports.append(HookReport(name, clean_text(listener(call, outcome) or "")))
        except (Exception, SystemExit) as error:  # noqa: BLE001  a hook's failure is not the call's
            kind = type(error).__name__
            reports.append(HookReport(name, f"Hook {name} failed ({kind}).", f"{kind}: {error}"))
    return reports


def run_repository_hooks(
    context: WorkspaceContext, call: ToolCall, outcome: Outcome, changed: tuple[str, ...]
) -> list[HookReport]:
    """Run the repository's trusted hooks. Raises the errors in RECORDING_ERRORS."""
    rules = context.last_rules or context.rules
    hooks = tuple(named for named in trusted_hooks(rules, context.recorder) if named.hook.on == "after")
    if not hooks:
        return []
    gathered = gather_facts(context, call, rules)
    event = HookCall(call, gathered.facts, context.workspace, context.environment, outcome, changed)
    reports: list[HookReport] = []
    spent_s = 0.0
    for named in select_hooks(hooks, "after", event):
        began = time.monotonic()
        try:
            message = inform_hook(named, event, MAX_ALL_HOOKS_S - spent_s)
            reports.append(HookReport(named.name, f"Hook {named.name}: {message}" if message else ""))
        except HookFailed as failure:
            message = f"Hook {named.name} failed: {clean_text(str(failure))}"
            reports.append(HookReport(named.name, message, str(failure)))
        spent_s += time.monotonic() - began
    return reports


def record_failures(context: WorkspaceContext, call: ToolCall, reports: list[HookReport]) -> None:
    bodies = [
        Body(
            event="check_failed",
            intent_id=context.state.active_session(call.session).intent_id,
            session_id=call.session.session_id,
            detail={"check": report.name, "exception": report.failure[:500]},
        )
        for report in reports
        if report.failure
    ]
    if bodies:
        context.recorder.append_or_spool([context.recorder.make_record(body, call.agent) for body in bodies])
