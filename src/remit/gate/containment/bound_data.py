"""Runtime data of a contained command: databases bound into its jail, copies from before, records and the sentence.

The command changes a bound database at once, for all users of the database, and dropping the rest does not revert the
change: the copy from before the command does. Data not bound is staged, and moved with the kept files.
"""

import posixpath
import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, json
from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.decision import Finding
from remit.core.python_runtime import prepare_type
from remit.core.record import Body, Record
from remit.core.redaction import is_secret_file
from remit.core.runtime_data import SIBLINGS, DataVersion, explain_refused_pattern, format_bytes, literal_folder
from remit.core.scope.path_patterns import Scope
from remit.core.shell_commands import UnreadableShell
from remit.core.untrusted_input import quote_path, sanitise_line
from remit.gate.containment.contained_command import ContainedCommand, find_write_objections
from remit.gate.context import WorkspaceContext, join_lines
from remit.gate.facts.runtime_data import CLUSTER_FILE, is_no_link, list_databases, looks_like_data
from remit.gate.records.call_records import call_body
from remit.gate.records.recorder import find_recorded_events
from remit.gate.undo.snapshots import DAY_S, occasion_of_call
from remit.gate.undo.violations import MAX_NAMED, MAX_RECORDED
from remit.policy.checks.paths import NO_FILE
from remit.policy.commands.dangers import find_program_calls
from remit.workspace.git.repository import find_tracked
from remit.workspace.safe_files import hash_file, write_atomically
from remit.workspace.sandbox.containment import MEBIBYTE
from remit.workspace.sandbox.live_databases import hold_logs, release_gone, release_logs
from remit.workspace.sandbox.staged_changes import ChangeApplier, StagedChange
from remit.workspace.snapshots.data_store import DataStore, has_wal_mode, open_sqlite, stat_version
from remit.workspace.snapshots.snapshot import decode_path, encode_path

DATA_FILE = "data"
"""What is bound, in the staging area."""

VERSIONS_FACT = "data_versions"
"""Fact that holds the last copied version of each database: one that is as it was is not copied again."""

REMOVING_PROGRAMS = frozenset({"rm", "unlink", "mv", "shred"})


class BoundData(Struct, frozen=True):
    """Databases bound into a jail, by encoded path, with their version from before. `places` are all bound files."""

    files: dict[str, DataVersion] = {}
    places: tuple[str, ...] = ()
    point: str = ""
    uncopied: str = ""


class DataChange(Struct, frozen=True):
    """A changed data file; None for no file. `is_bound`: it changed while the command ran."""

    path: str
    before: DataVersion | None
    after: DataVersion | None
    is_bound: bool = False


class DataOutcome(Struct, frozen=True):
    """The changed data of a command, and the restore point; `uncopied` is the reason against a copy."""

    changes: tuple[DataChange, ...] = ()
    point: str = ""
    uncopied: str = ""
    dropped: tuple[str, ...] = ()
    """Dropped files that look like a database: nobody named them yet."""


NO_DATA = DataOutcome()
BOUND_OF_UNSTAGED: dict[str, BoundData] = {}
"""The databases of commands that run without an overlay, by session and call."""


# -- before the command -------------------------------------------------------------------------------------


def bind_data(command: ContainedCommand, folder: Path) -> tuple[Path, ...]:
    """Return the files and folders of runtime data to bind, copied once for a staging area. Raises RECORDING_ERRORS."""
    if not command.settings.data:
        return ()
    known = load_bound(folder)
    if known is None:
        known = prepare_bound(command, str(folder))
        write_atomically(folder / DATA_FILE, json.encode(known), durable=False)
    return tuple(map(Path, map(decode_path, known.places)))


def bind_unstaged(command: ContainedCommand) -> tuple[Path, ...]:
    """Return the files and folders of runtime data that a command without an overlay may write. Raises
    RECORDING_ERRORS.
    """
    data = command.context.find_data_patterns()
    if data is None:
        return ()
    bound = BOUND_OF_UNSTAGED[unstaged_key(command)] = prepare_bound(command, unstaged_key(command))
    root = command.context.workspace.root
    folders = {literal_folder(pattern) for pattern in data.patterns if pattern.endswith("/**")} - {""}
    named = [root / folder for folder in folders if (root / folder).is_dir() and is_no_link(root, folder.rstrip("/"))]
    return (*map(Path, map(decode_path, bound.places)), *named)


