"""After a write by any agent: the team's formatters and checkers, as far as a person trusted them.

They run while the agent waits, each no longer than its `timeout_s` and all of them no longer than `ALL_S`.
"""

import time
from pathlib import Path

from msgspec import json

from remit.core.call import ToolCall
from remit.core.on_write import ALL_S, OnWrite, digest_of
from remit.core.text import shown
from remit.gate.answer import joined
from remit.gate.site import Site
from remit.gate.trusted_run import Proof, TrustedRun
from remit.gate.trusting import trusted
from remit.workspace.place import FOLDER

BUSY = "on_write_until"
"""The fact that says until when such a command may be at work: what it starts must not start it again."""

MOST = 500
"""Files that one command gets; a call that wrote more is no edit."""

NAMED = 5


class AfterWrites:
    """The commands of `[verify] on_write`, in one workspace."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def ran(self, call: ToolCall, changed: tuple[str, ...]) -> str:
        """Run those that are for these files; what the model should know. Raises what CannotRecord names."""
        wanted = self.wanted(changed)
        if not wanted:
            return ""
        now = self.site.environment.clock()
        if now < float(self.site.state.fact(BUSY) or 0):
            return (
                "Remit: the commands of `[verify] on_write` are at work after another call; they did not run for this."
            )
        self.site.state.put_fact(BUSY, repr(now + ALL_S))
        try:
            proofs = self.proofs(call, wanted)
        finally:
            self.site.state.put_fact(BUSY, "0")
        self.refresh(call, proofs)
        return joined(*(words_of(proof, paths) for proof, paths in proofs))

    def wanted(self, changed: tuple[str, ...]) -> list[tuple[OnWrite, list[str]]]:
        """The trusted commands that are for some of these files, which are still there."""
        root, rules = self.site.workspace.root, self.site.rules or self.site.governing
        there = [p for p in changed if not p.startswith((f"{FOLDER}/", ".git/")) and is_plain(root / p)][:MOST]
        meant = [(rule, [p for p in there if rule.covers(p)]) for rule in rules.config.verify.on_write]
        digests = trusted(self.site.recorder) if any(paths for _, paths in meant) else frozenset[str]()
        return [(rule, paths) for rule, paths in meant if paths and digest_of(rule) in digests]

    def proofs(self, call: ToolCall, wanted: list[tuple[OnWrite, list[str]]]) -> list[tuple[Proof, list[str]]]:
        """Run them one after another; what comes after the time for all is over fails unrun."""
        run = TrustedRun(self.site, self.site.state.active(call.session).intent_id)
        until = time.monotonic() + ALL_S
        found: list[tuple[Proof, list[str]]] = []
        for rule, paths in wanted:
            for words in rule.runs(paths):
                within = min(until, time.monotonic() + rule.timeout_s)
                found.append((run.proved(rule.text, words, within, call.session.session_id), paths))
        return found

    def refresh(self, call: ToolCall, proofs: list[tuple[Proof, list[str]]]) -> None:
        """What a formatter made of the session's own writes does not make them stale."""
        own = {path for _, paths in proofs for path in paths}
        now = {c.path: c.after.version if c.after else None for proof, _ in proofs for c in proof.done}
        self.site.state.put_seen(call.session, {path: version for path, version in now.items() if path in own})


def is_plain(path: Path) -> bool:
    """Whether it is a file, and no link: an agent may have let that lead to a file that it could not write itself."""
    return path.is_file() and not path.is_symlink()


def words_of(proof: Proof, paths: list[str]) -> str:
    """What the model is told of one run: its failure, with a lesson to record, and what it rewrote."""
    rewrote = ""
    if proof.paths:
        names = ", ".join(shown(path, 120) for path in proof.paths[:NAMED])
        more = " …" if len(proof.paths) > NAMED else ""
        rewrote = f"Remit: `{shown(proof.command)}` rewrote {names}{more}. Read it again before you build on it."
    if not proof.failure:
        return rewrote
    return joined(f"Remit: after this write {proof.failure}{lesson_of(proof, paths)}", rewrote)


def lesson_of(proof: Proof, paths: list[str]) -> str:
    """The call that would keep what was learned, its arguments filled in as far as they are known."""
    arguments = {
        "kind": "lesson",
        "lesson": "what to do differently next time",
        "problem": shown(" ".join(proof.failure.split("\n")[:2]), 200),
        "paths": paths[:NAMED],
    }
    return f"\nMend it. Once you know why, keep the lesson: record_lesson({json.encode(arguments).decode()})"
