"""`remit blame`: who wrote each line, under which intent."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from remit.cli.blame.answer import MIN_GRADES, MUTATION_CLASSES, LineFilter, read_question, write_answer
from remit.cli.completion import complete_files, complete_intents
from remit.cli.output import command_options, reading_context
from remit.provenance.origins.evidence import GRADES, parse_grades

F = TypeVar("F", bound=Callable[..., Any])


def validate_grades(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Return the option's value. Raises BadParameter for an unknown grade."""
    if value is not None:
        try:
            parse_grades(value)
        except ValueError as error:
            raise click.BadParameter(str(error), context, parameter) from error
    return value


def grade_option(command: F) -> F:
    """Add `--grade`, which treats lines with weaker evidence as unknown."""
    return click.option(
        "--grade",
        metavar="GRADES",
        callback=validate_grades,
        help="Believe only this evidence: exact, carried, note, likely, with commas between, or "
        f"{', '.join(GRADES[1:-2])}. Lines with other evidence are unknown.",
    )(command)


class GitStyleCommand(click.Command):
    """A command with git's argument rules: `--` is kept, and unknown options are passed on unchanged."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse Remit's own options and leave the rest for git."""
        at = args.index("--") if "--" in args else len(args)
        return super().parse_args(ctx, [*args[:at], *(["--"] if at < len(args) else []), *args[at:]])


@click.command(cls=GitStyleCommand, context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]})
@click.argument(
    "words",
    nargs=-1,
    required=True,
    type=click.UNPROCESSED,
    metavar="[OPTION]... [REVISION] [--] FILE",
    shell_complete=complete_files,
)
@click.option("--min-grade", type=click.Choice(MIN_GRADES), help="Say unknown where the evidence is weaker than that.")
@grade_option
@click.option(
    "--class",
    "mutation_class",
    type=click.Choice(MUTATION_CLASSES),
    help="Only lines of changes of that class, computed, or declared and not refuted.",
)
@click.option(
    "--intent",
    "intent_id",
    metavar="ID",
    help="Only lines that were written under this intent.",
    shell_complete=complete_intents,
)
@click.option(
    "--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Colour each intent's lines."
)
@command_options
def blame(words: tuple[str, ...], repo: Path, as_json: bool, color: str, **only: Any) -> None:
    """Show for each line who wrote it, and under which intent.

    All options of git blame are taken: several -L, -w, -M, -C, -s, -e, -f, -n, -l, -t, -b, -c, --root, --abbrev,
    --date, --reverse, --contents, --ignore-rev, --ignore-revs-file, --first-parent, --since, --encoding. The output of
    --porcelain, --line-porcelain and --incremental is git's byte for byte, and header lines between that begin with
    `remit-`. --show-stats counts the lines of each origin.

    Signs: ✦ an agent, ● a person, ◐ both, · nobody saw it written. git tells which version of the file a line came
    with; the ledger tells who wrote what that version added.
    """
    gate = reading_context(repo)
    question = read_question(words, gate.workspace, repo, governed=gate.is_governed)
    write_answer(sys.argv[2:], question, LineFilter(**only), color, as_json=as_json)
