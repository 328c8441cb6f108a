"""What sessions leave for the next: `remit lesson` and `remit todo`."""

from pathlib import Path

import click

from remit.cli.completion import INTENT
from remit.cli.intent.intent import choose_session, session_option
from remit.cli.output import REFUSED, Failure, command_options, emit, governed_gate
from remit.cli.person_only import PERSON, is_below_agent
from remit.core.redaction import redact
from remit.gate.intents.lessons import LessonsWriter, find_lessons_path, read_lessons, read_todo_lists
from remit.servers.hook import parse_todo_item
from remit.workspace.agents.marked_blocks import KINDS, BrainEntry, Kind, to_plain_line


@click.command()
@click.argument("text", required=False)
@click.option("--kind", type=click.Choice(KINDS), default="lesson", show_default=True)
@click.option("--problem", default="", help="What went wrong.")
@click.option("--resolution", default="", help="What helped.")
@click.option("--pattern", default="", help="The rule behind it.")
@click.option("--path", "paths", multiple=True, metavar="GLOB", help="Files it concerns; repeatable.")
@click.option("--intent", "intent_id", metavar="ID", help="The intent it was learned under.", type=INTENT)
@command_options
def lesson(
    text: str | None,
    kind: Kind,
    problem: str,
    resolution: str,
    pattern: str,
    paths: tuple[str, ...],
    intent_id: str | None,
    repo: Path,
    as_json: bool,
) -> None:
    """Write down what the next session should know; without TEXT, list what is known.

    Run by an agent in its shell, the agent's hook has written it already; this tells whether it stands there.
    """
    gate = governed_gate(repo)
    if text is None:
        entries = read_lessons(gate.workspace)
        lines = [f"{entry.date or '-':<10}  {entry.kind:<10}  {entry.summary}" for entry in entries]
        emit(entries, as_json, lines or "nothing is written down yet")
        return
    if is_below_agent():
        written = to_plain_line(redact(text))
        found = (entry for entry in reversed(read_lessons(gate.workspace)) if entry.lesson == written)
        if (entry := next(found, None)) is None:
            raise Failure(
                "NOT_WRITTEN",
                "the lesson was not written: no hook of Remit's saw this command",
                fix="call the tool record_lesson, run `remit lesson 'TEXT'` by itself, or ask for a `remit doctor`",
                exit_code=REFUSED,
            )
    else:
        draft = BrainEntry(kind, text, "", "", intent_id, paths, problem, resolution, pattern)
        entry = LessonsWriter(gate).record_lesson(None, PERSON, draft)
    emit(entry, as_json, f"written down in {find_lessons_path(gate.workspace).name}: {entry.summary}")


@click.command()
@click.argument("items", nargs=-1, metavar="[ITEM]...")
@session_option
@command_options
def todo(items: tuple[str, ...], session: str | None, repo: Path, as_json: bool) -> None:
    """Show the todo lists of all sessions; with ITEMs, replace the list of one.

    An item that begins with `[x]` is done, with `[~]` under way. Run by an agent in its shell, the agent's hook has
    written the list already.
    """
    gate = governed_gate(repo)
    if items and not is_below_agent():
        key = choose_session(gate, session)
        LessonsWriter(gate).write_todo(key, PERSON, [*map(parse_todo_item, items)])
    lists = read_todo_lists(gate.workspace)
    text = "\n\n".join(f"session {name}\n{body}" for name, body in lists)
    data = [{"session_id": name, "list": body} for name, body in lists]
    emit(data, as_json, text or "no session has left a list")
