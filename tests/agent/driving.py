"""Runs of Remit's own agent in tests: a scripted model, tools of a few lines, and a governed repository."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from coroutines import run_coroutine
from gate.driving import machine
from remit.core.diff.edits import WholeFile
from remit.gate.perform import ToolOutput, WorkspaceAccess
from remit.rehearsal.scripted_model import ModelRequest, Say, ScriptedModel, Step
from remit_agent.models.messages import CallResult
from remit_agent.models.port import ToolSchema
from remit_agent.models.providers import InProcessModel
from remit_agent.session.journal.file import read_journal
from remit_agent.session.journal.lines import AnyLine, ResultLine
from remit_agent.session.session import Session, SessionOptions
from remit_agent.tools.gate_access import GateAccess
from remit_agent.tools.tool import HostTool, PreparedCall, ToolContext, ToolFailure

T = TypeVar("T")


class ReadFile(Struct, frozen=True, forbid_unknown_fields=True):
    """Read a file."""

    path: str


class WriteFile(Struct, frozen=True, forbid_unknown_fields=True):
    """Write a file."""

    path: str
    content: str


class EditFile(Struct, frozen=True, forbid_unknown_fields=True):
    """Replace a text that stands once in a file."""

    path: str
    old: str
    new: str


class Nothing(Struct, frozen=True, forbid_unknown_fields=True):
    """Do nothing."""


class Complete(Struct, frozen=True, forbid_unknown_fields=True):
    """End the run."""

    result: str


class NewTask(Struct, frozen=True, forbid_unknown_fields=True):
    """Give a task to a child."""

    message: str


class Ask(Struct, frozen=True, forbid_unknown_fields=True):
    """Ask the person."""

    question: str


class SwitchMode(Struct, frozen=True, forbid_unknown_fields=True):
    """Switch the mode."""

    mode_slug: str


def prepare_read(context: ToolContext, given: ReadFile) -> PreparedCall:
    call = replace(context.new_call(), effect="read", paths=(given.path,))

    def act(_: WorkspaceAccess) -> ToolOutput:
        try:
            return ToolOutput(True, Path(call.cwd, given.path).read_text())
        except FileNotFoundError:
            raise ToolFailure("FILE_NOT_FOUND", f"there is no {given.path}") from None

    return PreparedCall(call, act)


def prepare_write(context: ToolContext, given: WriteFile) -> PreparedCall:
    call = replace(context.new_call(), effect="write", paths=(given.path,), edit=WholeFile(given.content))

    def act(access: WorkspaceAccess) -> ToolOutput:
        access.write_file(given.path, given.content.encode())
        return ToolOutput(True, f"wrote {len(given.content)} characters")

    return PreparedCall(call, act)


def prepare_edit(context: ToolContext, given: EditFile) -> PreparedCall:
    base = context.new_call()
    text = Path(base.cwd, given.path).read_text()
    if text.count(given.old) != 1:
        raise ToolFailure("EDIT_NOT_FOUND", f"{given.old!r} stands {text.count(given.old)} times in {given.path}")
    fresh = text.replace(given.old, given.new)
    call = replace(base, effect="write", paths=(given.path,), edit=WholeFile(fresh))

    def act(access: WorkspaceAccess) -> ToolOutput:
        access.write_file(given.path, fresh.encode())
        return ToolOutput(True, f"edited {given.path}")

    return PreparedCall(call, act)


def harmless(tell: Callable[[ToolContext, Any], str]) -> Callable[[ToolContext, Any], PreparedCall]:
    def prepare(context: ToolContext, given: Any) -> PreparedCall:
        return PreparedCall(context.new_call(), lambda _: ToolOutput(True, tell(context, given)))

    return prepare


TOOLS = (
    HostTool("read_file", ReadFile, "read", prepare_read, is_read=True),
    HostTool("write_to_file", WriteFile, "write", prepare_write, cites_intent=True),
    HostTool("edit", EditFile, "write", prepare_edit),
    HostTool("nothing", Nothing, "mode", harmless(lambda _, __: "nothing was done")),
    HostTool("attempt_completion", Complete, "mode", harmless(lambda c, g: c.talk.finish(g.result)), ends_turn=True),
    HostTool(
        "new_task",
        NewTask,
        "mode",
        harmless(lambda c, g: c.talk.start_child("code", g.message, None, None)),
        ends_turn=True,
        alone=True,
    ),
    HostTool("ask", Ask, "mode", harmless(lambda c, g: c.talk.ask_person(g.question, ()) or "decide yourself")),
    HostTool(
        "switch_mode", SwitchMode, "mode", harmless(lambda c, g: c.talk.switch_mode(g.mode_slug, "")), ends_turn=True
    ),
)


class FewTools:
    """A toolbox of the tools above. The mode `ask` reads only."""

    def __init__(self, _: GateAccess | None = None, tools: Sequence[HostTool] = TOOLS) -> None:
        self.tools = {tool.name: tool for tool in tools}

    def find_tool(self, name: str) -> HostTool | None:
        return self.tools.get(name)

    def list_names(self) -> tuple[str, ...]:
        return tuple(self.tools)

    def is_offered(self, tool: HostTool, mode: str) -> bool:
        return mode != "ask" or tool.group != "write"

    def list_writable_paths(self, mode: str) -> tuple[str, ...] | None:
        return None

    def list_schemas(self, mode: str, model: str) -> tuple[ToolSchema, ...]:
        return tuple(tool.schema for tool in self.tools.values() if self.is_offered(tool, mode))

    def build_system(self, mode: str, model: str) -> str:
        return f"You work in the mode {mode}."

    def has_mode(self, mode: str) -> bool:
        return mode in ("code", "ask")

    def is_wider_mode(self, mode: str, than: str) -> bool:
        return mode == "code" and than == "ask"


def scripted(
    *steps: Step, window: int | None = None, children: dict[str, Sequence[Step]] | None = None
) -> InProcessModel:
    return InProcessModel(ScriptedModel(steps, children), window=window)


def step_by_results(*steps: Step) -> tuple[Step, ...]:
    """Return one function a step, each of which gives the step that the conversation has reached: a run that is taken
    up again in another process goes on at its place.
    """

    def answer(conversation: ModelRequest) -> Any:
        place = sum(message.role == "assistant" for message in conversation.messages)
        step = steps[place] if place < len(steps) else Say("The script has ended.")
        return step(conversation) if callable(step) else step

    return (answer,) * (len(steps) + 1)


async def open_session(folder: Path, home: Path, model: Any, **options: Any) -> Session:
    """Begin a run in a governed repository."""
    tools = options.pop("tools", TOOLS)
    return await Session.open(
        folder,
        SessionOptions(**options),
        provider=model,
        make_toolbox=lambda access: FewTools(access, tools),
        environment=machine(home),
    )


async def resume_session(folder: Path, home: Path, run_id: str, model: Any, **options: Any) -> Session:
    tools = options.pop("tools", TOOLS)
    return await Session.resume(
        folder,
        run_id,
        SessionOptions(**options),
        provider=model,
        make_toolbox=lambda access: FewTools(access, tools),
        environment=machine(home),
    )


def run_session(folder: Path, home: Path, model: Any, **options: Any) -> list[AnyLine]:
    """Run a task to its end in a fresh session; the lines of its journal."""

    async def work() -> list[AnyLine]:
        async with await open_session(folder, home, model, **options) as session:
            await session.wait_until_idle()
            return lines_of(session)

    return run_coroutine(work())


def drive(work: Callable[[], Awaitable[T]]) -> T:
    async def limited() -> T:
        async with asyncio.timeout(240):
            return await work()

    return run_coroutine(limited())


def lines_of(session: Session) -> list[AnyLine]:
    return [*read_journal(session.run.folder)]


def kinds(lines: Sequence[AnyLine]) -> list[str]:
    return [line.__struct_config__.tag for line in lines]  # type: ignore[misc]


def results(lines: Sequence[AnyLine]) -> dict[str, ResultLine]:
    return {line.id: line for line in lines if isinstance(line, ResultLine)}


def shown_results(model: InProcessModel) -> dict[str, CallResult]:
    """The results that the model has read."""
    items = model.requests[-1].conversation if model.requests else ()
    return {item.id: item for item in items if isinstance(item, CallResult)}
