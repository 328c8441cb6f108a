"""`remit blame`: who wrote each line, under which intent."""

from pathlib import Path

import click
import msgspec

from remit.cli.output import emit, governed_gate, json_option, repo_option, reports_failures
from remit.core.text import shown
from remit.ledger.index import Index
from remit.provenance.blame import BlamedLine, Blamer


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("-L", "ranges", multiple=True, metavar="START,END", help="Only these lines, as git blame takes them.")
@repo_option
@json_option
@reports_failures
def blame(file: Path, ranges: tuple[str, ...], repo: Path, as_json: bool) -> None:
    """Show for each line who wrote it, and under which intent.

    git tells which version of the file a line came with; the ledger tells who wrote what that version added.
    """
    gate = governed_gate(repo)
    workspace = gate.workspace
    path = (Path.cwd() / file if repo == Path() else workspace.root / file).resolve().relative_to(workspace.root)
    with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
        index.catch_up()
        lines = Blamer(workspace, index, gate.store).blame(str(path), [f"-L{r}" for r in ranges])
    emit({"lines": [as_contract(line) for line in lines]}, as_json, "\n".join(map(text_line, lines)))


def as_contract(line: BlamedLine) -> dict[str, object]:
    """A line in the shape of contracts §9."""
    document = msgspec.to_builtins(line)
    document["class"] = document.pop("mutation_class")
    return document


def text_line(line: BlamedLine) -> str:
    """A line for people."""
    who = line.agent if line.origin == "ai" else line.origin
    return f"{line.commit[:8]} {line.intent_id or '-':<8} {who or '?':<12} {line.line:>4}) {shown(line.content, 200)}"