def unstaged_key(command: ContainedCommand) -> str:
    return f"{command.call.session.session_id} {command.call.call_id}"


def settle_unstaged_data(command: ContainedCommand) -> DataOutcome:
    """Return what a command without an overlay changed in databases. Raises RECORDING_ERRORS."""
    key = unstaged_key(command)
    bound = BOUND_OF_UNSTAGED.pop(key, None)
    return settle_databases(command, key, bound, None) if bound else NO_DATA


def load_bound(folder: Path) -> BoundData | None:
    try:
        return json.decode((folder / DATA_FILE).read_bytes(), type=prepare_type(BoundData))
    except FileNotFoundError:
        return None


def prepare_bound(command: ContainedCommand, key: str) -> BoundData:
    context, root = command.context, command.context.workspace.root
    data = context.find_data_patterns()
    paths = list_databases(context, data) if data else []
    paths = [path for path in paths if not must_remove_path(command, path)]
    if not paths or any(patterns == NO_FILE for patterns in command.gather_facts().session.narrow):
        return BoundData()
    barred = find_write_objections(command, paths, paths)
    paths = [path for path in paths if path not in barred]
    # 1 The logs first: what SQLite makes and removes beside a database settles before the copy.
    release_gone()
    logged = [root / path for path in paths if has_wal_mode(root / path)]
    logs = hold_logs(key, logged, open_sqlite)
    # 2 A copy of each database.
    files = [path for path in paths if not (root / path / CLUSTER_FILE).exists()]
    versions, uncopied = copy_before(command, files)
    point = None
    if versions:
        occasion = occasion_of_call("call", command.call, command.intent_id)
        point = DataStore(context.workspace).write_point(occasion, versions, context.environment.clock.now())
    places = [*(root / path for path in paths), *logs]
    return BoundData(
        {encode_path(path): version for path, version in versions.items()},
        tuple(encode_path(str(place)) for place in places),
        point.name if point else "",
        uncopied,
    )


def must_remove_path(command: ContainedCommand, path: str) -> bool:
    with suppress(UnreadableShell, ValueError):
        here = posixpath.relpath(command.call.cwd, str(command.context.workspace.root))
        for call in find_program_calls(command.call.command or ""):
            names = (posixpath.normpath(posixpath.join(here, word)) for word in call.words if not word.startswith("-"))
            if call.name in REMOVING_PROGRAMS and any(has_path_in(path, name) for name in names):
                return True
    return False


def has_path_in(path: str, name: str) -> bool:
    if path == name or path.startswith(f"{name}/"):
        return True
    with suppress(ValueError):
        return Scope((name,)).matches(path)
    return False


def copy_before(command: ContainedCommand, paths: Sequence[str]) -> tuple[dict[str, DataVersion], str]:
    """Return the present version of each file, copied unless all of them are too large together; and why not."""
    context, root, store = command.context, command.context.workspace.root, DataStore(command.context.workspace)
    now = {path: found for path in paths if (found := stat_version(root / path)) is not None}
    limit = command.settings.data_snapshot_mib
    if sum(version.bytes for version in now.values()) > limit * MEBIBYTE:
        return now, f"together they are larger than data_snapshot_mib = {limit}"
    known = json.decode(context.state.read_fact(VERSIONS_FACT) or "{}", type=prepare_type(dict[str, DataVersion]))
    copied: dict[str, DataVersion] = {}
    try:
        for path, version in now.items():
            last = known.get(encode_path(path))
            is_same = last is not None and last.stamp == version.stamp and store.find_copy(last) is not None
            found = last if is_same else store.copy_file(path)
            copied[path] = found or version
    except OSError as error:
        return {**now, **copied}, f"it could not be copied ({error.strerror or error})"
    if any(known.get(encode_path(path)) != version for path, version in copied.items()):
        context.state.put_fact(VERSIONS_FACT, json.encode({encode_path(p): v for p, v in copied.items()}).decode())
    return copied, ""


