"""A run of Remit's own agent with its parts: journal, history, gate, model, tools, listeners."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field

from remit.core.call import Citation, SessionKey, StartSource, ToolCall, hash_arguments
from remit_agent.models.messages import ToolCallPart
from remit_agent.models.port import Provider, ToolSchema
from remit_agent.session.events import EventKind, RunEvent, RunStatus, describe_line
from remit_agent.session.journal import lines
from remit_agent.session.journal.file import JOURNAL_NAME, Journal, RunDirectory, read_journal
from remit_agent.session.journal.history import RunHistory
from remit_agent.session.limits import Spending, sum_spending
from remit_agent.tools.gate_access import GateAccess
from remit_agent.tools.tool import HostTool, RunControl

AGENT = "remit"
NOBODY = "nobody"


class Toolbox(Protocol):
    """The tools of a run, and the system prompt that goes with them."""

    def find_tool(self, name: str) -> HostTool | None:
        """Return the tool, even if not offered by the mode; None for an unknown name."""
        ...

    def list_names(self) -> tuple[str, ...]: ...

    def is_offered(self, tool: HostTool, mode: str) -> bool: ...

    def list_schemas(self, mode: str, model: str) -> tuple[ToolSchema, ...]: ...

    def build_system(self, mode: str, model: str) -> str: ...

    def has_mode(self, mode: str) -> bool: ...

    def list_writable_paths(self, mode: str) -> tuple[str, ...] | None:
        """Return the patterns of the files that the mode may change, beside the intent's scope; None for no limit."""
        ...

    def is_wider_mode(self, mode: str, than: str) -> bool:
        """Return True if the mode has rights that the other mode lacks: a person is asked before the switch."""
        ...


class FileChecks(Struct):
    """Facts of the files seen by the session, by path: the hash told to the model, and the file's
    status when its content was last compared.
    """

    told: dict[str, str] = field(default_factory=dict[str, str])
    statuses: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])


class PersonReply(Struct, frozen=True):
    """A person's answer to a question of the run. `words` None: no answer."""

    words: str | None
    by: str = "person"


