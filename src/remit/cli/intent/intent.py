"""`remit intent`: list, show, select, check and close intents; `remit map`: the parts of files that each changed."""

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from remit.cli import output
from remit.cli.completion import INTENT, complete_sessions
from remit.cli.intent.bind import bind, unbind
from remit.cli.intent.edit import edit, fork, new
from remit.cli.intent.layout import archive, migrate, sync
from remit.cli.intent.mend import merge, renumber, reopen, resolve
from remit.cli.person_only import PERSON, is_below_agent, require_person, require_terminal
from remit.cli.records.query import find_session
from remit.cli.screen import Screen
from remit.core.acts import Act
from remit.core.call import SessionKey
from remit.core.intent import STATUSES, Intent, Status
from remit.gate.gate import Gate
from remit.gate.governing.rules import ListedIntent
from remit.gate.intents import person_edits
from remit.gate.intents.owned_files import describe_nested_rules, lint_nested_rules
from remit.gate.intents.refusals import IntentRefused, SwitchRefused, dependency_warnings, is_held
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER

if TYPE_CHECKING:
    from remit.cli.view import ViewPart


MAX_NEWEST = 5
TRACKED_NOTE = (
    "\ngit sees it, so that only `remit map` writes it; to have it kept up with every change, write intent_map.md into "
    ".orchestration/.gitignore, and `git rm --cached` it where it is tracked"
)
NO_INTENTS = "no intents; make one with `remit intent new NAME --scope GLOB`"


session_option = click.option(
    "--session", metavar="ID", help="Whose; needed where several sessions are known.", shell_complete=complete_sessions
)
force_option = click.option("--force", is_flag=True, help="Close a parent before its children.")


@click.group()
def intent() -> None:
    """What agents may do: each intent owns files, has constraints, and says when it is done."""


for command in (new, fork, merge, edit, bind, unbind, resolve, renumber, reopen, archive, migrate, sync):
    intent.add_command(command)


@intent.command("list")
@click.option("--status", type=click.Choice(STATUSES), help="Only those with this status.")
@output.view_command_options
def list_(status: str | None, repo: Path, as_json: bool) -> None:
    """List the intents."""
    gate = output.governed_gate(repo)
    rules, document = gate.rules, gate.intents.document
    intents = [rules.describe_intent(item) for item in document.intents if status is None or item.status == status]
    if document.errors:
        output.warn(f"the files of intents have {len(document.errors)} errors; see `remit intent lint`")
    if nested := describe_nested_rules(gate.workspace):
        output.warn(nested)

    def list_view(screen: Screen) -> "Iterator[ViewPart]":
        from remit.cli.intent.intent_view import intent_table  # imports rich, which agents' calls never use

        yield intent_table(intents) if intents else NO_INTENTS

    output.emit_view(intents, as_json, list_view)


@intent.command("show")
@click.argument("intent_id", type=INTENT)
@click.option("--block", is_flag=True, help="As agents are told it.")
@output.view_command_options
def show(intent_id: str, block: bool, repo: Path, as_json: bool) -> None:
    """Show an intent: scope, constraints, criteria, who works under it, and the newest records.

    In an agent's shell it is shown as agents are told it, as with --block.
    """
    gate = output.governed_gate(repo)
    shown = gate.intents.get(intent_id)
    if block or (not as_json and is_below_agent()):
        output.emit(shown, as_json, gate.intents.format_block(shown))
        return
    listed = gate.rules.describe_intent(shown)
    output.emit_view(listed, as_json, partial(one_intent_view, gate, listed))


def one_intent_view(gate: Gate, shown: ListedIntent, screen: Screen) -> "Iterator[ViewPart]":
    from remit.cli.intent.intent_view import intent_parts
    from remit.cli.records.record_table import record_table

    state = gate.state
    keys = [key for key in state.list_recent_sessions() if state.active_session(key).intent_id == shown.id]
    yield from intent_parts(shown, [key.session_id for key in keys])
    with output.open_index(gate.workspace) as index:
        newest = index.find(intent_id=shown.id, limit=MAX_NEWEST)
    if newest:
        yield ""
        yield record_table(newest, screen, indent=2)


