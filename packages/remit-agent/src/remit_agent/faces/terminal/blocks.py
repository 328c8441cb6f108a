"""Finished blocks of a run as text, printed once by the plain face and the terminal alike.

Text of models, tools, files and people is sanitised here, and never reaches the terminal's controls.
"""

from collections.abc import Iterable, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import Struct

from remit.cli.policy.approvals import card_lines
from remit.cli.screen import DIFF_COLOURS
from remit.core.untrusted_input import as_object, as_text, sanitise_line, sanitise_text
from remit.gate.people.questions import ListedQuestion, Question
from remit_agent.session.events import CallEnded, RetryWait, RunEvent
from remit_agent.session.journal.lines import (
    AnswerLine,
    CondensedLine,
    EndedLine,
    ModeLine,
    ModelLine,
    QuestionLine,
    ResumedLine,
    RunLine,
    TurnLine,
    UserLine,
)

MAX_DIFF_LINES = 40
MAX_OUTPUT_LINES = 6
MAX_CARD_LINES = 60
MAX_LINE_CHARS = 400
SUBJECT_KEYS = ("path", "file_path", "command", "regex", "query", "question", "mode_slug", "message", "server_name")
"""Arguments that say what a call is about, the first that it has."""
KIND_MARKS = {"done": ("✓", "green"), "failed": ("✗", "red"), "denied": ("⊘", "yellow")}
END_COLOURS = {"completed": "green", "answered": "green", "failed": "red", "stuck": "red"}


class BlockRenderer:
    """Renderer of events for a terminal of this width; None for a file or a pipe, and without colours."""

    def __init__(self, root: Path, width: int | None, *, is_coloured: bool) -> None:
        self.root = root
        self.width = width
        self.is_coloured = is_coloured
        self.more_hint = "" if width is None else "Ctrl-O shows all"
        self.subjects: dict[str, str] = {}  # what each call is about
        self.last_detail = ""  # the newest output or diff, whole

    def render(self, event: RunEvent) -> str:
        """Return the block of an event without a line end; "" for events that are not printed."""
        block = self.render_data(event.data)
        if not event.child or not block:
            return block
        mark = self.style("│ ", dim=True)
        return "\n".join(mark + line for line in block.split("\n"))

    def render_data(self, data: Any) -> str:
        match data:
            case RunLine():
                return self.style(f"run {data.run} · {data.mode} · {line(data.model)}", dim=True)
            case UserLine(by="remit"):
                return self.style(f"Remit: {line(data.text)}", dim=True)
            case UserLine():
                return "\n".join(self.style(f"> {text}", bold=True) for text in lines(data.text))
            case TurnLine():
                self.subjects |= {call.id: describe_subject(call.arguments or {}) for call in data.turn.calls}
                return self.render_text(data.turn.text)
            case CallEnded(tool="attempt_completion", kind="done"):
                return ""  # the end of the run says it
            case CallEnded():
                return self.render_call(data)
            case Question():
                return self.render_question(data)
            case QuestionLine():
                numbered = [f"  {number} {line(choice)}" for number, choice in enumerate(data.choices, 1)]
                return "\n".join([self.style(f"? {line(data.text)}", fg="cyan", bold=True), *numbered])
            case AnswerLine(by="person", words=str(words)):
                return self.style(f"  answered: {line(words)}", dim=True)
            case RetryWait():
                return self.style(f"waiting {data.seconds:.0f} s (try {data.attempt}): {line(data.why)}", fg="yellow")
            case ModeLine():
                return self.style(f"mode: {line(data.mode)} (by {line(data.by)})", dim=True)
            case ModelLine():
                return self.style(f"model: {line(data.model)}", dim=True)
            case CondensedLine():
                return self.style("the conversation so far was condensed", dim=True)
            case ResumedLine():
                return self.style("the run was taken up again", dim=True)
            case EndedLine():
                said = self.render_text(data.reason) if data.state == "completed" else line(data.reason)
                head = self.style(data.state, fg=END_COLOURS.get(data.state, "yellow"), bold=True)
                return f"{head} {said}".rstrip() if "\n" not in said else f"{head}\n{said}"
            case _:
                return ""

    def render_call(self, ended: CallEnded) -> str:
        mark, colour = KIND_MARKS.get(ended.kind, ("–", "yellow"))
        subject = line(self.subjects.get(ended.id, ""))
        head = f"{self.style(mark, fg=colour)} {self.style(line(ended.tool), bold=True)} {subject}".rstrip()
        diff = as_text(as_object(ended.data).get("diff"))
        self.last_detail = sanitise_text(diff or ended.text or ended.told)
        if diff:
            body = [self.style(text, fg=DIFF_COLOURS.get(text[:1])) for text in lines(diff)]
            shown = cut_lines(body, MAX_DIFF_LINES, self.more_hint)
        elif ended.kind == "done" and ended.tool != "execute_command":
            shown = []
        else:
            shown = cut_lines(list(lines(read_failure(ended.text))), MAX_OUTPUT_LINES, self.more_hint)
        told = [self.style(text, dim=True) for text in cut_lines(list(lines(ended.told)), MAX_OUTPUT_LINES, "")]
        return "\n".join([head, *(f"  {text}" for text in (*shown, *told))])

    def render_question(self, question: Question) -> str:
        card = card_lines([ListedQuestion(question, "open")])
        shown = sanitise_text("\n".join(cut_lines(card, MAX_CARD_LINES, "")))
        return shown if self.is_coloured else click.unstyle(shown)

    def render_text(self, text: str) -> str:
        """Return the model's Markdown, laid out for the terminal; as it is for a file."""
        clean = sanitise_text(text.replace("\r\n", "\n")).strip("\n")
        if self.width is None or not self.is_coloured:
            return clean
        from rich.console import Console  # slow to import, and only needed for laid out text
        from rich.markdown import Markdown

        file = StringIO()
        console = Console(file=file, width=self.width, force_terminal=True, color_system="standard", highlight=False)
        console.print(Markdown(clean, hyperlinks=False))
        return "\n".join(text.rstrip() for text in file.getvalue().rstrip("\n").split("\n"))

    def style(self, text: str, **styles: Any) -> str:
        return click.style(text, **styles) if self.is_coloured else text


