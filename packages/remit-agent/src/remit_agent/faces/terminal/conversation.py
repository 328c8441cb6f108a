"""A run on the agent's terminal: its events become printed blocks, live lines and cards; typed lines become words, or
commands after a slash: of the run, and of the repository.
"""

import asyncio
import os
from collections.abc import Coroutine
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from shutil import get_terminal_size
from typing import Any

from msgspec.structs import replace

from remit.core.untrusted_input import sanitise_line
from remit.gate.containment.rewrite_call import describe_floor
from remit.gate.context import RECORDING_ERRORS
from remit.gate.intents.lessons import format_block_name, read_todo_lists
from remit.gate.intents.person_edits import PERSON
from remit.gate.intents.refusals import IntentError, IntentRefused
from remit.gate.people.answer import choose_typed_word
from remit.gate.people.questions import ApprovalReply, Question
from remit.tools.catalogue import TOOLS
from remit_agent.faces.agent import open_run
from remit_agent.faces.questions import publish_questions
from remit_agent.faces.terminal.arguments import RunArguments
from remit_agent.faces.terminal.blocks import BlockRenderer, StatusFields, TextBlocks, describe_subject
from remit_agent.faces.terminal.replies import AnyQuestion, AnyReply, describe_answers, parse_reply, propose_rule_words
from remit_agent.faces.terminal.runs import describe_resume, make_environment, make_request, name_failures
from remit_agent.faces.terminal.screen import CARD_KEYS, AgentScreen
from remit_agent.models.endpoints import ModelNotOpened, NoKey
from remit_agent.models.extra import ExtraMissing
from remit_agent.models.providers import open_provider
from remit_agent.session.events import CallBegun, CallEnded, RetryWait, RunEvent, RunStatus, StreamedCall, StreamedText
from remit_agent.session.journal.file import JournalError
from remit_agent.session.journal.lines import AnswerLine, EndedLine, ModeLine, QuestionLine, RunLine, TurnLine
from remit_agent.session.run import AGENT
from remit_agent.session.session import Session
from remit_agent.tools.guides import expand_command

REASON_HINT = "why not"
IDLE_CHECK_INTERVAL_S = 0.1

COMMANDS = {
    "/help": "these lines",
    "/intent ID": "select the intent",
    "/mode [SLUG]": "switch the mode; the next one without a name (Shift-Tab)",
    "/model PROVIDER:NAME": "go on with another model",
    "/condense": "replace the conversation so far by a summary",
    "/todo": "the todo list (Ctrl-T)",
    "/cost": "tokens and cost so far",
    "/later WORDS": "tell the agent when it has finished its turn",
    "/undo": "how to go back to before the last turn",
    "/fork [N]": "copy the run, up to its line N",
    "/export": "how to export the run",
    "/resume": "how to go on with a run",
    "/quit": "leave (Ctrl-D)",
}
MODES = ("code", "architect", "ask", "debug", "orchestrator")
ADVICE = {
    "/undo": "remit restore    lists the points; `remit restore POINT` goes back to one",
    "/export": "remit run --export {run} --as md",
    "/resume": "remit run --list    shows the runs; `remit run --resume RUN` goes on with one",
}
COMMAND_ERRORS = (
    IntentError,
    IntentRefused,
    JournalError,
    ValueError,
    NoKey,
    ModelNotOpened,
    ExtraMissing,
    *RECORDING_ERRORS,
)


