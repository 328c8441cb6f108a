"""Changes between calls: edits of people, and changes whose author is unknown.

A change counts as a person's only if no process of an agent can have made it: no session that is still open has run a
command or a foreign tool, which may have left something running. A background process that is seen to have made a
change is named as its likely author; in enforce the change is undone where the process's session had no right to it.
"""

import json
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from remit.core.call import SessionKey
from remit.core.display_text import quote_path
from remit.core.record import Body, Record
from remit.gate.context import WorkspaceContext, contents_to_keep
from remit.gate.effects.background_processes import BackgroundProcesses, describe_processes
from remit.gate.effects.likely_writers import ANY_PATH, name_likely_writers
from remit.gate.evidence.differences import find_differences
from remit.gate.records.record_parts import mutated_file
from remit.gate.state.baseline import (
    baseline_head,
    find_known_versions,
    mark_recorded,
    read_baseline,
    replace_baseline,
    version_identity,
)
from remit.gate.state.workspace_state import State
from remit.workspace.files.read_files import ObservedFile
from remit.workspace.git.command import GitError
from remit.workspace.observe.observation import Change, Observation, content_identity, find_changes
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER

INTENTS_FILE = f"{ORCHESTRATION_FOLDER}/active_intents.yaml"
"""File of which each content has a record of its own, whoever changed it."""

FILES_PER_RECORD = 200
SESSIONS_FACT = "sessions_with_commands"


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
            self.record_changes(self.load_contents(found), when, session)
            mark_recorded(self.state, found)

    def record_unattributed_changes(self, when: str, after: Observation, session: SessionKey | None) -> bool:
        """Record the changes since the baseline that no record explains, and make `after` the new baseline.

        Returns True if files were restored: then `after` is stale. Does nothing while calls are pending, since a change
        could then not be attributed.
        """
        if self.state.list_open_calls():
            return False
        before = self.last_observation()
        found = self.find_changes(before, after) if before is not None else ()
        # A file without an entry is as HEAD has it: git brought its content.
        from_git = tuple(c for c in found if c.path not in after.files and self.context.workspace.common_dir)
        edits = self.load_contents(tuple(c for c in found if c not in from_git))
        background = BackgroundProcesses(self.context)
        authors = background.find_authors(edits, has_open_sessions=bool(sessions_with_commands(self.state)))
        by_process = tuple(c for c in edits if c.path in authors)
        self.record_changes(by_process, when, session, writers=describe_processes(authors))
        self.record_changes(tuple(c for c in edits if c.path not in authors), when, session)
        self.record_changes(from_git, when, session, origin="git")
        undone = background.undo_changes(edits, authors, after) if authors else ()
        replace_baseline(self.state, after)
        mark_recorded(self.state, undone)
        return bool(undone)

    def last_observation(self) -> Observation | None:
        """Return the baseline, with what was recorded since; None before the first observation."""
        head = baseline_head(self.state)
        if head is None:
            return None
        files = {o.path: ObservedFile(o.version, None) if o.version else None for o in read_baseline(self.state)}
        return Observation(head or None, files)

    def find_changes(self, before: Observation, after: Observation) -> tuple[Change, ...]:
        """Return the changes; none if the commit of the baseline is gone."""
        try:
            found = find_changes(self.context.workspace, before, after)
        except GitError:
            return ()
        return tuple(c for c in found if c.path != INTENTS_FILE)

    def load_contents(self, found: tuple[Change, ...]) -> tuple[Change, ...]:
        """Return the changes with their former contents, if kept."""
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
        self.context.keep_contents(contents_to_keep((c.path, c.after) for c in found))
        sessions = sessions_with_commands(self.state)
        origin = origin or ("unknown" if sessions or writers else "person")
        if writers is None:
            unknown = origin == "unknown"
            writers = name_likely_writers(self.context, [c.path for c in found], sorted(sessions)) if unknown else {}
        parts = (found[at : at + FILES_PER_RECORD] for at in range(0, len(found), FILES_PER_RECORD))
        records = [self.make_edit_record(part, when, session, origin, writers) for part in parts]
        self.context.recorder.append_or_spool(records)

    def make_edit_record(
        self,
        found: Iterable[Change],
        when: str,
        session: SessionKey | None,
        origin: str,
        writers: Mapping[str, list[str]],
    ) -> Record:
        """Return one record of changed files; `writers` are the likely authors by path."""
        found = tuple(found)
        detail: dict[str, object] = {"origin": origin, "noticed_at": when}
        paths = {ANY_PATH, *(quote_path(c.path) for c in found)}
        if likely := {path: words for path, words in writers.items() if path in paths}:
            detail["likeliest"] = likely
        if session is not None:
            detail["noticed_in"] = session.session_id
        differences = find_differences(found, {}, self.context.contents) if origin != "git" else {}
        body = Body(
            event="human_edit",
            intent_id=None,
            session_id=None,
            files=tuple(mutated_file(c, None, (), differences.get(c.path)) for c in found),
            covered=False,
            detail=detail,
        )
        return self.context.recorder.make_record(body)


def sessions_with_commands(state: State) -> set[str]:
    """Return the open sessions with commands: background processes may remain. Raises StateError."""
    return set(json.loads(state.read_fact(SESSIONS_FACT) or "[]"))


def add_session_with_commands(state: State, session_id: str) -> None:
    """Note that a session runs a command or a foreign tool. Raises StateError."""
    known = sessions_with_commands(state)
    if session_id not in known:
        state.put_fact(SESSIONS_FACT, json.dumps(sorted({*known, session_id})))


def remove_session_with_commands(state: State, session_id: str) -> None:
    """Forget a session that has ended. Raises StateError."""
    known = sessions_with_commands(state)
    if session_id in known:
        state.put_fact(SESSIONS_FACT, json.dumps(sorted(known - {session_id})))