class Run:
    """An open run. A child shares the gate of its parent and counts in its root."""

    make_talk: Callable[[str], RunControl]  # by the id of a call; set by the session, which can start children

    def __init__(
        self,
        journal: Journal,
        access: GateAccess,
        provider: Provider,
        toolbox: Toolbox,
        *,
        session: SessionKey,
        cwd: Path,
        parent: "Run | None" = None,
        scope: tuple[str, ...] = (),
        until_completion: bool = False,
        has_person: bool = True,
        has_vision: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.journal = journal
        self.folder: RunDirectory = journal.folder
        self.history = RunHistory(journal.lines)
        self.access = access
        self.provider = provider
        self.toolbox = toolbox
        self.session = session
        self.cwd = cwd
        self.parent = parent
        self.scope = scope  # patterns that a task narrows the run to
        self.root: Run = parent.root if parent else self
        self.until_completion = until_completion
        self.has_person = has_person
        self.has_vision = has_vision
        self.clock = clock
        self.window: int | None = None  # asked for after the first turn: the provider's tables take time to load
        self.condensed_turn = -1  # the turn after which the conversation was condensed last, or tried to
        self.opened_at = clock()
        self.is_resumed = False
        """Calls without a result may have acted before a crash."""
        self.greeting: StartSource | None = "startup"
        """The next request carries the gate's protocol and block whole: at the start, on resume, after condensing."""
        self.told_day = self.told_mode = self.told_intent = self.narrowed_mode = ""
        self.file_checks = FileChecks()
        self.prompts: dict[tuple[str, str], tuple[str, tuple[ToolSchema, ...]]] = {}  # by mode and model
        self.append_lock = threading.Lock()
        self.cancel: threading.Event = parent.cancel if parent else threading.Event()
        self.request: asyncio.Task[object] | None = None
        self.listeners: list[Callable[[RunEvent], None]] = []
        self.waiting_answers: dict[str, asyncio.Future[PersonReply]] = {}
        self.early_answers: dict[str, PersonReply] = {}
        self.loop = asyncio.get_running_loop()
        self.children: dict[str, Run] = {}  # at work
        self.cancels: dict[str, threading.Event] = {}  # by the id of a call that runs
        self.background: dict[str, asyncio.Task[None]] = {}  # commands in the background, by the id of their call
        self.child_histories = read_child_histories(self.folder)
        """Histories of children, by their path of ids; in the root those of all children below."""

    @property
    def limits(self) -> lines.RunLimits:
        started = self.root.history.started
        return started.limits if started else lines.RunLimits()

    @property
    def spending(self) -> Spending:
        """Turns and cost of the whole tree of runs."""
        return sum_spending(self.root.list_histories())

    def list_histories(self) -> list[RunHistory]:
        return [self.history, *self.child_histories.values()]

    def take_child(self, child_id: str, child: "Run") -> None:
        self.children[child_id] = child
        self.root.child_histories[child_id] = child.history

    def mark_resumed(self) -> None:
        """Have the calls without a result reconciled first, and the gate's protocol told anew."""
        self.is_resumed = True
        self.greeting = "resume"

    @property
    def minutes(self) -> float:
        """Minutes since the root run was opened in this process."""
        return (self.root.clock() - self.root.opened_at) / 60

    # Journal and listeners

    def append(self, line: lines.AnyLine) -> lines.AnyLine:
        """Write a line, take it into the history, and tell the listeners. Raises OSError."""
        with self.append_lock:
            numbered = self.journal.append(line)
            self.history.add(numbered)
            event = describe_line(numbered, self.history)
            if event is not None:
                self.publish(event)
        return numbered

    def publish(self, event: RunEvent) -> None:
        """Tell the listeners in the event loop's thread, in order."""
        self.loop.call_soon_threadsafe(self.tell_listeners, event)

    def tell_listeners(self, event: RunEvent) -> None:
        for listener in list(self.listeners):
            listener(event)

    def publish_passing(self, kind: EventKind, data: object) -> None:
        self.publish(RunEvent(kind, data))

    def publish_status(self) -> None:
        tokens, cost = self.history.known_tokens, self.spending.cost
        status = RunStatus(self.history.mode, self.provider.id, self.history.turn_count, tokens, self.window, cost)
        self.publish_passing("state", status)

    def end(self, state: lines.EndState, reason: str = "") -> lines.EndedLine:
        line = self.append(
            lines.EndedLine(state=state, reason=reason, usage=self.history.usage, cost=self.spending.cost)
        )
        self.journal.sync()
        assert isinstance(line, lines.EndedLine)
        return line

    # Calls

    @property
    def narrowings(self) -> tuple[tuple[str, ...], ...]:
        """The part of the intent's scope left by the modes and tasks of the run and of its parents."""
        paths = self.toolbox.list_writable_paths(self.history.mode)
        return (*self.inherited_narrowings, *((paths,) if paths is not None else ()), *self.task_scopes)

    @property
    def task_scopes(self) -> tuple[tuple[str, ...], ...]:
        return (self.scope,) if self.scope else ()

    @property
    def inherited_narrowings(self) -> tuple[tuple[str, ...], ...]:
        parent = self.parent
        if parent is None:
            return ()
        is_wider = self.toolbox.is_wider_mode(self.history.mode, parent.history.mode)
        return (*parent.inherited_narrowings, *parent.task_scopes) if is_wider else parent.narrowings

    def make_call(self, part: ToolCallPart, citation: Citation) -> ToolCall:
        """Return the call as the gate judges it, before the tool names its effect."""
        return ToolCall(
            agent=AGENT,
            session=self.session,
            tool=part.tool,
            effect="none",
            cwd=str(self.cwd),
            call_id=part.id,
            arguments_sha256=hash_arguments(part.arguments),
            arguments=part.arguments or {},
            citation=citation,
            transcript=str(self.folder.journal_path),
        )

    def stop_calls(self, ids: Iterable[str]) -> None:
        for call_id in ids:
            self.cancels[call_id].set()

    async def stop_background(self) -> None:
        """End the commands in the background: each is judged and recorded, and its end is in the journal."""
        self.stop_calls(self.background)
        await asyncio.gather(*self.background.values())

    # The person

    async def ask_person(
        self, kind: lines.QuestionKind, text: str, call: str = "", choices: tuple[str, ...] = ()
    ) -> PersonReply:
        """Return the person's answer; without words if nobody is there, or the turn is cancelled first. An open
        question of the same call is put again.
        """
        if not self.root.has_person:
            return PersonReply(None, NOBODY)
        open_again = next((q for q in self.history.questions.values() if call and q.call == call), None)
        if open_again is not None and open_again.id not in self.waiting_answers:
            question = open_again
            self.publish(RunEvent("question", question, question.n))
        else:
            question = lines.QuestionLine(id=self.make_question_id(), kind=kind, text=text, call=call, choices=choices)
            self.append(question)
        waiting = self.waiting_answers[question.id] = self.loop.create_future()
        if question.id in self.early_answers:
            waiting.set_result(self.early_answers.pop(question.id))
        try:
            reply = await waiting
        finally:
            del self.waiting_answers[question.id]
        self.append(lines.AnswerLine(id=question.id, by=reply.by, words=reply.words))
        return reply

    def make_question_id(self) -> str:
        return "-".join(filter(None, (self.session.agent_id, f"q{self.journal.last_n + 1}")))

    def answer(self, question_id: str, reply: PersonReply) -> bool:
        """Give the answer to an open question; False if there is none with this id. Of a run taken up again, the
        answer may come before the question is put again.
        """
        waiting = self.waiting_answers.get(question_id)
        if waiting is None and question_id in self.history.questions:
            self.early_answers[question_id] = reply
            return True
        if waiting is None or waiting.done():
            return any(child.answer(question_id, reply) for child in self.children.values())
        waiting.set_result(reply)
        return True

    def cancel_turn(self) -> None:
        """Stop the turn under way: the request is closed, waiting questions stay without an answer, tools are told."""
        self.cancel.set()
        self.stop_calls(self.cancels)
        if self.request is not None:
            self.request.cancel()
        for waiting in self.waiting_answers.values():
            if not waiting.done():
                waiting.set_result(PersonReply(None, NOBODY))
        for child in self.children.values():
            child.cancel_turn()


def read_child_histories(folder: RunDirectory) -> dict[str, RunHistory]:
    paths = sorted((folder.path / "children").rglob(JOURNAL_NAME))
    return {path.parent.name: RunHistory(read_journal(RunDirectory(path.parent))) for path in paths}
