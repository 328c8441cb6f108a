"""What is doubtful about a scope in this tree: said when it is written, never refused."""

import os
from collections.abc import Iterable, Iterator

import click

from remit.core.globs import Scope
from remit.core.text import shown
from remit.core.validation import doubt
from remit.gate.gate import Gate
from remit.workspace.git import Git, GitError
from remit.workspace.observe import walk_names

NEXT = "`remit intent edit ID --scope GLOB` writes it anew"


def warn_of(gate: Gate, scope: Iterable[str]) -> None:
    """Say on standard error what is doubtful about a scope that was just written."""
    for said in doubts(gate, tuple(scope)):
        click.echo(f"warning: {said}", err=True)


def doubts(gate: Gate, scope: tuple[str, ...]) -> Iterator[str]:
    """What is doubtful about each pattern; and about all together, that they own no file that is there."""
    found = [f"{shown(repr(pattern))} {why}; {NEXT}" for pattern in scope if (why := doubt(pattern))]
    yield from found
    if not found and not owns_a_file(gate, scope):
        yield (
            f"{', '.join(map(shown, scope))} matches no file that is there now: right for new files, "
            f"else look at the spelling; {NEXT}"
        )


def owns_a_file(gate: Gate, scope: tuple[str, ...]) -> bool:
    """Whether any file of the tree is in the scope; also where git cannot tell."""
    matcher = Scope(scope)
    try:
        return any(matcher.matches(path) for path in files(gate))
    except GitError:
        return True


def files(gate: Gate) -> Iterable[str]:
    """The files of the workspace, those that git ignores left out."""
    workspace = gate.workspace
    if workspace.common_dir is None:
        return walk_names(workspace.root)
    out = Git(workspace.root).run("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return (path for path in os.fsdecode(out).split("\0") if path)
