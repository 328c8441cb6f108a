"""`remit intent migrate`, `archive` and `sync`: how intents stand in files, and what the files say of their lives."""

from datetime import UTC, datetime
from pathlib import Path

import click

from remit.cli.output import FINDINGS, command_options, emit, governed_gate
from remit.cli.person_only import require_person
from remit.core.acts import Act
from remit.core.untrusted_input import sanitise_line
from remit.gate.intents import migration
from remit.ledger.parse_time import parse_time
from remit.wiring.repository_setup import ignore_view, show_list, write_readme


@click.command("migrate")
@click.option("--dry-run", is_flag=True, help="Only say what would be written.")
@click.option("--to", "layout", type=click.Choice(("files", "list")), default="files", help="Where intents go.")
@command_options
def migrate(dry_run: bool, layout: str, repo: Path, as_json: bool) -> None:
    """Give each intent of the list a file of its own, or with `--to list` join the files.

    Comments of an entry go along. The files are read again and compared before anything is written; nothing is staged,
    and the commands that commit the change are shown. Records, notes and trailers stay as they are.
    """
    require_person(Act.EDIT_INTENT)
    gate = governed_gate(repo)

    def prepare() -> None:
        write_readme(gate.workspace)
        ignore_view(gate.workspace)

    if layout == "files":
        made = migration.migrate_to_files(gate, dry_run=dry_run, ignore_view=prepare)
    else:
        made = migration.migrate_to_list(gate, dry_run=dry_run, show_list=lambda: show_list(gate.workspace))
    emit(made, as_json, describe_migration(made, dry_run=dry_run))


def describe_migration(made: migration.Migration, *, dry_run: bool) -> list[str]:
    would = "would be " if dry_run else ""
    lines = [
        *(f"{would}written  {sanitise_line(name)}" for name in made.written),
        *(f"{would}removed  {sanitise_line(name)}" for name in made.removed),
    ]
    return [*lines, "", f"commit it with: {made.commit}"]


@click.command("archive")
@click.option("--before", required=True, metavar="TIME", help="What ended before then, such as 90d or 2026-02-21.")
@click.option("--dry-run", is_flag=True, help="Only say what would be moved.")
@command_options
def archive(before: str, dry_run: bool, repo: Path, as_json: bool) -> None:
    """Move the files of ended intents into .orchestration/intents/closed/.

    They count as before, and are read only where all files are. When one ended is known from the ledger, else from the
    newest commit of its file. Nothing is staged, and the command that commits the change is shown.

    Example: remit intent archive --before 90d
    """
    require_person(Act.EDIT_INTENT)
    gate = governed_gate(repo)
    time = datetime.fromisoformat(parse_time(before, datetime.fromtimestamp(gate.environment.clock.now(), UTC)))
    made = migration.archive_ended(gate, time, dry_run=dry_run)
    nothing = f"no intent with a file of its own ended before {sanitise_line(before, 60)}"
    emit(made, as_json, describe_migration(made, dry_run=dry_run) if made.written else nothing)


@click.command("sync")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 where a file lags behind.")
@command_options
def sync(check: bool, repo: Path, as_json: bool) -> None:
    """Write into the files of intents what this clone's records say of their status.

    Remit writes only an end or a block by itself. With `[intents] write_back = "never"`, or for a tool that reads
    every step in the files, this command writes the rest.
    """
    gate = governed_gate(repo)
    if check:
        lagging = migration.list_lagging(gate)
    else:
        require_person(Act.MOVE_INTENT)
        lagging = migration.sync_files(gate)
    lines = [f"{intent.id}: {intent.status}{' is not in its file' if check else ''}" for intent in lagging]
    emit(lagging, as_json, lines or "the files say what the records say", FINDINGS if check and lagging else 0)
