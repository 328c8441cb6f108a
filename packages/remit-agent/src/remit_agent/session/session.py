"""The session API of Remit's own agent for servers and faces. A face shows events and sends words; a face has no
rules of its own.

    async with await Session.open(folder, options, provider=…, toolbox=…, environment=…) as session:
        await session.send("text")
        async for event in session.events():
            ...
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Self, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.core.call import SessionEnded, SessionKey
from remit.gate.context import RECORDING_ERRORS
from remit.gate.governing.settings import govern_workspace
from remit.gate.intents.person_edits import PERSON
from remit.gate.machine import Environment
from remit.gate.people.questions import ApprovalReply
from remit.workspace.place.workspace import Workspace
from remit_agent.models.messages import ImageRef, InputSource
from remit_agent.models.port import Provider
from remit_agent.session.events import RunEvent, describe_line
from remit_agent.session.journal import file
from remit_agent.session.journal.history import RunHistory
from remit_agent.session.journal.lines import EndedLine, ForkPoint, ModeLine, ModelLine, RunLimits, RunLine, UserLine
from remit_agent.session.loop import condense, take_turns
from remit_agent.session.run import AGENT, PersonReply, Run, Toolbox
from remit_agent.session.talk import RunTalk
from remit_agent.tools.gate_access import GateAccess

ToolboxMaker: TypeAlias = Callable[[GateAccess], Toolbox]


class SessionOptions(Struct, frozen=True):
    """How a run is opened. `until_completion`: the run goes on until the task is completed, instead of waiting for
    words after an answer.
    """

    task: str = ""
    mode: str = "code"
    intent: str | None = None
    limits: RunLimits = RunLimits()
    until_completion: bool = False
    has_person: bool = True
    has_vision: bool = True
    version: str = ""


class RunSummary(Struct, frozen=True):
    """A run in a list. `changed_at` is the time of its last line, in seconds since the epoch."""

    id: str
    task: str
    model: str
    mode: str
    begun_at: float
    changed_at: float
    state: str


class Session:
    """An open run with its driver: words go in, events come out."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.later: list[str] = []  # words for the end of the turn
        self.has_work = asyncio.Event()
        self.is_idle = asyncio.Event()
        self.is_idle.set()
        self.driver = asyncio.ensure_future(self.drive())
        self.driver.add_done_callback(lambda _: self.end_events())
        self.queues: list[asyncio.Queue[RunEvent | None]] = []
        self.closers: list[Callable[[], None]] = []  # called in a thread when the session is closed
        run.make_talk = lambda call: RunTalk(run, call)
        run.listeners.append(self.queue_event)

    @classmethod
    async def open(
        cls,
        path: Path,
        options: SessionOptions,
        *,
        provider: Provider,
        make_toolbox: ToolboxMaker,
        environment: Environment,
        clock: Callable[[], float] = time.time,
    ) -> Self:
        """Begin a run; a workspace that is not governed is governed from now on, in observe. Raises LookupError without
        a workspace, IntentRefused, OSError, JournalError.
        """
        access = GateAccess(path, environment)
        workspace = access.gate.workspace
        if not access.gate.is_governed:
            await access.run(lambda gate: govern_workspace(gate.workspace))
        await access.run(
            lambda gate: file.remove_old_runs(workspace, gate.rules.config.transcripts.retain_days, clock())
        )
        run_id = file.make_run_id(clock())
        await select_intent(access, run_id, options.intent)  # before there is a run that a refusal would leave open
        journal = file.Journal(file.RunDirectory.create(file.runs_folder(workspace), run_id), clock)
        run = make_run(access, journal, path, options, provider, make_toolbox(access), clock)
        line = RunLine(
            run=run_id,
            task=options.task,
            cwd=str(path),
            model=provider.id,
            mode=options.mode,
            intent=options.intent,
            limits=options.limits,
            remit=options.version,
        )
        run.append(line)
        session = cls(run)
        if options.task:
            await session.send(options.task)
        return session

    @classmethod
    async def resume(
        cls,
        path: Path,
        run_id: str,
        options: SessionOptions,
        *,
        provider: Provider,
        make_toolbox: ToolboxMaker,
        environment: Environment,
        clock: Callable[[], float] = time.time,
    ) -> Self:
        """Resume a run at the point of its interruption. Raises JournalError if a second process holds
        the run or the run does not exist, LookupError without a workspace, OSError.
        """
        access = GateAccess(path, environment)
        folder = find_run(access.gate.workspace, run_id)
        journal = file.Journal(folder, clock)
        run = make_run(access, journal, path, options, provider, make_toolbox(access), clock)
        run.mark_resumed()
        session = cls(run)
        started = run.history.started
        if started is not None and started.task and not run.history.first_words:
            # Killed while it was opened.
            await select_intent(access, folder.id, started.intent)
            await session.send(started.task)
        elif run.history.ended is None and not (run.history.waits_for_words and not options.until_completion):
            session.start_work()
        return session

    @staticmethod
    def list(workspace: Workspace) -> "list[RunSummary]":
        """Return the runs of a workspace, newest first."""
        found: list[RunSummary] = []
        for folder in file.list_runs(workspace):
            with suppress(OSError):
                first, last = file.read_first_and_last_line(folder)
                if isinstance(first, RunLine) and last is not None:
                    state = last.state if isinstance(last, EndedLine) else "open"
                    found.append(RunSummary(folder.id, first.task, first.model, first.mode, first.at, last.at, state))
        return found

    # What a face does

    async def send(self, text: str, images: tuple[ImageRef, ...] = (), *, by: InputSource = "person") -> None:
        """Give the run words; while the model works they are delivered with its next request."""
        self.run.append(UserLine(text=text, images=images, by=by))
        self.start_work()

    def send_later(self, text: str) -> None:
        """Keep words for the end of the turn."""
        self.later.append(text)
        if self.is_idle.is_set():
            self.start_work()

    async def events(self, after: int = 0) -> AsyncIterator[RunEvent]:
        """Yield the durable events after line `after`, followed by new events as they happen, until the session is
        closed or broken: `wait_until_idle` raises the error.
        """
        queue: asyncio.Queue[RunEvent | None] = asyncio.Queue()
        self.queues.append(queue)
        try:
            lines = file.read_journal(self.run.folder)
            history, last = RunHistory(), 0
            for line in lines:
                history.add(line)
                last = line.n
                event = describe_line(line, history)
                if event is not None and line.n > after:
                    yield event
            while (event := await queue.get()) is not None:
                if event.child or not event.n or event.n > last:
                    yield event
        finally:
            self.queues.remove(queue)

    async def answer(self, question_id: str, reply: PersonReply | ApprovalReply) -> bool:
        """Answer a question of the run, or of the gate about a call; False if it does not wait any more."""
        if isinstance(reply, PersonReply):
            return self.run.answer(question_id, reply)
        given = reply
        answered = await self.run.access.run(lambda gate: gate.questions.answer_question(question_id, given))
        return answered is not None

    async def cancel(self) -> None:
        """Stop the turn under way; the run stays open for further words."""
        self.run.cancel_turn()

    async def condense(self) -> bool:
        """Condense the conversation, between turns only; return whether there was a summary to take."""
        if not self.is_idle.is_set():
            return False
        self.run.cancel.clear()
        before = len(self.run.history.items)
        await condense(self.run)
        return len(self.run.history.items) != before

    async def set_mode(self, slug: str) -> None:
        """Switch the mode; takes effect with the next request. Raises ValueError for an unknown mode."""
        if not self.run.toolbox.has_mode(slug):
            raise ValueError(f"there is no mode {slug!r}")
        self.run.append(ModeLine(mode=slug, by="person"))

    async def set_model(self, provider: Provider) -> None:
        """Switch the model; takes effect with the next request."""
        self.run.provider, self.run.window = provider, None
        self.run.append(ModelLine(model=provider.id, by="person"))

    def fork(self, n: int) -> str:
        """Copy the run's lines up to `n` into a new run, and return the new id; the copy is resumed like any run."""
        return fork_run(self.run.access.gate.workspace, self.run.folder.id, n, self.run.clock)

    async def wait_until_idle(self) -> None:
        """Wait until the run ended or waits for words. Raises what broke the driver."""
        idle = asyncio.ensure_future(self.is_idle.wait())
        await asyncio.wait([idle, self.driver], return_when=asyncio.FIRST_COMPLETED)
        if self.driver.done():
            idle.cancel()
            await self.driver

    async def wait_for_person(self, has_question: asyncio.Event) -> None:
        """Wait until it is the person's turn: the run is idle, or has a question. Raises what broke the run."""
        idle = asyncio.create_task(self.wait_until_idle())
        asked = asyncio.create_task(has_question.wait())
        done, _ = await asyncio.wait([idle, asked], return_when=asyncio.FIRST_COMPLETED)
        idle.cancel()
        asked.cancel()
        if idle in done:
            await idle

    async def close(self) -> None:
        """End the session. A turn under way is cancelled; the run can be resumed."""
        run = self.run
        run.cancel_turn()
        with suppress(Exception):
            await self.wait_until_idle()
        self.driver.cancel()
        await asyncio.wait([self.driver])
        await run.stop_background()
        event = SessionEnded(run.session, str(run.cwd), "closed")
        with suppress(*RECORDING_ERRORS):
            await run.access.run(lambda gate: gate.end_session(event, AGENT))
        self.end_events()
        for close in self.closers:
            await run.access.run_in_thread(close)
        run.journal.close()
        run.access.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # The driver

    def start_work(self) -> None:
        if self.is_idle.is_set():
            self.run.cancel.clear()
        self.is_idle.clear()
        self.has_work.set()

    def end_events(self) -> None:
        for queue in self.queues:
            queue.put_nowait(None)

    def queue_event(self, event: RunEvent) -> None:
        for queue in self.queues:
            queue.put_nowait(event)

    async def drive(self) -> None:
        """Take turns whenever there is an input to answer."""
        run = self.run
        while True:
            await self.has_work.wait()
            self.has_work.clear()
            if await take_turns(run) is not None or run.cancel.is_set():
                await run.stop_background()
            with suppress(*RECORDING_ERRORS):
                await run.access.run(lambda gate: gate.end_turn(run.session))
            if self.later and not run.cancel.is_set():
                await self.send(self.later.pop(0))
            if self.has_work.is_set():
                run.cancel.clear()  # these words came after it
            else:
                self.is_idle.set()