def copy_before_bare(context: WorkspaceContext, call: ToolCall, intent_id: str | None) -> list[Record]:
    """Copy the databases before a command that nothing contains; return the record. Raises RECORDING_ERRORS."""
    data, store = context.find_data_patterns(), DataStore(context.workspace)
    paths = list_databases(context, data) if data else []
    files = [path for path in paths if not (context.workspace.root / path / CLUSTER_FILE).exists()]
    versions, _ = copy_before(ContainedCommand(context, call, is_staged=False), files)
    named = {key for point in store.list_points() for key, _ in point.files.values()} if versions else set[str]()
    fresh = {path: version for path, version in versions.items() if version.sha256 not in named}
    made = store.write_point(occasion_of_call("call", call, intent_id), fresh, context.environment.clock.now())
    if made is None:
        return []
    detail = {"id": made.name, "paths": list(map(quote_path, fresh))}
    return [context.recorder.make_record(call_body("data_snapshot", call, intent_id, detail=detail), call.agent)]


# -- after the command --------------------------------------------------------------------------------------


def settle_bound(command: ContainedCommand, folder: Path, upper: Path | None) -> DataOutcome:
    """Return what a command changed in bound databases, and let them go. Raises RECORDING_ERRORS.

    A journal that a killed program left comes over at once: without it the database is half-written.
    """
    bound = load_bound(folder)
    return settle_databases(command, str(folder), bound, upper) if bound else NO_DATA


def settle_databases(command: ContainedCommand, key: str, bound: BoundData, upper: Path | None) -> DataOutcome:
    if not bound.places:
        return NO_DATA
    root, store = command.context.workspace.root, DataStore(command.context.workspace)
    paths = [decode_path(path) for path in bound.files]
    left = [f"{path}{ending}" for path in paths for ending in ("-wal", "-journal")] if upper else []
    left = [path for path in left if upper and (upper / path).is_file() and not (upper / path).is_symlink()]
    if upper and left:
        ChangeApplier(upper, root).apply_changes([StagedChange(path, "file") for path in left])
        for path in left:
            (upper / path).unlink()
    changed = [p for p in paths if not is_as_before(root, p, bound.files[encode_path(p)])]
    release_logs(key, [root / path for path in paths if has_wal_mode(root / path)], open_sqlite)
    if not changed:
        if bound.point:
            store.drop_point(bound.point)
        return NO_DATA
    after, _ = copy_before(command, paths)
    changes = [DataChange(p, bound.files[encode_path(p)], after.get(p), is_bound=True) for p in changed]
    real = [c for c in changes if not (c.before and c.after and c.after.sha256 and c.before.sha256 == c.after.sha256)]
    if not real and bound.point:
        store.drop_point(bound.point)
    return DataOutcome(tuple(real), bound.point if real else "", bound.uncopied)


def is_as_before(root: Path, path: str, before: DataVersion) -> bool:
    now = stat_version(root / path)
    return now is not None and now.stamp == before.stamp


def keep_staged_data(
    command: ContainedCommand, outcome: DataOutcome, changes: Sequence[StagedChange], upper: Path
) -> DataOutcome:
    """Copy what staged data is about to replace; return the outcome with these changes. Raises RECORDING_ERRORS."""
    context, root, store = command.context, command.context.workspace.root, DataStore(command.context.workspace)
    limit, uncopied = command.settings.data_snapshot_mib * MEBIBYTE, outcome.uncopied
    found: list[DataChange] = []
    copied: dict[str, DataVersion] = {}
    spent = 0
    for change in changes:
        before = stat_version(root / change.path)
        if before is not None:
            spent += before.bytes
            if is_secret_file(change.path):
                hashed = hash_file(root / change.path)
                before = replace(before, sha256=hashed[0] if hashed else None)
            elif spent > limit:
                uncopied = f"together they are larger than data_snapshot_mib = {command.settings.data_snapshot_mib}"
            else:
                before = copied[change.path] = store.copy_file(change.path) or before
        hashed = hash_file(upper / change.path) if change.kind == "file" else None
        after = DataVersion(hashed[1], hashed[0]) if hashed else None
        if before is not None or after is not None:
            found.append(DataChange(change.path, before, after))
    point = outcome.point
    if copied:
        occasion = occasion_of_call("call", command.call, command.intent_id)
        made = store.write_point(occasion, copied, context.environment.clock.now(), point)
        point = made.name if made else point
    return DataOutcome((*outcome.changes, *found), point, uncopied)


