"""Other writers of changed files: concurrent calls of several sessions, processes, and people at an editor.

The changes of a command are the differences after the command: writes of concurrent sessions are among them. A change
in a record of a second session belongs to the second session; a change with two possible commands makes both sessions
candidates. Candidates are named with reasons, never as a proof.

A change between calls counts as a person's only if no process of an agent can have made the change: no open session has
run a foreign tool, or a command with writes unproved by the text: either may have left a process running. Nor may a
running call be able to write the file. A background process counts as the author with evidence only: an open file for
writing, a command line with the file as output, or a command line with the file's name and an end at the moment of the
change. The process is named as the likely author; in enforce the change is undone if the process's session had no right
to write the file. Changes without an author stay: a person may have made them.

Red-team case: a command outside of containment leaves a process running, and the text does not show it
(`tests/servers/test_lingering.py`).
"""

import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from remit.core.agents import AGENT_BINARIES
from remit.core.call import SessionKey, ToolCall
from remit.core.intent import LIST_FILE
from remit.core.python_runtime import prepare_type
from remit.core.record import Record
from remit.core.untrusted_input import quote_path, sanitise_line
from remit.gate.context import WorkspaceContext, contents_to_keep
from remit.gate.effects.own_lines import find_differences
from remit.gate.people.messages import PendingMessages
from remit.gate.records.call_records import edit_record, redact_command
from remit.gate.state.workspace_state import (
    OpenCall,
    PendingCall,
    State,
    baseline_head,
    find_known_versions,
    mark_recorded,
    read_baseline,
    replace_baseline,
    version_identity,
)
from remit.gate.undo.violations import find_violations, kept_version_message, list_paths, undo_violations
from remit.policy.commands.programs.table import has_role
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.repository import read_tree_entries
from remit.workspace.observe.observation import (
    INTENT_FILES,
    Change,
    Observation,
    content_identity,
    find_changes,
    list_known_commits,
)
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER
from remit.workspace.processes.process_tracking import (
    SessionProcess,
    Suspect,
    find_likely_writers,
    find_suspects_now,
    program_name,
)
from remit.workspace.safe_files import ObservedFile

MAX_CALL_S = 600.0
"""Age after which a pending call counts as given up."""

RECORDED_FACT = "recorded_meanwhile"
MAX_CANDIDATES = 6
ANY_PATH = "*"
"""Key of the writers that may have written any of the files."""

CLOCK_SKEW_S = 0.05
"""Seconds that the time of a file may be apart from that of a process: the clock of a file system is coarser."""

EDITOR_FILES = (".{}.swp", ".#{}", ".~lock.{}#", ".{}.kate-swp")
"""Files that vim, Emacs, LibreOffice and Kate keep beside a file that they have open."""

COMMIT_SUBCOMMANDS = frozenset({"add", "commit", "diff", "log", "ls-files", "rev-parse", "show-ref", "status"})
"""Subcommands of git that bring no content into files."""

GIT_PROGRAM = re.compile(r"\bgit\b")
GIT_SUBCOMMAND = re.compile(r"\bgit(?: +-[Cc] +\S+| +--?[a-z][\w=/.-]*)* +([a-z][a-z-]*)")


INTENTS_PLACES = (f"{ORCHESTRATION_FOLDER}/{LIST_FILE}", INTENT_FILES)
"""Files of which each content has a record of its own, whoever changed it."""

FILES_PER_RECORD = 200
SESSIONS_FACT = "sessions_with_commands"

MAX_DELAY_S = 4.0
"""Age of a change after which a sighting proves nothing: three looks, the slowest of them a second apart."""


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


# Changes between calls


