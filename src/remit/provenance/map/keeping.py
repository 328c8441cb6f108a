"""Keeping the intent map up with the ledger, from a process that is idle: each step takes in what came since."""

import errno
import sqlite3
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from remit.core.contents import sha256
from remit.core.syntax.grammars import missing
from remit.ledger import lock
from remit.ledger.tables import discard, is_damage
from remit.provenance.map.intent_map import rebuilt
from remit.provenance.map.sources import Archives, FileMark, Sources
from remit.provenance.map.state import WRITTEN, MapState
from remit.provenance.map.syntax import told
from remit.workspace.beneath import write_below
from remit.workspace.contents import ContentStore
from remit.workspace.git import Git
from remit.workspace.head import OID
from remit.workspace.observe import MAP
from remit.workspace.place import Workspace

FOLDER = "maps"
NOT_WRITABLE = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


class IntentMap(Struct, frozen=True):
    """The map of one work tree, and all that it is made from. Nothing is opened before it is needed."""

    workspace: Workspace
    sources: Sources
    store: ContentStore

    @classmethod
    def of(cls, workspace: Workspace, log: str, machine: str) -> "IntentMap":
        """The one of this work tree, where this machine's log is called `log`."""
        sources = Sources(workspace.log_folder, workspace.view_path, log)
        return cls(workspace, sources, ContentStore(workspace, machine))

    @property
    def path(self) -> Path:
        """The map."""
        return self.workspace.root / MAP

    @property
    def state_path(self) -> Path:
        """The state that it was made from."""
        name = sha256(str(self.workspace.root).encode("utf-8", "surrogateescape"))[:16]
        return self.workspace.state / FOLDER / f"{name}.db"

    @property
    def form(self) -> str:
        """What else the text depends on: which logs are of this repository, and which languages are at hand."""
        return "\n".join([*sorted(self.sources.names), *missing()])

    @property
    def stays_out_of_git(self) -> bool:
        """Whether it may change at any time: where git does not see it. Raises GitError.

        Patterns of the git folder do not count: what they hide is observed like any file.
        """
        if self.workspace.common_dir is None:
            return True
        asked = ("check-ignore", "-z", "-v", "--stdin")
        out = Git(self.workspace.root).run(*asked, stdin=MAP.encode() + b"\0", ok=(0, 1))
        source, _, pattern = out.decode("utf-8", "surrogateescape").split("\0")[:3] if out else ("", "", "")
        return source.endswith(".gitignore") and not pattern.startswith("!")

    # -- step by step ---------------------------------------------------------------------------------------

    def kept_up(self, enough: Callable[[], bool]) -> bool:
        """Take in what came since, until it is `enough`, and write the map where all is in; whether more is left.

        Nothing is written where git sees it, or while no change is in it. What was read and is not there any more
        lets it begin anew. Raises OSError, GitError, LedgerError, sqlite3.Error; LockTimeout where another process is
        at it now.
        """
        if not self.path.parent.is_dir() or not self.stays_out_of_git:
            return False
        with self.alone(0):
            try:
                with MapState(self.state_path, self.form) as state:
                    return self.step(state, enough)
            except sqlite3.DatabaseError as error:
                if is_damage(error):
                    discard(self.state_path)
                raise

    def step(self, state: MapState, enough: Callable[[], bool]) -> bool:
        """`kept_up`, alone and with the state open."""
        if self.behind(state, enough):
            return True
        if state.says_something or self.path.exists():
            self.written(state)
        return False

    def behind(self, state: MapState, enough: Callable[[], bool]) -> bool:
        """Take in what came since, or all where that is not what it was; whether more is left."""
        archives = self.sources.archives()
        if not self.stands(state, archives):
            state.clear()
        if state.archives != archives:
            state.archives = archives
        return self.taken(state, enough)

    def stands(self, state: MapState, archives: Archives) -> bool:
        """Whether everything that was read is there still, and nothing was missing then that is at hand now."""
        marks = state.log_marks
        if not all(map(self.sources.holds, marks.values())):
            return False
        if marks and self.sources.pruned_since(state.archives, archives):
            return False
        for name, read in state.file_marks.items():
            if not self.sources.still(name, read):
                if read.told:
                    return False
                state.forget_file(name)
        return not self.store.load_many(filter(OID.fullmatch, state.lacking))

    def taken(self, state: MapState, enough: Callable[[], bool]) -> bool:
        """Take in what comes after the marks, in lots; whether it was enough before all was in."""
        read_logs = state.log_marks
        for log in self.sources.logs:
            for documents, mark in self.sources.of_log(log, read_logs.get(log)):
                if enough():
                    return True
                state.take(told(documents, self.store), None, mark)
        marks = state.file_marks
        for name in self.sources.files:
            read = marks.get(name, FileMark())
            for documents, mark in self.sources.of_file(name, read):
                if enough():
                    return True
                found = list(told(documents, self.store))
                read = FileMark(mark.offset, mark.tail, read.told + len(found))
                state.take(found, name, read)
        return False

    def written(self, state: MapState) -> None:
        """Write the map, unless its file holds it: as it was left, or byte for byte."""
        if state.value(WRITTEN) == self.seen():
            return
        text = state.text().encode()
        if not self.holds(text):
            write_below(self.workspace.root, self.path, text)
        state.put(WRITTEN, self.seen())

    def holds(self, text: bytes) -> bool:
        """Whether the file is exactly that."""
        return self.path.is_file() and not self.path.is_symlink() and self.path.read_bytes() == text

    def seen(self) -> str:
        """What changes whenever the file does; `-` where there is none."""
        try:
            found = self.path.lstat()
        except OSError:
            return "-"
        return f"{found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}"

    # -- by hand --------------------------------------------------------------------------------------------

    def current(self) -> bytes:
        """Return the map as the ledger says it, from what was kept and what came since.

        It is made anew where no state can be kept, as on a read-only mount. Raises as `bring_up`.
        """
        try:
            return self.bring_up()
        except OSError as error:
            if error.errno not in NOT_WRITABLE:
                raise
            return self.anew()

    def bring_up(self) -> bytes:
        """Take in what came since, keep it, and return the map. A state that cannot be read is dropped.

        Raises OSError, GitError, LedgerError, sqlite3.Error; LockTimeout.
        """
        with self.alone(lock.LOCK_TIMEOUT_S):
            try:
                with MapState(self.state_path, self.form) as state:
                    self.behind(state, lambda: False)
                    return state.text().encode()
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise
                discard(self.state_path)
                return self.anew()

    def write_current(self) -> bool:
        """Write the map from what was kept and what came since; whether the file held something else."""
        text = self.bring_up()
        same = self.holds(text)
        if not same:
            write_below(self.workspace.root, self.path, text)
        return not same

    # -- anew -----------------------------------------------------------------------------------------------

    def anew(self) -> bytes:
        """The map, made from all records and from nothing else. Raises OSError, GitError, LedgerError."""
        return rebuilt(told(self.sources.all(), self.store)).encode()

    def made_anew(self) -> bool:
        """Write the map, made anew; whether the file held something else. Raises as `anew`, and sqlite3.Error."""
        with self.alone(lock.LOCK_TIMEOUT_S):
            text = self.anew()
            same = self.holds(text)
            if not same:
                write_below(self.workspace.root, self.path, text)
            if self.state_path.exists() and not self.agrees(text):
                discard(self.state_path)
            return not same

    def agrees(self, text: bytes) -> bool:
        """Whether what was kept comes to the same: it goes on from there, and is dropped where not."""
        with MapState(self.state_path, self.form) as state:
            self.behind(state, lambda: False)
            same = state.text().encode() == text
            if same:
                state.put(WRITTEN, self.seen())
            return same

    @contextmanager
    def alone(self, wait_s: float) -> Generator[None]:
        """One writer of the map at a time. Raises OSError, LockTimeout."""
        self.state_path.parent.mkdir(parents=True, exist_ok=True)
        held = lock.take(self.state_path.with_suffix(".lock"), timeout_s=wait_s)
        try:
            yield
        finally:
            lock.release(held)