def find_dropped_databases(command: ContainedCommand, findings: Sequence[Finding], upper: Path) -> tuple[str, ...]:
    """Return the untracked databases among what was dropped for its scope. Raises GitError."""
    outside = [f.path for f in findings if f.code == "SCOPE_VIOLATION" and f.path]
    found = [path for path in outside if looks_like_data(upper / path, path.rpartition("/")[2])]
    tracked = find_tracked(command.context.workspace, found) if found else frozenset[str]()
    return tuple(path for path in found if path not in tracked and not explain_refused_pattern(path))


def record_data(command: ContainedCommand, outcome: DataOutcome) -> None:
    """Record changed data: no lines, no author. Raises RECORDING_ERRORS."""
    context, call = command.context, command.call
    if not outcome.changes or "data_changed" in find_recorded_events(context.recorder, call, resumed=True):
        return
    intent_id = command.intent_id or None
    bodies: list[Body] = []
    if outcome.point:
        paths = [quote_path(change.path) for change in outcome.changes if change.before][:MAX_RECORDED]
        bodies.append(call_body("data_snapshot", call, intent_id, detail={"id": outcome.point, "paths": paths}))
    for change in outcome.changes[:MAX_RECORDED]:
        detail: dict[str, object] = {"path": quote_path(change.path)}
        for side, version in (("before", change.before), ("after", change.after)):
            detail |= {side: version.sha256} if version and version.sha256 else {}
        detail |= {"bytes": change.after.bytes if change.after else 0}
        detail |= {"point": outcome.point} if outcome.point and change.before else {}
        bodies.append(call_body("data_changed", call, intent_id, detail=detail))
    if (rest := len(outcome.changes) - MAX_RECORDED) > 0:
        bodies.append(call_body("data_changed", call, intent_id, detail={"more": rest}))
    records: list[Record] = [context.recorder.make_record(body, call.agent) for body in bodies]
    context.recorder.append_or_spool(records)
    config = context.rules.config.snapshots
    oldest = context.environment.clock.now() - config.keep_days * DAY_S
    DataStore(context.workspace).prune(oldest, config.max_mib * MEBIBYTE)


def describe_data(outcome: DataOutcome, *, has_dropped: bool) -> str:
    """Return the sentences for the model; "" if no data changed, and none was dropped."""
    if outcome.dropped:
        words = " ".join(shlex.quote(quote_path(path)) for path in outcome.dropped[:MAX_NAMED])
        told = f"Remit: dropped {sanitise_line(words, 400)}: a database looks like runtime data, which no intent owns. "
        told += f"Tell the person: `remit data add {sanitise_line(words, 400)}` lets commands change it."
        return join_lines(describe_data(replace(outcome, dropped=()), has_dropped=has_dropped), told)
    changes = [c for c in outcome.changes if not c.path.endswith(SIBLINGS)] or list(outcome.changes)
    if not changes:
        return ""
    shown = ", ".join(describe_change(change) for change in changes[:MAX_NAMED])
    more = f" and {len(changes) - MAX_NAMED} more" if len(changes) > MAX_NAMED else ""
    lines = [f"Remit: kept: {shown}{more}."]
    bound = next((change for change in changes if change.is_bound), None)
    if bound is not None and has_dropped:
        lines.append("Runtime data is not rolled back with what was dropped.")
        if outcome.point:
            name = sanitise_line(quote_path(bound.path), 200)
            lines.append(f"A person gets it back as it was before: `remit restore {outcome.point} {name}`.")
    if outcome.uncopied:
        lines.append(f"No copy was kept: {outcome.uncopied}.")
    return " ".join(lines)


def describe_change(change: DataChange) -> str:
    before, after = (format_bytes(v.bytes) if v else "" for v in (change.before, change.after))
    sizes = f"{before} → {after}" if before and after else f"new, {after}" if after else f"{before}, deleted"
    if before and after and before.partition(" ")[2] == after.partition(" ")[2]:
        sizes = f"{before.partition(' ')[0]} → {after}"
    return f"{sanitise_line(quote_path(change.path), 200)} (runtime data, {sizes})"
