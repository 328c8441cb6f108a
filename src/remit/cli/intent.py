"""`remit intent`: what agents may do."""

from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec.structs import replace

from remit.cli.constraints import constraints_of
from remit.cli.output import (
    FINDINGS,
    Failure,
    emit,
    governed_gate,
    json_option,
    open_gate,
    repo_option,
    reports_failures,
)
from remit.cli.people import below_an_agent, only_people
from remit.cli.scopes import warn_of
from remit.core.call import SessionKey
from remit.core.intent import PRIORITIES, STATUSES, Criterion, Intent, LintFinding, Status, is_intent_id
from remit.core.text import shown
from remit.gate.gate import Gate
from remit.gate.intents import changes_in
from remit.gate.proposing import proposed_name
from remit.ledger.index import Index
from remit.provenance.stats import proposed_scope

PERSON = "person"
MOST_RECORDS = 100_000


@click.group()
def intent() -> None:
    """What agents may do: each intent owns files, has constraints, and says when it is done."""


@intent.command("new")
@click.argument("name", required=False)
@click.option("--scope", "-s", "scope", multiple=True, metavar="GLOB", help="Files it owns; repeatable.")
@click.option(
    "--from-session",
    metavar="ID",
    help="Own what this session changed, beside any --scope; NAME is its first prompt's first line by default.",
)
@click.option("--id", "intent_id", metavar="INT-001", help="Its id; the next free one by default.")
@click.option("--constraint", multiple=True, metavar="TEXT", help="What to keep to; repeatable.")
@click.option("--criterion", multiple=True, metavar="TEXT", help="What must be true in the end; repeatable.")
@click.option("--description", default="", help="What it is about.")
@click.option("--priority", type=click.Choice(PRIORITIES), default="MEDIUM", show_default=True)
@repo_option
@json_option
@reports_failures
def new(
    name: str | None,
    scope: tuple[str, ...],
    from_session: str | None,
    intent_id: str | None,
    constraint: tuple[str, ...],
    criterion: tuple[str, ...],
    description: str,
    priority: str,
    repo: Path,
    as_json: bool,
) -> None:
    """Make an intent, as DRAFT: the first agent to select it starts it.

    Example: remit intent new "JWT login" --scope 'src/auth/**' --scope 'tests/auth/**'
    """
    only_people("making an intent")
    if intent_id is not None and not is_intent_id(intent_id):
        raise Failure("INVALID_INTENT_ID", f"{intent_id!r} is not an intent id, such as INT-001", target="--id")
    gate = open_gate(repo)
    if from_session is not None:
        scope = tuple(dict.fromkeys((*scope, *touched(gate, from_session))))
    name = name_or_proposed(gate, name, from_session)
    if not scope:
        raise Failure("USAGE", "an intent owns files, and none were named", fix="add --scope 'src/**', for example")
    wanted = msgspec.convert(
        {
            "id": intent_id or "",
            "name": name,
            "owned_scope": scope,
            "constraints": constraints_of(constraint),
            "acceptance_criteria": [Criterion(text) for text in criterion],
            "description": description,
            "priority": priority,
        },
        type=Intent,
        from_attributes=True,
    )
    made = gate.intents.create(wanted, by=PERSON)
    warn_of(gate, made.owned_scope)
    emit(
        msgspec.to_builtins(made),
        as_json,
        f"{made.id} {shown(made.title)}\nowns {shown(', '.join(made.owned_scope), 2000)}",
    )


def name_or_proposed(gate: Gate, name: str | None, session: str | None) -> str:
    """The name as given, else the one that the session's first prompt proposes. Raises Failure where there is none."""
    if name is None and session is not None and gate.governed:
        name = proposed_name(gate, session)
        if not name:
            said = f"no transcript tells what session {session!r} was asked for"
            raise Failure("USAGE", said, fix=f'name it: remit intent new "JWT login" --from-session {session}')
    if name is None or not name.strip():
        raise Failure("USAGE", f"{name or ''!r} names nothing: an intent needs a name", fix='for example "JWT login"')
    return name


def touched(gate: Gate, session: str) -> tuple[str, ...]:
    """The scope that a session's changes propose. Raises Failure where it changed nothing."""
    workspace = gate.workspace
    with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
        index.catch_up()
        found = index.find(event="mutation", session_id=session, limit=MOST_RECORDS)
    paths = sorted({change.path for document in found for change in changes_in(document)})
    if not paths:
        raise Failure(
            "NOTHING_TOUCHED",
            f"session {session!r} changed no file that was recorded",
            fix="`remit status` lists the sessions, `remit log --session ID` what they did",
        )
    return proposed_scope(paths)


