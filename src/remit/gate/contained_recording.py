"""What came of a contained command: recorded, and put into words for the model, or the person, that ran it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from remit.core.call import Outcome, ToolCall
from remit.core.contents import sha256
from remit.core.decision import Decision, Finding
from remit.core.shell import UnreadableShell
from remit.core.text import shown
from remit.gate.answer import Attempts
from remit.gate.contained_paths import PLAIN_NAME
from remit.gate.contained_verdicts import Verdicts
from remit.gate.contained_words import in_words, left_running, out_of_reach, read_only, unsigned, without_agent
from remit.gate.observed import explain
from remit.gate.remembering import Remembering
from remit.gate.state import PendingCall
from remit.gate.steady import running_launchers
from remit.gate.untold import Untold
from remit.policy.commands.dangers import called
from remit.workspace.git import Git
from remit.workspace.observe import Change
from remit.workspace.sandbox import places
from remit.workspace.sandbox.doors import contained_sockets, doors, is_ssh
from remit.workspace.sandbox.jail import TEMPORARY
from remit.workspace.sandbox.running import Ended


def programs_in(command: str) -> frozenset[str]:
    """Return the programs that a command's text names; none where it cannot be cut into words."""
    try:
        return frozenset(one.name for one in called(command))
    except UnreadableShell:
        return frozenset()


ASIDE = "aside"
"""In Remit's own folder: what a command made of files that somebody else changed meanwhile."""

MOST_RECORDED = 100
"""Dropped paths that one record names."""


class Result(Struct, frozen=True):
    """What came of a contained command. `dropped` gives each path's reason; `said` is all of it for a model."""

    code: int
    kept: tuple[str, ...] = ()
    dropped: dict[str, str] = {}
    said: str = ""


class Recording:
    """Writes down what became of contained commands in one workspace.

    `staged`: nothing happened in the real tree before it was judged.
    """

    def __init__(self, verdicts: Verdicts, *, staged: bool) -> None:
        self.verdicts = verdicts
        self.site = verdicts.site
        self.ticket = verdicts.ticket
        self.staged = staged
        self.remembering = Remembering(verdicts.site)

    def aside(self, call: ToolCall) -> Path:
        """Where this call's version of files is kept that somebody else changed."""
        name = call.call_id or "call"
        name = name if PLAIN_NAME.fullmatch(name) else sha256(name.encode("utf-8", "surrogateescape"))[:16]
        return self.site.workspace.state / ASIDE / name

    def settled(
        self,
        call: ToolCall,
        ended: Ended,
        done: Mapping[str, Change],
        findings: Sequence[Finding],
        kept: tuple[str, ...],
    ) -> Result:
        """Record what stayed and what was dropped, and put it into words."""
        tries = Attempts()
        pending = self.remembering.came_back(call, tries) or self.unprepared(call)
        pending = replace(pending, judged=tuple(done), whole=not self.staged)
        outcome = Outcome(ok=ended.code == 0, exit_code=ended.code, summary=ended.stopped)
        changes = tuple(c for c in done.values() if c.before is None or c.after is None or c.before != c.after)
        records = tries.made(lambda: self.remembering.records.of(call, outcome, pending, changes, tries), ())
        if self.ticket is not None:
            records = records[:-1]  # its hook records what came of the call
        waiting = tries.made(lambda: self.site.recorder.append_or_spool(records), None)
        tries.made(lambda: self.refuse(call, findings), None)
        if self.ticket is None:
            tries.made(lambda: self.remembering.settled(call, outcome, pending, changes, tries), None)
        else:
            tries.made(lambda: self.explained(call, pending, changes), None)
        dropped = {str(f.path): f.message for f in findings}
        words = (
            in_words(ended, kept, findings, self.aside(call)),
            self.aftermath(call, ended),
            waiting or "",
            tries.said,
        )
        said = "\n".join(filter(None, words))
        if self.ticket is not None:
            token = self.ticket.token
            Attempts().made(lambda: Untold(self.site.state).late(call, token, said), None)
        return Result(ended.code, kept, dropped, said)

    def aftermath(self, call: ToolCall, ended: Ended) -> str:
        """What the sandbox itself kept the command from, as far as its text tells."""
        root, settings = self.site.workspace.root, self.site.environment.settings
        inside = [str(p.relative_to(root)) for p in places.steady(self.site.workspace, settings) if root in p.parents]
        names = dict.fromkeys((*inside, *settings)) if ended.code else ()
        mute = ended.code != 0 and any(is_ssh(door) for door in self.doors())
        told = (
            read_only(call, names),
            without_agent(call) if mute else "",
            unsigned(call, signs=self.signs_commits()) if ended.code and "git" in (call.command or "") else "",
            out_of_reach(call, programs_in(call.command or "")),
            left_running(call),
        )
        return "\n".join(filter(None, told))

    def signs_commits(self) -> bool:
        """Whether the settings have git sign every commit or tag. Raises GitError."""
        if self.site.workspace.common_dir is None:
            return False
        words = ("config", "--type=bool", "--get-regexp", r"^(commit|tag)\.gpgsign$")
        return " true" in Git(self.site.workspace.root).text(*words, ok=(0, 1, 128))

    def doors(self) -> tuple[Path, ...]:
        """What no command is to speak to, but for what holds the workspace itself."""
        around, root = self.site.environment, self.site.workspace.root
        temporary = (*map(Path, TEMPORARY), around.temporary)
        own = contained_sockets(running_launchers(self.site.state))
        found = doors(around.home, temporary, ssh_agent=self.verdicts.rules.ssh_agent, own=own)
        return tuple(door for door in found if not root.is_relative_to(door))

    def explained(self, call: ToolCall, pending: PendingCall, changes: tuple[Change, ...]) -> None:
        """These changes have a record: what comes after the call need not wonder about them, nor look for others."""
        state = self.site.state
        with state.together():
            explain(state, changes)
            self.remembering.windows.tell(call.session, changes)
            if self.remembering.row is not None and not self.staged:
                self.remembering.forgotten()
                pending = replace(pending, whole=False, judged=(), before={})
                now = self.site.environment.clock()
                state.put_call(call.session, call.call_id, call.tool, call.arguments_sha256, pending, now)

    def unprepared(self, call: ToolCall) -> PendingCall:
        """What a call is recorded by that was not judged before: the state as it is."""
        facts = self.verdicts.facts(call)
        active = facts.active
        scope = active.owned_scope if active else ()
        verdict = "allow" if self.ticket is None else "contain"
        return PendingCall(
            facts.session.intent_id, verdict, facts.mode, (), (), False, None, {}, agent=call.agent, owned_scope=scope
        )

    def refuse(self, call: ToolCall, findings: Sequence[Finding]) -> None:
        """Record what was dropped, as refused. It was no try to get round anything: the session may go on as it was."""
        if not findings:
            return
        facts, (first, *others) = self.verdicts.facts(call), findings
        dropped = [shown(f.path or "", 200) for f in findings[:MOST_RECORDED]]
        first = replace(first, context={**first.context, "dropped": dropped, "dropped_count": len(findings)})
        session = facts.session.intent_id
        decision = Decision("deny", "deny", "destructive", facts.mode, (first, *others), session)
        self.verdicts.judging.denied(call, facts, decision)
