"""Trusted commands that verify work: criteria of an intent, and formatters and checkers after a write.

Files changed by a command are recorded as the command's own work, not the agent's. Commands after a write run while the
agent waits, each within its `timeout_s` and together within `ALL_S`.
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
from remit.gate.context import WorkspaceContext
from remit.gate.records import record_parts
from remit.gate.records.call_records import contents_of_changes
from remit.gate.remember import Remembrance
from remit.gate.rules.trust import trusted_digests
from remit.gate.state.baseline import mark_recorded
from remit.gate.team_hooks.run_command import command_environment
from remit.workspace.observe.observation import Change, find_changes
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER
from remit.workspace.processes.trusted_command import CommandResult, run_trusted_command

OUTPUT_TAIL_BYTES = 8192
OUTPUT_TAIL_LINES = 20


class CommandProof(Struct, frozen=True):
    """Result of one command. `paths` are the files it changed, `reverted_paths` the governing files among them."""

    command: str
    result: CommandResult
    paths: tuple[str, ...] = ()
    reverted_paths: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()

    @property
    def failure(self) -> str:
        """Return the failure with the end of the output; "" after a success."""
        if self.reverted_paths:
            return f"`{sanitise_line(self.command)}` changed {', '.join(self.reverted_paths)}, which governs: that was put back"  # noqa: E501
        if self.result.exit_code == 0:
            return ""
        how = self.result.failure or f"exit code {self.result.exit_code}"
        tail = "\n".join(output_tail(self.result).splitlines()[-OUTPUT_TAIL_LINES:])
        return f"`{sanitise_line(self.command)}` failed ({how})" + (f":\n{tail}\n" if tail else "")


class TrustedCommands:
    """Runner of trusted commands in one workspace, on behalf of an intent or of none."""

    def __init__(self, site: WorkspaceContext, intent_id: str | None) -> None:
        self.site = site
        self.intent_id = intent_id

    def run_command(
        self, command: str, words: str | Sequence[str], until: float, session_id: str | None
    ) -> CommandProof:
        """Run one command and record it with its changes; other calls may run meanwhile.

        `command` is the name shown to people, `words` are executed. Raises the errors in RECORDING_ERRORS.
        """
        workspace = self.site.workspace
        before = self.site.observe()
        with self.site.environment.release_lock():
            ran = run_trusted_command(
                words,
                folder=workspace.root,
                variables=command_environment(self.site.environment),
                timeout_s=max(0.0, until - time.monotonic()),
                tail_bytes=OUTPUT_TAIL_BYTES,
                with_stderr=True,
            )
        done = find_changes(workspace, before, self.site.observe())
        enforcing = self.site.rules.mode == "enforce"
        put_back = Remembrance(self.site).revert_governing_changes(done, self.intent_id) if enforcing else ()
        kept = tuple(c for c in done if c.path not in put_back)
        proof = CommandProof(command, ran, tuple(quote_path(c.path) for c in kept), put_back, kept)
        self.record_run(proof, session_id)
        return proof

    def record_run(self, proof: CommandProof, session_id: str | None) -> None:
        """Record the run, and its changes as the command's own: the session's call did not make them."""
        ran = proof.result
        detail: dict[str, object] = {
            "command": record_parts.redact_command(proof.command),
            "exit_code": ran.exit_code,
            "ms": ran.duration_ms,
            "paths": list(proof.paths),
            "output": redact(output_tail(ran)),
            **({"why": ran.failure} if ran.failure else {}),
        }
        body = Body(event="verification", intent_id=self.intent_id, session_id=session_id, detail=detail)
        bodies = [body, self.make_edit_record(proof, session_id)] if proof.changes else [body]
        self.site.keep_contents(contents_of_changes(proof.changes))
        self.site.recorder.append_or_spool([self.site.recorder.make_record(each) for each in bodies])
        mark_recorded(self.site.state, proof.changes)
        self.refresh_pending_baselines(proof.changes, session_id)

    def make_edit_record(self, proof: CommandProof, session_id: str | None) -> Body:
        """Return the record of the files changed by the command.

        New lines are unattributed; candidates are the command's purpose and every concurrent session. Reformatted lines
        keep their attribution.
        """
        known = record_parts.find_differences(proof.changes, {}, self.site.contents)
        fresh = {path: found.added_ranges for path, found in known.items()}
        command = record_parts.redact_command(proof.command)
        return Body(
            event="human_edit",
            intent_id=None,
            session_id=None,
            files=tuple(
                record_parts.mutated_file(c, None, (), known.get(c.path), fresh.get(c.path, ())) for c in proof.changes
            ),
            covered=True,
            detail={
                "origin": "verification",
                "command": command,
                "candidates": [
                    *self.own_candidates(command, session_id),
                    *({"session_id": one} for one in self.find_other_sessions()),
                ],
            },
        )

    def own_candidates(self, command: str, session_id: str | None) -> list[dict[str, str]]:
        """Return the command as a candidate, with its session and intent. Remit itself ran the command."""
        if session_id is None:
            return []
        intent = {"intent_id": self.intent_id} if self.intent_id else {}
        return [{"session_id": session_id, "agent": "remit", **intent, "command": command}]

    def find_other_sessions(self) -> list[str]:
        """Return the sessions under other intents with a running command."""
        return sorted(
            {
                call.session.session_id
                for call in self.site.state.list_open_calls()
                if call.pending and call.pending.whole and call.pending.intent_id != self.intent_id
            }
        )

    def refresh_pending_baselines(self, done: tuple[Change, ...], session_id: str | None) -> None:
        """Update the baseline of the session's running call: the call did not change these files."""
        now = {c.path: c.after.version if c.after else None for c in done}
        for call in self.site.state.list_open_calls() if now else ():
            if call.pending is not None and call.session.session_id == session_id and call.pending.whole:
                self.site.state.replace_pending_call(
                    call.row, replace(call.pending, before={**call.pending.before, **now})
                )


