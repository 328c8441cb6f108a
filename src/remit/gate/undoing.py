"""Effects that a command had no right to, taken back: only those, and what the agent made of them is kept aside.

A path that somebody else may have written in the same time is never touched: it is reported.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from msgspec import UNSET, Struct
from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.contents import sha256
from remit.core.globs import Scope
from remit.core.record import Body, Record
from remit.core.secret_files import names_a_secret
from remit.core.text import quoted_path, shown
from remit.gate import effects
from remit.gate.guarded import PREFIX, Guarded
from remit.gate.likeliest import AGENTS
from remit.gate.observed import last_known
from remit.gate.overreach import BROKEN, Overreach, Why, is_gits
from remit.gate.site import Site
from remit.gate.snapshots import Snapshots
from remit.gate.state import OpenCall, PendingCall
from remit.gate.windows import known
from remit.workspace.observe import Change, Observation, glance, identity
from remit.workspace.snapshots import Occasion, Snapshot, spelled
from remit.workspace.snapshots_write import File, delete_file, write_files
from remit.workspace.versions import KEEP_BYTES, Seen
from remit.workspace.writers import people_at

LOST = "its former content was not kept"
PRIVATE = 0o600
MAX_RECORDED = 100
"""Files that one record names as put back."""

Wrong: TypeAlias = Mapping[str, Change]


class Undone(Struct, frozen=True):
    """What was undone, and what should have been and was not: by path, the reason.

    `kept` is the snapshot that holds the agent's version, `places` where it lies of git's own files.
    """

    paths: Why = {}
    left: Why = {}
    kept: str = ""
    places: tuple[Path, ...] = ()
    committed: bool = False
    """The call made commits, which may hold the agent's version: they stay."""
    broken: Why = {}
    """By path, in words, the constraints that were broken."""

    def as_left(self, done: tuple[Change, ...]) -> tuple[Change, ...]:
        """The changes, those that were undone as they are now."""
        return tuple(replace(c, after=c.before) if c.path in self.paths else c for c in done)


NOTHING = Undone()


