"""Records and messages about a finished contained command."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from remit.core.call import Outcome
from remit.core.decision import Decision, Finding
from remit.core.diff.contents import sha256
from remit.core.display_text import sanitise_line
from remit.core.record import Record
from remit.core.shell.simple_commands import UnreadableShell
from remit.gate.answer import Attempts, join_lines
from remit.gate.containment.contained_command import ContainedCommand
from remit.gate.containment.messages import (
    describe_ended_background,
    describe_missing_signature,
    describe_missing_ssh_agent,
    describe_protected_places,
    describe_result,
    describe_unreachable_processes,
)
from remit.gate.effects.changes import Effects, make_call_records, update_state
from remit.gate.effects.concurrent_calls import ConcurrentCalls
from remit.gate.records.call_records import record_denial
from remit.gate.sessions.pending_messages import PendingMessages
from remit.gate.state.baseline import mark_recorded
from remit.gate.state.pending_calls import PendingCall
from remit.policy.commands.program_calls import find_program_calls
from remit.workspace.git.command import Git
from remit.workspace.observe.observation import Change, Observation
from remit.workspace.place.workspace import Workspace
from remit.workspace.sandbox import layers
from remit.workspace.sandbox.run_command import CommandEnd
from remit.workspace.sandbox.sockets import may_be_ssh_socket

ASIDE_FOLDER = "aside"
"""Folder below Remit's own with a command's versions of files that someone else changed meanwhile."""

MAX_RECORDED_PATHS = 100
"""Dropped paths in one record."""

PLAIN_CALL_ID = re.compile(r"\w[\w-]{0,99}", re.ASCII)
"""Call ids usable as a folder name."""


class ContainedResult(Struct, frozen=True):
    """Result of a contained command. `dropped` maps paths to reasons; `said` is the full message for a model."""

    code: int
    kept: tuple[str, ...] = ()
    dropped: dict[str, str] = {}
    said: str = ""


def aside_folder(command: ContainedCommand) -> Path:
    """Return the folder for the call's versions of files that someone else changed."""
    name = command.call.call_id or "call"
    name = name if PLAIN_CALL_ID.fullmatch(name) else sha256(name.encode("utf-8", "surrogateescape"))[:16]
    return command.context.workspace.state / ASIDE_FOLDER / name


def record_result(
    command: ContainedCommand,
    ended: CommandEnd,
    done: Mapping[str, Change],
    findings: Sequence[Finding],
    kept: tuple[str, ...],
    observation: Observation | None = None,
) -> ContainedResult:
    """Record kept and dropped changes, and return the result with its message.

    `observation` is that of a command without an overlay, after it ended.
    """
    context, call, ticket = command.context, command.call, command.ticket
    tries = Attempts()
    row: int | None = None
    found: PendingCall | None = None
    with tries.step():
        row, found = context.state.find_pending_call(call.session, call.call_id, call.tool, call.arguments_sha256)
    pending = found or make_pending_call(command)
    pending = replace(pending, judged=tuple(done), whole=not command.is_staged)
    outcome = Outcome(ok=ended.code == 0, exit_code=ended.code, summary=ended.stop_text)
    changes = tuple(c for c in done.values() if c.before is None or c.after is None or c.before != c.after)
    records: list[Record] = []
    with tries.step():
        effects = Effects(changes, observation)
        records = make_call_records(context, call, outcome, pending, row, effects, context.recorder.vcs, tries)
    if ticket is not None:
        records = records[:-1]  # the call's own hook records its end
    waiting: str | None = None
    with tries.step():
        waiting = context.recorder.append_or_spool(records)
    with tries.step():
        record_dropped(command, findings)
    if ticket is None:
        is_recorded = not tries.failures
        with tries.step():
            update_state(context, call, outcome, pending, row, changes, recorded=is_recorded)
    else:
        with tries.step():
            mark_changes_recorded(command, row, pending, changes)
    message = join_lines(
        describe_result(ended, kept, findings, aside_folder(command)),
        describe_sandbox_limits(command, ended),
        waiting or "",
        tries.failure_notice,
    )
    if ticket is not None:
        with Attempts().step():
            PendingMessages(context.state).add_contained_result(call, ticket.token, message)
    return ContainedResult(ended.code, kept, {str(f.path): f.message for f in findings}, message)


def mark_changes_recorded(
    command: ContainedCommand, row: int | None, pending: PendingCall, changes: tuple[Change, ...]
) -> None:
    """Update the baseline so that the next comparison does not report these changes again."""
    state, call = command.context.state, command.call
    with state.group_changes():
        mark_recorded(state, changes)
        ConcurrentCalls(state, command.context.environment.clock()).record_changes(call.session, changes)
        if row is not None and not command.is_staged:
            # The hook that follows compares from here on.
            state.delete_call(row)
            pending = replace(pending, whole=False, judged=(), before={})
            now = command.context.environment.clock()
            state.put_pending_call(call.session, call.call_id, call.tool, call.arguments_sha256, pending, now)


def make_pending_call(command: ContainedCommand) -> PendingCall:
    """Return a pending call for a command without an earlier decision, from the current state."""
    facts = command.gather_facts()
    return PendingCall(
        intent_id=facts.session.intent_id,
        verdict="allow" if command.ticket is None else "contain",
        mode=facts.mode,
        rules=(),
        judged=(),
        whole=False,
        head=None,
        before={},
        agent=command.call.agent,
        owned_scope=facts.active.owned_scope if facts.active else (),
    )


def record_dropped(command: ContainedCommand, findings: Sequence[Finding]) -> None:
    """Record dropped changes as a denial. The denial does not count against the session."""
    if not findings:
        return
    facts, (first, *others) = command.gather_facts(), findings
    dropped = [sanitise_line(f.path or "", 200) for f in findings[:MAX_RECORDED_PATHS]]
    first = replace(first, context={**first.context, "dropped": dropped, "dropped_count": len(findings)})
    decision = Decision("deny", "deny", "destructive", facts.mode, (first, *others), facts.session.intent_id)
    record_denial(command.context.recorder, command.call, facts, decision)


def describe_sandbox_limits(command: ContainedCommand, ended: CommandEnd) -> str:
    """Describe, from the command's text, the accesses that the sandbox denied."""
    workspace, settings = command.context.workspace, command.context.environment.settings
    text = command.call.command or ""
    messages = [describe_unreachable_processes(text, find_programs(text)), describe_ended_background(text)]
    if ended.code:
        inside = [
            str(p.relative_to(workspace.root))
            for p in layers.read_only_paths(workspace, settings)
            if workspace.root in p.parents
        ]
        has_no_agent = any(may_be_ssh_socket(door) for door in command.find_hidden_sockets())
        messages = [
            describe_protected_places(text, dict.fromkeys((*inside, *settings))),
            describe_missing_ssh_agent(text) if has_no_agent else "",
            describe_missing_signature(text, signs=has_signing_enabled(workspace)) if "git" in text else "",
            *messages,
        ]
    return join_lines(*messages)


def has_signing_enabled(workspace: Workspace) -> bool:
    """Return True if git's settings sign every commit or tag. Raises GitError."""
    if workspace.common_dir is None:
        return False
    words = ("config", "--type=bool", "--get-regexp", r"^(commit|tag)\.gpgsign$")
    return " true" in Git(workspace.root).text(*words, ok=(0, 1, 128))


def find_programs(command: str) -> frozenset[str]:
    """Return the programs named in a command's text; none if the text cannot be parsed."""
    try:
        return frozenset(one.name for one in find_program_calls(command))
    except UnreadableShell:
        return frozenset()