def output_tail(ran: CommandResult) -> str:
    """Return the end of a command's output, without secrets and characters that hide others."""
    return redact(remove_invisible(ran.output.decode("utf-8", "replace"))).strip()


BUSY_FACT = "on_write_until"
"""Fact with the time until which a command may run: a write of the command must not start the command again."""

MAX_FILES = 500
"""Files passed to one command; a call that wrote more is no edit."""

MAX_NAMED_FILES = 5


class WriteVerification:
    """Commands of `[verify] on_write` in one workspace."""

    def __init__(self, site: WorkspaceContext) -> None:
        self.site = site

    def verify_write(self, call: ToolCall, changed: tuple[str, ...]) -> str:
        """Run the commands for these files and return the message for the model. Raises the errors in RECORDING_ERRORS."""
        wanted = self.select_commands(changed)
        if not wanted:
            return ""
        now = self.site.environment.clock()
        if now < float(self.site.state.read_fact(BUSY_FACT) or 0):
            return (
                "Remit: the commands of `[verify] on_write` are at work after another call; they did not run for this."
            )
        self.site.state.put_fact(BUSY_FACT, repr(now + MAX_TOTAL_S))
        try:
            proofs = self.run_on_write_commands(call, wanted)
        finally:
            self.site.state.put_fact(BUSY_FACT, "0")
        self.refresh_seen_versions(call, proofs)
        return join_lines(*(describe_proof(proof, paths) for proof, paths in proofs))

    def select_commands(self, changed: tuple[str, ...]) -> list[tuple[OnWriteCommand, list[str]]]:
        """Return the trusted commands with the existing files that each covers."""
        root, rules = self.site.workspace.root, self.site.last_rules or self.site.rules
        there = [
            p for p in changed if not p.startswith((f"{ORCHESTRATION_FOLDER}/", ".git/")) and is_plain_file(root / p)
        ][:MAX_FILES]
        meant = [(rule, [p for p in there if rule.covers(p)]) for rule in rules.config.verify.on_write]
        digests = trusted_digests(self.site.recorder) if any(paths for _, paths in meant) else frozenset[str]()
        return [(rule, paths) for rule, paths in meant if paths and hash_on_write(rule) in digests]

    def run_on_write_commands(
        self, call: ToolCall, wanted: list[tuple[OnWriteCommand, list[str]]]
    ) -> list[tuple[CommandProof, list[str]]]:
        """Run the commands one after another; a command beyond the common time limit fails without running."""
        run = TrustedCommands(self.site, self.site.state.active_session(call.session).intent_id)
        until = time.monotonic() + MAX_TOTAL_S
        found: list[tuple[CommandProof, list[str]]] = []
        for rule, paths in wanted:
            for words in rule.build_runs(paths):
                within = min(until, time.monotonic() + rule.timeout_s)
                found.append((run.run_command(rule.text, words, within, call.session.session_id), paths))
        return found

    def refresh_seen_versions(self, call: ToolCall, proofs: list[tuple[CommandProof, list[str]]]) -> None:
        """Mark the session's own files as seen after a formatter changed them: they are not stale."""
        own = {path for _, paths in proofs for path in paths}
        now = {c.path: c.after.version if c.after else None for proof, _ in proofs for c in proof.changes}
        self.site.state.put_seen_files(call.session, {path: version for path, version in now.items() if path in own})


def is_plain_file(path: Path) -> bool:
    """Return True for a regular file. An agent may have pointed a link at a file it cannot write itself."""
    return path.is_file() and not path.is_symlink()


def describe_proof(proof: CommandProof, paths: list[str]) -> str:
    """Return the message about one run: the failure with a suggested lesson, and the rewritten files."""
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


def suggest_lesson(proof: CommandProof, paths: list[str]) -> str:
    """Return the tool call that would record the lesson, with the known arguments filled in."""
    arguments = {
        "kind": "lesson",
        "lesson": "what to do differently next time",
        "problem": sanitise_line(" ".join(proof.failure.split("\n")[:2]), 200),
        "paths": paths[:MAX_NAMED_FILES],
    }
    return f"\nMend it. Once you know why, keep the lesson: record_lesson({json.encode(arguments).decode()})"


MAX_CRITERIA_S = 570.0
"""Time limit for every command of one intent together: an agent's shell hook may be waiting, and no hook waits ten
minutes.
"""


class CriteriaVerification:
    """Criteria commands of one intent, in one workspace."""

    def __init__(self, site: WorkspaceContext, intent: Intent) -> None:
        self.site = site
        self.intent = intent

    @property
    def commands(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(c.verify for c in self.intent.acceptance_criteria if c.verify))

    def split_by_trust(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if not self.commands:
            return (), ()
        digests = trusted_digests(self.site.recorder)
        may = tuple(c for c in self.commands if make_verify_item(c, self.intent.id).digest in digests)
        return may, tuple(c for c in self.commands if c not in may)

    def run_trusted_commands(self, session_id: str | None) -> tuple[str, ...]:
        """Run the trusted commands one after another and describe the failures. Other calls may run meanwhile.

        Raises the errors in RECORDING_ERRORS.
        """
        until = time.monotonic() + MAX_CRITERIA_S
        proofs = [self.run_criterion(command, until, session_id) for command in self.split_by_trust()[0]]
        return tuple(proof.failure for proof in proofs if proof.failure)

    def run_criterion(self, command: str, until: float, session_id: str | None) -> CommandProof:
        return TrustedCommands(self.site, self.intent.id).run_command(command, command, until, session_id)
