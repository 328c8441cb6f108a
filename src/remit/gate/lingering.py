"""What processes that calls left running do to files when no call is under way.

Such a change is a process's where that is seen: it has the file open for writing, its command line says that it writes
it, or names it and the process ended in that moment. Then, in enforce, what its session had no right to is undone, as
after a call. Where no process can be named it stays, and is recorded: a person may have made it.
"""

import os
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path

from remit.core.call import SessionKey, ToolCall
from remit.core.text import quoted_path, shown
from remit.gate.site import Site
from remit.gate.state import PendingCall, Session
from remit.gate.undoing import Undoing
from remit.gate.undone_words import named, said_kept
from remit.gate.untold import Untold
from remit.policy.commands.danger_table import SHELLS
from remit.workspace.following import Suspect, suspects_now
from remit.workspace.history import known_commits
from remit.workspace.lingering import Process
from remit.workspace.observe import Change, Observation
from remit.workspace.processes import program

TOOL = "background process"
LATE_S = 4.0
"""Three looks, the slowest of them a second apart: what was seen longer after a change is no proof of it."""

CLOCK_S = 0.05
"""How much the time of a file may be ahead of the time of a look."""


class Lingering:
    """The work of such processes in one workspace."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.root = site.workspace.root

    def made(self, found: Iterable[Change], *, loose: bool) -> dict[str, Process]:
        """By path, the process of a known session that changed it. `loose`: sessions that are not over ran commands."""
        paths = [c.path for c in found]
        kept = self.site.observer.suspects() if self.site.observer else dict[str, tuple[Suspect, ...]]()
        if not paths or not (kept or loose):
            return {}
        now = suspects_now(self.root, paths)
        known: dict[str, bool] = {}
        made: dict[str, Process] = {}
        for path in paths:
            for suspect in (*kept.get(path, ()), *now[path]):
                session = suspect.process.session
                known[session] = known[session] if session in known else bool(self.keys(session))
                if known[session] and path not in made and self.wrote(suspect, path):
                    made[path] = suspect.process
        return made

    def wrote(self, suspect: Suspect, path: str) -> bool:
        """Whether this process made the last change of that file."""
        changed = changed_at(self.root / path)
        if changed is None or changed > suspect.at + CLOCK_S:
            return False
        if suspect.why == "open":
            return True
        if changed < suspect.at - LATE_S:
            return False
        return suspect.why == "ended" or self.root / path in outputs_of(suspect.process)

    def keys(self, session_id: str) -> list[SessionKey]:
        """A session and its sub-agents, as far as they are known here. Raises StateError."""
        state = self.site.state
        rows = state.rows(
            "SELECT agent_id FROM sessions WHERE workspace=? AND session_id=?", state.workspace, session_id
        )
        return [SessionKey(session_id, row[0]) for row in rows]

    def undone(self, found: Iterable[Change], made: Mapping[str, Process], after: Observation) -> tuple[Change, ...]:
        """In enforce, undo those of these changes that no part of their process's session had a right to; which they
        were, as they are now. Raises what CannotRecord names.
        """
        if self.site.governing.mode != "enforce":
            return ()
        own = [c for c in found if c.path in made]
        done: list[Change] = []
        for session_id in dict.fromkeys(made[c.path].session for c in own):
            done += self.undone_of(session_id, [c for c in own if made[c.path].session == session_id], made, after)
        return tuple(done)

    def undone_of(
        self, session_id: str, own: list[Change], made: Mapping[str, Process], after: Observation
    ) -> list[Change]:
        """The same for the processes of one session."""
        undoing, calls = Undoing(self.site), [self.as_call(key, after) for key in self.keys(session_id)]
        objected = [undoing.overreach.objections(call, pending, own) for call, pending in calls]
        wrong = tuple(c for c in own if all(c.path in rules for rules in objected))
        if not wrong or not calls:
            return []
        call, pending = calls[0]
        taken = undoing.undone(call, pending, wrong, after)
        if taken.paths:
            names = ", ".join(dict.fromkeys(made[path].name for path in taken.paths))
            words = (
                f"Remit [{', '.join(dict.fromkeys(taken.paths.values()))}]: {shown(names, 300)}, which a call of yours "
                f"left running, changed {named(taken.paths)} after the call had come back. That was undone."
                f"{said_kept(taken)} End that process; what runs on may change only what your intent owns."
            )
            Untold(self.site.state).also(call.session, words)
        return [c for c in taken.as_left(wrong) if c.path in taken.paths]

    def as_call(self, key: SessionKey, after: Observation) -> tuple[ToolCall, PendingCall]:
        """What such a process does, as a call of its session that has no end."""
        session = self.site.state.active(key)
        intent = self.site.governing.intents.get(session.intent_id)
        call = ToolCall(
            agent=session.agent,
            session=key,
            tool=TOOL,
            effect="execute",
            cwd=str(self.root),
            whole_workspace=True,
        )
        return call, pending_of(session, intent.owned_scope if intent else (), after, self.commits(after))

    def commits(self, after: Observation) -> tuple[str, ...]:
        """The commits that are there."""
        return known_commits(self.site.workspace, after.head)


def pending_of(session: Session, scope: tuple[str, ...], after: Observation, commits: tuple[str, ...]) -> PendingCall:
    """A call of this session, as it would have been let through."""
    return PendingCall(
        intent_id=session.intent_id,
        verdict="allow",
        mode="enforce",
        rules=(),
        judged=(),
        whole=True,
        head=after.head,
        before={},
        agent=session.agent,
        owned_scope=scope,
        known_commits=commits,
    )


def said_of(made: Mapping[str, Process]) -> dict[str, list[str]]:
    """By path, in words, who made the change."""
    return {
        quoted_path(path): [shown(f"{one.name}, which session {one.session} left running, wrote it", 200)]
        for path, one in made.items()
    }


def changed_at(path: Path) -> float | None:
    """When the file changed last, in seconds since the epoch; of one that is gone, its folder; None without either."""
    for place in (path, path.parent):
        try:
            return place.lstat().st_ctime
        except OSError:
            continue
    return None


def outputs_of(one: Process) -> set[Path]:
    """The files that a process's command line says it writes."""
    # For start-up speed: only a change that nobody explains asks for it.
    from remit.policy.commands.outputs import outputs

    words = list(one.words)
    given = program(words) in SHELLS and "-c" in words[1:-1]
    text = words[words.index("-c") + 1] if given else shlex.join(words)
    return {Path(os.path.normpath(Path(one.folder) / output.path)) for output in outputs(text)}
