"""`remit import`: what other tools recorded, as evidence beside our own."""

from pathlib import Path
from tempfile import TemporaryDirectory

import click
import msgspec

from remit.cli.output import emit, governed_gate, json_option, repo_option, reports_failures
from remit.core.formats.foreign_records import convert_foreign_file
from remit.ledger.foreign_logs import MAX_IMPORT_BYTES, NothingToImport, import_file
from remit.ledger.machine_logs import list_local_names


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@repo_option
@json_option
@reports_failures
def import_(file: Path, repo: Path, as_json: bool) -> None:
    """Take in Agent Trace files (JSON or JSON Lines), other machines' logs, and the ledgers of older tools.

    They are read beside our records, marked as imported and unproved. `remit blame` takes a line from them only where
    the file's hash, or that of the lines, is the one that they name.
    """
    gate = governed_gate(repo)
    if file.stat().st_size > MAX_IMPORT_BYTES:
        raise NothingToImport(file, f"it is larger than {MAX_IMPORT_BYTES >> 20} MiB")
    taken = convert_foreign_file(file.read_bytes())
    if not taken.lines:
        raise NothingToImport(file, "nothing in it is a record")
    root = gate.workspace.log_folder
    with TemporaryDirectory(prefix="remit.") as folder:
        lines = Path(folder) / file.name
        lines.write_bytes(b"".join(line + b"\n" for line in taken.lines))
        try:
            done = import_file(lines, root, list_local_names(root, gate.recorder.log.name))
        except NothingToImport as error:
            raise NothingToImport(file, error.why) from None  # in the words that the person used, not of the copy
    text = f"{done.records} records, {taken.traces} of them from other tools, and {done.older} lines of older tools"
    unread = f"; {taken.unread} lines are none that Remit knows" if taken.unread else ""
    emit({**msgspec.to_builtins(done), "traces": taken.traces, "unread": taken.unread}, as_json, text + unread)
