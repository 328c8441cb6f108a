"""What changed between calls, and no call did: a person's edits, and what cannot be told from them.

A change is a person's where no process of an agent can have made it: no session that is not over has run a command
or a foreign tool, which may have left something running. What such a process is seen to have made is named as its work,
and in enforce undone where its session had no right to it.
"""

import json
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from remit.core.call import SessionKey
from remit.core.display_text import quote_path
from remit.core.record import Body, Record
from remit.gate.context import WorkspaceContext
from remit.gate.effects.background_processes import BackgroundProcesses, describe_writers
from remit.gate.effects.likely_writers import ANY_PATH, name_likely_writers
from remit.gate.records import record_parts
from remit.gate.state.baseline import baseline_head, find_known_versions, read_baseline, replace_baseline
from remit.gate.state.baseline import mark_recorded as explained
from remit.gate.state.workspace_state import State
from remit.workspace.files.read_files import ObservedFile
from remit.workspace.git.command import GitError
from remit.workspace.observe.observation import Change, Observation, content_identity, find_changes
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER

INTENTS_FILE = f"{ORCHESTRATION_FOLDER}/active_intents.yaml"
"""Each of its contents has a record of its own, whoever changed it."""

FILES_PER_RECORD = 200
SESSIONS_FACT = "sessions_with_commands"


class ChangesBetweenCalls:
    """Notices and records what changed between the calls of one workspace."""

    def __init__(self, context: WorkspaceContext) -> None:
        self.context = context
        self.state = context.state

    def record_changed_files(self, when: str, files: Mapping[str, ObservedFile | None], session: SessionKey) -> None:
        """Record what became of these files since they were last seen; those that never were have nothing to tell."""
        known = find_known_versions(self.state, files)
        found = tuple(
            Change(path, ObservedFile(version, None) if version else None, files[path])
            for path, version in known.items()
            if content_identity(files[path]) != (None if version is None else (version.sha256, version.mode))
        )
        if found:
            self.record_changes(self.load_contents(found), when, session)
            explained(self.state, found)

    def record_unattributed_changes(self, when: str, after: Observation, session: SessionKey | None) -> bool:
        """Record the changes since the last observation that no record explains, and keep this one in its place.

        Whether something was undone: then `after` is not what is there any more. While any call is under way nobody can
        tell whose a change is: then this waits for the next occasion.
        """
        if self.state.list_open_calls():
            return False
        before = self.last_observation()
        found = self.find_changes(before, after) if before is not None else ()
        clean = tuple(c for c in found if c.path not in after.files and self.context.workspace.common_dir)
        edits = self.load_contents(tuple(c for c in found if c not in clean))
        lingering = BackgroundProcesses(self.context)
        made = lingering.find_changes_made(edits, loose=bool(sessions_with_commands(self.state)))
        self.record_changes(tuple(c for c in edits if c.path in made), when, session, writers=describe_writers(made))
        self.record_changes(tuple(c for c in edits if c.path not in made), when, session)
        self.record_changes(clean, when, session, origin="git")
        undone = lingering.undo_changes(edits, made, after) if made else ()
        replace_baseline(self.state, after)
        explained(self.state, undone)
        return bool(undone)

    def last_observation(self) -> Observation | None:
        """The last observation with what was recorded since; None before the first."""
        head = baseline_head(self.state)
        if head is None:
            return None
        found = {o.path: ObservedFile(o.version, None) if o.version else None for o in read_baseline(self.state)}
        return Observation(head or None, found)

    def find_changes(self, before: Observation, after: Observation) -> tuple[Change, ...]:
        """What changed; nothing can be told where the commit that it stood on is gone."""
        try:
            found = find_changes(self.context.workspace, before, after)
        except GitError:
            return ()
        return tuple(c for c in found if c.path != INTENTS_FILE)

    def load_contents(self, found: tuple[Change, ...]) -> tuple[Change, ...]:
        """The changes with the contents that were there before, where they were kept."""
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
        """Write down changes that no call made. No session is named as theirs, only in which one they were noticed.

        What is clean now is what git has: a checkout, a pull, or a commit brought it, and nobody wrote it just then.
        `writers` are those that were seen to make them.
        """
        if not found:
            return
        self.context.keep_contents(record_parts.contents_to_keep((c.path, c.after) for c in found))
        sessions = sessions_with_commands(self.state)
        whose = origin or ("unknown" if sessions or writers else "person")
        if writers is None:
            writers = (
                name_likely_writers(self.context, [c.path for c in found], sorted(sessions))
                if whose == "unknown"
                else {}
            )
        self.context.recorder.append_or_spool(
            [self.make_edit_record(part, when, session, whose, writers) for part in split_changes(found)]
        )

    def make_edit_record(
        self,
        found: tuple[Change, ...],
        when: str,
        session: SessionKey | None,
        origin: str,
        writers: Mapping[str, list[str]],
    ) -> Record:
        """One record of changed files; `writers` are those that most likely made them."""
        detail: dict[str, object] = {"origin": origin, "noticed_at": when}
        paths = {ANY_PATH, *(quote_path(c.path) for c in found)}
        if likely := {path: words for path, words in writers.items() if path in paths}:
            detail["likeliest"] = likely
        if session is not None:
            detail["noticed_in"] = session.session_id
        known = record_parts.find_differences(found, {}, self.context.contents) if origin != "git" else {}
        body = Body(
            event="human_edit",
            intent_id=None,
            session_id=None,
            files=tuple(record_parts.mutated_file(c, None, (), known.get(c.path)) for c in found),
            covered=False,
            detail=detail,
        )
        return self.context.recorder.make_record(body)


def sessions_with_commands(state: State) -> set[str]:
    """The sessions that are not over and may have left something running. Raises StateError."""
    return set(json.loads(state.read_fact(SESSIONS_FACT) or "[]"))


def add_session_with_commands(state: State, session_id: str) -> None:
    """This session runs a command, or a foreign tool. Raises StateError."""
    known = sessions_with_commands(state)
    if session_id not in known:
        state.put_fact(SESSIONS_FACT, json.dumps(sorted({*known, session_id})))


def remove_session_with_commands(state: State, session_id: str) -> None:
    """This session is over. Raises StateError."""
    known = sessions_with_commands(state)
    if session_id in known:
        state.put_fact(SESSIONS_FACT, json.dumps(sorted(known - {session_id})))


def split_changes(found: tuple[Change, ...]) -> Iterator[tuple[Change, ...]]:
    """The changes, as many at a time as one record holds."""
    return (found[at : at + FILES_PER_RECORD] for at in range(0, len(found), FILES_PER_RECORD))
