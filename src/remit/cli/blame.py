"""`remit blame`: who wrote each line, under which intent."""

import os
from pathlib import Path

import click
import msgspec

from remit.cli.output import Failure, emit, governed_gate, json_option, repo_option, reports_failures
from remit.core.text import shown
from remit.ledger.index import Index
from remit.provenance.blame import BlamedLine, Blamer
from remit.workspace.place import Workspace


@click.command()
@click.argument("words", nargs=-1, required=True, metavar="[REVISION] FILE")
@click.option("-L", "ranges", multiple=True, metavar="START,END", help="Only these lines, as git blame takes them.")
@click.option("-w", "spaces", is_flag=True, help="Look through changes of white space.")
@click.option("-M", "moved", count=True, help="Look through moves within a file.")
@click.option("-C", "copied", count=True, help="Look through moves between files; more of them look further.")
@repo_option
@json_option
@reports_failures
def blame(
    words: tuple[str, ...], ranges: tuple[str, ...], spaces: bool, moved: int, copied: int, repo: Path, as_json: bool
) -> None:
    """Show for each line who wrote it, and under which intent.

    git tells which version of the file a line came with; the ledger tells who wrote what that version added.
    """
    revision, file = named(words)
    gate = governed_gate(repo)
    workspace = gate.workspace
    flags = [*(f"-L{r}" for r in ranges), *["-w"] * spaces, *["-M"] * bool(moved), *["-C"] * min(copied, 3), *revision]
    with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
        index.catch_up()
        lines = Blamer(workspace, index, gate.store).blame(inside(workspace, repo, file), flags)
    emit({"lines": [as_contract(line) for line in lines]}, as_json, "\n".join(map(text_line, lines)))


def named(words: tuple[str, ...]) -> tuple[list[str], str]:
    """The revision, if one was given, and the file. Raises Failure."""
    *revision, file = words
    if len(words) > 2 or any(word.startswith("-") for word in revision):
        raise Failure(
            "USAGE",
            f"{' '.join(words)[:200]!r} is not [REVISION] FILE",
            fix="for example: remit blame HEAD~1 src/app.py",
        )
    return revision, file


def inside(workspace: Workspace, repo: Path, file: str) -> str:
    """The file as a path from the workspace's root; it need not exist any more. Raises Failure."""
    start = Path.cwd() if repo == Path() else workspace.root
    path = Path(os.path.normpath(start.resolve() / file))
    real = path.parent.resolve() / path.name
    if not real.is_relative_to(workspace.root):
        raise Failure("OUTSIDE_WORKSPACE", f"{file!r} is not in {str(workspace.root)!r}", target=file)
    return str(real.relative_to(workspace.root))


def as_contract(line: BlamedLine) -> dict[str, object]:
    """A line in the shape of contracts §9."""
    document = msgspec.to_builtins(line)
    document["class"] = document.pop("mutation_class")
    return document


def text_line(line: BlamedLine) -> str:
    """A line for people."""
    who = line.agent if line.origin == "ai" else line.origin
    return f"{line.commit[:8]} {line.intent_id or '-':<8} {who or '?':<12} {line.line:>4}) {shown(line.content, 200)}"