def make_run(
    access: GateAccess,
    journal: file.Journal,
    path: Path,
    options: SessionOptions,
    provider: Provider,
    toolbox: Toolbox,
    clock: Callable[[], float],
) -> Run:
    return Run(
        journal,
        access,
        provider,
        toolbox,
        session=SessionKey(journal.folder.id),
        cwd=path,
        until_completion=options.until_completion,
        has_person=options.has_person,
        has_vision=options.has_vision,
        clock=clock,
    )


def fork_run(workspace: Workspace, run_id: str, n: int | None = None, clock: Callable[[], float] = time.time) -> str:
    """Copy a run's lines up to `n`, or all of them, into a new run, and return its id. The run may be open elsewhere.
    Raises JournalError, also for a line that the run has not; OSError.
    """
    origin = find_run(workspace, run_id)
    lines = file.read_journal(origin)
    if n is not None and lines and not 1 <= n <= lines[-1].n:
        raise file.JournalError(f"run {origin.id} has no line {n}: it has the lines 1 to {lines[-1].n}")
    first, *rest = (line for line in lines if n is None or line.n <= n)
    if not isinstance(first, RunLine):
        raise file.JournalError(f"run {origin.id} has no first line")
    fork_id = file.make_run_id(clock())
    folder = file.RunDirectory.create(origin.path.parent, fork_id)
    for blob in (origin.path / "blobs").iterdir():
        (folder.path / "blobs" / blob.name).hardlink_to(blob)
    journal = file.Journal(folder, clock)
    try:
        journal.append(replace(first, run=fork_id, fork=ForkPoint(origin.id, rest[-1].n if rest else first.n)))
        for line in rest:
            journal.append(line)
        journal.sync()
    finally:
        journal.close()
    return fork_id


async def select_intent(access: GateAccess, run_id: str, intent: str | None) -> None:
    if intent is not None:
        await access.run(lambda gate: gate.intents.select(SessionKey(run_id), AGENT, intent, said_by=PERSON))


def find_run(workspace: Workspace, run_id: str) -> file.RunDirectory:
    """Return the run with this id, or the newest for "". Raises JournalError."""
    runs = file.list_runs(workspace)
    found = next((folder for folder in runs if run_id in ("", folder.id)), None)
    if found is None:
        raise file.JournalError(f"there is no run {run_id!r} in {str(workspace.root)!r}; `remit run --list` shows all")
    return found
