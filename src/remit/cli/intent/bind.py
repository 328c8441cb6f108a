"""`remit intent bind` and `unbind`: the intent that sessions of a place begin with."""

import os
from pathlib import Path

import click

from remit.cli.completion import INTENT, complete_sessions
from remit.cli.output import Failure, command_options, emit, governed_gate
from remit.cli.person_only import PERSON, require_person
from remit.cli.records.query import find_session
from remit.core.acts import Act
from remit.core.call import SessionKey
from remit.core.intent import identify
from remit.core.untrusted_input import sanitise_line
from remit.gate.gate import Gate
from remit.gate.intents.bindings import Binding, BindingKind, Bindings, list_terminals, name_request
from remit.gate.intents.refusals import HELD, selectable_intent_ids

PLACE_OPTIONS = (
    click.option("--session", metavar="ID", help="This session, at once.", shell_complete=complete_sessions),
    click.option("--terminal", is_flag=True, help="Sessions that start in this terminal."),
    click.option("--worktree", is_flag=True, help="Sessions that start in this work tree; without an option, this."),
    click.option("--branch", metavar="NAME", help="Sessions that start while this branch is checked out."),
)


@click.command("bind")
@click.argument("intent_id", required=False, type=INTENT)
@click.option("--only", is_flag=True, help="Agents cannot leave it for another.")
@command_options
def bind(
    intent_id: str | None,
    session: str | None,
    terminal: bool,
    worktree: bool,
    branch: str | None,
    only: bool,
    repo: Path,
    as_json: bool,
) -> None:
    """Let sessions begin under an intent, without a selection of their own; without ID, list what is bound.

    The narrowest place counts: session, terminal, work tree, branch. An agent may select another intent, except with
    --only.
    """
    gate = governed_gate(repo)
    if intent_id is None:
        bound = Bindings(gate.state).list_all()
        emit(bound, as_json, [describe_binding(one) for one in bound] or "nothing is bound")
        return
    require_person(Act.BIND_INTENT)
    intent = gate.intents.get(intent_id)
    if intent.id not in selectable_intent_ids(gate.rules):
        fix = "`remit intent list` shows the open ones"
        raise Failure("INTENT_CLOSED", f"{intent.id} is {intent.status}, or barred by .intentignore", fix=fix)
    place = name_place(gate, session, terminal=terminal, worktree=worktree, branch=branch)
    binding = Binding(
        *place, intent_id=intent.id, only=only, at=gate.environment.clock.now(), intent_uid=identify(intent)
    )
    Bindings(gate.state).put(binding)
    if place[0] == "session":
        source = f"{HELD} session" if only else "selected"
        gate.intents.select(SessionKey(place[1]), PERSON, intent.id, source=source, said_by=PERSON)
    emit(binding, as_json, describe_binding(binding))


@click.command("unbind")
@command_options
def unbind(session: str | None, terminal: bool, worktree: bool, branch: str | None, repo: Path, as_json: bool) -> None:
    """Take a binding back. Sessions that work under the intent go on, and can leave it."""
    gate = governed_gate(repo)
    require_person(Act.UNBIND_INTENT)
    kind, name = name_place(gate, session, terminal=terminal, worktree=worktree, branch=branch)
    removed = Bindings(gate.state).remove(kind, name)
    if removed is None:
        raise Failure("NOT_BOUND", f"nothing is bound to this {kind}", fix="`remit intent bind` lists what is bound")
    gate.state.execute(
        "UPDATE sessions SET source='selected' WHERE workspace=? AND source=? AND ?='' OR session_id=? AND source=?",
        *(gate.state.workspace, f"{HELD} {kind}", name if kind == "session" else "", name, f"{HELD} {kind}"),
    )
    emit(removed, as_json, f"unbound: {describe_binding(removed)}")


for option in PLACE_OPTIONS:
    bind, unbind = option(bind), option(unbind)


def name_place(
    gate: Gate, session: str | None, *, terminal: bool, worktree: bool, branch: str | None
) -> tuple[BindingKind, str]:
    """Return the place that the options name. Raises Failure for more than one, and for a terminal without one."""
    if sum((session is not None, terminal, worktree, branch is not None)) > 1:
        raise Failure("USAGE", "--session, --terminal, --worktree and --branch cannot be combined")
    if session is not None:
        return "session", find_session(gate, session)
    if branch is not None:
        return "branch", branch
    if not terminal:
        return "worktree", ""
    found = list_terminals(os.getpid())
    if not found:
        raise Failure("NOT_A_TERMINAL", "this shell has no terminal", fix="bind the work tree: --worktree")
    return "terminal", found[0]


def describe_binding(bound: Binding) -> str:
    place = {"worktree": "this work tree", "terminal": "a terminal"}.get(bound.kind, f"{bound.kind} {bound.name}")
    what = bound.intent_id if bound.intent_id else f'the request "{name_request(bound.request)}"'
    only = ", and cannot leave it" if bound.only else ""
    return sanitise_line(f"sessions of {place} begin with {what}{only}", 300)
