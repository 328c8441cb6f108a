"""`remit session`: what happened in a session."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click
import msgspec

from remit.cli.colour import DIFF_COLOURS
from remit.cli.completion import complete_sessions
from remit.cli.ids import find_session
from remit.cli.output import (
    Failure,
    emit,
    emit_view,
    governed_gate,
    json_option,
    repo_option,
    reports_failures,
    view_options,
)
from remit.cli.session_view import session_view
from remit.cli.view import GAP
from remit.core.text import shown
from remit.gate.gate import Gate
from remit.ledger.index import Index
from remit.ledger.session_changes import SessionChange, session_changes
from remit.provenance.why.causes import body_of
from remit.provenance.why.story import story
from remit.provenance.why.talk import Session
from remit.tools.conversations import conversations


@click.command()
@click.argument("session_id", metavar="[SESSION]", default="", shell_complete=complete_sessions)
@click.option("--full", is_flag=True, help="Whole texts.")
@click.option("--diff", is_flag=True, help="The change that the session made to each file, as a diff.")
@repo_option
@json_option
@view_options
@reports_failures
def session(session_id: str, full: bool, diff: bool, repo: Path, as_json: bool) -> None:
    """Tell what happened in a session: what was asked and said, each call with its verdict, what it changed.

    SESSION is its id or the beginning of it; without one it is the newest. What an agent was told and told others is
    read from its own transcript, without secrets.
    """
    gate = governed_gate(repo)
    workspace = gate.workspace
    wanted = find_session(gate, session_id) if session_id else newest_session(gate)
    if diff:
        emit_diff(gate, wanted, as_json)
        return
    with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
        index.catch_up()
        agent = agent_of(index, wanted)
        with conversations(gate, [Session(agent, wanted)]) as kept:
            steps = story(index, kept, wanted)
        started = index.find(event="session_start", session_id=wanted, limit=1)
    model = str(body_of(started[0]).get("model") or "") if started else ""
    about = GAP.join(filter(None, (wanted, agent, model)))
    if not steps:
        raise Failure("NOT_FOUND", f"no session {wanted!r}", fix="`remit log --event session_start` lists them")
    data = {
        "session_id": wanted,
        "steps": msgspec.to_builtins(steps),
        "remarks": [kept.trouble] if kept.trouble else [],
    }
    told = partial(session_view, steps, full=full, about=about)
    emit_view(data, as_json, lambda screen: [*told(screen), *filter(None, [kept.trouble])])


def emit_diff(gate: Gate, session: str, as_json: bool) -> None:
    """Print the change that the session made to each file. Others' changes in between are not in it."""
    changes = changes_of_session(gate, session)
    data = [{**msgspec.to_builtins(change), "diff": diff_of(gate, change)} for change in changes]
    lines = [line for change, found in zip(changes, data, strict=True) for line in diff_lines(change, found["diff"])]
    emit({"session_id": session, "changes": data}, as_json, "\n".join(lines) or "the session changed no file")


def changes_of_session(gate: Gate, session: str) -> tuple[SessionChange, ...]:
    """Return what the session changed, from its records. Raises Failure where none names it."""
    with Index.open(gate.workspace.state / "index.db", gate.workspace.log_folder) as index:
        index.catch_up()
        if not index.find(session_id=session, limit=1):
            raise Failure("NOT_FOUND", f"no record names a session {session!r}", fix="`remit status` lists sessions")
        return session_changes(index.each(session_id=session, event="mutation"))


def diff_of(gate: Gate, change: SessionChange) -> str | None:
    """Return the unified diff of one change, without its header; None where a content was not kept."""
    before, after = (b"" if blob is None else gate.store.load(blob) for blob in (change.before, change.after))
    return None if before is None or after is None else gate.store.diff(before, after)


def diff_lines(change: SessionChange, diff: str | None) -> Iterator[str]:
    """Yield one change as git shows it, coloured for a terminal."""
    old = "/dev/null" if change.before is None else f"a/{change.path}"
    new = "/dev/null" if change.after is None else f"b/{change.path}"
    yield click.style(f"--- {shown(old, 500)}", bold=True)
    yield click.style(f"+++ {shown(new, 500)}", bold=True)
    if diff is None:
        yield "the content was not kept"
        return
    for line in diff.splitlines():
        yield click.style(line, fg=DIFF_COLOURS.get(line[:1]))


def newest_session(gate: Gate) -> str:
    """Return the session that was heard of last. Raises Failure where there is none."""
    found = gate.state.recent_sessions(1)
    if not found:
        raise Failure("NOT_FOUND", "no session is known here", fix="start an agent, or name a session of the ledger")
    return found[0].session_id


def agent_of(index: Index, session_id: str) -> str:
    """The agent of a session, by its newest record."""
    found = index.find(session_id=session_id, limit=1)
    return str(found[0].get("tool", {}).get("name") or "") if found else ""
