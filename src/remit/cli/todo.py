"""`remit todo`: what each session still has to do."""

from pathlib import Path

import click

from remit.cli.intent_sessions import session_of, session_option
from remit.cli.output import emit, governed_gate, json_option, repo_option, reports_failures
from remit.cli.people import PERSON, below_an_agent
from remit.gate.lessons import Lessons, todo_lists
from remit.servers.selecting import todo_item


@click.command()
@click.argument("items", nargs=-1, metavar="[ITEM]...")
@session_option
@repo_option
@json_option
@reports_failures
def todo(items: tuple[str, ...], session: str | None, repo: Path, as_json: bool) -> None:
    """Show the todo lists of all sessions; with ITEMs, replace the list of one.

    An item that begins with `[x]` is done, with `[~]` under way. Run by an agent in its shell, the agent's hook has
    written the list already.
    """
    gate = governed_gate(repo)
    if items and not below_an_agent():
        key = session_of(gate, session)
        Lessons(gate.workspace, gate.state, gate.recorder).write_todo(key, PERSON, [*map(todo_item, items)])
    found = todo_lists(gate.workspace)
    text = "\n\n".join(f"session {name}\n{body}" for name, body in found)
    data = [{"session_id": name, "list": body} for name, body in found]
    emit(data, as_json, text or "no session has left a list")
