"""Changes while pages are open: one state for each stream, sent anew if different. A slow page never gets a
backlog, and a reconnected page has the whole state.
"""

import asyncio
import sqlite3
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct, json

from remit.gate.approval_answers import close_orphaned_questions
from remit.ledger.log_files import DECODE_ERRORS, LedgerError, RecordLine, list_readable_places
from remit.ledger.reader import measure_log_bytes
from remit.ledger.tail import LogTail
from remit.servers.web.render import static_version
from remit.servers.web.repositories import Repositories
from remit.workspace.place.workspace import locate_workspace

LOOK_INTERVAL_S = 0.05
PRESENCE_INTERVAL_S = 1.5  # how often the console signs that a person can answer; a gate waits 5 s for the next sign
HEARTBEAT_S = 15.0
MAX_STREAMS = 32
COALESCE_S = 0.1  # new records are told in steps of this length; questions never wait for one
MAX_SESSIONS = 200  # sessions whose new records are counted, those with the newest ones


class LiveState(Struct, frozen=True):
    """State followed by pages. `questions` are the open questions, `log_bytes` grows with each record, by
    repository. `records` counts the new records of the sessions that had some since the console began to look, by
    repository and session.
    """

    questions: list[str]
    log_bytes: dict[str, int]
    records: dict[str, int]


class SessionView(Struct):
    """The session of a record."""

    session_id: str | None = None


SESSION_DECODER = json.Decoder(RecordLine[SessionView])


class ChangeWatcher:
    """Watcher of changes in the governed repositories while a page listens; keeps the newest state.

    A look costs one `PRAGMA data_version` and a few `stat` calls a repository; questions are read only after a change.
    """

    def __init__(self, repositories: Repositories, run: Callable[..., Awaitable[Any]]) -> None:
        self.repositories = repositories
        self.run = run
        self.state = LiveState([], {}, {})
        self.changed = asyncio.Condition()
        self.listeners = 0
        self.answerers = 0  # listeners whose person may answer: only then agents wait for the console
        self.is_closed = False
        self.task: asyncio.Task[None] | None = None
        self.databases: dict[str, sqlite3.Connection] = {}
        self.versions: dict[str, tuple[int, int]] = {}
        self.read_at: dict[str, float] = {}
        self.questions: dict[str, list[str]] = {}
        self.tails: dict[str, LogTail] = {}
        self.records: OrderedDict[str, int] = OrderedDict()
        self.tailed_at = 0.0

    async def listen(self, is_allowed: Callable[[], bool], *, can_answer: bool = True) -> AsyncIterator[bytes]:
        """Yield server-sent events: the state at once and after each change, and a comment when nothing happens."""
        self.listeners += 1
        self.answerers += can_answer
        if self.task is None or self.task.done():
            self.task = asyncio.create_task(self.watch())
        sent: LiveState | None = None
        try:
            yield b"retry: 500\n\n"
            yield b"event: hello\ndata: " + json.encode({"version": static_version()}) + b"\n\n"
            while not self.is_closed and is_allowed():
                if self.state is not sent:
                    sent = self.state
                    yield b"event: state\ndata: " + json.encode(sent) + b"\n\n"
                elif not await self.has_changed(sent, is_allowed):
                    yield b": still here\n\n"
        finally:
            self.listeners -= 1
            self.answerers -= can_answer

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
        async with self.changed:
            self.is_closed = True
            self.changed.notify_all()

    async def watch(self) -> None:
        while self.listeners and not self.is_closed:
            state = await self.run(self.look)
            if state != self.state:
                async with self.changed:
                    self.state = state
                    self.changed.notify_all()
            await asyncio.sleep(LOOK_INTERVAL_S)

    def look(self) -> LiveState:
        sizes: dict[str, int] = {}
        open_questions: list[str] = []
        for repository in self.repositories.list_all():
            try:
                now = time.monotonic()
                if now - self.read_at.get(repository.name, 0.0) > PRESENCE_INTERVAL_S:
                    with self.repositories.open_gate(repository) as gate:  # makes the state, where there is none yet
                        if self.answerers:
                            gate.questions.mark_watcher_present()
                        close_orphaned_questions(gate)
                    self.read_at[repository.name] = now
                version = self.read_version(repository.name, repository.root)
                sizes[repository.name] = version[1]
                if self.versions.get(repository.name) != version:
                    with self.repositories.open_gate(repository) as gate:
                        listed = gate.questions.list_open_questions()
                    self.questions[repository.name] = [question.id for question in listed]
                    self.versions[repository.name] = version
                open_questions += self.questions.get(repository.name, [])
            except (OSError, LedgerError, sqlite3.Error):
                continue
        self.count_new_records()
        return LiveState(sorted(open_questions), sizes, dict(self.records))

    def count_new_records(self) -> None:
        """Count the records that came since the last look by session, at most each COALESCE_S."""
        if time.monotonic() - self.tailed_at < COALESCE_S:
            return
        self.tailed_at = time.monotonic()
        for name, tail in self.tails.items():
            with suppress(OSError, LedgerError):
                for line in tail.read_new_lines():
                    try:
                        session = SESSION_DECODER.decode(line.raw).metadata.body.session_id
                    except DECODE_ERRORS:
                        continue
                    if session:
                        key = f"{name}/{session}"
                        self.records[key] = self.records.get(key, 0) + 1
                        self.records.move_to_end(key)
        while len(self.records) > MAX_SESSIONS:
            self.records.popitem(last=False)

    def read_version(self, name: str, root: str) -> tuple[int, int]:
        """Return numbers that change with the state database and with the log."""
        workspace = locate_workspace(Path(root))
        if workspace is None:
            return 0, 0
        database = self.databases.get(name)
        if database is None:
            path = workspace.state / "state.db"
            database = sqlite3.connect(f"file:{path}?mode=ro", uri=True, check_same_thread=False)
            self.databases[name] = database
            self.tails[name] = LogTail(workspace.log_folder)
        (version,) = database.execute("PRAGMA data_version").fetchone()
        folders = (workspace.log_folder / place for place in list_readable_places(workspace.log_folder))
        return int(version), sum(measure_log_bytes(folder) for folder in folders)
