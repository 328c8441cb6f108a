"""`remit intent resolve`, `renumber`, `reopen`, `merge`: mend what git could not merge, what was closed too early, and
what was one piece of work all along.
"""

import difflib
from pathlib import Path

import click

from remit.cli.completion import INTENT
from remit.cli.output import command_options, emit, governed_gate, warn
from remit.cli.person_only import require_person
from remit.core.acts import Act
from remit.core.untrusted_input import sanitise_line
from remit.gate.intents.mending import MendedFile, merge_into, renumber_intent, reopen_intent, resolve_conflicts


@click.command("resolve")
@command_options
def resolve(repo: Path, as_json: bool) -> None:
    """Merge the intents that git could not: by intent and field, not by line.

    What either side added is there, and what one side removed is not; DONE beats every other status. Of two intents
    that were given the same id, the younger gets a new one. Where both sides changed a field in different ways, ours
    stays, and that is said. A field that git put twice into one file is joined. `git add` is left to you.
    """
    require_person(Act.EDIT_INTENT)
    mended = resolve_conflicts(governed_gate(repo).intents)
    lines = [line for file in mended for line in describe_mended(file)]
    emit(mended, as_json, lines or "git left no conflict in the intents")


def describe_mended(file: MendedFile) -> list[str]:
    path = sanitise_line(file.path)
    if file.is_obsolete:
        return [*map(sanitise_line, file.remarks), f"{path} is gone; then: git rm -q --cached {path}"]
    diff = difflib.unified_diff(file.ours.splitlines(), file.text.splitlines(), "ours", "merged", lineterm="", n=1)
    shown = [sanitise_line(line, 200) for line in diff]
    return [*shown, *map(sanitise_line, file.remarks), f"{path} is merged; look at it, then: git add {path}"]


@click.command("reopen")
@click.argument("intent_id", type=INTENT)
@click.option("--reason", required=True, help="Why; kept in the ledger.")
@click.option("--here", is_flag=True, help="In this checkout, although it was closed on another branch.")
@command_options
def reopen(intent_id: str, reason: str, here: bool, repo: Path, as_json: bool) -> None:
    """Take back that an intent is DONE or ABORTED. Its criteria are verified anew at the next completion.

    Example: remit intent reopen INT-001 --reason "the limit is per user, not per address"
    """
    require_person(Act.REOPEN_INTENT)
    opened = reopen_intent(governed_gate(repo).intents, intent_id, reason, here=here)
    emit(opened, as_json, f"{opened.id} is open again")


@click.command("renumber")
@click.argument("intent_id", type=INTENT)
@click.option("--file", metavar="NAME", help="The file whose intent gets the new id; the younger's by default.")
@command_options
def renumber(intent_id: str, file: str | None, repo: Path, as_json: bool) -> None:
    """Give one of two intents with the same id a new one. Its records stay its own, and its former id is kept."""
    require_person(Act.EDIT_INTENT)
    name, new = renumber_intent(governed_gate(repo).intents, intent_id, file)
    emit({"from": intent_id, "to": new}, as_json, f"{sanitise_line(name, 80)} was {intent_id} and is {new} now")


@click.command("merge")
@click.argument("into", metavar="INTO", type=INTENT)
@click.argument("merged", metavar="ID...", nargs=-1, required=True, type=INTENT)
@click.option("--dry-run", is_flag=True, help="Only say what would change.")
@command_options
def merge(into: str, merged: tuple[str, ...], dry_run: bool, repo: Path, as_json: bool) -> None:
    """Let the intent INTO take others over: scope, constraints, criteria, dependencies and references.

    The others become ABORTED, and sessions under them are told where their work is now. Intents that depended on one of
    them, or were a part of it, name INTO instead. If one of them forbids the network, so does INTO.

    Example: remit intent merge INT-001 INT-002 INT-003
    """
    require_person(Act.EDIT_INTENT)
    made = merge_into(governed_gate(repo), into, merged, dry_run=dry_run)
    for remark in made.remarks:
        warn(remark)
    lines = [f"{name}: {sanitise_line(line, 300)}" for name, changed in made.changes.items() for line in changed]
    end = "nothing is written" if dry_run else f"{', '.join(made.merged)} merged into {into}"
    emit(made, as_json, [*lines, end])
