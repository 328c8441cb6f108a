"""Changes while pages are open: one state for each stream, sent anew if different. A slow page never gets a
backlog. Each state has an id, which names the positions in the logs that the state has counted up to: a stream that
begins with the last id also says which sessions have records since.
"""

import asyncio
import binascii
import sqlite3
import threading
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct, json

from remit.console.render import static_version
from remit.console.repositories import GovernedRepository, Repositories
from remit.core.clock import Clock
from remit.core.machine_paths import FLEET_PATH
from remit.core.python_runtime import prepare_type
from remit.gate.context import RECORDING_ERRORS
from remit.gate.people.answer import close_orphaned_questions
from remit.ledger.log_files import DECODE_ERRORS, LedgerError, RecordLine, list_readable_places
from remit.ledger.reader import LogLine, LogPosition, measure_log_bytes
from remit.ledger.tail import MAX_LINES, LogTail
from remit.workspace.place.workspace import locate_workspace

LOOK_INTERVAL_S = 0.05
PRESENCE_INTERVAL_S = 1.5  # how often the console signs that a person can answer; a gate waits 5 s for the next sign
HEARTBEAT_S = 15.0
MAX_STREAMS = 32
COALESCE_S = 0.1  # new records are told in steps of this length; questions never wait for one
MAX_SESSIONS = 200  # sessions whose new records are counted, those with the newest ones
READ_ERRORS = (*RECORDING_ERRORS, *DECODE_ERRORS, sqlite3.Error)  # tried again in a moment; other repositories go on


class LiveState(Struct, frozen=True):
    """State followed by pages. `questions` are the open questions, `log_bytes` grows with each record, by
    repository. `records` counts the new records of the sessions that had some since the console began to look, by
    repository and session. `fleet` differs after each change in the fleet database of this user.
    """

    questions: list[str]
    log_bytes: dict[str, int]
    records: dict[str, int]
    fleet: int = 0


NO_STATE = LiveState([], {}, {})


class MissedRecords(Struct, frozen=True):
    """Records since the id that a stream began with, by repository and session. They are all of them if `is_whole`."""

    records: dict[str, int]
    is_whole: bool


class SessionView(Struct):
    """The session of a record."""

    session_id: str | None = None


SESSION_DECODER = json.Decoder(prepare_type(RecordLine[SessionView]))
StreamPositions: TypeAlias = Mapping[str, Mapping[str, LogPosition]]
POSITIONS_DECODER = json.Decoder(prepare_type(dict[str, dict[str, LogPosition]]))
MAX_ID_CHARS = 16_384