@intent.command("history")
@click.argument("intent_id", type=INTENT)
@click.option("-n", "limit", type=click.IntRange(1), default=20, show_default=True, help="The newest so many versions.")
@click.option("--version", "number", type=click.IntRange(1), metavar="N", help="Only this version, in full.")
@output.view_command_options
def history(intent_id: str, limit: int, number: int | None, repo: Path, as_json: bool) -> None:
    """Show the versions that an intent had: when it changed, by whom, and how."""
    from remit.gate.intents.history import MAX_VERSIONS, intent_history

    gate = output.governed_gate(repo)
    versions = intent_history(gate, intent_id, limit if number is None else MAX_VERSIONS)
    if number is not None:
        versions = [version for version in versions if version.version == number]
    if not versions:
        message = f"no version{'' if number is None else f' {number}'} of {intent_id!r} is recorded"
        raise output.Failure("NOT_FOUND", message, fix="`remit intent list` names the intents")

    def history_view(screen: Screen) -> "Iterator[ViewPart]":
        from remit.cli.intent.intent_view import version_parts  # imports rich, which agents' calls never use

        for version in versions:
            yield from version_parts(version, screen, is_full=number is not None)

    output.emit_view(versions, as_json, history_view)


@intent.command("lint")
@output.command_options
def lint(repo: Path, as_json: bool) -> None:
    """Check the files of intents; exit 1 where one has errors."""
    from remit.gate.intents.history import lint_against_records
    from remit.gate.intents.owned_files import lint_dead_scopes

    gate = output.open_gate(repo)
    findings = [
        *gate.intents.lint(),
        *lint_dead_scopes(gate.workspace, gate.intents.document),
        *lint_against_records(gate),
        *lint_nested_rules(gate.workspace),
    ]
    lines: list[str] = []
    for finding in findings:
        about = f" ({finding.intent_id})" if finding.intent_id else ""
        place = f"{ORCHESTRATION_FOLDER}/{finding.place}" if finding.file else ORCHESTRATION_FOLDER
        lines.append(f"{place}: {finding.severity}: {finding.code}: {finding.message}{about}")
    failed = any(finding.severity == "error" for finding in findings)
    output.emit(findings, as_json, lines or "the intents are fine", output.FINDINGS if failed else 0)


@intent.command("select")
@click.argument("intent_id", type=INTENT)
@click.option("--reasoning", default="", metavar="TEXT", help="Why this one; kept in the ledger.")
@click.option("--expect", multiple=True, metavar="PATH", help="A file that will change; repeatable.")
@session_option
@output.command_options
def select(
    intent_id: str, reasoning: str, expect: tuple[str, ...], session: str | None, repo: Path, as_json: bool
) -> None:
    """Select the intent that a session works under.

    Run by an agent in its shell, the agent's hook has selected already; this prints what binds the agent.
    """
    gate = output.governed_gate(repo)
    if is_below_agent():
        selected = gate.intents.get(intent_id)  # by the agent's hook
        warn_about_needs(gate, selected)
        output.emit(selected, as_json, gate.intents.format_block(selected))
        return
    key = choose_session(gate, session)
    try:
        selection = gate.intents.select(key, PERSON, intent_id, reasoning=reasoning, expected=expect)
    except IntentRefused as refused:
        if not (isinstance(refused, SwitchRefused) or is_held(gate.state.active_session(key).source)):
            raise
        require_person(Act.BIND_INTENT)
        selection = gate.intents.select(key, PERSON, intent_id, reasoning=reasoning, expected=expect, said_by=PERSON)
    for warning in selection.warnings:
        output.warn(warning)
    output.emit(selection, as_json, selection.block)


@intent.command("propose")
@click.argument("name")
@click.option("--scope", multiple=True, required=True, metavar="GLOB", help="Files it would own; repeatable.")
@click.option("--criterion", multiple=True, metavar="TEXT", help="What must be true in the end; repeatable.")
@click.option("--constraint", multiple=True, metavar="TEXT", help="What to keep to; repeatable.")
@click.option("--why", required=True, metavar="TEXT", help="What the person reads.")
def propose(
    name: str, scope: tuple[str, ...], criterion: tuple[str, ...], constraint: tuple[str, ...], why: str
) -> None:
    """Ask the person for a new intent, from an agent's shell: they see it, and say yes or no.

    The agent's hook has asked before this runs; the answer stands beside the result.
    """
    say_asked("remit intent new")


