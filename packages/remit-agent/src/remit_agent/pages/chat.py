"""Chat: the runs of Remit's own agent, and one as a conversation that a person takes part in."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from remit.console.guard import Refused
from remit.console.pages.page import PageRequest
from remit.core.call import SessionKey
from remit.core.intent import SELECTABLE_STATUSES
from remit.core.redaction import redact
from remit.core.untrusted_input import as_object, as_text
from remit.gate.gate import Gate
from remit.gate.intents.lessons import format_block_name, read_todo_lists
from remit_agent.models.messages import TextPart, ThoughtPart, ToolCallPart
from remit_agent.session.journal.file import JournalError, list_runs, read_first_and_last_line, read_journal
from remit_agent.session.journal.history import RunHistory
from remit_agent.session.journal.lines import (
    AnswerLine,
    AnyLine,
    CommandEndedLine,
    CondensedLine,
    EndedLine,
    ModeLine,
    QuestionLine,
    ResultLine,
    ResumedLine,
    RunLine,
    TurnLine,
    UserLine,
)
from remit_agent.session.modes import find_modes

MAX_LISTED = 100
MAX_ITEMS = 200
MAX_TEXT_CHARS = 20_000
SUBJECT_KEYS = ("path", "file_path", "command", "intent_id", "question", "message")


class ChatRun(Struct, frozen=True):
    """A run in the list; times are seconds since the epoch."""

    id: str
    task: str
    model: str
    mode: str
    changed_at: float
    state: str


class Chat(Struct, frozen=True):
    """The runs of a repository, newest first, and what a new one may begin with."""

    runs: list[ChatRun]
    modes: list[str]
    mode: str
    model: str
    intents: dict[str, str]


class ChatItem(Struct, frozen=True):
    """A part of the conversation: words of `person`, `agent` or `remit`, a `thought`, or a `call` with its result."""

    kind: str
    text: str
    tool: str = ""
    subject: str = ""
    state: str = ""
    told: str = ""
    diff: str = ""


class ChatQuestion(Struct, frozen=True):
    """A question of the agent that waits for the person."""

    id: str
    text: str
    choices: list[str]


class ChatPage(Struct, frozen=True):
    """A run as a conversation. `is_open`: a process waits for words; `streamed` is the text of the turn under way."""

    id: str
    task: str
    model: str
    mode: str
    turns: int
    tokens: int
    cost: float | None
    end: str
    is_working: bool
    left_out: int
    items: list[ChatItem]
    question: ChatQuestion | None
    todo: list[str]
    is_open: bool = False
    streamed: str = ""


class BeginBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A run to begin."""

    task: str
    mode: str = ""
    intent: str = ""
    model: str = ""


class SayBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Words to the agent, or the answer to its question with this id."""

    words: str
    answer: str = ""


class StopBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The turn under way is to stop."""


def read_chat(request: PageRequest) -> Chat:
    return request.repositories.run_job(request.one_repository, list_chat)


def read_chat_run(request: PageRequest) -> ChatPage:
    run_id = request.path["run"]
    page = request.repositories.run_job(request.one_repository, read_run, run_id)
    run = request.repositories.runs.find(run_id)
    return page if run is None else replace(page, is_open=True, streamed=redact(run.streamed))


def begin_run(request: PageRequest, body: BeginBody) -> dict[str, str]:
    if not body.task.strip():
        raise Refused(400, "there is no task", "say what to do")
    given = {"--mode": body.mode, "--intent": body.intent, "--model": body.model}
    words = [f"{name}={value.strip()}" for name, value in given.items() if value.strip()]
    run = request.repositories.runs.begin(request.one_repository.root, *words, "--", body.task)
    return {"run": run.id}


def say_words(request: PageRequest, body: SayBody) -> dict[str, str]:
    words, run_id = body.words.strip(), request.path["run"]
    if not words:
        raise Refused(400, "there are no words", "say something")
    line = {"answer": body.answer, "words": words} if body.answer else {"say": words}
    request.repositories.runs.tell(request.one_repository.root, run_id, line)
    return {"run": run_id}


def stop_run(request: PageRequest, body: StopBody) -> dict[str, str]:
    run = request.repositories.runs.find(request.path["run"])
    if run is None:
        raise Refused(409, "nothing runs here", "its process ended, or it was begun in a terminal")
    run.tell({"cancel": True})
    return {"run": run.id}


# In a worker