@intent.command("fork")
@click.argument("intent_id")
@click.option("--name", help="Its name; that of the other by default.")
@repo_option
@json_option
@reports_failures
def fork(intent_id: str, name: str | None, repo: Path, as_json: bool) -> None:
    """Make a new DRAFT with the scope, constraints and criteria of another, which may be finished."""
    only_people("making an intent")
    gate = governed_gate(repo)
    old = gate.intents.get(intent_id)
    wanted = replace(
        old,
        id="",
        name=name or old.title,
        status="DRAFT",
        blocked_reason=None,
        created_at=None,
        updated_at=None,
        references=(*old.references, *([intent_id] if intent_id not in old.references else [])),
    )
    made = gate.intents.create(wanted, by=PERSON)
    emit(
        msgspec.to_builtins(made),
        as_json,
        f"{made.id} {shown(made.title)}\nowns {shown(', '.join(made.owned_scope), 2000)}",
    )


@intent.command("list")
@click.option("--status", type=click.Choice(STATUSES), help="Only those with this status.")
@repo_option
@json_option
@reports_failures
def list_(status: str | None, repo: Path, as_json: bool) -> None:
    """List the intents."""
    gate = governed_gate(repo)
    document = gate.intents.document
    found = [i for i in document.intents if status is None or i.status == status]
    lines = [
        f"{i.id:<10} {i.status:<12} {shown(i.title, 100)}  ({shown(', '.join(i.owned_scope), 300)})" for i in found
    ]
    if document.errors:
        click.echo(f"warning: active_intents.yaml has {len(document.errors)} errors; see `remit intent lint`", err=True)
    text = "\n".join(lines) or "no intents; make one with `remit intent new NAME --scope GLOB`"
    emit([msgspec.to_builtins(i) for i in found], as_json, text)


@intent.command("show")
@click.argument("intent_id")
@repo_option
@json_option
@reports_failures
def show(intent_id: str, repo: Path, as_json: bool) -> None:
    """Show an intent as agents are told it."""
    gate = governed_gate(repo)
    found = gate.intents.get(intent_id)
    emit(msgspec.to_builtins(found), as_json, gate.intents.block(found))


@intent.command("lint")
@repo_option
@json_option
@reports_failures
def lint(repo: Path, as_json: bool) -> None:
    """Check the intents file; exit 1 where it has errors."""
    gate = open_gate(repo)
    findings = gate.intents.lint()
    lines = [finding_line(f) for f in findings]
    emit([msgspec.to_builtins(f) for f in findings], as_json, "\n".join(lines) or "active_intents.yaml is fine")
    if any(f.severity == "error" for f in findings):
        raise SystemExit(FINDINGS)


def finding_line(finding: LintFinding) -> str:
    """One finding, as compilers show them."""
    about = f" ({finding.intent_id})" if finding.intent_id else ""
    place = f".orchestration/active_intents.yaml:{finding.line}:{finding.column}"
    return f"{place}: {finding.severity}: {finding.code}: {finding.message}{about}"


def session_of(gate: Gate, session: str | None) -> SessionKey:
    """The session that a person names, which must be known. Without one there must be exactly one."""
    if session is not None:
        return known_session(gate, session)
    known = gate.state.recent_sessions(2)
    if len(known) != 1:
        raise Failure(
            "WHICH_SESSION",
            "no session is known here" if not known else "several sessions are known here",
            fix="name one with --session; `remit status` lists them",
        )
    return known[0]


def known_session(gate: Gate, session: str) -> SessionKey:
    """The session of that id. Raises Failure where Remit never heard of it."""
    key = SessionKey(session)
    if gate.state.session(key) is None and not recorded(gate, session):
        known = ", ".join(k.session_id for k in gate.state.recent_sessions(3)) or "none"
        raise Failure(
            "UNKNOWN_SESSION",
            f"no session {session!r} is known here (the newest: {known})",
            fix="`remit status` lists them; a session is known from its agent's first call here",
        )
    return key


def recorded(gate: Gate, session: str) -> bool:
    """Whether any record names the session."""
    workspace = gate.workspace
    with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
        index.catch_up()
        return bool(list(index.find(session_id=session, limit=1)))


session_option = click.option("--session", metavar="ID", help="Whose; needed where several sessions are known.")


@intent.command("select")
@click.argument("intent_id")
@session_option
@repo_option
@json_option
@reports_failures
def select(intent_id: str, session: str | None, repo: Path, as_json: bool) -> None:
    """Select the intent that a session works under.

    Run by an agent in its shell, the agent's hook has selected already; this prints what binds the agent.
    """
    gate = governed_gate(repo)
    if below_an_agent():
        found = gate.intents.get(intent_id)
        emit(msgspec.to_builtins(found), as_json, gate.intents.block(found))
        return
    selection = gate.intents.select(session_of(gate, session), PERSON, intent_id)
    emit(msgspec.to_builtins(selection), as_json, selection.block)


