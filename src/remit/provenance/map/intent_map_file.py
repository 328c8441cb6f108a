"""Keeping the intent map up with the ledger, from a process that is idle: each step takes in what came since."""

import errno
import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from remit.core.code.grammars import list_missing_grammars
from remit.core.diff.contents import sha256
from remit.ledger import lock
from remit.ledger.index.tables import is_damage, remove_database
from remit.provenance.map.change_classes import read_map_entries
from remit.provenance.map.map_state import WRITTEN_KEY, MapState
from remit.provenance.map.map_text import render_map
from remit.provenance.map.record_sources import Archives, FileMark, RecordSources
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.files.safe_paths import write_below
from remit.workspace.git.command import Git
from remit.workspace.git.refs import OID
from remit.workspace.observe.observation import INTENT_MAP
from remit.workspace.place.workspace import Workspace

STATE_FOLDER = "maps"
NOT_WRITABLE_ERRORS = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


class IntentMap(Struct, frozen=True):
    """The map of one work tree, and all that it is made from. Nothing is opened before it is needed."""

    workspace: Workspace
    sources: RecordSources
    store: ContentStore

    @classmethod
    def open(cls, workspace: Workspace, log: str, machine: str) -> "IntentMap":
        """The one of this work tree, where this machine's log is called `log`."""
        sources = RecordSources(workspace.log_folder, workspace.view_path, log)
        return cls(workspace, sources, ContentStore(workspace, machine))

    @property
    def path(self) -> Path:
        """The map."""
        return self.workspace.root / INTENT_MAP

    @property
    def state_path(self) -> Path:
        """The state that it was made from."""
        name = sha256(str(self.workspace.root).encode("utf-8", "surrogateescape"))[:16]
        return self.workspace.state / STATE_FOLDER / f"{name}.db"

    @property
    def fingerprint(self) -> str:
        """What else the text depends on: which logs are of this repository, and which languages are at hand."""
        return "\n".join([*sorted(self.sources.local_names), *list_missing_grammars()])

    @property
    def is_ignored_by_git(self) -> bool:
        """Whether it may change at any time: where git does not see it. Raises GitError.

        Patterns of the git folder do not count: what they hide is observed like any file.
        """
        if self.workspace.common_dir is None:
            return True
        asked = ("check-ignore", "-z", "-v", "--stdin")
        out = Git(self.workspace.root).run(*asked, stdin=INTENT_MAP.encode() + b"\0", ok=(0, 1))
        source, _, pattern = out.decode("utf-8", "surrogateescape").split("\0")[:3] if out else ("", "", "")
        return source.endswith(".gitignore") and not pattern.startswith("!")

    # -- step by step ---------------------------------------------------------------------------------------

    def update(self, must_stop: Callable[[], bool]) -> bool:
        """Take in what came since, until it is `enough`, and write the map where all is in; whether more is left.

        Nothing is written where git sees it, or while no change is in it. What was read and is not there any more
        lets it begin anew. Raises OSError, GitError, LedgerError, sqlite3.Error; LockTimeout where another process is
        at it now.
        """
        if not self.path.parent.is_dir() or not self.is_ignored_by_git:
            return False
        with self.lock_map(0):
            try:
                with MapState(self.state_path, self.fingerprint) as state:
                    return self.update_locked(state, must_stop)
            except sqlite3.DatabaseError as error:
                if is_damage(error):
                    remove_database(self.state_path)
                raise

    def update_locked(self, state: MapState, must_stop: Callable[[], bool]) -> bool:
        """`kept_up`, alone and with the state open."""
        if self.catch_up(state, must_stop):
            return True
        if state.has_changes or self.path.exists():
            self.write_if_changed(state)
        return False

    def catch_up(self, state: MapState, must_stop: Callable[[], bool]) -> bool:
        """Take in what came since, or all where that is not what it was; whether more is left."""
        archives = self.sources.archive_states()
        if not self.is_still_valid(state, archives):
            state.clear()
        if state.archives != archives:
            state.archives = archives
        return self.read_new_records(state, must_stop)

    def is_still_valid(self, state: MapState, archives: Archives) -> bool:
        """Whether everything that was read is there still, and nothing was missing then that is at hand now."""
        marks = state.log_marks
        if not all(map(self.sources.log_line_unchanged, marks.values())):
            return False
        if marks and self.sources.was_pruned_since(state.archives, archives):
            return False
        for name, read in state.file_marks.items():
            if not self.sources.file_start_unchanged(name, read):
                if read.told:
                    return False
                state.forget_file(name)
        return not self.store.load_many(filter(OID.fullmatch, state.missing_contents))

    def read_new_records(self, state: MapState, must_stop: Callable[[], bool]) -> bool:
        """Take in what comes after the marks, in lots; whether it was enough before all was in."""
        read_logs = state.log_marks
        for log in self.sources.logs:
            for documents, mark in self.sources.read_log(log, read_logs.get(log)):
                if must_stop():
                    return True
                state.add_records(read_map_entries(documents, self.store), None, mark)
        marks = state.file_marks
        for name in self.sources.files:
            read = marks.get(name, FileMark())
            for documents, mark in self.sources.read_file(name, read):
                if must_stop():
                    return True
                found = list(read_map_entries(documents, self.store))
                read = FileMark(mark.offset, mark.tail, read.told + len(found))
                state.add_records(found, name, read)
        return False

    def write_if_changed(self, state: MapState) -> None:
        """Write the map, unless its file holds it: as it was left, or byte for byte."""
        if state.read_value(WRITTEN_KEY) == self.file_signature():
            return
        text = state.render().encode()
        if not self.holds_text(text):
            write_below(self.workspace.root, self.path, text)
        state.write_value(WRITTEN_KEY, self.file_signature())

    def holds_text(self, text: bytes) -> bool:
        """Whether the file is exactly that."""
        return self.path.is_file() and not self.path.is_symlink() and self.path.read_bytes() == text

    def file_signature(self) -> str:
        """What changes whenever the file does; `-` where there is none."""
        try:
            found = self.path.lstat()
        except OSError:
            return "-"
        return f"{found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"

    # -- by hand --------------------------------------------------------------------------------------------

    def render_current(self) -> bytes:
        """Return the map as the ledger says it, from what was kept and what came since.

        It is made anew where no state can be kept, as on a read-only mount. Raises as `bring_up`.
        """
        try:
            return self.update_and_render()
        except OSError as error:
            if error.errno not in NOT_WRITABLE_ERRORS:
                raise
            return self.rebuild()

    def update_and_render(self) -> bytes:
        """Take in what came since, keep it, and return the map. A state that cannot be read is dropped.

        Raises OSError, GitError, LedgerError, sqlite3.Error; LockTimeout.
        """
        with self.lock_map(lock.LOCK_TIMEOUT_S):
            try:
                with MapState(self.state_path, self.fingerprint) as state:
                    self.catch_up(state, lambda: False)
                    return state.render().encode()
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise
                remove_database(self.state_path)
                return self.rebuild()

    def write_current(self) -> bool:
        """Write the map from what was kept and what came since; whether the file held something else."""
        text = self.update_and_render()
        same = self.holds_text(text)
        if not same:
            write_below(self.workspace.root, self.path, text)
        return not same

    # -- anew -----------------------------------------------------------------------------------------------

    def rebuild(self) -> bytes:
        """The map, made from all records and from nothing else. Raises OSError, GitError, LedgerError."""
        return render_map(read_map_entries(self.sources.read_every_record(), self.store)).encode()

    def write_rebuilt(self) -> bool:
        """Write the map, made anew; whether the file held something else. Raises as `anew`, and sqlite3.Error."""
        with self.lock_map(lock.LOCK_TIMEOUT_S):
            text = self.rebuild()
            same = self.holds_text(text)
            if not same:
                write_below(self.workspace.root, self.path, text)
            if self.state_path.exists() and not self.state_agrees(text):
                remove_database(self.state_path)
            return not same

    def state_agrees(self, text: bytes) -> bool:
        """Whether what was kept comes to the same: it goes on from there, and is dropped where not."""
        with MapState(self.state_path, self.fingerprint) as state:
            self.catch_up(state, lambda: False)
            same = state.render().encode() == text
            if same:
                state.write_value(WRITTEN_KEY, self.file_signature())
            return same

    @contextmanager
    def lock_map(self, wait_s: float) -> Generator[None]:
        """One writer of the map at a time. Raises OSError, LockTimeout."""
        self.state_path.parent.mkdir(parents=True, exist_ok=True)
        held = lock.acquire(self.state_path.with_suffix(".lock"), timeout_s=wait_s)
        try:
            yield
        finally:
            lock.release(held)