class TextBlocks:
    """Streamed text, cut into whole blocks: up to an empty line outside of a fenced block."""

    def __init__(self) -> None:
        self.pending = ""
        self.printed = ""

    def add(self, text: str) -> str:
        """Take more text in, and return the blocks that became whole."""
        self.pending += text
        end, is_fenced, at = 0, False, 0
        for part in self.pending.splitlines(keepends=True):
            at += len(part)
            if part.lstrip().startswith(("```", "~~~")):
                is_fenced = not is_fenced
            elif not part.strip() and part.endswith("\n") and not is_fenced:
                end = at
        whole, self.pending = self.pending[:end], self.pending[end:]
        self.printed += whole
        return whole.strip("\n")

    def finish(self, whole: str) -> str:
        """Return the part of the turn's text left to print, and begin anew: the whole text if none was streamed."""
        rest = whole.removeprefix(self.printed)
        self.pending = self.printed = ""
        return rest.strip("\n")


class StatusFields(Struct, frozen=True):
    """Fields of the line that a face shows below a run. `cost` is None if a price is unknown."""

    intent: str | None
    mode: str
    model: str
    tokens: int = 0
    window: int | None = None
    cost: float | None = 0.0
    running: str = ""

    def describe(self) -> str:
        of_window = f"/{self.window // 1000}k" if self.window else ""
        cost = "$?" if self.cost is None else f"${self.cost:.2f}"
        parts = (self.intent or "no intent", self.mode, self.model, f"{self.tokens / 1000:.1f}k{of_window}", cost)
        return " · ".join(filter(None, (*map(line, parts), line(self.running))))


def describe_subject(arguments: Mapping[str, Any]) -> str:
    return next((str(arguments[key]) for key in SUBJECT_KEYS if arguments.get(key)), "")


def read_failure(text: str) -> str:
    if not text.startswith('{"status":"error"'):
        return text
    try:
        return as_text(as_object(msgspec.json.decode(text)).get("error")) or text
    except msgspec.DecodeError:
        return text


def cut_lines(shown: list[str], limit: int, hint: str) -> list[str]:
    if len(shown) <= limit:
        return shown
    note = f"… {len(shown) - limit} more lines"
    return [*shown[:limit], f"{note}; {hint}" if hint else note]


def lines(text: str) -> Iterable[str]:
    return (line(part) for part in text.splitlines())


def line(text: str) -> str:
    return sanitise_line(text, MAX_LINE_CHARS)