class ChangesBetweenCalls:
    """Finds and records what changed between the calls of a workspace. Methods raise RECORDING_ERRORS."""

    def __init__(self, context: WorkspaceContext) -> None:
        self.context = context
        self.state = context.state

    def record_changed_files(self, when: str, files: Mapping[str, ObservedFile | None], session: SessionKey) -> None:
        """Record differences of files from the baseline; files without an entry are left out."""
        known = find_known_versions(self.state, files)
        found = tuple(
            Change(path, ObservedFile(version, None) if version else None, files[path])
            for path, version in known.items()
            if content_identity(files[path]) != version_identity(version)
        )
        if found:
            committed = self.find_committed_changes(found)
            others = tuple(c for c in found if c not in committed)
            self.record_changes(self.load_contents(others), when, session)
            self.record_changes(committed, when, session, origin="git")
            mark_recorded(self.state, found)

    def find_committed_changes(self, found: tuple[Change, ...]) -> tuple[Change, ...]:
        workspace = self.context.workspace
        if workspace.common_dir is None:
            return ()
        try:
            entries = read_tree_entries(workspace, "HEAD", [change.path for change in found])
        except GitError:  # no commit yet
            return ()
        blobs = {path: blob for path, (_, blob) in entries.items()}
        return tuple(c for c in found if (c.after.version.git_blob if c.after else None) == blobs.get(c.path))

    def record_unattributed_changes(self, when: str, after: Observation, session: SessionKey | None) -> bool:
        """Record the changes since the baseline that no record explains, and make `after` the new baseline.

        Returns True if files were restored: then `after` is stale. Does nothing while calls are pending, since a change
        could then not be attributed.
        """
        if self.state.list_open_calls():
            return False
        # 1. The baseline, with what was recorded since: none before the first observation, or if its commit is gone.
        head, found = baseline_head(self.state), tuple[Change, ...]()
        if head is not None:
            files = {o.path: ObservedFile(o.version, None) if o.version else None for o in read_baseline(self.state)}
            with suppress(GitError):
                found = find_changes(self.context.workspace, Observation(head or None, files), after)
        found = tuple(c for c in found if not c.path.startswith(INTENTS_PLACES))

        # 2. A file without an entry is as HEAD has it: git brought its content. Of other changes, a process may be seen
        # to be the author.
        from_git = tuple(c for c in found if c.path not in after.files and self.context.workspace.common_dir)
        edits = self.load_contents(tuple(c for c in found if c not in from_git))
        has_open_sessions = bool(sessions_with_commands(self.state))
        authors = find_process_authors(self.context, edits, has_open_sessions=has_open_sessions)
        writers = {
            quote_path(path): [sanitise_line(f"{p.label}, which session {p.session} left running, wrote it", 200)]
            for path, p in authors.items()
        }
        self.record_changes(tuple(c for c in edits if c.path in authors), when, session, writers=writers)
        self.record_changes(tuple(c for c in edits if c.path not in authors), when, session)
        self.record_changes(from_git, when, session, origin="git")

        # 3. Undo, and update the state.
        undone = undo_process_changes(self.context, edits, authors, after) if authors else ()
        replace_baseline(self.state, after)
        mark_recorded(self.state, undone)
        return bool(undone)

    def load_contents(self, found: tuple[Change, ...]) -> tuple[Change, ...]:
        kept = self.context.contents.load_many(c.before.version.git_blob for c in found if c.before)
        return tuple(
            replace(c, before=ObservedFile(c.before.version, kept.get(c.before.version.git_blob)) if c.before else None)
            for c in found
        )

    def record_changes(
        self,
        found: tuple[Change, ...],
        when: str,
        session: SessionKey | None,
        origin: str = "",
        writers: Mapping[str, list[str]] | None = None,
    ) -> None:
        """Record changes without a call; the record names the session of the observation.

        `writers` are the seen authors by path.
        """
        if not found:
            return
        context = self.context
        context.keep_contents(contents_to_keep((c.path, c.after) for c in found))
        sessions = sessions_with_commands(self.state)
        if not origin and not sessions and not writers:
            # A call under way may be the author: of another session, or of the same one with several calls at once.
            calls = [call.pending for call in self.state.list_open_calls() if call.pending]
            unclear = tuple(c for c in found if any(can_be_author(c, call) for call in calls))
            if unclear and len(unclear) < len(found):
                self.record_changes(unclear, when, session, "unknown")
                found = tuple(c for c in found if c not in unclear)
                unclear = ()
            origin = "unknown" if unclear else "person"
        origin = origin or "unknown"
        if writers is None:
            unknown = origin == "unknown"
            writers = name_likely_writers(context, [c.path for c in found], sorted(sessions)) if unknown else {}
        records: list[Record] = []
        for start in range(0, len(found), FILES_PER_RECORD):
            part = found[start : start + FILES_PER_RECORD]
            paths = {ANY_PATH, *(quote_path(c.path) for c in part)}
            likely = {path: words for path, words in writers.items() if path in paths}
            detail: dict[str, object] = {"origin": origin, "noticed_at": when}
            detail |= {"likeliest": likely} if likely else {}
            detail |= {"noticed_in": session.session_id} if session is not None else {}
            differences = find_differences(part, {}, context.contents) if origin != "git" else {}
            records.append(edit_record(context.recorder, part, detail, differences))
        context.recorder.append_or_spool(records)


