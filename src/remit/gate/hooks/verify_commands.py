"""Verification of work: an intent's constraints, and trusted commands as its criteria, and after a write. Constraints
are checked against the files after a call and before completion: calls with unknown results (a shell command, a foreign
tool) are judged here, by their effects. Files changed by a command are recorded as the command's own work, not the
agent's. Commands after a write run while the agent waits, each within its `timeout_s` and together within
`MAX_TOTAL_S`. Functions with a context raise the errors in RECORDING_ERRORS.
"""

import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import UNSET, Struct, json

from remit.core.call import ToolCall
from remit.core.config import MAX_TOTAL_S, hash_on_write, make_verify_item
from remit.core.decision import Mode
from remit.core.diff.contents import ContentVersion
from remit.core.diff.edits import ProposedFile
from remit.core.intent import Constraint, Intent
from remit.core.intents.context_block import remove_invisible
from remit.core.record import Body, MutatedFile
from remit.core.redaction import redact
from remit.core.untrusted_input import quote_path, sanitise_line
from remit.gate.context import WorkspaceContext, contents_of_changes, join_lines
from remit.gate.effects.own_lines import find_differences
from remit.gate.facts.constraint_facts import LINK_MODE, find_paths_changed_under
from remit.gate.hooks.tool_call_hooks import command_environment
from remit.gate.records import call_records
from remit.gate.state.workspace_state import mark_recorded
from remit.gate.undo.governing_files import revert_governing_files
from remit.policy.constraint_kinds import Breach, ProposedChange, describe_breach, find_all_breaches
from remit.workspace.observe.observation import Change, find_changes, try_observe_file
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER
from remit.workspace.processes.limited_command import CommandResult, run_trusted_command

OUTPUT_TAIL_BYTES = 8192
OUTPUT_TAIL_LINES = 20

BUSY_FACT = "on_write_until"
"""Fact with the time until which a command may run: a write of the command must not start the command again."""

MAX_FILES = 500  # files passed to one command; a call that wrote more is no edit
MAX_NAMED_FILES = 5
MAX_NAMED_BREACHES = 5

MAX_CRITERIA_S = 570.0
"""Time limit for every command of one intent together: an agent's shell hook may be waiting, and no hook waits ten
minutes.
"""


class VerificationProof(Struct, frozen=True):
    """Result of a command. `changes` are its changed files, `reverted_paths` the governing files that were put back."""

    command: str
    result: CommandResult
    reverted_paths: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()

    @property
    def failure(self) -> str:
        if self.reverted_paths:
            names = ", ".join(self.reverted_paths)
            return f"`{sanitise_line(self.command)}` changed {names}, which governs: that was put back"
        if self.result.exit_code == 0:
            return ""
        how = self.result.failure or f"exit code {self.result.exit_code}"
        tail = "\n".join(output_tail(self.result).splitlines()[-OUTPUT_TAIL_LINES:])
        return f"`{sanitise_line(self.command)}` failed ({how})" + (f":\n{tail}\n" if tail else "")


def run_verification(
    context: WorkspaceContext,
    command: str,
    words: str | Sequence[str],
    until: float,
    *,
    intent_id: str | None,
    session_id: str | None,
) -> VerificationProof:
    # 1 Run, and compare.
    workspace, recorder = context.workspace, context.recorder
    before = context.observe()
    with context.environment.release_lock():
        ran = run_trusted_command(
            words,
            folder=workspace.root,
            variables=command_environment(context.environment),
            timeout_s=max(0.0, until - time.monotonic()),
            tail_bytes=OUTPUT_TAIL_BYTES,
            with_stderr=True,
        )
    done = find_changes(workspace, before, context.observe())

    # 2 Revert governing files: no command may change the rules in force.
    is_enforcing = context.rules.mode == "enforce"
    reverted = revert_governing_files(context, done, intent_id) if is_enforcing else ()
    kept = tuple(c for c in done if c.path not in reverted)

    # 3 Record the run, and its changes as the command's own: the session's call did not make them.
    text = call_records.redact_command(command)
    detail: dict[str, object] = {
        "command": text,
        "exit_code": ran.exit_code,
        "ms": ran.duration_ms,
        "paths": [quote_path(c.path) for c in kept],
        "output": redact(output_tail(ran)),
        **({"why": ran.failure} if ran.failure else {}),
    }
    bodies = [Body(event="verification", intent_id=intent_id, session_id=session_id, detail=detail)]
    bodies += [make_edit_record(context, kept, text, intent_id, session_id)] if kept else []
    context.keep_contents(contents_of_changes(kept))
    recorder.append_or_spool([recorder.make_record(body) for body in bodies])
    mark_recorded(context.state, kept)

    # 4 Update the baseline of the session's running call: the call did not change these files.
    if session_id is not None:
        context.state.update_running_calls(versions_after(kept), session_id)
    return VerificationProof(command, ran, reverted, kept)


