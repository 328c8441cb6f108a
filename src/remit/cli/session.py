"""`remit session`: what happened in a session."""

from pathlib import Path

import click
import msgspec

from remit.cli.output import Failure, emit, governed_gate, json_option, repo_option, reports_failures
from remit.gate.gate import Gate
from remit.ledger.index import Index
from remit.provenance.why.story import in_words, story
from remit.provenance.why.talk import Session
from remit.tools.conversations import conversations

RECENT = 200


@click.command()
@click.argument("session_id", metavar="[SESSION]", default="")
@click.option("--full", is_flag=True, help="Whole texts.")
@repo_option
@json_option
@reports_failures
def session(session_id: str, full: bool, repo: Path, as_json: bool) -> None:
    """Tell what happened in a session: what was asked and said, each call with its verdict, what it changed.

    SESSION is its id or the beginning of it; without one it is the newest. What an agent was told and told others is
    read from its own transcript, without secrets.
    """
    gate = governed_gate(repo)
    workspace = gate.workspace
    wanted = session_of(gate, session_id)
    with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
        index.catch_up()
        with conversations(gate, [Session(agent_of(index, wanted), wanted)]) as kept:
            steps = story(index, kept, wanted)
    if not steps:
        raise Failure("NOT_FOUND", f"no session {wanted!r}", fix="`remit log --event session_start` lists them")
    data = {
        "session_id": wanted,
        "steps": msgspec.to_builtins(steps),
        "remarks": [kept.trouble] if kept.trouble else [],
    }
    emit(data, as_json, "\n".join(filter(None, (in_words(steps, full=full), kept.trouble))))


def session_of(gate: Gate, given: str) -> str:
    """The session that is meant. Raises Failure for a beginning that several share."""
    recent = [key.session_id for key in gate.state.recent_sessions(RECENT)]
    found = [name for name in recent if name.startswith(given)]
    if given in found or (given and not found):
        return given
    if not found:
        raise Failure("NOT_FOUND", "no session is known here", fix="start an agent, or name a session of the ledger")
    if given and len(found) > 1:
        raise Failure("USAGE", f"{len(found)} sessions begin with {given!r}", fix="give more of the id")
    return found[0]


def agent_of(index: Index, session_id: str) -> str:
    """The agent of a session, by its newest record."""
    found = index.find(session_id=session_id, limit=1)
    return str(found[0].get("tool", {}).get("name") or "") if found else ""
