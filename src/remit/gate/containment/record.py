"""Records and messages about a finished contained command."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from remit.core.call import Outcome, ToolCall
from remit.core.decision import Decision, Finding
from remit.core.diff.contents import sha256
from remit.core.display_text import sanitise_line
from remit.core.shell.simple_commands import UnreadableShell
from remit.gate.answer import Attempts
from remit.gate.containment.changed_paths import PLAIN_CALL_ID
from remit.gate.containment.judge import EffectJudge
from remit.gate.containment.messages import (
    describe_ended_background,
    describe_missing_signature,
    describe_missing_ssh_agent,
    describe_protected_places,
    describe_result,
    describe_unreachable_processes,
)
from remit.gate.remember import Remembrance
from remit.gate.sessions.pending_messages import PendingMessages
from remit.gate.state.baseline import mark_recorded
from remit.gate.state.tickets import running_launchers
from remit.gate.state.workspace_state import PendingCall
from remit.policy.commands.dangers import find_program_calls
from remit.workspace.git.command import Git
from remit.workspace.observe.observation import Change
from remit.workspace.sandbox import layers
from remit.workspace.sandbox.bubblewrap import TEMPORARY_FOLDERS
from remit.workspace.sandbox.run_command import CommandEnd
from remit.workspace.sandbox.sockets import find_contained_sockets, find_sockets, may_be_ssh_socket


def find_programs(command: str) -> frozenset[str]:
    """Return the programs named in a command's text; none if the text cannot be parsed."""
    try:
        return frozenset(one.name for one in find_program_calls(command))
    except UnreadableShell:
        return frozenset()


ASIDE_FOLDER = "aside"
"""Folder below Remit's own with a command's versions of files that someone else changed meanwhile."""

MAX_RECORDED_PATHS = 100
"""Dropped paths in one record."""


class ContainedResult(Struct, frozen=True):
    """Result of a contained command. `dropped` maps paths to reasons; `said` is the full message for a model."""

    code: int
    kept: tuple[str, ...] = ()
    dropped: dict[str, str] = {}
    said: str = ""