class ChangeWatcher:
    """Watcher of changes in the governed repositories while a page listens; keeps the newest state.

    A look costs one `PRAGMA data_version` and a few `stat` calls a repository; questions are read only after a change.
    Looks and signs have a thread each, so that no page, no answer and no slow look holds up the sign that a person is
    here.
    """

    def __init__(self, repositories: Repositories, run: Callable[..., Awaitable[Any]], clock: Clock) -> None:
        self.repositories = repositories
        self.run = run
        self.clock = clock
        self.state = NO_STATE
        self.state_id = ""
        self.changed = asyncio.Condition()
        self.listeners = 0
        self.answerers = 0  # listeners whose person may answer: only then agents wait for the console
        self.is_closed = False
        self.closing = threading.Event()
        self.is_sign_due = threading.Event()  # before its time: a person who may answer came, or the streams end
        self.task: asyncio.Task[None] | None = None
        self.sign_task: asyncio.Task[None] | None = None
        self.has_looked = False  # since the task began: before, the state is that of the streams before
        self.databases: dict[str, sqlite3.Connection] = {}
        self.versions: dict[str, tuple[int, int]] = {}
        self.questions: dict[str, list[str]] = {}
        self.tails: dict[str, LogTail] = {}
        self.records: OrderedDict[str, int] = OrderedDict()
        self.tailed_at = float("-inf")

    async def listen(
        self, is_allowed: Callable[[], bool], last_id: str = "", *, can_answer: bool = True
    ) -> AsyncIterator[bytes]:
        """Yield server-sent events: which records came since the state with the id `last_id`, the state as of now and
        after each change, and a comment when nothing happens.
        """
        self.listeners += 1
        self.answerers += can_answer
        if can_answer:
            self.is_sign_due.set()
        if self.task is None or self.task.done():
            self.has_looked = False
            self.task = asyncio.create_task(self.watch())
        if self.sign_task is None or self.sign_task.done():
            self.sign_task = asyncio.create_task(self.keep_signing())
        sent: LiveState | None = None
        try:
            yield b"retry: 500\n\n"
            yield b"event: hello\ndata: " + json.encode({"version": static_version()}) + b"\n\n"
            async with self.changed:  # an older state would take from the page a question that it shows
                await self.changed.wait_for(lambda: self.has_looked or self.is_closed or not is_allowed())
            if last_id:
                # The state is older than the look at the logs: what comes between is missed or new, never neither.
                sent, frame = self.state, self.encode_state()
                missed = await self.run(self.count_missed_records, last_id)
                yield b"event: missed\ndata: " + json.encode(missed) + b"\n\n" + frame
            while not self.is_closed and is_allowed():
                if self.state is not sent:
                    sent = self.state
                    yield self.encode_state()
                elif not await self.has_changed(sent, is_allowed):
                    yield b": still here\n\n"
        finally:
            self.listeners -= 1
            self.answerers -= can_answer

    def encode_state(self) -> bytes:
        place = f"id: {self.state_id}\n" if self.state_id else ""
        return place.encode() + b"event: state\ndata: " + json.encode(self.state) + b"\n\n"

    async def has_changed(self, sent: LiveState | None, is_allowed: Callable[[], bool]) -> bool:
        """Wait until the state differs from the sent state; return False if unchanged for a while."""
        try:
            async with asyncio.timeout(HEARTBEAT_S), self.changed:
                await self.changed.wait_for(lambda: self.is_closed or self.state is not sent or not is_allowed())
        except TimeoutError:
            return False
        return True

    async def look_again(self) -> None:
        """Let each stream see whether its browser is still paired."""
        async with self.changed:
            self.changed.notify_all()

    async def close(self) -> None:
        """End all streams: a server does not stop before they end."""
        self.closing.set()
        self.is_sign_due.set()
        async with self.changed:
            self.is_closed = True
            self.changed.notify_all()

    async def watch(self) -> None:
        call = asyncio.get_running_loop().run_in_executor
        with ThreadPoolExecutor(1, "console-look") as thread:
            while self.listeners and not self.is_closed:
                state = await call(thread, self.look, self.clock.elapsed())
                if state != self.state or not self.has_looked:
                    positions = {name: tail.positions for name, tail in list(self.tails.items())}
                    async with self.changed:
                        self.state = state
                        self.state_id = encode_positions(positions)
                        self.has_looked = True
                        self.changed.notify_all()
                await call(thread, self.clock.wait, self.closing, LOOK_INTERVAL_S)

    async def keep_signing(self) -> None:
        call = asyncio.get_running_loop().run_in_executor
        with ThreadPoolExecutor(1, "console-sign") as thread:
            while self.listeners and not self.is_closed:
                self.is_sign_due.clear()
                await call(thread, self.sign)
                await call(thread, self.clock.wait, self.is_sign_due, PRESENCE_INTERVAL_S)

    def sign(self) -> None:
        """Tell the agents of each repository that a person who may answer is here, if there is one."""
        for repository in self.repositories.list_all():
            with suppress(*READ_ERRORS), self.repositories.open_gate(repository) as gate:
                if self.answerers:
                    gate.questions.mark_watcher_present()
                close_orphaned_questions(gate)

    def look(self, now: float) -> LiveState:
        """Return the state; `now` is the clock's elapsed time, by which new records are told in steps."""
        sizes: dict[str, int] = {}
        open_questions: list[str] = []
        for repository in self.repositories.list_all():
            try:
                version = self.read_version(repository)
                sizes[repository.name] = version[1]
                if self.versions.get(repository.name) != version:
                    with self.repositories.open_gate(repository) as gate:
                        listed = gate.questions.list_open_questions()
                    self.questions[repository.name] = [question.id for question in listed]
                    self.versions[repository.name] = version
                open_questions += self.questions.get(repository.name, [])
            except READ_ERRORS:
                continue
        if now - self.tailed_at >= COALESCE_S:
            self.tailed_at = now
            self.count_new_records()
        return LiveState(sorted(open_questions), sizes, dict(self.records), self.read_fleet_version())

    def count_new_records(self) -> None:
        """Count the records that came since the last count by session."""
        for name, tail in list(self.tails.items()):
            with suppress(OSError, LedgerError):
                for session, count in count_by_session(tail.read_new_lines()).items():
                    key = f"{name}/{session}"
                    self.records[key] = self.records.get(key, 0) + count
                    self.records.move_to_end(key)
        while len(self.records) > MAX_SESSIONS:
            self.records.popitem(last=False)

    def count_missed_records(self, last_id: str) -> MissedRecords:
        """Count the records of each session since the state with this id, at most MAX_LINES of a repository."""
        positions = decode_positions(last_id)
        found: dict[str, int] = {}
        is_whole = True
        for repository in self.repositories.list_all():
            workspace = locate_workspace(Path(repository.root))
            known = positions.get(repository.name)
            if workspace is None or known is None:
                is_whole = False
                continue
            # What comes after this look is counted by the tail of all streams, which therefore begins before it.
            self.tails.setdefault(repository.name, LogTail(workspace.log_folder))
            try:
                lines = LogTail(workspace.log_folder, known).read_new_lines()
            except (OSError, LedgerError, ValueError, OverflowError):  # the id may be anything
                is_whole = False
                continue
            is_whole = is_whole and len(lines) < MAX_LINES
            found |= {f"{repository.name}/{session}": count for session, count in count_by_session(lines).items()}
        return MissedRecords(found, is_whole)

    def read_version(self, repository: GovernedRepository) -> tuple[int, int]:
        """Return numbers that change with the state database and with the log."""
        workspace = locate_workspace(Path(repository.root))
        if workspace is None:
            return 0, 0
        if repository.name not in self.databases:
            with self.repositories.open_gate(repository) as gate:
                gate.questions.list_open_questions()  # makes the state, where there is none yet
        version = self.read_data_version(repository.name, workspace.state / "state.db")
        if repository.name not in self.tails:
            self.tails.setdefault(repository.name, LogTail(workspace.log_folder))
        folders = (workspace.log_folder / place for place in list_readable_places(workspace.log_folder))
        return version, sum(measure_log_bytes(folder) for folder in folders)

    def read_fleet_version(self) -> int:
        """Return a number that changes with the fleet database of this user; 0 where there is none."""
        path = self.repositories.environment().home / FLEET_PATH
        try:
            return self.read_data_version("", path) if path.exists() else 0
        except (OSError, sqlite3.Error):
            return 0

    def read_data_version(self, name: str, path: Path) -> int:
        database = self.databases.get(name)
        if database is None:
            database = sqlite3.connect(f"file:{path}?mode=ro", uri=True, check_same_thread=False)
            self.databases[name] = database
        return int(database.execute("PRAGMA data_version").fetchone()[0])


def count_by_session(lines: Iterable[LogLine]) -> Counter[str]:
    """Return how many of the records each session has; lines that are no record count for none."""
    found = Counter[str]()
    for line in lines:
        with suppress(*DECODE_ERRORS):
            session = SESSION_DECODER.decode(line.raw).metadata.body.session_id
            if session:
                found[session] += 1
    return found


def encode_positions(positions: StreamPositions) -> str:
    return urlsafe_b64encode(json.encode(positions)).decode()


def decode_positions(state_id: str) -> StreamPositions:
    """Return the positions of a state's id; none of an id that this version does not know."""
    try:
        return POSITIONS_DECODER.decode(urlsafe_b64decode(state_id[:MAX_ID_CHARS]))
    except (ValueError, binascii.Error, *DECODE_ERRORS):
        return {}
