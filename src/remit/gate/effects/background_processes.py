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
from remit.core.display_text import quote_path, sanitise_line
from remit.gate.context import WorkspaceContext
from remit.gate.sessions.pending_messages import PendingMessages
from remit.gate.state.workspace_state import PendingCall, SessionState
from remit.gate.undo.messages import kept_version_message, list_paths
from remit.gate.undo.undo import ViolationUndo
from remit.policy.commands.programs.table import has_role
from remit.workspace.observe.git_arrivals import list_known_commits
from remit.workspace.observe.observation import Change, Observation
from remit.workspace.processes.background import SessionProcess, Suspect, find_suspects_now
from remit.workspace.processes.process_info import program_name

TOOL_NAME = "background process"
MAX_DELAY_S = 4.0
"""Three looks, the slowest of them a second apart: what was seen longer after a change is no proof of it."""

CLOCK_SKEW_S = 0.05
"""How much the time of a file may be ahead of the time of a look."""


class BackgroundProcesses:
    """The work of such processes in one workspace."""

    def __init__(self, context: WorkspaceContext) -> None:
        self.context = context
        self.root = context.workspace.root

    def find_changes_made(self, found: Iterable[Change], *, loose: bool) -> dict[str, SessionProcess]:
        """By path, the process of a known session that changed it. `loose`: sessions that are not over ran commands."""
        paths = [c.path for c in found]
        kept = self.context.observer.suspects() if self.context.observer else dict[str, tuple[Suspect, ...]]()
        if not paths or not (kept or loose):
            return {}
        now = find_suspects_now(self.root, paths)
        known: dict[str, bool] = {}
        made: dict[str, SessionProcess] = {}
        for path in paths:
            for suspect in (*kept.get(path, ()), *now[path]):
                session = suspect.process.session
                known[session] = known[session] if session in known else bool(self.session_keys(session))
                if known[session] and path not in made and self.has_written_file(suspect, path):
                    made[path] = suspect.process
        return made

    def has_written_file(self, suspect: Suspect, path: str) -> bool:
        """Whether this process made the last change of that file."""
        changed = change_time(self.root / path)
        if changed is None or changed > suspect.changed_at + CLOCK_SKEW_S:
            return False
        if suspect.evidence == "open":
            return True
        if changed < suspect.changed_at - MAX_DELAY_S:
            return False
        return suspect.evidence == "ended" or self.root / path in process_outputs(suspect.process)

    def session_keys(self, session_id: str) -> list[SessionKey]:
        """A session and its sub-agents, as far as they are known here. Raises StateError."""
        state = self.context.state
        rows = state.fetch_rows(
            "SELECT agent_id FROM sessions WHERE workspace=? AND session_id=?", state.workspace, session_id
        )
        return [SessionKey(session_id, row[0]) for row in rows]

    def undo_changes(
        self, found: Iterable[Change], made: Mapping[str, SessionProcess], after: Observation
    ) -> tuple[Change, ...]:
        """In enforce, undo those of these changes that no part of their process's session had a right to; which they
        were, as they are now. Raises what CannotRecord names.
        """
        if self.context.rules.mode != "enforce":
            return ()
        own = [c for c in found if c.path in made]
        done: list[Change] = []
        for session_id in dict.fromkeys(made[c.path].session for c in own):
            done += self.undo_session_changes(
                session_id, [c for c in own if made[c.path].session == session_id], made, after
            )
        return tuple(done)

    def undo_session_changes(
        self, session_id: str, own: list[Change], made: Mapping[str, SessionProcess], after: Observation
    ) -> list[Change]:
        """The same for the processes of one session."""
        undoing, calls = (
            ViolationUndo(self.context),
            [self.make_call(key, after) for key in self.session_keys(session_id)],
        )
        objected = [undoing.finder.find_violations(call, pending, own) for call, pending in calls]
        wrong = tuple(c for c in own if all(c.path in rules for rules in objected))
        if not wrong or not calls:
            return []
        call, pending = calls[0]
        taken = undoing.undo_violations(call, pending, wrong, after)
        if taken.undone:
            names = ", ".join(dict.fromkeys(made[path].label for path in taken.undone))
            words = (
                f"Remit [{', '.join(dict.fromkeys(taken.undone.values()))}]: {sanitise_line(names, 300)}, which a call of yours "  # noqa: E501
                f"left running, changed {list_paths(taken.undone)} after the call had come back. That was undone."
                f"{kept_version_message(taken)} End that process; what runs on may change only what your intent owns."
            )
            PendingMessages(self.context.state).add_message(call.session, words)
        return [c for c in taken.apply_undo(wrong) if c.path in taken.undone]

    def make_call(self, key: SessionKey, after: Observation) -> tuple[ToolCall, PendingCall]:
        """What such a process does, as a call of its session that has no end."""
        session = self.context.state.active_session(key)
        intent = self.context.rules.intents.get(session.intent_id)
        call = ToolCall(
            agent=session.agent,
            session=key,
            tool=TOOL_NAME,
            effect="execute",
            cwd=str(self.root),
            whole_workspace=True,
        )
        return call, make_pending_call(session, intent.owned_scope if intent else (), after, self.list_commits(after))

    def list_commits(self, after: Observation) -> tuple[str, ...]:
        """The commits that are there."""
        return list_known_commits(self.context.workspace, after.head)


def make_pending_call(
    session: SessionState, scope: tuple[str, ...], after: Observation, commits: tuple[str, ...]
) -> PendingCall:
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


def describe_writers(made: Mapping[str, SessionProcess]) -> dict[str, list[str]]:
    """By path, in words, who made the change."""
    return {
        quote_path(path): [sanitise_line(f"{one.label}, which session {one.session} left running, wrote it", 200)]
        for path, one in made.items()
    }


def change_time(path: Path) -> float | None:
    """When the file changed last, in seconds since the epoch; of one that is gone, its folder; None without either."""
    for place in (path, path.parent):
        try:
            return place.lstat().st_ctime
        except OSError:
            continue
    return None


def process_outputs(one: SessionProcess) -> set[Path]:
    """The files that a process's command line says it writes."""
    # For start-up speed: only a change that nobody explains asks for it.
    from remit.policy.commands.outputs import find_outputs

    words = list(one.argv)
    given = has_role(program_name(words), "shell") and "-c" in words[1:-1]
    text = words[words.index("-c") + 1] if given else shlex.join(words)
    return {Path(os.path.normpath(Path(one.folder) / output.path)) for output in find_outputs(text)}