def versions_after(changes: Iterable[Change]) -> dict[str, ContentVersion | None]:
    return {c.path: c.after.version if c.after else None for c in changes}


def make_edit_record(
    context: WorkspaceContext, changes: tuple[Change, ...], command: str, intent_id: str | None, session_id: str | None
) -> Body:
    candidates: list[dict[str, str]] = []
    if session_id is not None:
        purpose = {"intent_id": intent_id} if intent_id else {}
        candidates.append({"session_id": session_id, "agent": "remit", **purpose, "command": command})
    others = {
        call.session.session_id
        for call in context.state.list_open_calls()
        if call.pending and call.pending.whole and call.pending.intent_id != intent_id
    }
    candidates += [{"session_id": other} for other in sorted(others)]
    differences = find_differences(changes, {}, context.contents)
    files: list[MutatedFile] = []
    for change in changes:
        found = differences.get(change.path)
        added = found.added_spans if found else ()
        files.append(call_records.mutated_file(change, None, (), found, added))
    detail = {"origin": "verification", "command": command, "candidates": candidates}
    return Body(event="human_edit", intent_id=None, session_id=None, files=tuple(files), covered=True, detail=detail)


def output_tail(ran: CommandResult) -> str:
    return redact(remove_invisible(ran.output.decode("utf-8", "replace"))).strip()


# After a write


def verify_write(context: WorkspaceContext, call: ToolCall, changed: tuple[str, ...]) -> str:
    """Run the trusted commands of `[verify] on_write` for these files, and return the message for the model."""
    root, state, rules = context.workspace.root, context.state, context.last_rules or context.rules
    # Only regular files: an agent may have pointed a link at a file that it cannot write itself.
    own = (path for path in changed if not path.startswith((f"{ORCHESTRATION_FOLDER}/", ".git/")))
    files = [path for path in own if (root / path).is_file() and not (root / path).is_symlink()][:MAX_FILES]
    covered = [(rule, [p for p in files if rule.covers(p)]) for rule in rules.config.verify.on_write]
    digests = context.trusted_digests() if any(paths for _, paths in covered) else frozenset[str]()
    selected = [(rule, paths) for rule, paths in covered if paths and hash_on_write(rule) in digests]
    if not selected:
        return ""
    now = context.environment.clock.now()
    if now < float(state.read_fact(BUSY_FACT) or 0):
        return "Remit: the commands of `[verify] on_write` are at work after another call; they did not run for this."

    # A command beyond the common time limit fails without running.
    state.put_fact(BUSY_FACT, repr(now + MAX_TOTAL_S))
    intent_id, session_id = state.active_session(call.session).intent_id, call.session.session_id
    covered_files = {path for _, paths in selected for path in paths}
    messages: list[str] = []
    until = time.monotonic() + MAX_TOTAL_S
    try:
        for rule, paths in selected:
            for words in rule.build_runs(paths):
                limit = min(until, time.monotonic() + rule.timeout_s)
                proof = run_verification(context, rule.text, words, limit, intent_id=intent_id, session_id=session_id)
                messages.append(describe_proof(proof, paths))
                # Files of the session are not stale after a formatter changed them.
                state.put_seen_files(call.session, versions_after(c for c in proof.changes if c.path in covered_files))
    finally:
        state.put_fact(BUSY_FACT, "0")
    return join_lines(*messages)


def describe_proof(proof: VerificationProof, paths: list[str]) -> str:
    rewrote = ""
    if proof.changes:
        changed = [quote_path(c.path) for c in proof.changes]
        names = ", ".join(sanitise_line(path, 120) for path in changed[:MAX_NAMED_FILES])
        more = " …" if len(changed) > MAX_NAMED_FILES else ""
        command = sanitise_line(proof.command)
        rewrote = f"Remit: `{command}` rewrote {names}{more}. Read it again before you build on it."
    if not proof.failure:
        return rewrote
    # The tool call that would record the lesson, with the known arguments filled in.
    arguments = {
        "kind": "lesson",
        "lesson": "what to do differently next time",
        "problem": sanitise_line(" ".join(proof.failure.split("\n")[:2]), 200),
        "paths": paths[:MAX_NAMED_FILES],
    }
    lesson = f"record_lesson({json.encode(arguments).decode()})"
    return join_lines(
        f"Remit: after this write {proof.failure}\nMend it. Once you know why, keep the lesson: {lesson}", rewrote
    )


