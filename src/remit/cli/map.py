"""`remit map`: the intent map, made anew from the ledger."""

from pathlib import Path

import click

from remit.cli.output import FINDINGS, Failure, emit, governed_gate, json_option, repo_option, reports_failures
from remit.cli.reading import each_record
from remit.core.syntax.grammars import missing
from remit.ledger.index import Filters
from remit.provenance.intent_map import rebuilt
from remit.provenance.syntax import told
from remit.workspace.beneath import write_below

NAME = "intent_map.md"


@click.command("map")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 where the file differs.")
@repo_option
@json_option
@reports_failures
def intent_map(check: bool, repo: Path, as_json: bool) -> None:
    """Write .orchestration/intent_map.md: which intent changed which parts of which files.

    It is made anew from the ledger and the contents that were kept. Refactorings are left out: they only move what is
    there. Without the extra `code` most languages are unknown, and lines stand without the names of their functions.
    """
    gate = governed_gate(repo)
    text = rebuilt(told(each_record(gate, Filters()), gate.store)).encode()
    path = gate.workspace.folder / NAME
    same = path.is_file() and path.read_bytes() == text
    if check and not same:
        raise Failure(
            "MAP_DIFFERS", f"{str(path)!r} is not what the ledger says", fix="run `remit map`", exit_code=FINDINGS
        )
    if not same:
        write_below(gate.workspace.root, path, text)
    unknown = missing()
    hint = f"\nwithout names for {', '.join(unknown)}: install remit[code]" if unknown else ""
    done = f"{path} {'is as the ledger says' if same else 'written'}{hint}"
    emit({"path": str(path), "changed": not same, "unknown_languages": list(unknown)}, as_json, done)