@intent.command("widen")
@click.argument("paths", nargs=-1, required=True)
@click.option("--why", required=True, metavar="TEXT", help="What the person reads.")
def widen(paths: tuple[str, ...], why: str) -> None:
    """Ask the person to add files to the selected intent's scope, from an agent's shell.

    The agent's hook has asked before this runs; the answer stands beside the result.
    """
    say_asked("remit intent edit ID --add-scope GLOB")


AGENT_REQUEST_NOTICE = (
    "The person's answer stands beside this result. If none does, nobody was asked: run this by itself, with the words "
    "and options of its help."
)


def say_asked(by_hand: str) -> None:
    """Say where the answer stands, to an agent; a person does it by hand. Raises Failure."""
    if not is_below_agent():
        raise output.Failure("FOR_AGENTS", "an agent asks this from its shell", fix=f"you need not ask: `{by_hand}`")
    output.emit({"asked": True}, as_json=False, text=AGENT_REQUEST_NOTICE)


@intent.command("clear")
@session_option
@output.command_options
def clear(session: str | None, repo: Path, as_json: bool) -> None:
    """Release a session's intent."""
    gate = output.governed_gate(repo)
    if is_below_agent():
        output.emit({"released": None}, as_json, "released, if one was active")
        return
    key, said_by = choose_session(gate, session), ""
    if is_held(gate.state.active_session(key).source):
        require_person(Act.UNBIND_INTENT)
        said_by = PERSON
    released = gate.intents.clear(key, PERSON, said_by=said_by)
    output.emit({"released": released}, as_json, f"{released} is released" if released else "no intent was active")


def warn_about_needs(gate: Gate, intent: Intent) -> None:
    for warning in dependency_warnings(intent, gate.intents.document.intents):
        output.warn(warning)


def choose_session(gate: Gate, session: str | None) -> SessionKey:
    if session is not None:
        return SessionKey(find_session(gate, session))
    known = gate.state.list_recent_sessions(2)
    if len(known) != 1:
        raise output.Failure(
            "WHICH_SESSION",
            "no session is known here" if not known else "several sessions are known here",
            fix="name one with --session; `remit status` lists them" if known else "remit intent bind ID --worktree",
        )
    return known[0]


@intent.command("complete")
@click.argument("intent_id", type=INTENT)
@click.option("--notes", required=True, help="How it was verified.")
@force_option
@output.command_options
def complete(intent_id: str, notes: str, force: bool, repo: Path, as_json: bool) -> None:
    """Close an intent as DONE. The commands of its criteria run first, and have to pass. Those that nobody on this
    machine trusts are no proof: at a terminal you are asked what to do about them, elsewhere the intent stays open.

    Run by an agent in its shell, the hook of the agent has closed it; this prints how it stands.
    """
    gate = output.governed_gate(repo)
    if is_below_agent():
        closed = gate.intents.get(intent_id)  # by the agent's hook
        warn_about_needs(gate, closed)
        output.emit(closed, as_json, f"{closed.id} is {closed.status}")
        return
    require_person(Act.MOVE_INTENT)
    check_children(gate, intent_id, force=force)
    before = gate.intents.get(intent_id).status
    closed = complete_at_terminal(gate, intent_id, notes)
    warn_about_needs(gate, closed)
    output.emit(closed, as_json, f"{closed.id}: {before} -> {closed.status}")


@intent.command("set-status")
@click.argument("intent_id", type=INTENT)
@click.argument("status", type=click.Choice(STATUSES))
@click.option("--notes", default="", help="Why; kept in the ledger.")
@force_option
@output.command_options
def set_status(intent_id: str, status: Status, notes: str, force: bool, repo: Path, as_json: bool) -> None:
    """Move an intent along its life."""
    require_person(Act.MOVE_INTENT)
    gate = output.governed_gate(repo)
    if status == "DONE":
        check_children(gate, intent_id, force=force)
    before = gate.intents.get(intent_id).status
    is_done = status == "DONE" and before != "DONE"
    moved = (
        complete_at_terminal(gate, intent_id, notes)
        if is_done
        else person_edits.change_status(gate, intent_id, status, notes)
    )
    output.emit(moved, as_json, f"{moved.id}: {before} -> {moved.status}")