@intent.command("clear")
@session_option
@repo_option
@json_option
@reports_failures
def clear(session: str | None, repo: Path, as_json: bool) -> None:
    """Release a session's intent."""
    gate = governed_gate(repo)
    if below_an_agent():
        emit({"released": None}, as_json, "released, if one was active")
        return
    released = gate.intents.clear(session_of(gate, session), PERSON)
    emit({"released": released}, as_json, f"{released} is released" if released else "no intent was active")


@intent.command("complete")
@click.argument("intent_id")
@click.option("--notes", required=True, help="How it was verified.")
@repo_option
@json_option
@reports_failures
def complete(intent_id: str, notes: str, repo: Path, as_json: bool) -> None:
    """Close an intent as DONE. Commands of its criteria that `remit trust` was told of run first, and have to pass.

    Run by an agent in its shell, the hook of the agent has closed it; this prints how it stands.
    """
    gate = governed_gate(repo)
    if below_an_agent():
        now = gate.intents.get(intent_id)
        emit(msgspec.to_builtins(now), as_json, f"{now.id} is {now.status}")
        return
    only_people("completing an intent")
    for command in gate.completing.proved_for_person(intent_id):
        click.echo(f"warning: not run, for want of trust: {shown(command)}; see `remit trust`", err=True)
    finish(gate, intent_id, "DONE", notes, as_json)


@intent.command("set-status")
@click.argument("intent_id")
@click.argument("status", type=click.Choice(STATUSES))
@click.option("--notes", default="", help="Why; kept in the ledger.")
@repo_option
@json_option
@reports_failures
def set_status(intent_id: str, status: Status, notes: str, repo: Path, as_json: bool) -> None:
    """Move an intent along its life."""
    only_people("changing an intent's status")
    finish(governed_gate(repo), intent_id, status, notes, as_json)


def finish(gate: Gate, intent_id: str, status: Status, notes: str, as_json: bool) -> None:
    """Move the intent and say so."""
    before = gate.intents.get(intent_id).status
    moved = gate.intents.set_status(intent_id, status, by=PERSON, notes=notes, reason=notes or None)
    emit(msgspec.to_builtins(moved), as_json, f"{moved.id}: {before} -> {moved.status}")


@intent.command("edit")
@click.argument("intent_id")
@click.option("--name", help="A new name.")
@click.option("--scope", "-s", multiple=True, metavar="GLOB", help="The whole new scope; repeatable.")
@click.option("--add-scope", multiple=True, metavar="GLOB", help="Patterns to add to the scope; repeatable.")
@click.option("--description", help="A new description.")
@click.option("--constraint", multiple=True, metavar="TEXT", help="All constraints anew; repeatable.")
@click.option("--criterion", multiple=True, metavar="TEXT", help="All acceptance criteria anew; repeatable.")
@click.option("--priority", type=click.Choice(PRIORITIES))
@repo_option
@json_option
@reports_failures
def edit(intent_id: str, repo: Path, as_json: bool, **given: Any) -> None:
    """Change fields of an intent; comments and order in the file survive."""
    only_people("editing an intent")
    if given["name"] is not None and not given["name"].strip():
        raise Failure("USAGE", f"{given['name']!r} names nothing: an intent needs a name")
    gate = governed_gate(repo)
    changes = edits(gate.intents.get(intent_id), given)
    if not changes:
        raise Failure(
            "NOTHING_TO_DO", "no field was given", fix="for example: remit intent edit INT-001 --add-scope 'docs/**'"
        )
    changed = gate.intents.edit(intent_id, changes, by=PERSON)
    if "owned_scope" in changes:
        warn_of(gate, changed.owned_scope)
    emit(
        msgspec.to_builtins(changed),
        as_json,
        f"{changed.id} {shown(changed.title)}\nowns {shown(', '.join(changed.owned_scope), 2000)}",
    )


def edits(old: Intent, given: dict[str, Any]) -> dict[str, Any]:
    """The fields to set, from the options that were given."""
    changes: dict[str, Any] = {k: given[k] for k in ("name", "description", "priority") if given[k] is not None}
    if given["scope"] or given["add_scope"]:
        base = given["scope"] or old.owned_scope
        changes["owned_scope"] = (*base, *(p for p in given["add_scope"] if p not in base))
    if given["constraint"]:
        changes["constraints"] = constraints_of(given["constraint"])
    if given["criterion"]:
        changes["acceptance_criteria"] = tuple(Criterion(text) for text in given["criterion"])
    return changes


@intent.command("delete")
@click.argument("intent_id")
@repo_option
@json_option
@reports_failures
def delete(intent_id: str, repo: Path, as_json: bool) -> None:
    """Take out a DRAFT that nothing was recorded under."""
    only_people("deleting an intent")
    governed_gate(repo).intents.delete(intent_id, by=PERSON)
    emit({"deleted": intent_id}, as_json, f"{intent_id} is gone")
