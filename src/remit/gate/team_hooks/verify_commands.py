"""Trusted commands that verify work: criteria of an intent, and formatters and checkers after a write.

Files changed by a command are recorded as the command's own work, not the agent's. Commands after a write run while the
agent waits, each within its `timeout_s` and together within `MAX_TOTAL_S`.
"""

import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, json
from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.display_text import quote_path, sanitise_line
from remit.core.intent import Intent
from remit.core.intents.context_block import remove_invisible
from remit.core.record import Body
from remit.core.secrets.redaction import redact
from remit.core.team_hooks import MAX_TOTAL_S, OnWriteCommand, hash_on_write, make_verify_item
from remit.gate.answer import join_lines
from remit.gate.context import WorkspaceContext, contents_of_changes
from remit.gate.evidence.differences import find_differences
from remit.gate.records import record_parts
from remit.gate.rules.trust import trusted_digests
from remit.gate.state.baseline import mark_recorded
from remit.gate.team_hooks.run_hook import command_environment
from remit.gate.undo.governing_files import revert_governing_files
from remit.workspace.observe.observation import Change, find_changes
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER
from remit.workspace.processes.trusted_command import CommandResult, run_trusted_command

OUTPUT_TAIL_BYTES = 8192
OUTPUT_TAIL_LINES = 20

BUSY_FACT = "on_write_until"
"""Fact with the time until which a command may run: a write of the command must not start the command again."""

MAX_FILES = 500
"""Files passed to one command; a call that wrote more is no edit."""

MAX_NAMED_FILES = 5

MAX_CRITERIA_S = 570.0
"""Time limit for every command of one intent together: an agent's shell hook may be waiting, and no hook waits ten
minutes.
"""


class VerificationProof(Struct, frozen=True):
    """Result of a command. `paths` are the changed files, `reverted_paths` the governing files among them."""

    command: str
    result: CommandResult
    paths: tuple[str, ...] = ()
    reverted_paths: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()

    @property
    def failure(self) -> str:
        """Return the failure with the end of the output; "" after a success."""
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
    """Run a command on behalf of an intent and record it with its changes; further calls may run meanwhile.

    `command` is the name shown to people, `words` are executed. Raises the errors in RECORDING_ERRORS.
    """
    # 1 Run, and compare.
    workspace, state = context.workspace, context.state
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
    proof = VerificationProof(command, ran, tuple(quote_path(c.path) for c in kept), reverted, kept)

    # 3 Record the run, and its changes as the command's own: the session's call did not make them.
    detail: dict[str, object] = {
        "command": record_parts.redact_command(command),
        "exit_code": ran.exit_code,
        "ms": ran.duration_ms,
        "paths": list(proof.paths),
        "output": redact(output_tail(ran)),
        **({"why": ran.failure} if ran.failure else {}),
    }
    bodies = [Body(event="verification", intent_id=intent_id, session_id=session_id, detail=detail)]
    bodies += [make_edit_record(context, proof, intent_id, session_id)] if kept else []
    context.keep_contents(contents_of_changes(kept))
    context.recorder.append_or_spool([context.recorder.make_record(body) for body in bodies])
    mark_recorded(state, kept)

    # 4 Update the baseline of the session's running call: the call did not change these files.
    now = {c.path: c.after.version if c.after else None for c in kept}
    for call in state.list_open_calls() if now else ():
        if call.pending is not None and call.session.session_id == session_id and call.pending.whole:
            state.replace_pending_call(call.row, replace(call.pending, before={**call.pending.before, **now}))
    return proof


def make_edit_record(
    context: WorkspaceContext, proof: VerificationProof, intent_id: str | None, session_id: str | None
) -> Body:
    """Return the record of the files changed by the command.

    New lines are unattributed; candidates are the command's purpose and every concurrent session. Reformatted lines
    keep their attribution.
    """
    command = record_parts.redact_command(proof.command)
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
    differences = find_differences(proof.changes, {}, context.contents)
    return Body(
        event="human_edit",
        intent_id=None,
        session_id=None,
        files=tuple(
            record_parts.mutated_file(c, None, (), found, found.added_ranges if found else ())
            for c in proof.changes
            for found in (differences.get(c.path),)
        ),
        covered=True,
        detail={"origin": "verification", "command": command, "candidates": candidates},
    )


def output_tail(ran: CommandResult) -> str:
    """Return the end of a command's output, without secrets and invisible characters."""
    return redact(remove_invisible(ran.output.decode("utf-8", "replace"))).strip()


# -- after a write ------------------------------------------------------------------------------------------


