"""Other writers of changed files: concurrent calls of several sessions, processes, and people at an editor.

The changes of a command are the differences after the command: writes of concurrent sessions are among them. A change
in a record of a second session belongs to the second session; a change with two possible commands makes both sessions
candidates. Candidates are named with reasons, never as a proof.
"""

import json
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from remit.core.agents import AGENT_BINARIES
from remit.core.call import SessionKey, ToolCall
from remit.core.python_runtime import prepare_type
from remit.core.untrusted_input import quote_path, sanitise_line
from remit.gate.context import WorkspaceContext
from remit.gate.records.call_records import redact_command
from remit.gate.state.workspace_state import OpenCall, PendingCall, State, find_known_versions, version_identity
from remit.workspace.git.command import Git, GitError
from remit.workspace.observe.observation import Change, content_identity
from remit.workspace.processes.process_tracking import find_likely_writers

MAX_CALL_S = 600.0
"""Age after which a pending call counts as given up."""

RECORDED_FACT = "recorded_meanwhile"
MAX_CANDIDATES = 6
ANY_PATH = "*"
"""Key of the writers that may have written any of the files."""

CLOCK_SKEW_S = 0.05
"""Seconds that the clock of a file system may be behind: it is coarser than that of processes."""

EDITOR_FILES = (".{}.swp", ".#{}", ".~lock.{}#", ".{}.kate-swp")
"""Files that vim, Emacs, LibreOffice and Kate keep beside a file that they have open."""

COMMIT_SUBCOMMANDS = frozenset({"add", "commit", "diff", "log", "ls-files", "rev-parse", "show-ref", "status"})
"""Subcommands of git that bring no content into files."""

GIT_PROGRAM = re.compile(r"\bgit\b")
GIT_SUBCOMMAND = re.compile(r"\bgit(?: +-[Cc] +\S+| +--?[a-z][\w=/.-]*)* +([a-z][a-z-]*)")


class ConcurrentChange(Struct, frozen=True):
    """A change that was recorded while calls of other sessions were pending; `at` is seconds since the epoch."""

    session: str
    path: str
    after: tuple[str, str] | None
    at: float


class ConcurrentCalls:
    """Pending calls of concurrent sessions at the return of a call. Methods raise StateError."""

    def __init__(self, state: State, now: float) -> None:
        self.state = state
        self.now = now

    def exclude_other_sessions(
        self, call: ToolCall, pending: PendingCall, changes: tuple[Change, ...]
    ) -> tuple[Change, ...]:
        """Drop changes recorded by other sessions, or declared only by their running commands.

        Changes of unclear origin are returned with their candidate sessions.
        """
        own, others = call.session.session_id, [c for c in self.other_calls(call.session) if c.pending]
        recorded = {(r.path, r.after) for r in self.recorded_changes() if r.session != own}
        if not others and not recorded:
            return changes
        left: list[Change] = []
        for change in changes:
            path, is_whole = change.path, pending.whole and not change.from_git
            if is_whole and (path, content_identity(change.after)) in recorded:
                continue
            is_output = any(c.pending and c.pending.whole and declares_write(c.pending, path) for c in others)
            if is_output and not change.from_git and not declares_write(pending, path):
                continue
            # A returned file tool wrote the path in its arguments.
            possible = others if is_whole and path not in pending.judged else []
            sessions = [c.session.session_id for c in possible if c.pending and can_be_author(change, c.pending)]
            left.append(replace(change, possible_sessions=tuple(dict.fromkeys((own, *sessions))) if sessions else ()))
        return tuple(left)

    def other_calls(self, session: SessionKey) -> list[OpenCall]:
        if not self.state.has_other_call(session, self.now - MAX_CALL_S):
            return []
        return [
            c
            for c in self.state.list_open_calls()
            if c.session.session_id != session.session_id and c.at > self.now - MAX_CALL_S and c.pending is not None
        ]

    def describe_candidates(self, sessions: Iterable[str], own: ToolCall) -> list[dict[str, str | None]]:
        """Return the candidates as records name them: session, agent, intent and command, if known."""
        known: dict[str, dict[str, str | None]] = {
            other.session.session_id: {"agent": other.pending.agent, "intent_id": other.pending.intent_id}
            for other in self.other_calls(own.session)
            if other.pending
        }
        known[own.session.session_id] = {
            "intent_id": self.state.active_session(own.session).intent_id,
            "agent": own.agent,
            "command": redact_command(own.command or ""),
        }
        candidates = ({"session_id": session, **known.get(session, {})} for session in sessions)
        return [{key: value for key, value in each.items() if value or key == "agent"} for each in candidates]

    def recorded_changes(self) -> list[ConcurrentChange]:
        text = self.state.read_fact(RECORDED_FACT)
        found = msgspec.convert(json.loads(text), prepare_type(list[ConcurrentChange])) if text else []
        return [change for change in found if change.at > self.now - MAX_CALL_S]

    def record_changes(self, session: SessionKey, changes: Iterable[Change]) -> None:
        if not self.other_calls(session):
            return
        fresh = [ConcurrentChange(session.session_id, c.path, content_identity(c.after), self.now) for c in changes]
        if fresh:
            self.state.put_fact(RECORDED_FACT, json.dumps(msgspec.to_builtins([*self.recorded_changes(), *fresh])))


