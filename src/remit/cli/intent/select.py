"""`remit intent select` and `clear`: the intent that a session works under."""

from pathlib import Path

import click

from remit.cli.completion import complete_intents, complete_sessions
from remit.cli.output import Failure, command_options, emit, governed_gate
from remit.cli.person_only import PERSON, is_below_agent
from remit.cli.records.lookup import find_session
from remit.core.call import SessionKey
from remit.gate.gate import Gate

session_option = click.option(
    "--session", metavar="ID", help="Whose; needed where several sessions are known.", shell_complete=complete_sessions
)


@click.command("select")
@click.argument("intent_id", shell_complete=complete_intents)
@session_option
@command_options
def select(intent_id: str, session: str | None, repo: Path, as_json: bool) -> None:
    """Select the intent that a session works under.

    Run by an agent in its shell, the agent's hook has selected already; this prints what binds the agent.
    """
    gate = governed_gate(repo)
    if is_below_agent():
        selected = gate.intents.get(intent_id)  # by the agent's hook
        emit(selected, as_json, gate.intents.format_block(selected))
        return
    selection = gate.intents.select(choose_session(gate, session), PERSON, intent_id)
    emit(selection, as_json, selection.block)


@click.command("clear")
@session_option
@command_options
def clear(session: str | None, repo: Path, as_json: bool) -> None:
    """Release a session's intent."""
    gate = governed_gate(repo)
    if is_below_agent():
        emit({"released": None}, as_json, "released, if one was active")
        return
    released = gate.intents.clear(choose_session(gate, session), PERSON)
    emit({"released": released}, as_json, f"{released} is released" if released else "no intent was active")


def choose_session(gate: Gate, session: str | None) -> SessionKey:
    """Return the session named by a person, or the only known one. Raises Failure."""
    if session is not None:
        return SessionKey(find_session(gate, session))
    known = gate.state.list_recent_sessions(2)
    if len(known) != 1:
        raise Failure(
            "WHICH_SESSION",
            "no session is known here" if not known else "several sessions are known here",
            fix="name one with --session; `remit status` lists them",
        )
    return known[0]