def sessions_with_commands(state: State) -> set[str]:
    """Return the open sessions with commands: background processes may remain. Raises StateError."""
    return set(json.loads(state.read_fact(SESSIONS_FACT) or "[]"))


def add_session_with_commands(state: State, session_id: str) -> None:
    known = sessions_with_commands(state)
    if session_id not in known:
        state.put_fact(SESSIONS_FACT, json.dumps(sorted({*known, session_id})))


def remove_session_with_commands(state: State, session_id: str) -> None:
    known = sessions_with_commands(state)
    if session_id in known:
        state.put_fact(SESSIONS_FACT, json.dumps(sorted(known - {session_id})))


# Background processes


def find_process_authors(
    context: WorkspaceContext, changes: Sequence[Change], *, has_open_sessions: bool
) -> dict[str, SessionProcess]:
    """Return the process of a known session that made each change, by path. Raises RECORDING_ERRORS."""
    root, paths = context.workspace.root, [change.path for change in changes]
    seen = context.observer.suspects() if context.observer else dict[str, tuple[Suspect, ...]]()
    if not paths or not (seen or has_open_sessions):
        return {}
    now = find_suspects_now(root, paths)
    suspects = {path: (*seen.get(path, ()), *now[path]) for path in paths}
    sessions = {suspect.process.session for found in suspects.values() for suspect in found}
    known = {session for session in sessions if context.state.list_session_keys(session)}
    authors: dict[str, SessionProcess] = {}
    for path, found in suspects.items():
        own = (s.process for s in found if s.process.session in known and has_written_file(s, root / path))
        if (process := next(own, None)) is not None:
            authors[path] = process
    return authors


def has_written_file(suspect: Suspect, path: Path) -> bool:
    changed_at: float | None = None
    for place in (path.parent, path):  # a deleted file changed when its folder did
        with suppress(OSError):
            changed_at = place.lstat().st_ctime
    if changed_at is None or changed_at > suspect.changed_at + CLOCK_SKEW_S:
        return False
    if suspect.evidence == "open":
        return True
    if changed_at < suspect.changed_at - MAX_DELAY_S:
        return False
    if suspect.evidence == "ended":
        return True
    # Is the file an output in the command line? Imported here: only a change that no call explains needs the module.
    from remit.policy.commands.analysis import find_outputs

    words, folder = list(suspect.process.argv), Path(suspect.process.folder)
    has_script = has_role(program_name(words), "shell") and "-c" in words[1:-1]
    text = words[words.index("-c") + 1] if has_script else shlex.join(words)
    return any(Path(os.path.normpath(folder / output.path)) == path for output in find_outputs(text))


def undo_process_changes(
    context: WorkspaceContext, changes: Sequence[Change], authors: Mapping[str, SessionProcess], after: Observation
) -> tuple[Change, ...]:
    if context.rules.mode != "enforce":
        return ()
    undone: list[Change] = []
    for session_id in dict.fromkeys(process.session for process in authors.values()):
        own = [c for c in changes if c.path in authors and authors[c.path].session == session_id]
        # The session's sub-agents may have rights of their own: a change is wrong only if none has the right.
        calls = [make_background_call(context, key, after) for key in context.state.list_session_keys(session_id)]
        rules = [find_violations(context, call, pending, own) for call, pending in calls]
        wrong = tuple(c for c in own if all(c.path in found for found in rules))
        if not wrong or not calls:
            continue
        call, pending = calls[0]
        result = undo_violations(context, call, pending, wrong, after)
        if result.undone:
            names = ", ".join(dict.fromkeys(authors[path].label for path in result.undone))
            message = (
                f"Remit [{', '.join(dict.fromkeys(result.undone.values()))}]: {sanitise_line(names, 300)}, which "
                f"a call of yours left running, changed {list_paths(result.undone)} after the call had come back. "
                f"That was undone.{kept_version_message(result)} End that process; what runs on may change only "
                "what your intent owns."
            )
            PendingMessages(context.state).add_message(call.session, message)
        undone += [c for c in result.apply_undo(wrong) if c.path in result.undone]
    return tuple(undone)


def make_background_call(
    context: WorkspaceContext, key: SessionKey, after: Observation
) -> tuple[ToolCall, PendingCall]:
    session, workspace = context.state.active_session(key), context.workspace
    intent = context.rules.intents.get(session.intent_id)
    call = ToolCall(session.agent, key, "background process", "execute", str(workspace.root), whole_workspace=True)
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
        known_commits=list_known_commits(workspace, after.head),
    )
    return call, pending