class SessionConversation:
    """The conversation of one session. `ended` is the newest end of the run."""

    def __init__(self, screen: AgentScreen, session: Session) -> None:
        self.screen = screen
        self.session = session
        self.root = session.run.access.gate.workspace.root
        self.renderer = BlockRenderer(self.root, get_terminal_size().columns, is_coloured=True)
        self.text = TextBlocks()
        self.status = StatusFields(None, session.run.history.mode, session.run.provider.id)
        self.question: AnyQuestion | None = None
        self.ended: EndedLine | None = None
        self.last_n = 0
        self.tasks: set[asyncio.Task[Any]] = set()

    @property
    def detail(self) -> str:
        return self.renderer.last_detail

    async def run(self) -> None:
        """Show the run until the run is closed. Raises the run's own error."""
        parts = (self.follow(), publish_questions(self.session.run), self.watch_work())
        tasks = [asyncio.create_task(part) for part in parts]
        self.tasks |= {*tasks}
        await asyncio.gather(*tasks)

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.session.close()

    async def cancel(self) -> None:
        if self.screen.card_hint == REASON_HINT and self.question is not None:
            self.show_question(self.question)
        else:
            await self.session.cancel()

    # --- what the person does ------------------------------------------------------------------------------------

    def submit(self, text: str, *, is_answer: bool = True) -> bool:
        if text.startswith("/"):
            self.start(self.run_command(text.strip()))
        elif self.question is not None and is_answer:
            words = text.strip()
            is_reason = self.screen.card_hint == REASON_HINT
            reply = ApprovalReply(False, words) if is_reason else parse_reply(self.question, words)
            if reply is None:
                return False
            self.start(self.answer(self.question, reply))
        elif text.strip():
            self.start(self.session.send(text))
        else:
            return False
        return True

    def press_card_key(self, key: str) -> None:
        if self.question is None:
            return
        if key == "n":
            self.screen.show_card(REASON_HINT)
        elif key == "e":
            self.screen.offer_words(propose_rule_words(self.question))
        elif (reply := parse_reply(self.question, key)) is not None:
            self.start(self.answer(self.question, reply))

    def complete(self, before: str) -> str:
        return complete_word(before, self.root)

    async def run_command(self, text: str) -> None:
        """Run a command typed after a slash, and print the answer."""
        name, _, rest = text.partition(" ")
        try:
            if name == "/quit":
                self.screen.leave()
            elif name == "/help":
                self.print_note(describe_commands())
            elif name == "/cost":
                self.print_note(self.status.describe())
            else:
                self.print_note(await answer_command(self.session, name, rest.strip(), self.last_n))
                await self.read_intent()
        except COMMAND_ERRORS as error:
            self.print_note("\n".join(map(sanitise_line, str(error).splitlines())))

    async def answer(self, question: AnyQuestion, reply: AnyReply) -> None:
        self.clear_question()
        if not await self.session.answer(question.id, reply):
            self.print_note("the question was answered elsewhere, or its time is over")

    def show_question(self, question: AnyQuestion) -> None:
        self.question = question
        has_keys = isinstance(question, Question) and not choose_typed_word(question)
        self.screen.show_card(describe_answers(question), CARD_KEYS if has_keys else "")

    def clear_question(self) -> None:
        self.question = None
        self.screen.show_card("")

    def start(self, work: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.finish_task)

    def finish_task(self, task: asyncio.Task[Any]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self.screen.leave(error)

    # --- events ----------------------------------------------------------------------------------------------

    def print_note(self, text: str) -> None:
        self.screen.print_block(self.renderer.style(text, dim=True) if text else "")

    async def follow(self) -> None:
        async for event in self.session.events():
            self.last_n = max(self.last_n, event.n)
            self.renderer.width = get_terminal_size().columns
            if event.child or not self.take_streamed(event):
                self.take(event)
            self.screen.live_text = self.text.pending
            self.show_status()

    def take_streamed(self, event: RunEvent) -> bool:
        match event.data:
            case StreamedText(text=text) if event.event == "text":
                if whole := self.text.add(text):
                    self.screen.print_block(self.renderer.render_text(whole))
            case StreamedText():
                self.set_running("thinks")
            case StreamedCall(tool=tool):
                self.set_running(f"writes a call of {tool}" if tool else self.status.running)
            case None if event.event == "retracted":
                if self.text.printed:
                    self.print_note("the answer broke off; the model is asked again")
                self.text.finish("")
            case TurnLine(turn=turn):
                rest = self.text.finish(turn.text)
                self.renderer.render(event)  # remembers what its calls are about
                self.screen.print_block(self.renderer.render_text(rest) if rest else "")
            case _:
                return False
        return True

    def take(self, event: RunEvent) -> None:
        match event.data:
            case RunStatus() as known if not event.child:
                self.status = replace(
                    self.status,
                    mode=known.mode,
                    model=known.model,
                    tokens=known.tokens,
                    window=known.window,
                    cost=known.cost,
                )
            case ModeLine() | RunLine() if not event.child:
                self.status = replace(self.status, mode=event.data.mode)
            case CallBegun(tool=tool, arguments=arguments):
                self.set_running(f"{tool} {describe_subject(arguments)}")
            case RetryWait(seconds=seconds):
                self.set_running(f"waits {seconds:.0f} s")
            case Question() | QuestionLine():
                self.show_question(event.data)
            case AnswerLine(id=answered) if self.question is not None and answered == self.question.id:
                self.clear_question()
            case CallEnded() | EndedLine():
                self.set_running("")
                if isinstance(event.data, CallEnded) and not event.child and event.data.tool in TOOLS:
                    self.start(self.read_intent())
            case _:
                pass
        if isinstance(event.data, EndedLine) and not event.child:
            self.ended = event.data
        self.screen.print_block(self.renderer.render(event))

    def set_running(self, text: str) -> None:
        self.status = replace(self.status, running=text)

    def show_status(self) -> None:
        self.screen.status = self.status.describe()
        self.screen.app.invalidate()

    async def watch_work(self) -> None:
        while True:
            await self.session.wait_until_idle()
            self.screen.is_working = False
            self.set_running("")
            await self.read_intent()
            while self.session.is_idle.is_set():
                await asyncio.sleep(IDLE_CHECK_INTERVAL_S)
            self.screen.is_working = True

    async def read_intent(self) -> None:
        key = self.session.run.session
        with suppress(*RECORDING_ERRORS):
            found = await self.session.run.access.run(lambda gate: gate.state.active_session(key).intent_id)
            self.status = replace(self.status, intent=found)
        self.show_status()


async def converse_on_screen(screen: AgentScreen, arguments: RunArguments) -> None:
    """Open the run, send the lines typed meanwhile, and show the run until the person leaves."""
    request = await asyncio.to_thread(make_request, arguments)
    with name_failures():
        session = await open_run(request, os.environ, make_environment(arguments))
    screen.farewell = describe_resume(session)
    conversation = SessionConversation(screen, session)
    conversation.print_note(describe_floor(session.run.access.gate))
    screen.conversation = conversation
    for text in screen.typed_ahead:
        conversation.submit(text, is_answer=False)
    await conversation.run()


def describe_commands() -> str:
    width = max(map(len, COMMANDS))
    return "\n".join(f"{command.ljust(width)}  {about}" for command, about in COMMANDS.items())


async def answer_command(session: Session, name: str, rest: str, last_n: int) -> str:
    """Return the answer of a command that concerns the run, shown up to line `last_n`. Raises COMMAND_ERRORS."""
    run = session.run
    match name:
        case "/intent":
            await run.access.run(lambda gate: gate.intents.select(run.session, AGENT, rest, said_by=PERSON))
            return f"intent: {rest}"
        case "/mode":
            await session.set_mode(rest or find_next_mode(session))
            return ""
        case "/model" if rest:
            await session.set_model(await asyncio.to_thread(open_provider, rest, os.environ))
            return ""
        case "/condense":
            return "" if await session.condense() else "there was nothing to condense, or no summary"
        case "/todo":
            lists = dict(await run.access.run(lambda gate: read_todo_lists(gate.workspace)))
            own = lists.get(format_block_name(run.session), "").splitlines()
            return "\n".join(map(sanitise_line, own)) or "nothing to do"
        case "/later" if rest:
            session.send_later(rest)
            return "kept for the end of the turn"
        case "/fork":
            copy = session.fork(int(rest) if rest.isdecimal() else max(last_n, 1))
            return f"remit run --resume {copy}"
        case _ if name in ADVICE:
            return ADVICE[name].format(run=run.folder.id)
        case _ if name in {command.partition(" ")[0] for command in COMMANDS}:
            return f"expected: {next(command for command in COMMANDS if command.startswith(name))}"
        case _ if (text := expand_command(run.access.gate.workspace.root, f"{name} {rest}")) != f"{name} {rest}":
            await session.send(text)
            return ""
        case _:
            return f"there is no {sanitise_line(name, 40)}; /help shows what there is"


def find_next_mode(session: Session) -> str:
    modes = [mode for mode in MODES if session.run.toolbox.has_mode(mode)]
    current = session.run.history.mode
    return modes[(modes.index(current) + 1) % len(modes)] if current in modes else modes[0]


def complete_word(before: str, root: Path) -> str:
    if before.startswith("/") and " " not in before:
        names = [command.partition(" ")[0] for command in COMMANDS]
        return extend_word(before, names)
    word = before.rpartition(" ")[2]
    if not word.startswith("@"):
        return ""
    folder, _, name = word[1:].rpartition("/")
    try:
        found = [
            f"{entry.name}/" if entry.is_dir() else entry.name
            for entry in os.scandir(root / folder)
            if entry.name.startswith(name) and entry.name.isprintable() and entry.name != ".git"
        ]
    except OSError:
        return ""
    return extend_word(name, found)


def extend_word(word: str, names: list[str]) -> str:
    fitting = [name for name in names if name.startswith(word)]
    columns = zip(*fitting, strict=False)
    agreed = "".join(letters[0] for letters in takewhile(lambda letters: len({*letters}) == 1, columns))
    return agreed[len(word) :]
