"""`remit import`: records of other tools, as evidence beside Remit's own."""

from pathlib import Path
from tempfile import TemporaryDirectory

import click
import msgspec

from remit.cli.output import command_options, emit, governed_gate
from remit.core.formats.foreign_records import convert_foreign_file
from remit.ledger.foreign_logs import MAX_IMPORT_BYTES, NothingToImport, import_file
from remit.ledger.machine_logs import list_local_names


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@command_options
def import_(file: Path, repo: Path, as_json: bool) -> None:
    """Take in Agent Trace files (JSON or JSON Lines), other machines' logs, and the ledgers of older tools.

    They are read beside our records, marked as imported and unproved. `remit blame` takes a line from them only where
    the file's hash, or that of the lines, is the one that they name.
    """
    gate = governed_gate(repo)
    if file.stat().st_size > MAX_IMPORT_BYTES:
        raise NothingToImport(file, f"it is larger than {MAX_IMPORT_BYTES >> 20} MiB")
    converted = convert_foreign_file(file.read_bytes())
    if not converted.lines:
        raise NothingToImport(file, "nothing in it is a record")
    root = gate.workspace.log_folder
    with TemporaryDirectory(prefix="remit.") as folder:
        lines = Path(folder) / file.name
        lines.write_bytes(b"".join(line + b"\n" for line in converted.lines))
        try:
            imported = import_file(lines, root, list_local_names(root, gate.recorder.log.name))
        except NothingToImport as error:
            raise NothingToImport(file, error.why) from None  # name the person's file, not the temporary copy
    traces, unread = converted.traces, converted.unread
    text = f"{imported.records} records, {traces} of them from other tools, and {imported.older} lines of older tools"
    text += f"; {unread} lines are none that Remit knows" if unread else ""
    emit({**msgspec.to_builtins(imported), "traces": traces, "unread": unread}, as_json, text)