def verify_write(context: WorkspaceContext, call: ToolCall, changed: tuple[str, ...]) -> str:
    """Run the commands of `[verify] on_write` for these files, and return the message for the model.

    Raises the errors in RECORDING_ERRORS.
    """
    state = context.state
    selected = select_on_write_commands(context, changed)
    if not selected:
        return ""
    now = context.environment.clock()
    if now < float(state.read_fact(BUSY_FACT) or 0):
        return "Remit: the commands of `[verify] on_write` are at work after another call; they did not run for this."

    # A command beyond the common time limit fails without running.
    state.put_fact(BUSY_FACT, repr(now + MAX_TOTAL_S))
    proofs: list[tuple[VerificationProof, list[str]]] = []
    intent_id, session_id = state.active_session(call.session).intent_id, call.session.session_id
    until = time.monotonic() + MAX_TOTAL_S
    try:
        for rule, paths in selected:
            for words in rule.build_runs(paths):
                limit = min(until, time.monotonic() + rule.timeout_s)
                proof = run_verification(context, rule.text, words, limit, intent_id=intent_id, session_id=session_id)
                proofs.append((proof, paths))
    finally:
        state.put_fact(BUSY_FACT, "0")

    # Files of the session are not stale after a formatter changed them.
    own = {path for _, paths in selected for path in paths}
    versions = {c.path: c.after.version if c.after else None for proof, _ in proofs for c in proof.changes}
    state.put_seen_files(call.session, {path: version for path, version in versions.items() if path in own})
    return join_lines(*(describe_proof(proof, paths) for proof, paths in proofs))


def select_on_write_commands(
    context: WorkspaceContext, changed: tuple[str, ...]
) -> list[tuple[OnWriteCommand, list[str]]]:
    """Return the trusted commands with the existing files that each covers."""
    root, rules = context.workspace.root, context.last_rules or context.rules
    files = [
        path
        for path in changed
        if not path.startswith((f"{ORCHESTRATION_FOLDER}/", ".git/")) and is_plain_file(root / path)
    ]
    covered = [(rule, [p for p in files[:MAX_FILES] if rule.covers(p)]) for rule in rules.config.verify.on_write]
    covered = [(rule, paths) for rule, paths in covered if paths]
    digests = trusted_digests(context.recorder) if covered else frozenset[str]()
    return [(rule, paths) for rule, paths in covered if hash_on_write(rule) in digests]


def is_plain_file(path: Path) -> bool:
    """Return True for a regular file. An agent may have pointed a link at a file it cannot write itself."""
    return path.is_file() and not path.is_symlink()


def describe_proof(proof: VerificationProof, paths: list[str]) -> str:
    """Return the message about a run: the failure with a suggested lesson, and the rewritten files."""
    rewrote = ""
    if proof.paths:
        names = ", ".join(sanitise_line(path, 120) for path in proof.paths[:MAX_NAMED_FILES])
        more = " …" if len(proof.paths) > MAX_NAMED_FILES else ""
        rewrote = (
            f"Remit: `{sanitise_line(proof.command)}` rewrote {names}{more}. Read it again before you build on it."
        )
    if not proof.failure:
        return rewrote
    return join_lines(f"Remit: after this write {proof.failure}{suggest_lesson(proof, paths)}", rewrote)


def suggest_lesson(proof: VerificationProof, paths: list[str]) -> str:
    """Return the tool call that would record the lesson, with the known arguments filled in."""
    arguments = {
        "kind": "lesson",
        "lesson": "what to do differently next time",
        "problem": sanitise_line(" ".join(proof.failure.split("\n")[:2]), 200),
        "paths": paths[:MAX_NAMED_FILES],
    }
    return f"\nMend it. Once you know why, keep the lesson: record_lesson({json.encode(arguments).decode()})"


# -- criteria of an intent ----------------------------------------------------------------------------------


def split_by_trust(context: WorkspaceContext, intent: Intent) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the commands of the criteria, each once: the trusted, and the untrusted."""
    commands = tuple(dict.fromkeys(c.verify for c in intent.acceptance_criteria if c.verify))
    if not commands:
        return (), ()
    digests = trusted_digests(context.recorder)
    trusted = tuple(c for c in commands if make_verify_item(c, intent.id).digest in digests)
    return trusted, tuple(c for c in commands if c not in trusted)


def run_trusted_criteria(context: WorkspaceContext, intent: Intent, session_id: str | None) -> tuple[str, ...]:
    """Run the trusted commands in turn and describe the failures. Further calls may run meanwhile.

    Raises the errors in RECORDING_ERRORS.
    """
    until = time.monotonic() + MAX_CRITERIA_S
    proofs = [
        run_verification(context, command, command, until, intent_id=intent.id, session_id=session_id)
        for command in split_by_trust(context, intent)[0]
    ]
    return tuple(proof.failure for proof in proofs if proof.failure)
