"""Running a command that a person trusted, and recording what came of it: what it changes is its own doing."""

import time
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from remit.core.context_block import visible
from remit.core.record import Body
from remit.core.redaction import redact
from remit.core.text import quoted_path, shown
from remit.gate import effects
from remit.gate.call_records import contents_of
from remit.gate.hook_commands import variables_for
from remit.gate.observed import explain
from remit.gate.remembering import Remembering
from remit.gate.site import Site
from remit.workspace.observe import Change, changes
from remit.workspace.running import Ran, run

TAIL_BYTES = 8192
TAIL_LINES = 20


class Proof(Struct, frozen=True):
    """What came of one command. `paths` are the files that it changed, `put_back` those that govern."""

    command: str
    ran: Ran
    paths: tuple[str, ...] = ()
    put_back: tuple[str, ...] = ()
    done: tuple[Change, ...] = ()

    @property
    def failure(self) -> str:
        """What failed, with the end of what it said; empty where it went well."""
        if self.put_back:
            return f"`{shown(self.command)}` changed {', '.join(self.put_back)}, which governs: that was put back"
        if self.ran.exit_code == 0:
            return ""
        how = self.ran.why or f"exit code {self.ran.exit_code}"
        tail = "\n".join(said(self.ran).splitlines()[-TAIL_LINES:])
        return f"`{shown(self.command)}` failed ({how})" + (f":\n{tail}\n" if tail else "")


class TrustedRun:
    """Runs commands in one workspace, on behalf of an intent, or of none."""

    def __init__(self, site: Site, intent_id: str | None) -> None:
        self.site = site
        self.intent_id = intent_id

    def proved(self, command: str, words: str | Sequence[str], until: float, session_id: str | None) -> Proof:
        """Run one command, and record it with what it changed. `command` is how it is called. Other calls pass
        meanwhile.

        Raises what keeps an observation from being made, or a record from being written.
        """
        workspace = self.site.workspace
        before = self.site.observe()
        with self.site.environment.unlocked():
            ran = run(
                words,
                folder=workspace.root,
                variables=variables_for(self.site.environment),
                timeout_s=max(0.0, until - time.monotonic()),
                last=TAIL_BYTES,
                errors_too=True,
            )
        done = changes(workspace, before, self.site.observe())
        enforcing = self.site.governing.mode == "enforce"
        put_back = Remembering(self.site).undone(done, self.intent_id) if enforcing else ()
        kept = tuple(c for c in done if c.path not in put_back)
        proof = Proof(command, ran, tuple(quoted_path(c.path) for c in kept), put_back, kept)
        self.record(proof, session_id)
        return proof

    def record(self, proof: Proof, session_id: str | None) -> None:
        """Write down the run, and what it changed as its own doing: the session's call did not do that."""
        ran = proof.ran
        detail: dict[str, object] = {
            "command": effects.redacted(proof.command),
            "exit_code": ran.exit_code,
            "ms": ran.ms,
            "paths": list(proof.paths),
            "output": redact(said(ran)),
            **({"why": ran.why} if ran.why else {}),
        }
        body = Body(event="verification", intent_id=self.intent_id, session_id=session_id, detail=detail)
        bodies = [body, self.edit(proof, session_id)] if proof.done else [body]
        self.site.keep(contents_of(proof.done))
        self.site.recorder.append_or_spool([self.site.recorder.record(each) for each in bodies])
        explain(self.site.state, proof.done)
        self.spare(proof.done, session_id)

    def edit(self, proof: Proof, session_id: str | None) -> Body:
        """The record of the files that the command changed.

        No line that it made anew is anybody's; named are what it was run for, and whoever else was at work: it may have
        been they. What it only laid out anew stays whose it was.
        """
        known = effects.differences(proof.done, {}, self.site.store)
        fresh = {path: found.added for path, found in known.items()}
        command = effects.redacted(proof.command)
        return Body(
            event="human_edit",
            intent_id=None,
            session_id=None,
            files=tuple(
                effects.mutated_file(c, None, (), known.get(c.path), fresh.get(c.path, ())) for c in proof.done
            ),
            covered=True,
            detail={
                "origin": "verification",
                "command": command,
                "candidates": [*self.own(command, session_id), *({"session_id": one} for one in self.others())],
            },
        )

    def own(self, command: str, session_id: str | None) -> list[dict[str, str]]:
        """The command as a candidate, with the session and the intent that it was run for. It was Remit that ran it."""
        if session_id is None:
            return []
        intent = {"intent_id": self.intent_id} if self.intent_id else {}
        return [{"session_id": session_id, "agent": "remit", **intent, "command": command}]

    def others(self) -> list[str]:
        """The sessions under other intents that have a command under way."""
        return sorted(
            {
                call.session.session_id
                for call in self.site.state.open_calls()
                if call.pending and call.pending.whole and call.pending.intent_id != self.intent_id
            }
        )

    def spare(self, done: tuple[Change, ...], session_id: str | None) -> None:
        """Let the session's call that is under way find these files as they are now: it did not change them."""
        now = {c.path: c.after.version if c.after else None for c in done}
        for call in self.site.state.open_calls() if now else ():
            if call.pending is not None and call.session.session_id == session_id and call.pending.whole:
                self.site.state.put_pending(call.row, replace(call.pending, before={**call.pending.before, **now}))


def said(ran: Ran) -> str:
    """The end of what a command said, without characters that hide others."""
    return redact(visible(ran.output.decode("utf-8", "replace"))).strip()
