"""The intent map of one work tree, kept up with the ledger by an idle process in small steps."""

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
from remit.workspace.files.atomic import write_below
from remit.workspace.git.command import Git
from remit.workspace.git.refs import OID
from remit.workspace.observe.observation import INTENT_MAP
from remit.workspace.place.workspace import Workspace

STATE_FOLDER = "maps"
NOT_WRITABLE_ERRORS = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


class IntentMap(Struct, frozen=True):
    """The map of one work tree and its sources. Files are opened on demand."""

    workspace: Workspace
    sources: RecordSources
    store: ContentStore

    @classmethod
    def open(cls, workspace: Workspace, log: str, machine: str) -> "IntentMap":
        sources = RecordSources(workspace.log_folder, workspace.view_path, log)
        return cls(workspace, sources, ContentStore(workspace, machine))

    @property
    def path(self) -> Path:
        return self.workspace.root / INTENT_MAP

    @property
    def state_path(self) -> Path:
        name = sha256(str(self.workspace.root).encode("utf-8", "surrogateescape"))[:16]
        return self.workspace.state / STATE_FOLDER / f"{name}.db"

    @property
    def fingerprint(self) -> str:
        """Further inputs of the text: the names of the repository's logs and the missing grammars."""
        return "\n".join([*sorted(self.sources.local_names), *list_missing_grammars()])

    @property
    def is_ignored_by_git(self) -> bool:
        """True if git does not see the map, which can change at any time. Raises GitError.

        Patterns of `.git/info/exclude` do not count: files hidden by them are observed.
        """
        if self.workspace.common_dir is None:
            return True
        arguments = ("check-ignore", "-z", "-v", "--stdin")
        output = Git(self.workspace.root).run(*arguments, stdin=INTENT_MAP.encode() + b"\0", ok=(0, 1))
        source, _, pattern = output.decode("utf-8", "surrogateescape").split("\0")[:3] if output else ("", "", "")
        return source.endswith(".gitignore") and not pattern.startswith("!")

    # -- kept up by the daemon, step by step -------------------------------------------------------------

    def update(self, must_stop: Callable[[], bool]) -> bool:
        """Read new records until `must_stop`, then write the map if every record is read; return whether more remain.

        Writes nothing if git sees the map, or if the map would be empty. Raises OSError, GitError, LedgerError,
        sqlite3.Error; LockTimeout if another process holds the lock.
        """
        if not self.path.parent.is_dir() or not self.is_ignored_by_git:
            return False
        with self.lock_map(0):
            try:
                with MapState(self.state_path, self.fingerprint) as state:
                    if self.catch_up(state, must_stop):
                        return True
                    if state.has_changes or self.path.exists():
                        self.write_if_changed(state)
                    return False
            except sqlite3.DatabaseError as error:
                if is_damage(error):
                    remove_database(self.state_path)
                raise

    def catch_up(self, state: MapState, must_stop: Callable[[], bool]) -> bool:
        """Read new records, or every record if a source changed; return whether more remain."""
        archives = self.sources.archive_states()
        if not self.is_still_valid(state, archives):
            state.clear()
        if state.archives != archives:
            state.archives = archives
        return self.read_new_records(state, must_stop)

    def is_still_valid(self, state: MapState, archives: Archives) -> bool:
        """Return whether every source still begins with the part already read, and no missing content became
        available.
        """
        marks = state.log_marks
        if not all(map(self.sources.log_line_unchanged, marks.values())):
            return False
        if marks and self.sources.was_pruned_since(state.archives, archives):
            return False
        for name, mark in state.file_marks.items():
            if not self.sources.file_start_unchanged(name, mark):
                if mark.told:
                    return False
                state.forget_file(name)
        return not self.store.load_many(filter(OID.fullmatch, state.missing_contents))

    def read_new_records(self, state: MapState, must_stop: Callable[[], bool]) -> bool:
        """Read the records behind the marks in batches; return whether `must_stop` interrupted."""
        log_marks = state.log_marks
        for log in self.sources.logs:
            for documents, mark in self.sources.read_log(log, log_marks.get(log)):
                if must_stop():
                    return True
                state.add_records(read_map_entries(documents, self.store), None, mark)
        file_marks = state.file_marks
        for name in self.sources.files:
            file_mark = file_marks.get(name, FileMark())
            for documents, mark in self.sources.read_file(name, file_mark):
                if must_stop():
                    return True
                entries = list(read_map_entries(documents, self.store))
                file_mark = FileMark(mark.offset, mark.tail, file_mark.told + len(entries))
                state.add_records(entries, name, file_mark)
        return False

    def write_if_changed(self, state: MapState) -> None:
        """Write the map unless the file already holds the text."""
        if state.read_value(WRITTEN_KEY) == self.file_signature():
            return
        self.write_text(state.render().encode())
        state.write_value(WRITTEN_KEY, self.file_signature())

    def holds_text(self, text: bytes) -> bool:
        return self.path.is_file() and not self.path.is_symlink() and self.path.read_bytes() == text

    def write_text(self, text: bytes) -> bool:
        """Write the map unless the file already holds the text; return whether the file changed."""
        if self.holds_text(text):
            return False
        write_below(self.workspace.root, self.path, text)
        return True

    def file_signature(self) -> str:
        """Return a string that changes whenever the file does; `-` if absent."""
        try:
            stat = self.path.lstat()
        except OSError:
            return "-"
        return f"{stat.st_ino} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns}"

    # -- by `remit map` ----------------------------------------------------------------------------------

    def render_current(self) -> bytes:
        """Return the map from the kept state and new records.

        If no state can be kept, as on a read-only mount, the map is rebuilt. Raises as `update_and_render`.
        """
        try:
            return self.update_and_render()
        except OSError as error:
            if error.errno not in NOT_WRITABLE_ERRORS:
                raise
            return self.rebuild()

    def update_and_render(self) -> bytes:
        """Read and keep new records, and return the map. An unreadable state is dropped.

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
        """Write the map from the kept state and new records; return whether the file changed."""
        return self.write_text(self.update_and_render())

    # -- rebuilt from the records ------------------------------------------------------------------------

    def rebuild(self) -> bytes:
        """Return the map from the records alone. Raises OSError, GitError, LedgerError."""
        return render_map(read_map_entries(self.sources.read_every_record(), self.store)).encode()

    def write_rebuilt(self) -> bool:
        """Write the rebuilt map; return whether the file changed. Raises as `rebuild`, and sqlite3.Error."""
        with self.lock_map(lock.LOCK_TIMEOUT_S):
            text = self.rebuild()
            has_changed = self.write_text(text)
            if self.state_path.exists() and not self.state_agrees(text):
                remove_database(self.state_path)
            return has_changed

    def state_agrees(self, text: bytes) -> bool:
        """Return whether the kept state renders the same text; a state that does not is dropped by the caller."""
        with MapState(self.state_path, self.fingerprint) as state:
            self.catch_up(state, lambda: False)
            same = state.render().encode() == text
            if same:
                state.write_value(WRITTEN_KEY, self.file_signature())
            return same

    @contextmanager
    def lock_map(self, wait_s: float) -> Generator[None]:
        """Hold the lock of the map. Raises OSError, LockTimeout."""
        self.state_path.parent.mkdir(parents=True, exist_ok=True)
        held = lock.acquire(self.state_path.with_suffix(".lock"), timeout_s=wait_s)
        try:
            yield
        finally:
            lock.release(held)
