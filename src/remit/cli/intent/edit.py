"""`remit intent new`, `fork` and `edit`: write an intent from a person's options."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from remit.cli.completion import INTENT
from remit.cli.output import Failure, command_options, emit, governed_gate, open_index, warn
from remit.cli.person_only import PERSON, require_person
from remit.cli.records.query import find_session
from remit.core.acts import Act
from remit.core.intent import PRIORITIES, Constraint, Intent, is_intent_id
from remit.core.intents.constraints import InvalidConstraint
from remit.core.untrusted_input import sanitise_line
from remit.gate.gate import Gate
from remit.gate.intents.intents import changes_in_record
from remit.gate.intents.person_edits import (
    draft_fork,
    draft_intent,
    list_scope_remarks,
    make_criteria,
    parse_constraints,
)
from remit.gate.intents.templates import load_template
from remit.gate.session_lifecycle import propose_intent_name
from remit.provenance.stats.mode_suggestion import propose_scope

REWRITE_HINT = "`remit intent edit ID --scope GLOB` writes it anew"
MAX_RECORDS = 100_000


@click.command("new")
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
@click.option("--description", help="What it is about.")
@click.option("--priority", type=click.Choice(PRIORITIES), help="MEDIUM by default.")
@click.option("--owner", metavar="TEXT", help="Who answers for it: a team, a person.")
@click.option("--parent", type=INTENT, metavar="ID", help="The intent that it is a part of.")
@click.option("--needs", type=INTENT, multiple=True, metavar="ID", help="An intent to be DONE before; repeatable.")
@click.option("--reference", multiple=True, metavar="TEXT", help="A page, an address, another intent; repeatable.")
@click.option(
    "--template",
    metavar="NAME",
    help="Begin with this template: bugfix, feature, refactor, docs, or one of .orchestration/templates/. Lists that "
    "are given come on top of its own; a --scope takes the place of its scope.",
)
@command_options
def new(
    name: str | None,
    scope: tuple[str, ...],
    from_session: str | None,
    intent_id: str | None,
    parent: str | None,
    template: str | None,
    repo: Path,
    as_json: bool,
    **given: Any,
) -> None:
    """Make an intent, as DRAFT: the first agent to select it starts it.

    Example: remit intent new "JWT login" --scope 'src/auth/**' --scope 'tests/auth/**'
    """
    require_person(Act.MAKE_INTENT)
    if intent_id is not None and not is_intent_id(intent_id):
        raise Failure("INVALID_INTENT_ID", f"{intent_id!r} is not an intent id, such as INT-001", target="--id")
    gate = governed_gate(repo)
    if from_session is not None:
        from_session = find_session(gate, from_session)
        scope = tuple(dict.fromkeys((*scope, *propose_session_scope(gate, from_session))))
    base = load_template(gate.workspace, template) if template is not None else Intent(id="", owned_scope=())
    name = name or base.name or None
    if name is None and from_session is not None:
        name = propose_intent_name(gate, from_session)
        if not name:
            message = f"no transcript tells what session {from_session!r} was asked for"
            raise Failure("USAGE", message, fix=f'name it: remit intent new "JWT login" --from-session {from_session}')
    if name is None or not name.strip():
        raise Failure("USAGE", f"{name or ''!r} names nothing: an intent needs a name", fix='for example "JWT login"')
    if not scope and not base.owned_scope:
        raise Failure("USAGE", "an intent owns files, and none were named", fix="add --scope 'src/**', for example")
    if parent is not None:
        gate.intents.get(parent)
    fields = {key: given[key] for key in ("description", "priority", "owner") if given[key] is not None}
    wanted = draft_intent(
        base,
        intent_id=intent_id or "",
        name=name,
        scope=scope,
        constraints=read_constraints(given["constraint"]),
        criteria=make_criteria(given["criterion"]),
        parent=parent,
        references=given["reference"],
        needs=read_needs(gate, given["needs"]),
        **fields,
    )
    made = gate.intents.create(wanted, by=PERSON)
    warn_about_scope(gate, made.owned_scope)
    emit_intent(made, as_json)


def propose_session_scope(gate: Gate, session: str) -> tuple[str, ...]:
    with open_index(gate.workspace) as index:
        mutations = index.find(event="mutation", session_id=session, limit=MAX_RECORDS)
    paths = sorted({change.path for document in mutations for change in changes_in_record(document)})
    if not paths:
        fix = "`remit status` lists the sessions, `remit log --session ID` what they did"
        raise Failure("NOTHING_TOUCHED", f"session {session!r} changed no file that was recorded", fix=fix)
    return propose_scope(paths)


@click.command("fork")
@click.argument("intent_id", type=INTENT)
@click.option("--name", help="Its name; that of the other by default.")
@command_options
def fork(intent_id: str, name: str | None, repo: Path, as_json: bool) -> None:
    """Make a new DRAFT with the scope, constraints and criteria of another, which may be finished."""
    require_person(Act.MAKE_INTENT)
    gate = governed_gate(repo)
    wanted = draft_fork(gate.intents.get(intent_id), name or "")
    emit_intent(gate.intents.create(wanted, by=PERSON), as_json)


@click.command("edit")
@click.argument("intent_id", type=INTENT)
@click.option("--name", help="A new name.")
@click.option("--scope", "-s", multiple=True, metavar="GLOB", help="The whole new scope; repeatable.")
@click.option("--add-scope", multiple=True, metavar="GLOB", help="Patterns to add to the scope; repeatable.")
@click.option(
    "--replace-scope",
    nargs=2,
    multiple=True,
    metavar="OLD NEW",
    help="A pattern of the scope, and the one in its place; repeatable.",
)
@click.option("--description", help="A new description.")
@click.option("--constraint", multiple=True, metavar="TEXT", help="All constraints anew; repeatable.")
@click.option("--criterion", multiple=True, metavar="TEXT", help="All acceptance criteria anew; repeatable.")
@click.option("--priority", type=click.Choice(PRIORITIES))
@click.option("--owner", metavar="TEXT", help="Who answers for it; empty for nobody.")
@click.option("--parent", type=INTENT, metavar="ID", help="The intent that it is a part of; empty for none.")
@click.option(
    "--needs", type=INTENT, multiple=True, metavar="ID", help="All intents to be DONE before; one empty for none."
)
@click.option("--created-at", metavar="TIME", help="When it was made: sets a time right that was changed by hand.")
@click.option("--reference", multiple=True, metavar="TEXT", help="All references anew; repeatable.")
@command_options
def edit(intent_id: str, repo: Path, as_json: bool, **given: Any) -> None:
    """Change fields of an intent; comments and order in the file survive."""
    require_person(Act.EDIT_INTENT)
    if given["name"] is not None and not given["name"].strip():
        raise Failure("USAGE", f"{given['name']!r} names nothing: an intent needs a name")
    gate = governed_gate(repo)
    old = gate.intents.get(intent_id)
    fields = ("name", "description", "priority", "owner", "created_at")
    changes: dict[str, Any] = {field: given[field] for field in fields if given[field] is not None}
    if given["scope"] or given["add_scope"] or given["replace_scope"]:
        base = given["scope"] or replace_patterns(old, given["replace_scope"])
        changes["owned_scope"] = (*base, *(pattern for pattern in given["add_scope"] if pattern not in base))
    if given["constraint"]:
        changes["constraints"] = read_constraints(given["constraint"])
    if given["parent"] is not None:
        changes["parent_intent"] = given["parent"] or None
    if given["needs"]:
        changes["dependencies"] = read_needs(gate, given["needs"], intent_id)
    if given["reference"]:
        changes["references"] = given["reference"]
    if given["criterion"]:
        changes["acceptance_criteria"] = make_criteria(given["criterion"])
    if not changes:
        fix = "for example: remit intent edit INT-001 --add-scope 'docs/**'"
        raise Failure("NOTHING_TO_DO", "no field was given", fix=fix)
    changed = gate.intents.edit(intent_id, changes, by=PERSON)
    if "owned_scope" in changes:
        warn_about_scope(gate, changed.owned_scope)
    emit_intent(changed, as_json)


def replace_patterns(intent: Intent, pairs: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    scope = list(intent.owned_scope)
    for old, new in pairs:
        if old not in scope:
            owns = sanitise_line(", ".join(scope), 500)
            raise Failure("NOT_FOUND", f"{intent.id} has no pattern {old!r}", fix=f"it owns {owns}")
        scope[scope.index(old)] = new
    return tuple(dict.fromkeys(scope))


def read_needs(gate: Gate, ids: Iterable[str], own: str = "") -> tuple[str, ...]:
    """Return the intents needed by an intent. Raises IntentError for a missing intent, Failure for a circle."""
    needed = tuple(gate.intents.get(name).id for name in dict.fromkeys(ids) if name)
    known = {intent.id: intent.dependencies for intent in gate.intents.document.intents}
    reached, waiting = set[str](), list(needed)
    while waiting:
        name = waiting.pop()
        if name == own:
            raise Failure("CIRCULAR_DEPENDENCY", f"{own} would need itself", target="--needs", fix="leave one out")
        waiting += [other for other in known.get(name, ()) if other not in reached]
        reached.add(name)
    return needed


def emit_intent(intent: Intent, as_json: bool) -> None:
    owns = sanitise_line(", ".join(intent.owned_scope), 2000)
    emit(intent, as_json, f"{intent.id} {sanitise_line(intent.title)}\nowns {owns}")


def read_constraints(texts: Iterable[str]) -> tuple[Constraint, ...]:
    try:
        return parse_constraints(texts)
    except InvalidConstraint as error:
        fix = "for example --constraint 'max_lines: paths=\"src/**/*.py\", max=500'"
        raise Failure("INVALID_CONSTRAINT", str(error), target="--constraint", fix=fix) from error


def warn_about_scope(gate: Gate, scope: tuple[str, ...]) -> None:
    for remark in list_scope_remarks(gate.workspace, scope):
        warn(f"{remark}; {REWRITE_HINT}")