def declares_write(call: PendingCall, path: str) -> bool:
    return is_in_paths(path, call.writes or ()) if call.whole else path in call.judged


def is_in_paths(path: str, places: Iterable[str]) -> bool:
    return any(path == place or path.startswith(f"{place.rstrip('/')}/") for place in places)


def can_be_author(change: Change, other: PendingCall) -> bool:
    """Return True if a concurrent call may have made the change: with write access, and an earlier start."""
    if not other.whole or other.writes is not None:
        return declares_write(other, change.path)
    before = other.before.get(change.path)
    return change.path not in other.before or version_identity(before) != content_identity(change.after)


# A change that no call explains


def name_likely_writers(
    context: WorkspaceContext, paths: Sequence[str], sessions: Iterable[str]
) -> dict[str, list[str]]:
    """Return the candidates for each path in words, the likeliest first; candidates for any path under ANY_PATH.

    `sessions` are open sessions that have run commands. Raises StateError.
    """
    found: dict[str, list[str]] = {}
    for name in sessions:
        known = context.state.find_session(SessionKey(name))
        agent = f" of {known.agent}" if known and known.agent else ""
        words = f"session {sanitise_line(name, 60)}{agent}, which has run commands and is not over"
        found.setdefault(ANY_PATH, []).append(words)
    for writer in find_likely_writers(context.workspace.root, paths, AGENT_BINARIES):
        path = quote_path(writer.path) if writer.path else ANY_PATH
        found.setdefault(path, []).append(sanitise_line(str(writer), 200))
    return {path: words[:MAX_CANDIDATES] for path, words in found.items()}


# A change during a command


def find_solely_written(
    context: WorkspaceContext, call: ToolCall, row: int | None, changes: Sequence[Change]
) -> frozenset[str]:
    """Return the paths without signs of a second writer. Raises StateError.

    `row` is the call's row in the state.
    """
    changed = {change.path: change for change in changes}
    after = {change.path: change.after.version for change in changes if change.after is not None}
    open_calls, root = context.state.list_open_calls(), context.workspace.root
    own = next((other for other in open_calls if other.row == row), None)
    if own is None or context.environment.clock.now() - own.at > MAX_CALL_S:
        return frozenset()
    found: set[str] = set()
    for path in after:
        # The file changed during the call, and no editor's own file lies beside it.
        with suppress(OSError):
            place = root / path
            siblings = (place.with_name(form.format(place.name)) for form in EDITOR_FILES)
            if place.lstat().st_mtime >= own.at - CLOCK_SKEW_S and not any(map(os.path.lexists, siblings)):
                found.add(path)
    others = [other.pending for other in open_calls if other.row != row and other.pending]
    found -= {path for path in found if any(can_be_author(changed[path], other) for other in others)}
    concurrent = ConcurrentCalls(context.state, context.environment.clock.now())
    found -= {recorded.path for recorded in concurrent.recorded_changes() if recorded.at > own.at}
    known = find_known_versions(context.state, sorted(found))
    found -= {path for path, v in known.items() if v and version_identity(after[path]) == version_identity(v)}
    if found:
        found -= {writer.path for writer in find_likely_writers(root, sorted(found), AGENT_BINARIES)}

    # A content that git has as an object: checkouts, merges, picks and stashes make the object before they write the
    # file. A command that only stages and commits makes objects of files that were written before.
    text = call.command or ""
    subcommands = GIT_SUBCOMMAND.findall(text)
    only_commits = COMMIT_SUBCOMMANDS.issuperset(subcommands) and len(subcommands) == len(GIT_PROGRAM.findall(text)) > 0
    if found and context.workspace.common_dir is not None and not only_commits:
        paths = sorted(found)
        query = "".join(f"{after[path].git_blob}\n" for path in paths).encode()
        try:
            kinds = Git(root).run("cat-file", "--batch-check=%(objecttype)", stdin=query).splitlines()
        except GitError:
            return frozenset()
        found -= {path for path, kind in zip(paths, kinds, strict=True) if kind == b"blob"}
    return frozenset(found)
