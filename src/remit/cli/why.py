"""`remit why`: why lines are there."""

import re
from pathlib import Path

import click
import msgspec

from remit.cli.blame import inside
from remit.cli.output import Failure, emit, governed_gate, json_option, repo_option, reports_failures
from remit.ledger.index import Index
from remit.provenance.blame import Blamer
from remit.provenance.why import Explanation, NoSuchLines, explain, in_words

SPOT = re.compile(r"(?P<file>.+?)(?::(?P<start>\d{1,9})(?:-(?P<end>\d{1,9}))?)?", re.DOTALL)


@click.command()
@click.argument("spot", metavar="FILE[:LINE[-LINE]]")
@repo_option
@json_option
@reports_failures
def why(spot: str, repo: Path, as_json: bool) -> None:
    """Tell why lines are there: the intent, the session and the edit behind them, and what was refused before.

    Example: remit why src/auth.py:42-50
    """
    gate = governed_gate(repo)
    workspace = gate.workspace
    file, lines = spot_of(spot)
    with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
        index.catch_up()
        found = explained(Blamer(workspace, index, gate.store), inside(workspace, repo, file), lines)
    emit(msgspec.to_builtins(found), as_json, in_words(found))


def explained(blamer: Blamer, path: str, lines: tuple[int, int] | None) -> Explanation:
    """What is behind the lines. Raises Failure where there are none such."""
    try:
        return explain(blamer, path, lines)
    except NoSuchLines as error:
        fix = "name a file of this repository, and lines that it has"
        raise Failure("NOT_FOUND", str(error), target=path, fix=fix) from error


def spot_of(spot: str) -> tuple[str, tuple[int, int] | None]:
    """The file, and first and last line where they are named. Raises Failure."""
    found = SPOT.fullmatch(spot)
    if found is None:
        raise Failure("USAGE", "no file was named", fix="for example: remit why src/app.py:10-20")
    if found["start"] is None:
        return found["file"], None
    start, end = int(found["start"]), int(found["end"] or found["start"])
    if not 1 <= start <= end:
        raise Failure("USAGE", f"{spot!r} names no lines", fix="the first line is 1, and comes before the last")
    return found["file"], (start, end)