class Undoing:
    """Takes back what the calls of one workspace did beyond their right."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.root = site.workspace.root
        self.guarded = Guarded(site.workspace)
        self.overreach = Overreach(site, self.guarded)

    def undone(self, call: ToolCall, pending: PendingCall, done: tuple[Change, ...], after: Observation) -> Undone:
        """In enforce, take back what this command, or foreign tool, changed and may not.

        Raises what CannotRecord names. `after` is what was found when it came back. A file tool names what it writes,
        and was judged by that.
        """
        if pending.mode != "enforce" or not pending.whole or call.remit_tool is not None:
            return NOTHING
        rules = self.overreach.objections(call, pending, done)
        broken = self.overreach.broken(call, pending, [c for c in done if c.path not in rules])
        rules |= dict.fromkeys(broken, BROKEN)
        wrong = {c.path: c for c in done if c.path in rules}
        if not wrong:
            return NOTHING
        left = self.claimed(call, pending, wrong)
        point = self.snapshot_of(pending)
        files, lost = self.contents(without(wrong, left), point)
        left |= lost
        kept, unkept, records = self.put_aside(call, pending, without(wrong, left), after)
        left |= unkept
        left |= self.taken_back(files, without(wrong, left))
        gone = without(wrong, left)
        places = tuple(self.guarded.place(c.after.version.sha256) for c in gone.values() if c.after and is_gits(c.path))
        found = Undone(
            {path: rules[path] for path in gone},
            left,
            kept,
            places,
            pending.head != after.head,
            {path: broken[path] for path in gone if path in broken},
        )
        self.site.recorder.append_or_spool([*records, *self.record(call, pending, found, point)])
        return found

    # -- whose it is ----------------------------------------------------------------------------------------

    def claimed(self, call: ToolCall, pending: PendingCall, wrong: Wrong) -> Why:
        """Those that somebody else may have written, and who. Raises StateError."""
        recorded = last_known(self.site.state, wrong)
        others = [c for c in self.site.state.open_calls() if not is_own(c, call)]
        people = people_at(self.root, list(wrong), AGENTS)
        found: Why = {}
        for path, change in wrong.items():
            if change.shared:
                found[path] = f"it may be the work of {', '.join(change.shared)}, or of a person"
            elif path in recorded and known(recorded[path]) != identity(change.before):
                found[path] = "another call wrote it meanwhile"
            elif any(may_write(other, call, path) for other in others):
                found[path] = "another call of this session may have written it"
            elif path in people:
                found[path] = f"a person may have written it: {shown(str(people[path]), 120)}"
        return found

    # -- taking back ----------------------------------------------------------------------------------------

    def snapshot_of(self, pending: PendingCall) -> Snapshot | None:
        """The state from before the call. Raises GitError, OSError."""
        if not pending.snapshot:
            return None
        return next((s for s in self.site.snapshots.listed() if s.id == pending.snapshot), None)

    def contents(self, wrong: Wrong, point: Snapshot | None) -> tuple[dict[str, File], Why]:
        """What these files were, but for those that were not there; and those of which nobody knows it any more."""
        known = {p: c.before.content for p, c in wrong.items() if c.before and c.before.content is not None}
        missing = [c for p, c in wrong.items() if c.before and p not in known]
        known |= {c.path: found for c in missing if (found := self.guarded.content(c)) is not None}
        known |= self.in_snapshot([c for c in missing if c.path not in known], point)
        bits = point.permissions if point else {}
        files = {
            path: File(c.before.version.mode, known[path], bits.get(spelled(path), permissions(c)))
            for path, c in wrong.items()
            if c.before and path in known
        }
        return files, {c.path: LOST for c in missing if c.path not in known}

    def in_snapshot(self, missing: list[Change], point: Snapshot | None) -> dict[str, bytes]:
        """The contents that only the snapshot holds: secrets, and large files."""
        if point is None or not missing:
            return {}
        listing = self.site.snapshots.listing(point)
        found = self.site.snapshots.contents({c.path: listing[c.path] for c in missing if c.path in listing})
        shas = {c.path: c.before.version.sha256 for c in missing if c.before}
        return {path: content for path, content in found.items() if sha256(content) == shas[path]}

    def put_aside(
        self, call: ToolCall, pending: PendingCall, wrong: Wrong, after: Observation
    ) -> tuple[str, Why, list[Record]]:
        """Keep the agent's version: the snapshot that holds it, what no snapshot holds, and its record."""
        self.guarded.keep({path: c.after for path, c in wrong.items()})
        made = {path: c.after for path, c in wrong.items() if c.after and not is_gits(path)}
        if not made:
            return "", {}, []
        occasion = Occasion(
            kind="undone",
            intent=pending.intent_id or "",
            session=call.session.session_id,
            agent=call.agent,
            call=call.call_id,
            tool=call.tool,
            command=call.command or "",
            point=pending.snapshot,
        )
        snapshot, record = Snapshots(self.site).taken(occasion, after, pending.intent_id)
        unkept = {path: why for path in made if (why := snapshot.left.get(spelled(path)))}
        unkept |= {path: "private patterns hide it from git" for path in made if is_hidden(after.files.get(path))}
        return snapshot.id, {p: f"its version could not be kept: {why}" for p, why in unkept.items()}, [record]

    def taken_back(self, files: Mapping[str, File], wrong: Wrong) -> Why:
        """Delete what was not there, then put back what was; what could not be. One that changed again stays."""
        failed = {p: "it changed again meanwhile" for p, c in wrong.items() if self.differs(c)}
        rest = without(wrong, failed)
        for path in (path for path, change in rest.items() if change.before is None):
            root, name = self.placed(path)
            if (why := delete_file(root, name)) is not None:
                failed[path] = why
        mark = os.urandom(4).hex()
        for root, prefix in {self.placed(path)[0]: PREFIX if is_gits(path) else "" for path in rest}.items():
            own = {p[len(prefix) :]: files[p] for p in rest if p in files and is_gits(p) == bool(prefix)}
            failed |= {prefix + name: why for name, why in write_files(root, own, mark).items()}
        return failed

    def differs(self, change: Change) -> bool:
        """Whether the file is by now another than the comparison found."""
        root, name = self.placed(change.path)
        return identity(glance(root / name)) != identity(change.after)

    def placed(self, path: str) -> tuple[Path, str]:
        """The folder that holds a path, and its name there."""
        common = self.site.workspace.common_dir
        return (common, path[len(PREFIX) :]) if common and is_gits(path) else (self.root, path)

    def record(self, call: ToolCall, pending: PendingCall, found: Undone, point: Snapshot | None) -> list[Record]:
        """That files were put back, which, why, and where the agent's version is; many of them in several records."""
        every = list(found.paths)
        parts = (every[at : at + MAX_RECORDED] for at in range(0, len(every), MAX_RECORDED))
        return [self.part(call, pending, found, point, paths) for paths in parts]

    def part(
        self, call: ToolCall, pending: PendingCall, found: Undone, point: Snapshot | None, paths: list[str]
    ) -> Record:
        """One of these records, of some of the files."""
        detail: dict[str, object] = {
            "paths": list(map(quoted_path, paths)),
            "why": "the call had no right to change them",
            "rules": {quoted_path(path): found.paths[path] for path in paths},
        }
        broken = {quoted_path(path): found.broken[path] for path in paths if path in found.broken}
        detail |= {"broken": broken} if broken else {}
        detail |= {"kept": found.kept} if found.kept else {}
        detail |= {"to": point.id} if point else {}
        detail |= {"left": {quoted_path(path): why for path, why in found.left.items()}} if found.left else {}
        body = Body(
            event="restore",
            intent_id=pending.intent_id,
            session_id=call.session.session_id,
            agent_id=call.session.agent_id or UNSET,
            call=effects.call_part(call),
            detail=detail,
        )
        return self.site.recorder.record(body)


def is_own(other: OpenCall, call: ToolCall) -> bool:
    """Whether a call under way is this one."""
    if other.session != call.session:
        return False
    if call.call_id:
        return other.call_id == call.call_id
    return (other.tool, other.arguments_sha256) == (call.tool, call.arguments_sha256)


def may_write(other: OpenCall, call: ToolCall, path: str) -> bool:
    """Whether another call of the same session, a sub-agent's perhaps, had the right to write there."""
    pending = other.pending
    if pending is None or other.session.session_id != call.session.session_id:
        return False
    return path in pending.judged or (pending.whole and Scope(pending.owned_scope).matches(path))


def is_hidden(found: Seen | None) -> bool:
    """Whether an observation holds a small file without its content: then no snapshot does."""
    return found is not None and found.content is None and found.version.size <= KEEP_BYTES


def permissions(change: Change) -> int | None:
    """The permissions of a file that is written anew: a secret is for nobody else's eyes."""
    return PRIVATE if change.after is None and names_a_secret(change.path) else None


def without(changes: Wrong, left: Mapping[str, str]) -> dict[str, Change]:
    """The changes but for these paths."""
    return {path: change for path, change in changes.items() if path not in left}
