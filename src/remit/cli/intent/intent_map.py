"""`remit map`: update the intent map from the ledger, or rebuild the map."""

from pathlib import Path

import click

from remit.cli.output import FINDINGS, Failure, command_options, emit, governed_gate
from remit.core.code.grammars import list_missing_grammars
from remit.provenance.map.intent_map_file import IntentMap

TRACKED_NOTE = (
    "\ngit sees it, so that only `remit map` writes it; to have it kept up with every change, write intent_map.md into "
    ".orchestration/.gitignore, and `git rm --cached` it where it is tracked"
)


@click.command("map")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 where the file differs.")
@click.option("--anew", is_flag=True, help="Read the whole ledger again, and trust nothing that was kept.")
@command_options
def intent_map(check: bool, anew: bool, repo: Path, as_json: bool) -> None:
    """Write .orchestration/intent_map.md: which intent changed which parts of which files.

    It is made from the ledger and the contents that were kept; records that were read before are not read again, but
    with --anew. Refactorings are left out: they only move what is
    there. In a language that Remit has no grammar of, lines stand without the names of their functions.

    The background process keeps it up with every change, a second or two later, where git ignores the file: `remit
    init` sees to that. Elsewhere, and where no such process runs, only this command writes it.
    """
    gate = governed_gate(repo)
    map_file = IntentMap.open(gate.workspace, gate.recorder.log.name, gate.recorder.machine)
    if check and not map_file.holds_text(map_file.rebuild() if anew else map_file.render_current()):
        message = f"{str(map_file.path)!r} is not what the ledger says"
        raise Failure("MAP_DIFFERS", message, fix="run `remit map`", exit_code=FINDINGS)
    changed = not check and (map_file.write_rebuilt() if anew else map_file.write_current())
    unknown = list_missing_grammars()
    text = f"{map_file.path} {'written' if changed else 'is as the ledger says'}"
    if unknown:
        text += f"\nwithout names for {', '.join(unknown)}: run `pip install --force-reinstall remit`"
    kept_up = map_file.is_ignored_by_git
    data = {"path": str(map_file.path), "changed": changed, "kept_up": kept_up, "unknown_languages": list(unknown)}
    emit(data, as_json, text + ("" if kept_up else TRACKED_NOTE))