class ContainedRecording:
    """Records of contained commands in one workspace.

    `is_staged`: the real tree was untouched before judgement.
    """

    def __init__(self, verdicts: EffectJudge, *, staged: bool) -> None:
        self.judge = verdicts
        self.site = verdicts.site
        self.ticket = verdicts.ticket
        self.is_staged = staged
        self.remembering = Remembrance(verdicts.site)

    def aside_folder(self, call: ToolCall) -> Path:
        """Return the folder for this call's versions of files that someone else changed."""
        name = call.call_id or "call"
        name = name if PLAIN_CALL_ID.fullmatch(name) else sha256(name.encode("utf-8", "surrogateescape"))[:16]
        return self.site.workspace.state / ASIDE_FOLDER / name

    def record_result(
        self,
        call: ToolCall,
        ended: CommandEnd,
        done: Mapping[str, Change],
        findings: Sequence[Finding],
        kept: tuple[str, ...],
    ) -> ContainedResult:
        """Record kept and dropped changes, and return the result with its message."""
        tries = Attempts()
        pending = self.remembering.find_pending_call(call, tries) or self.make_pending_call(call)
        pending = replace(pending, judged=tuple(done), whole=not self.is_staged)
        outcome = Outcome(ok=ended.code == 0, exit_code=ended.code, summary=ended.stop_text)
        changes = tuple(c for c in done.values() if c.before is None or c.after is None or c.before != c.after)
        records = tries.attempt(
            lambda: self.remembering.records.make_records(call, outcome, pending, changes, tries), ()
        )
        if self.ticket is not None:
            records = records[:-1]  # its hook records what came of the call
        waiting = tries.attempt(lambda: self.site.recorder.append_or_spool(records), None)
        tries.attempt(lambda: self.record_dropped(call, findings), None)
        if self.ticket is None:
            tries.attempt(lambda: self.remembering.update_state(call, outcome, pending, changes, tries), None)
        else:
            tries.attempt(lambda: self.mark_recorded(call, pending, changes), None)
        dropped = {str(f.path): f.message for f in findings}
        words = (
            describe_result(ended, kept, findings, self.aside_folder(call)),
            self.describe_sandbox_limits(call, ended),
            waiting or "",
            tries.failure_notice,
        )
        said = "\n".join(filter(None, words))
        if self.ticket is not None:
            token = self.ticket.token
            Attempts().attempt(lambda: PendingMessages(self.site.state).add_contained_result(call, token, said), None)
        return ContainedResult(ended.code, kept, dropped, said)

    def describe_sandbox_limits(self, call: ToolCall, ended: CommandEnd) -> str:
        """Describe, from the command's text, the accesses that the sandbox denied."""
        root, settings = self.site.workspace.root, self.site.environment.settings
        inside = [
            str(p.relative_to(root)) for p in layers.read_only_paths(self.site.workspace, settings) if root in p.parents
        ]
        names = dict.fromkeys((*inside, *settings)) if ended.code else ()
        mute = ended.code != 0 and any(may_be_ssh_socket(door) for door in self.find_hidden_sockets())
        told = (
            describe_protected_places(call, names),
            describe_missing_ssh_agent(call) if mute else "",
            describe_missing_signature(call, signs=self.has_signing_enabled())
            if ended.code and "git" in (call.command or "")
            else "",
            describe_unreachable_processes(call, find_programs(call.command or "")),
            describe_ended_background(call),
        )
        return "\n".join(filter(None, told))

    def has_signing_enabled(self) -> bool:
        """Return True if git's settings sign every commit or tag. Raises GitError."""
        if self.site.workspace.common_dir is None:
            return False
        words = ("config", "--type=bool", "--get-regexp", r"^(commit|tag)\.gpgsign$")
        return " true" in Git(self.site.workspace.root).text(*words, ok=(0, 1, 128))

    def find_hidden_sockets(self) -> tuple[Path, ...]:
        """Return the sockets closed to contained commands, except a folder above the workspace itself."""
        around, root = self.site.environment, self.site.workspace.root
        temporary = (*map(Path, TEMPORARY_FOLDERS), around.temporary)
        own = find_contained_sockets(running_launchers(self.site.state))
        found = find_sockets(around.home, temporary, ssh_agent=self.judge.containment_rules.ssh_agent, excluded=own)
        return tuple(door for door in found if not root.is_relative_to(door))

    def mark_recorded(self, call: ToolCall, pending: PendingCall, changes: tuple[Change, ...]) -> None:
        """Update the baseline so that the next comparison does not report these changes again."""
        state = self.site.state
        with state.group_changes():
            mark_recorded(state, changes)
            self.remembering.concurrent_calls.record_changes(call.session, changes)
            if self.remembering.call_row is not None and not self.is_staged:
                self.remembering.forget_call()
                pending = replace(pending, whole=False, judged=(), before={})
                now = self.site.environment.clock()
                state.put_pending_call(call.session, call.call_id, call.tool, call.arguments_sha256, pending, now)

    def make_pending_call(self, call: ToolCall) -> PendingCall:
        """Return a pending call for a command without an earlier decision, from the current state."""
        facts = self.judge.gather_facts(call)
        active = facts.active
        scope = active.owned_scope if active else ()
        verdict = "allow" if self.ticket is None else "contain"
        return PendingCall(
            facts.session.intent_id, verdict, facts.mode, (), (), False, None, {}, agent=call.agent, owned_scope=scope
        )

    def record_dropped(self, call: ToolCall, findings: Sequence[Finding]) -> None:
        """Record dropped changes as a denial. The denial does not count against the session."""
        if not findings:
            return
        facts, (first, *others) = self.judge.gather_facts(call), findings
        dropped = [sanitise_line(f.path or "", 200) for f in findings[:MAX_RECORDED_PATHS]]
        first = replace(first, context={**first.context, "dropped": dropped, "dropped_count": len(findings)})
        session = facts.session.intent_id
        decision = Decision("deny", "deny", "destructive", facts.mode, (first, *others), session)
        self.judge.enforcement.record_denial(call, facts, decision)
