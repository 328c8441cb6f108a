"""`remit todo`: the open tasks of each session."""

from pathlib import Path

import click

from remit.cli.intent.select import choose_session, session_option
from remit.cli.output import command_options, emit, governed_gate
from remit.cli.person_only import PERSON, is_below_agent
from remit.gate.intents.lessons import LessonsWriter, read_todo_lists
from remit.servers.remit_commands import parse_todo_item


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
        LessonsWriter(gate.workspace, gate.state, gate.recorder).write_todo(key, PERSON, [*map(parse_todo_item, items)])
    lists = read_todo_lists(gate.workspace)
    text = "\n\n".join(f"session {name}\n{body}" for name, body in lists)
    data = [{"session_id": name, "list": body} for name, body in lists]
    emit(data, as_json, text or "no session has left a list")
