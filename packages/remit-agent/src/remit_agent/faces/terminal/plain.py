"""Faces of lines: finished blocks on standard output, or one JSON event a line. Words and answers are input lines."""

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec
from msgspec import Struct

from remit.cli.output import say, warn
from remit.core.python_runtime import prepare_type
from remit.core.untrusted_input import escape_json
from remit.gate.people.questions import ApprovalReply, Question
from remit_agent.faces.questions import can_flag_answer, publish_questions
from remit_agent.faces.terminal.blocks import BlockRenderer
from remit_agent.faces.terminal.replies import AnyQuestion, describe_answers, parse_reply
from remit_agent.session.events import RunEvent
from remit_agent.session.journal.lines import AnswerLine, EndedLine, QuestionLine
from remit_agent.session.run import PersonReply
from remit_agent.session.session import Session

STREAMED_EVENTS = ("text", "thought", "call", "retracted")
PROMPT = "> "
EVENT_GRACE_S = 2.0


class InputLine(Struct, frozen=True, forbid_unknown_fields=True):
    """A line of `--input json`: words to the agent, an answer to the question with this id, or a cancel of the turn."""

    say: str = ""
    answer: str | None = None
    words: str | None = None
    cancel: bool = False


class LineFace:
    """A face that prints whole lines. `ended` is the newest end of the run, None while it is open."""

    def __init__(self, session: Session, show: Callable[[RunEvent], None], *, answers_by_flag: bool = False) -> None:
        self.session = session
        self.show = show
        self.answers_by_flag = answers_by_flag
        self.ended: EndedLine | None = None
        self.question: AnyQuestion | None = None
        self.has_ended = asyncio.Event()
        self.has_question = asyncio.Event()

    async def follow(self, after: int) -> None:
        """Show the events after line `after`; ends with the session."""
        async for event in self.session.events(after):
            self.show(event)
            match event.data:
                case EndedLine() if not event.child:
                    self.ended = event.data
                    self.has_ended.set()
                case Question() if self.answers_by_flag:
                    allow = can_flag_answer(event.data)
                    reply = ApprovalReply(
                        allow, "" if allow else "nobody is there to ask", "flag" if allow else "nobody"
                    )
                    await self.session.answer(event.data.id, reply)
                case Question() | QuestionLine():
                    self.question = event.data
                    self.has_question.set()
                case AnswerLine() if self.question is not None and event.data.id == self.question.id:
                    self.question = None
                    self.has_question.clear()
                case _:
                    pass

    async def run_to_end(self, after: int) -> EndedLine | None:
        """Show the run to the end; return None for a run stopped without an end. Raises the run's own error,
        and OutputClosed.
        """
        shown, idle = asyncio.create_task(self.follow(after)), asyncio.create_task(self.session.wait_until_idle())
        tasks = [shown, idle]
        if self.answers_by_flag:
            tasks.append(asyncio.create_task(publish_questions(self.session.run)))
        try:
            await asyncio.wait([shown, idle], return_when=asyncio.FIRST_COMPLETED)
            if not shown.done() and idle.exception() is None:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.has_ended.wait(), EVENT_GRACE_S)
            if shown.done():
                await shown
            await idle
        finally:
            await end_tasks(tasks)
        return self.ended

    async def converse(self, after: int) -> EndedLine | None:
        """Show the run, and take words and answers from standard input until it is closed."""
        session = self.session
        tasks = [
            asyncio.create_task(self.follow(after)),
            asyncio.create_task(publish_questions(session.run)),
        ]
        try:
            while True:
                await session.wait_for_person(self.has_question)
                text = await asyncio.to_thread(read_line, describe_answers(self.question) if self.question else "")
                if text is None:
                    return self.ended
                if self.question is not None:
                    reply = parse_reply(self.question, text)
                    if reply is not None:
                        await session.answer(self.question.id, reply)
                elif text.strip():
                    self.ended = None
                    await session.send(text)
        finally:
            await end_tasks(tasks)

    async def converse_in_json(self, after: int) -> EndedLine | None:
        """Show the run, and take words, answers and cancels as JSON lines from standard input. At the end of the input
        the turn under way goes on to its end. The gate's questions are answered elsewhere.
        """
        session = self.session
        shown = asyncio.create_task(self.follow(after))
        broken = asyncio.ensure_future(asyncio.wait([session.driver]))
        try:
            while True:
                read = asyncio.create_task(asyncio.to_thread(sys.stdin.buffer.readline))
                await asyncio.wait([read, shown, broken], return_when=asyncio.FIRST_COMPLETED)
                if not read.done():
                    break
                if not (line := await read):
                    break
                await self.take_input(line)
            await session.wait_for_person(self.has_question)  # a question that nobody can answer ends it, too
            if shown.done():
                await shown
        finally:
            await end_tasks([shown])
        return self.ended

    async def take_input(self, line: bytes) -> None:
        try:
            given = msgspec.json.decode(line, type=prepare_type(InputLine))
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            warn(f"a line of input was left out: {error}")
            return
        if given.cancel:
            await self.session.cancel()
        if given.answer is not None and not await self.session.answer(given.answer, PersonReply(given.words)):
            warn(f"no question {given.answer!r} waits for an answer")
        if given.say:
            self.ended = None
            await self.session.send(given.say)


async def end_tasks(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def read_line(hint: str) -> str | None:
    """Return the next line of input; None at its end."""
    say(f"[{hint}] {PROMPT}" if hint else PROMPT, nl=False, err=True)
    text = sys.stdin.readline()
    return text.rstrip("\n") if text else None


class OutputClosed(Exception):
    """Standard output takes no more lines: its reader left, or its disk is full."""


def print_line(text: str) -> None:
    """Print a line. Raises OutputClosed, and drops what is not written yet."""
    try:
        say(text)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise OutputClosed("" if isinstance(error, BrokenPipeError) else str(error)) from error


def print_block(renderer: BlockRenderer, event: RunEvent) -> None:
    if block := renderer.render(event):
        print_line(block)


def print_json(event: RunEvent, *, with_streams: bool = False) -> None:
    """Print an event as one line of JSON. Streamed parts of a turn are left out, or not: the whole turn follows."""
    if with_streams or event.event not in STREAMED_EVENTS:
        print_line(encode_event(event))


def encode_event(event: RunEvent) -> str:
    return escape_json(msgspec.json.encode(event).decode())
