"""Background processes left by calls: their changes while no call is pending.

A process counts as the author of a change with evidence only: an open file for writing, a command line with the file as
output, or a command line with the file's name and an end at the moment of the change. In enforce, an author's change is
undone if the session had no right to make the change. Changes without an author stay: a person may have made them.

Red-team case: a command outside of containment leaves a process running, and the text does not show it
(`tests/servers/test_lingering.py`).
"""

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from remit.core.call import SessionKey, ToolCall
from remit.core.display_text import quote_path, sanitise_line
from remit.gate.context import WorkspaceContext
from remit.gate.state.messages import add_message
from remit.gate.state.pending_calls import PendingCall
from remit.gate.undo.find_violations import find_violations
from remit.gate.undo.messages import kept_version_message, list_paths
from remit.gate.undo.undo import undo_violations
from remit.policy.commands.programs.table import has_role
from remit.workspace.observe.git_arrivals import list_known_commits
from remit.workspace.observe.observation import Change, Observation
from remit.workspace.processes.left_running import SessionProcess, Suspect, find_suspects_now
from remit.workspace.processes.process_info import program_name

TOOL_NAME = "background process"

MAX_DELAY_S = 4.0
"""Age of a change after which a sighting proves nothing: three looks, the slowest of them a second apart."""

CLOCK_SKEW_S = 0.05
"""Seconds that the time of a file may be ahead of the time of a look."""


class BackgroundProcesses:
    """The background processes of a workspace. Methods raise RECORDING_ERRORS."""

    def __init__(self, context: WorkspaceContext) -> None:
        self.context = context
        self.root = context.workspace.root

    def find_authors(self, changes: Sequence[Change], *, has_open_sessions: bool) -> dict[str, SessionProcess]:
        """Return the process of a known session that made each change, by path."""
        paths = [change.path for change in changes]
        observer = self.context.observer
        seen = observer.suspects() if observer else dict[str, tuple[Suspect, ...]]()
        if not paths or not (seen or has_open_sessions):
            return {}
        now = find_suspects_now(self.root, paths)
        is_known: dict[str, bool] = {}
        authors: dict[str, SessionProcess] = {}
        for path in paths:
            for suspect in (*seen.get(path, ()), *now[path]):
                session = suspect.process.session
                if session not in is_known:
                    is_known[session] = bool(self.context.state.list_session_keys(session))
                if is_known[session] and path not in authors and self.has_written_file(suspect, path):
                    authors[path] = suspect.process
        return authors

    def has_written_file(self, suspect: Suspect, path: str) -> bool:
        """Return True if the process made the last change of the file."""
        changed_at = change_time(self.root / path)
        if changed_at is None or changed_at > suspect.changed_at + CLOCK_SKEW_S:
            return False
        if suspect.evidence == "open":
            return True
        if changed_at < suspect.changed_at - MAX_DELAY_S:
            return False
        return suspect.evidence == "ended" or self.root / path in process_outputs(suspect.process)

    def undo_changes(
        self, changes: Sequence[Change], authors: Mapping[str, SessionProcess], after: Observation
    ) -> tuple[Change, ...]:
        """In enforce, undo what no part of a process's session had a right to; return the undone changes as now."""
        if self.context.rules.mode != "enforce":
            return ()
        undone: list[Change] = []
        for session_id in dict.fromkeys(process.session for process in authors.values()):
            own = [c for c in changes if c.path in authors and authors[c.path].session == session_id]
            # The session's sub-agents may have rights of their own: a change is wrong only if none has the right.
            calls = [self.make_call(key, after) for key in self.context.state.list_session_keys(session_id)]
            rules = [find_violations(self.context, call, pending, own) for call, pending in calls]
            wrong = tuple(c for c in own if all(c.path in found for found in rules))
            if not wrong or not calls:
                continue
            call, pending = calls[0]
            result = undo_violations(self.context, call, pending, wrong, after)
            if result.undone:
                names = ", ".join(dict.fromkeys(authors[path].label for path in result.undone))
                message = (
                    f"Remit [{', '.join(dict.fromkeys(result.undone.values()))}]: {sanitise_line(names, 300)}, which "
                    f"a call of yours left running, changed {list_paths(result.undone)} after the call had come back. "
                    f"That was undone.{kept_version_message(result)} End that process; what runs on may change only "
                    "what your intent owns."
                )
                add_message(self.context.state, call.session, message)
            undone += [c for c in result.apply_undo(wrong) if c.path in result.undone]
        return tuple(undone)

    def make_call(self, key: SessionKey, after: Observation) -> tuple[ToolCall, PendingCall]:
        """Return the work of a process as a pending call of its session."""
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
        pending = PendingCall(
            intent_id=session.intent_id,
            verdict="allow",
            mode="enforce",
            rules=(),
            judged=(),
            whole=True,
            head=after.head,
            before={},
            agent=session.agent,
            owned_scope=intent.owned_scope if intent else (),
            known_commits=list_known_commits(self.context.workspace, after.head),
        )
        return call, pending


def describe_processes(authors: Mapping[str, SessionProcess]) -> dict[str, list[str]]:
    """Return the author of each change in words, by path."""
    return {
        quote_path(path): [sanitise_line(f"{p.label}, which session {p.session} left running, wrote it", 200)]
        for path, p in authors.items()
    }


def change_time(path: Path) -> float | None:
    """Return when a file changed last, in seconds since the epoch; for a deleted file, its folder."""
    for place in (path, path.parent):
        try:
            return place.lstat().st_ctime
        except OSError:
            continue
    return None


def process_outputs(process: SessionProcess) -> set[Path]:
    """Return the outputs named in a process's command line."""
    # Imported here: only a change that no call explains needs the module.
    from remit.policy.commands.outputs import find_outputs

    words = list(process.argv)
    has_script = has_role(program_name(words), "shell") and "-c" in words[1:-1]
    text = words[words.index("-c") + 1] if has_script else shlex.join(words)
    return {Path(os.path.normpath(Path(process.folder) / output.path)) for output in find_outputs(text)}