def list_chat(gate: Gate) -> Chat:
    found: list[ChatRun] = []
    for folder in list_runs(gate.workspace)[:MAX_LISTED]:
        try:
            first, last = read_first_and_last_line(folder)
        except OSError:
            continue
        if isinstance(first, RunLine) and last is not None:
            state = last.state if isinstance(last, EndedLine) else "open"
            found.append(ChatRun(folder.id, redact(first.task), first.model, first.mode, last.at, state))
    document = gate.rules.offered
    intents = (
        {intent.id: intent.name for intent in document.intents if intent.status in SELECTABLE_STATUSES}
        if document
        else {}
    )
    settings = gate.rules.config.run
    return Chat(found, list(find_modes(gate.workspace.root)), settings.mode, settings.model or "", intents)


def read_run(gate: Gate, run_id: str) -> ChatPage:
    folder = next((folder for folder in list_runs(gate.workspace) if folder.id == run_id), None)
    try:
        lines = read_journal(folder) if folder is not None else ()
    except (OSError, JournalError) as error:
        raise Refused(503, f"the run's journal cannot be read: {error}", "see `remit run --list`") from None
    history = RunHistory(lines)
    if history.started is None:
        raise Refused(404, f"there is no run {run_id[:80]!r}", "see the page Chat")
    items = list(list_items(lines, history))
    waiting = next(iter(history.questions.values()), None)
    todo = dict(read_todo_lists(gate.workspace)).get(format_block_name(SessionKey(run_id)), "")
    return ChatPage(
        run_id,
        redact(history.started.task or history.first_words),
        history.model,
        history.mode,
        history.turn_count,
        history.known_tokens,
        history.cost,
        history.ended.state if history.ended else "",
        history.ended is None and not history.waits_for_words and waiting is None,
        max(0, len(items) - MAX_ITEMS),
        items[-MAX_ITEMS:],
        ChatQuestion(waiting.id, redact(waiting.text), list(waiting.choices)) if waiting else None,
        [line for line in todo.splitlines() if line.strip()],
    )


def list_items(lines: tuple[AnyLine, ...], history: RunHistory) -> Iterator[ChatItem]:
    results = {line.id: line for line in lines if isinstance(line, ResultLine)}
    ends = {line.id: line for line in lines if isinstance(line, CommandEndedLine)}
    questions: dict[str, QuestionLine] = {}
    for line in lines:
        match line:
            case UserLine(by="remit"):
                yield ChatItem("remit", clean(line.text))
            case UserLine():
                yield ChatItem("person", clean(line.text))
            case TurnLine():
                for part in line.turn.parts:
                    match part:
                        case TextPart() if part.text.strip():
                            yield ChatItem("agent", clean(part.text))
                        case ThoughtPart() if part.text.strip():
                            yield ChatItem("thought", clean(part.text))
                        case ToolCallPart():
                            yield describe_call(part, ends.get(part.id) or results.get(part.id), history)
                        case _:
                            pass
            case QuestionLine():
                questions[line.id] = line
                yield ChatItem("remit", clean(line.text), state="question")
            case AnswerLine(words=str(words)) if line.id in questions:
                yield ChatItem("person", clean(words))
            case ModeLine():
                yield ChatItem("remit", f"The mode is {clean(line.mode)}.")
            case CondensedLine():
                yield ChatItem("remit", "The conversation so far was condensed.")
            case ResumedLine():
                yield ChatItem("remit", "The run was taken up again.")
            case EndedLine():
                yield ChatItem("remit", clean(f"{line.state}. {line.reason}".strip()), state=line.state)
            case _:
                pass


def describe_call(part: ToolCallPart, result: ResultLine | CommandEndedLine | None, history: RunHistory) -> ChatItem:
    arguments: dict[str, Any] = part.arguments or {}
    subject = next((str(arguments[key]) for key in SUBJECT_KEYS if arguments.get(key)), "")
    performed = history.performed.get(part.id)
    diff = as_text(as_object(performed.data).get("diff")) if performed else None
    state = result.kind if result else "running"
    text, told = (result.text, result.told) if result else ("", "")
    return ChatItem("call", clean(text), part.tool, clean(subject), state, clean(told), clean(diff or ""))


def clean(text: str) -> str:
    shown = redact(text)
    return shown if len(shown) <= MAX_TEXT_CHARS else f"{shown[:MAX_TEXT_CHARS]}…"
