"""Changes that no completed call explains: made between calls, by a background process, or by an unfinished call.

A change between calls counts as a person's only if no process of an agent can have made it: no session that is still
open has run a foreign tool, or a command of which the text does not tell all that it writes: either may have left
something running. Nor may a call be under way that can write the file. A background process counts as the
author with evidence only: an open file for writing, a command line with the file as output, or a command line with the
file's name and an end at the moment of the change. It is named as the likely author; in enforce the change is undone
where the process's session had no right to it. Changes without an author stay: a person may have made them.

An unfinished call is one of which no result was ever reported: it has no end, so a change since its begin may be a
person's. In enforce, a change is undone only where the call is certainly its author: the command's text holds the
change word by word, or a process of the call is seen to write it.

Red-team case: a command outside of containment leaves a process running, and the text does not show it
(`tests/servers/test_lingering.py`).
"""

import json
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from remit.core.call import Outcome, SessionKey, ToolCall
from remit.core.diff.contents import sha256
from remit.core.intent import LIST_FILE
from remit.core.record import KEY, Record
from remit.core.untrusted_input import quote_path, sanitise_line
from remit.gate.context import Attempts, WorkspaceContext, contents_to_keep
from remit.gate.effects.changes import CompletedCall, Effects, find_line_differences, make_call_records, observe_effects
from remit.gate.effects.other_writers import ANY_PATH, can_be_author, name_likely_writers
from remit.gate.evidence.own_lines import find_differences, is_change_in_text
from remit.gate.pending_messages import PendingMessages
from remit.gate.records.call_records import edit_record
from remit.gate.records.recorder import RESULT_EVENTS, find_recorded_events
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
from remit.gate.undo.find_violations import find_violations
from remit.gate.undo.undo import (
    NOTHING_UNDONE,
    UndoResult,
    describe_undo,
    kept_version_message,
    list_paths,
    undo_violations,
)
from remit.policy.commands.programs.table import has_role
from remit.workspace.git.command import GitError
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
from remit.workspace.processes.process_tracking import SessionProcess, Suspect, find_suspects_now, program_name
from remit.workspace.safe_files import ObservedFile, remove_below, temporary_name

INTENTS_PLACES = (f"{ORCHESTRATION_FOLDER}/{LIST_FILE}", INTENT_FILES)
"""Files of which each content has a record of its own, whoever changed it."""

FILES_PER_RECORD = 200
SESSIONS_FACT = "sessions_with_commands"

MAX_DELAY_S = 4.0
"""Age of a change after which a sighting proves nothing: three looks, the slowest of them a second apart."""

CLOCK_SKEW_S = 0.05
"""Seconds that the time of a file may be ahead of the time of a look."""

MAX_RECORDS_SEARCHED = 1000
"""Newest `tool_use` records of a session that are searched for the command of an unfinished call."""


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
        """Return the changes after which a file is as HEAD has it: git brought that content."""
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
    """In enforce, undo what no part of a process's session had a right to; return the undone changes as now."""
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
    """Return the work of a process as a pending call of its session."""
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


# Unfinished calls


def temporary_token(session: SessionKey, call_id: str) -> str:
    """Return the part of a temporary file's name that tells which call writes it."""
    parts = (session.session_id, session.agent_id, call_id)
    return sha256("\0".join(parts).encode("utf-8", "surrogateescape"))[:12]


def remove_unfinished_writes(context: WorkspaceContext, call: ToolCall, pending: PendingCall) -> None:
    """Remove the temporary files that the writes of a killed process left: nobody's edit. Raises OSError."""
    root, token = context.workspace.root, temporary_token(call.session, call.call_id)
    for path in pending.judged if call.call_id and not pending.whole else ():
        name = temporary_name(path.rpartition("/")[2], token)
        with suppress(NotADirectoryError):
            remove_below(root, (root / path).with_name(name), follow_links=False)


