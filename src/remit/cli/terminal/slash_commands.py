"""Commands that a person types into the agent's terminal after a slash: of the run, and of the repository."""

import asyncio
import os
from itertools import takewhile
from pathlib import Path

from remit.core.untrusted_input import sanitise_line
from remit.gate.context import RECORDING_ERRORS
from remit.gate.intents.lessons import format_block_name, read_todo_lists
from remit.gate.intents.refusals import IntentError, IntentRefused
from remit.host.journal.file import JournalError
from remit.host.models.endpoints import ModelNotOpened, NoKey
from remit.host.models.extra import ExtraMissing
from remit.host.models.providers import open_provider
from remit.host.run import AGENT
from remit.host.session import Session
from remit.host.toolbox.guides import expand_command

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


def describe_commands() -> str:
    width = max(map(len, COMMANDS))
    return "\n".join(f"{command.ljust(width)}  {about}" for command, about in COMMANDS.items())


async def answer_command(session: Session, name: str, rest: str, last_n: int) -> str:
    """Return the answer of a command that concerns the run, shown up to line `last_n`. Raises COMMAND_ERRORS."""
    run = session.run
    match name:
        case "/intent":
            await run.access.run(lambda gate: gate.intents.select(run.session, AGENT, rest))
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
    """Return what completes the last word of `before`: a command at the beginning, or a file below `root` after `@`.
    Several that fit are completed as far as they agree.
    """
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
    """Return the common continuation of the names beginning with `word`."""
    fitting = [name for name in names if name.startswith(word)]
    columns = zip(*fitting, strict=False)
    agreed = "".join(letters[0] for letters in takewhile(lambda letters: len({*letters}) == 1, columns))
    return agreed[len(word) :]
