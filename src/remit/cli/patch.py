"""`remit patch`: a change handed over with the hashes of what it was made for."""

from pathlib import Path
from typing import BinaryIO

import click
from msgspec import json

from remit.cli.completion import INTENT
from remit.cli.output import REFUSED, Failure, command_options, emit, encode_json, governed_gate, say, write_content
from remit.cli.person_only import PERSON, require_person
from remit.core.acts import Act
from remit.core.call import SessionKey
from remit.core.diff.formats import MAX_DIFF_BYTES
from remit.core.untrusted_input import sanitise_full_line
from remit.gate.gate import Gate
from remit.gate.intents.refusals import IntentRefused
from remit.tools import exchange

patch_argument = click.argument("file", type=click.File("rb"))


@click.group()
def patch() -> None:
    """Hand a change over: exactly, merged with what happened since, or refused with who changed the lines.

    A patch is JSON with the hashes of what it was made for (`remit.patch/1`); git's own unified diff is taken too.
    """


@patch.command()
@click.argument("base")
@click.argument("to", default="HEAD")
@click.option("--intent", "intent_id", default="", metavar="ID", help="Whose work it is.", type=INTENT)
@click.option("--attempt", default=0, metavar="N", help="Which attempt at it.")
@click.option("--diff", is_flag=True, help="Print git's unified diff, without the hashes.")
@command_options
def make(base: str, to: str, intent_id: str, attempt: int, diff: bool, repo: Path, as_json: bool) -> None:
    """Print the patch from the commit BASE to the commit TO."""
    gate = governed_gate(repo)
    try:
        made = exchange.make_patch(gate, base, to, intent_id, attempt)
    except exchange.PatchRejected as error:
        raise as_failure(error.rejection) from error
    if diff:
        write_content(exchange.make_diff(gate, base, to))
    else:
        write_content(json.format(encode_json(made).encode(), indent=0 if as_json else 2) + b"\n")


@patch.command()
@patch_argument
@command_options
def check(file: BinaryIO, repo: Path, as_json: bool) -> None:
    """Say whether the patch in FILE (`-`: standard input) can be applied here; nothing is written."""
    gate = governed_gate(repo)
    found = read_file(gate, file, as_json)
    try:
        contents = exchange.check_patch(gate, found)
    except exchange.PatchRejected as error:
        raise report_rejection(error.rejection, as_json) from error
    merged = [content.file.path for content in contents if content.is_merged]
    emit({"paths": found.paths, "merged": merged}, as_json, describe(found.paths, merged, "can be applied"))


@patch.command()
@patch_argument
@click.option("--intent", "intent_id", metavar="ID", help="Work under this intent.", type=INTENT)
@command_options
def apply(file: BinaryIO, intent_id: str | None, repo: Path, as_json: bool) -> None:
    """Apply the patch in FILE (`-`: standard input): all files or none, as one recorded call under an intent."""
    require_person(Act.APPLY_PATCH)
    gate = governed_gate(repo)
    found = read_file(gate, file, as_json)
    session = SessionKey(f"patch-{found.sha256[:16] or gate.recorder.repository[:16]}")
    try:
        if intent_id is not None:
            gate.intents.select(session, PERSON, intent_id, source="patch")
        done = exchange.apply_patch_to_workspace(gate, found, session, PERSON, f"{session.session_id}-apply")
    except IntentRefused as error:
        raise Failure(error.violation.error_type, error.violation.message, exit_code=REFUSED) from error
    except exchange.PatchRejected as error:
        raise report_rejection(error.rejection, as_json) from error
    emit(done, as_json, describe(done.paths, done.merged, "applied"))


def read_file(gate: Gate, file: BinaryIO, as_json: bool) -> exchange.ExchangedPatch:
    try:
        return exchange.read_patch(gate, file.read(2 * MAX_DIFF_BYTES + 1))
    except exchange.PatchRejected as error:
        raise report_rejection(error.rejection, as_json) from error


def report_rejection(rejection: exchange.PatchRejection, as_json: bool) -> Failure:
    if as_json:
        say(encode_json(rejection))
        raise SystemExit(REFUSED)
    for sign, lines in (("-", rejection.expected.lines), ("+", rejection.found.lines)):
        for line in lines:
            say(f"  {sign} {sanitise_full_line(line)}", err=True)
    return as_failure(rejection)


def as_failure(rejection: exchange.PatchRejection) -> Failure:
    where = f"{rejection.path}, hunk {rejection.hunk}" if rejection.hunk else rejection.path or "the patch"
    whose = dict.fromkeys(one.intent_id or one.commit or "a person" for one in rejection.changed_by)
    by = f" (changed by {', '.join(name[:12] for name in whose)})" if whose else ""
    message = f"{sanitise_full_line(where)}: {rejection.reason}: {sanitise_full_line(rejection.message)}{by}"
    return Failure("PATCH_REJECTED", message, fix="read the file, and make the patch anew", exit_code=REFUSED)


def describe(paths: tuple[str, ...], merged: list[str] | tuple[str, ...], what: str) -> list[str]:
    return [f"{what}: {sanitise_full_line(p)}{' (merged with changes since)' if p in merged else ''}" for p in paths]