class UnfinishedCalls:
    """Settles the unfinished calls of a workspace; steps that fail are in `attempts`."""

    def __init__(self, context: WorkspaceContext) -> None:
        self.context = context
        self.state = context.state
        self.attempts = Attempts()
        self.observation: Observation | None = None
        """The workspace as it was observed last; None if files were restored since."""

    def settle_calls(
        self, when: str, is_mine: Callable[[SessionKey], bool], session: SessionKey | None = None, *, spared: str = ""
    ) -> str:
        """Settle calls selected by `is_mine` or idle too long, and record unexplained changes.

        Returns the failures in words. `when` and `session` name the occasion in the records; calls of the session
        `spared` stay open for the program that resumes them.
        """
        for call in self.list_open_calls():
            if spared and call.session.session_id == spared:
                continue
            if is_mine(call.session) or call.at < self.idle_since:
                with self.attempts.step():
                    self.settle_call(call)
        with self.attempts.step():
            observation = self.context.observe(fully=True)
            changed = ChangesBetweenCalls(self.context).record_unattributed_changes(when, observation, session)
            self.observation = None if changed else observation
        return self.attempts.failure_notice

    def settle_idle_calls(self) -> str:
        if any(call.at < self.idle_since for call in self.list_open_calls()):
            return self.settle_calls("idle", lambda _: False)
        return self.attempts.failure_notice

    def list_open_calls(self) -> list[OpenCall]:
        with self.attempts.step():
            return self.state.list_open_calls()
        return []

    @property
    def idle_since(self) -> float:
        return self.context.environment.clock.now() - self.context.rules.config.session.idle_minutes * 60

    def settle_call(self, open_call: OpenCall) -> None:
        """Record the changes of a call that never came back. Raises RECORDING_ERRORS."""
        context, pending = self.context, open_call.pending
        if pending is None:
            self.state.delete_call(open_call.row)
            return
        call = ToolCall(
            agent=pending.agent,
            session=open_call.session,
            tool=open_call.tool,
            effect=pending.effect,
            cwd=str(context.workspace.root),
            call_id=open_call.call_id,
            arguments_sha256=open_call.arguments_sha256,
            whole_workspace=pending.whole,
            transcript=pending.transcript,
        )
        remove_unfinished_writes(context, call, pending)
        vcs = context.recorder.vcs
        effects = observe_effects(context, call, pending, vcs)
        recorded = {o.path: version_identity(o.version) for o in read_baseline(self.state)}
        changes = tuple(
            c for c in effects.changes if c.path not in recorded or content_identity(c.after) != recorded[c.path]
        )
        effects = replace(effects, changes=changes)
        done = CompletedCall(context, call, None, None, pending, vcs, self.attempts)
        records = make_call_records(done, effects)
        # Another process may settle the call at the same time, or have died when it had recorded the result. Without
        # its records the call stays open: the spool may hold them already. Where a step failed after the call, only
        # what is missing is recorded.
        with self.state.transaction():
            if not self.state.delete_call(open_call.row):
                return
            known = find_recorded_events(context.recorder, call, resumed=True)
            if pending.has_failed:
                records = [record for record in records if record.body.event not in known]
            elif not RESULT_EVENTS.isdisjoint(known):
                records = []
            context.recorder.append(records)
        result = NOTHING_UNDONE
        with self.attempts.step():
            result = self.undo_violations(call, pending, effects)
        mark_recorded(self.state, result.apply_undo(changes))

    def undo_violations(self, call: ToolCall, pending: PendingCall, effects: Effects) -> UndoResult:
        """In enforce, undo the violations of which the call is certainly the author, and queue a message about them."""
        changes, after = effects.changes, effects.observation
        if not changes or after is None or pending.mode != "enforce" or not pending.whole:
            return NOTHING_UNDONE
        # The command is in the call's record.
        with self.context.index() as index:
            records = index.find(event="tool_use", session_id=call.session.session_id, limit=MAX_RECORDS_SEARCHED)
        parts = (record["metadata"][KEY].get("call", {}) for record in records)
        named = ("id",) if call.call_id else ("name", "arguments_sha256")
        own = {"id": call.call_id, "name": call.tool, "arguments_sha256": call.arguments_sha256}
        command = next((p.get("command", "") for p in parts if all(p.get(key) == own[key] for key in named)), "")

        differences = find_line_differences(self.context, call, Outcome(), changes)
        authors = find_process_authors(self.context, changes, has_open_sessions=True)
        certain = [
            c
            for c in changes
            if is_change_in_text(c, differences.get(c.path), command)
            or (c.path in authors and authors[c.path].session == call.session.session_id)
        ]
        result = undo_violations(self.context, call, pending, certain, after)
        PendingMessages(self.state).add_message(call.session, describe_undo(call, pending, result))
        return result
