"""What changed between calls, and no call did: a person's edits, and what cannot be told from them.

A change is a person's where no process of an agent can have made it: no session that is not over has run a command
or a foreign tool, which may have left something running. What such a process is seen to have made is named as its work,
and in enforce undone where its session had no right to it.
"""

import json
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from remit.core.call import SessionKey
from remit.core.record import Body, Record
from remit.core.text import quoted_path
from remit.gate import effects
from remit.gate.likeliest import ANY, likeliest
from remit.gate.lingering import Lingering, said_of
from remit.gate.observed import explain as explained
from remit.gate.observed import last_known, last_observed, observed_head, remember
from remit.gate.site import Site
from remit.gate.state import State
from remit.workspace.git import GitError
from remit.workspace.observe import Change, Observation, changes, identity
from remit.workspace.place import FOLDER
from remit.workspace.versions import Seen

RECORDED_OTHERWISE = f"{FOLDER}/active_intents.yaml"
"""Each of its contents has a record of its own, whoever changed it."""

FILES_PER_RECORD = 200
LOOSE = "sessions_with_commands"


class Between:
    """Notices and records what changed between the calls of one workspace."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.state = site.state

    def noticed(self, when: str, files: Mapping[str, Seen | None], session: SessionKey) -> None:
        """Record what became of these files since they were last seen; those that never were have nothing to tell."""
        known = last_known(self.state, files)
        found = tuple(
            Change(path, Seen(version, None) if version else None, files[path])
            for path, version in known.items()
            if identity(files[path]) != (None if version is None else (version.sha256, version.mode))
        )
        if found:
            self.record(self.with_contents(found), when, session)
            explained(self.state, found)

    def noticed_everywhere(self, when: str, after: Observation, session: SessionKey | None) -> bool:
        """Record the changes since the last observation that no record explains, and keep this one in its place.

        Whether something was undone: then `after` is not what is there any more. While any call is under way nobody can
        tell whose a change is: then this waits for the next occasion.
        """
        if self.state.open_calls():
            return False
        before = self.before()
        found = self.differences(before, after) if before is not None else ()
        clean = tuple(c for c in found if c.path not in after.files and self.site.workspace.common_dir)
        edits = self.with_contents(tuple(c for c in found if c not in clean))
        lingering = Lingering(self.site)
        made = lingering.made(edits, loose=bool(loose(self.state)))
        self.record(tuple(c for c in edits if c.path in made), when, session, writers=said_of(made))
        self.record(tuple(c for c in edits if c.path not in made), when, session)
        self.record(clean, when, session, origin="git")
        undone = lingering.undone(edits, made, after) if made else ()
        remember(self.state, after)
        explained(self.state, undone)
        return bool(undone)

    def before(self) -> Observation | None:
        """The last observation with what was recorded since; None before the first."""
        head = observed_head(self.state)
        if head is None:
            return None
        found = {o.path: Seen(o.version, None) if o.version else None for o in last_observed(self.state)}
        return Observation(head or None, found)

    def differences(self, before: Observation, after: Observation) -> tuple[Change, ...]:
        """What changed; nothing can be told where the commit that it stood on is gone."""
        try:
            found = changes(self.site.workspace, before, after)
        except GitError:
            return ()
        return tuple(c for c in found if c.path != RECORDED_OTHERWISE)

    def with_contents(self, found: tuple[Change, ...]) -> tuple[Change, ...]:
        """The changes with the contents that were there before, where they were kept."""
        kept = self.site.store.load_many(c.before.version.git_blob for c in found if c.before)
        return tuple(
            replace(c, before=Seen(c.before.version, kept.get(c.before.version.git_blob)) if c.before else None)
            for c in found
        )

    def record(
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
        self.site.keep(effects.keepable((c.path, c.after) for c in found))
        sessions = loose(self.state)
        whose = origin or ("unknown" if sessions or writers else "person")
        if writers is None:
            writers = likeliest(self.site, [c.path for c in found], sorted(sessions)) if whose == "unknown" else {}
        self.site.recorder.append_or_spool([self.edit(part, when, session, whose, writers) for part in parts(found)])

    def edit(
        self,
        found: tuple[Change, ...],
        when: str,
        session: SessionKey | None,
        origin: str,
        writers: Mapping[str, list[str]],
    ) -> Record:
        """One record of changed files; `writers` are those that most likely made them."""
        detail: dict[str, object] = {"origin": origin, "noticed_at": when}
        paths = {ANY, *(quoted_path(c.path) for c in found)}
        if likely := {path: words for path, words in writers.items() if path in paths}:
            detail["likeliest"] = likely
        if session is not None:
            detail["noticed_in"] = session.session_id
        known = effects.differences(found, {}, self.site.store) if origin != "git" else {}
        body = Body(
            event="human_edit",
            intent_id=None,
            session_id=None,
            files=tuple(effects.mutated_file(c, None, (), known.get(c.path)) for c in found),
            covered=False,
            detail=detail,
        )
        return self.site.recorder.record(body)


def loose(state: State) -> set[str]:
    """The sessions that are not over and may have left something running. Raises StateError."""
    return set(json.loads(state.fact(LOOSE) or "[]"))


def put_loose(state: State, session_id: str) -> None:
    """This session runs a command, or a foreign tool. Raises StateError."""
    known = loose(state)
    if session_id not in known:
        state.put_fact(LOOSE, json.dumps(sorted({*known, session_id})))


def forget_loose(state: State, session_id: str) -> None:
    """This session is over. Raises StateError."""
    known = loose(state)
    if session_id in known:
        state.put_fact(LOOSE, json.dumps(sorted(known - {session_id})))


def parts(found: tuple[Change, ...]) -> Iterator[tuple[Change, ...]]:
    """The changes, as many at a time as one record holds."""
    return (found[at : at + FILES_PER_RECORD] for at in range(0, len(found), FILES_PER_RECORD))