def complete_at_terminal(gate: Gate, intent_id: str, notes: str) -> Intent:
    unproved = person_edits.find_unproved(gate, intent_id)
    try:
        if not unproved:
            return person_edits.complete_intent(gate, intent_id, notes)
        error: IntentRefused | person_edits.UnprovedCriteria = person_edits.UnprovedCriteria(intent_id, unproved)
    except IntentRefused as refused:
        error = refused
    if not sys.stdin.isatty():
        raise report_unproved(error)
    output.say(str(error))
    trusting = "y = trust and run, " if unproved else ""
    match click.prompt(f"{trusting}s = complete without it (recorded), n", default="n").strip().lower():
        case "y" | "yes" if unproved:
            require_terminal(Act.TRUST)
            person_edits.trust_commands(gate, gate.intents.get(intent_id), unproved)
            return person_edits.complete_intent(gate, intent_id, notes)
        case "s":
            return person_edits.complete_intent(gate, intent_id, notes, without_proof=True)
        case _:
            raise report_unproved(error)


def report_unproved(error: IntentRefused | person_edits.UnprovedCriteria) -> Exception:
    if isinstance(error, IntentRefused):
        return error
    fix = "run it in a terminal, which asks you, or `remit trust` first"
    return output.Failure("UNPROVED_CRITERIA", str(error), fix=fix, exit_code=output.REFUSED)


def check_children(gate: Gate, intent_id: str, *, force: bool) -> None:
    try:
        children = person_edits.require_closed_children(gate, intent_id, force=force)
    except person_edits.ChildrenOpen as error:
        fix = "finish the children first, or say --force to close the parent all the same"
        raise output.Failure("CHILDREN_OPEN", str(error), fix=fix, exit_code=output.REFUSED) from error
    if children:
        output.warn(f"closed before its children: {children}")


@intent.command("delete")
@click.argument("intent_id", type=INTENT)
@output.command_options
def delete(intent_id: str, repo: Path, as_json: bool) -> None:
    """Take out a DRAFT that nothing was recorded under."""
    require_person(Act.DELETE_INTENT)
    output.governed_gate(repo).intents.delete(intent_id, by=PERSON)
    output.emit({"deleted": intent_id}, as_json, f"{intent_id} is gone")


@click.command("map")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 where the file differs.")
@click.option("--anew", is_flag=True, help="Read the whole ledger again, and trust nothing that was kept.")
@output.command_options
def map_(check: bool, anew: bool, repo: Path, as_json: bool) -> None:
    """Write .orchestration/intent_map.md: which intent changed which parts of which files.

    The map is made from the ledger and the stored contents. Records read earlier are not read again, except with
    --anew. Refactorings are left out: they only move code. In a language without a grammar in Remit, lines stand
    without the names of their functions.

    If git ignores the file, as `remit init` arranges, the background process updates the map a second or two after
    every change. Otherwise, and without a background process, only this command writes the map.
    """
    # imports parsers, which agents' calls never use
    from remit.core.code.grammars import list_missing_grammars
    from remit.provenance.map.intent_map_file import IntentMap

    gate = output.governed_gate(repo)
    map_file = IntentMap.open(gate.workspace, gate.recorder.log.name, gate.recorder.machine)
    if check and not map_file.holds_text(map_file.rebuild() if anew else map_file.render_current()):
        message = f"{str(map_file.path)!r} is not what the ledger says"
        raise output.Failure("MAP_DIFFERS", message, fix="run `remit map`", exit_code=output.FINDINGS)
    changed = not check and (map_file.write_rebuilt() if anew else map_file.write_current())
    unknown = list_missing_grammars()
    text = f"{map_file.path} {'written' if changed else 'is as the ledger says'}"
    if unknown:
        text += f"\nwithout names for {', '.join(unknown)}: run `pip install --force-reinstall remit`"
    kept_up = map_file.is_ignored_by_git
    data = {"path": str(map_file.path), "changed": changed, "kept_up": kept_up, "unknown_languages": list(unknown)}
    output.emit(data, as_json, text + ("" if kept_up else TRACKED_NOTE))