# Criteria of an intent


def split_by_trust(context: WorkspaceContext, intent: Intent) -> tuple[tuple[str, ...], tuple[str, ...]]:
    commands = tuple(dict.fromkeys(c.verify for c in intent.acceptance_criteria if c.verify))
    digests = context.trusted_digests() if commands else frozenset[str]()
    trusted = tuple(c for c in commands if make_verify_item(c, intent.id).digest in digests)
    return trusted, tuple(c for c in commands if c not in trusted)


def run_trusted_criteria(context: WorkspaceContext, intent: Intent, session_id: str | None) -> tuple[str, ...]:
    """Run the trusted commands in turn and describe the failures. Further calls may run meanwhile."""
    until = time.monotonic() + MAX_CRITERIA_S
    proofs = [
        run_verification(context, command, command, until, intent_id=intent.id, session_id=session_id)
        for command in split_by_trust(context, intent)[0]
    ]
    return tuple(proof.failure for proof in proofs if proof.failure)


# Constraints of an intent


def check_after_call(
    context: WorkspaceContext, call: ToolCall, intent: Intent, mode: Mode, changed: tuple[str, ...]
) -> str:
    """Return the message about constraints broken by a call's changes, and record the breaches."""
    before = find_paths_changed_under(intent.id, context.workspace)
    own = [path for path in changed if path in before]
    found = find_breaches(context, intent, before, own, is_final=False)
    broken = [(constraint, breach) for constraint, breach in found if not breach.is_remark]
    texts = [describe_breach(intent.id, *each) for each in broken]
    if broken:
        bodies = [
            Body(
                event="verification",
                intent_id=intent.id,
                session_id=call.session.session_id,
                agent_id=call.session.agent_id or UNSET,
                detail={
                    "command": f"constraint {constraint.kind}",
                    "exit_code": 1,
                    "ms": 0,
                    "paths": [quote_path(breach.path)] if breach.path else [],
                    "output": text,
                },
            )
            for (constraint, breach), text in zip(broken, texts, strict=True)
        ]
        context.recorder.append_or_spool([context.recorder.make_record(body, call.agent) for body in bodies])
    messages: list[str] = []
    # The checks judged a file tool's content beforehand: in warn the model has heard about its breaches already.
    is_judged = call.edit is not None and call.command is None
    if broken and mode != "observe" and not (is_judged and mode == "warn"):
        messages.append(
            f"Remit: this {call.tool} call left what breaks {len(broken)} of the constraints of {intent.id}. "
            f"{' '.join(texts[:MAX_NAMED_BREACHES])} "
            "It is recorded. Mend it now: the intent cannot be completed like this."
        )
    remarks = [describe_breach(intent.id, *each) for each in found if each[1].is_remark]
    if remarks and before.keys() <= set(own):
        messages.append(f"Remit: before the intent is completed: {' '.join(remarks[:MAX_NAMED_BREACHES])}")
    return join_lines(*messages)


def describe_completion_breaches(context: WorkspaceContext, intent: Intent) -> tuple[str, ...]:
    """Describe the broken constraints that prevent completion. Raises OSError, LedgerError."""
    if not intent.rules:
        return ()
    before = find_paths_changed_under(intent.id, context.workspace)
    found = find_breaches(context, intent, before, before, is_final=True)
    return tuple(describe_breach(intent.id, *each).rstrip(".") for each in found)


def find_breaches(
    context: WorkspaceContext, intent: Intent, before: dict[str, str | None], paths: Iterable[str], *, is_final: bool
) -> list[tuple[Constraint, Breach]]:
    root = context.workspace.root
    files: list[ProposedFile] = []
    for path in paths:
        seen = try_observe_file(root / path)
        if seen is not None and seen.version.mode == LINK_MODE:
            target = Path(os.path.realpath(root / path))
            seen = (try_observe_file(target) if target.is_relative_to(os.path.realpath(root)) else None) or seen
        blob = before[path]
        old = context.contents.load(blob) if blob else None
        files.append(ProposedFile(path, old, seen.content if seen else None, seen is None or seen.content is not None))
    changed = tuple(file.path for file in files if not file.known or file.after != file.before)
    change = ProposedChange(tuple(files), changed, changed if is_final else tuple(before), is_final)
    return list(find_all_breaches(intent, change))
