"""Read and re-emit every authorship note of a repository, and hold notes against what their commits added.

    python benchmarks/provenance/notes.py REPOSITORY [--audit COMMITS]

REPOSITORY is a clone that has `refs/notes/ai`: `git fetch origin refs/notes/ai:refs/notes/ai` brings a remote's.
It ends with 1 where a note does not come out byte for byte; each such note is listed, with why.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click

from remit.core.formats.authorship_notes import InvalidNote, parse_note, write_note
from remit.provenance.notes.audit import audit_notes
from remit.workspace.place.workspace import Workspace
from remit.workspace.sharing.shared_refs import NotesRef

AT_ONCE = 200


def differing(notes: NotesRef, commits: list[str]) -> Iterator[str]:
    """The notes that do not come out as they were, and why."""
    for commit, raw in notes.read_notes(commits).items():
        try:
            again = write_note(parse_note(raw.decode())).encode()
        except (InvalidNote, UnicodeError) as error:
            yield f"{commit}: {str(error).splitlines()[0]}"
            continue
        if again != raw:
            pairs = enumerate(zip(raw, again, strict=False))
            at = next((n for n, (a, b) in pairs if a != b), min(len(raw), len(again)))
            yield f"{commit}: differs at byte {at}: {raw[at : at + 40]!r} became {again[at : at + 40]!r}"


@click.command()
@click.argument("repository", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--audit", "audited", default=0, metavar="COMMITS", help="Also audit the notes of the newest so many.")
def main(repository: Path, audited: int) -> None:
    """Read and re-emit every note of REPOSITORY."""
    folder = repository / ".git" if (repository / ".git").exists() else repository
    notes = NotesRef(Workspace(repository, git_dir=folder, common_dir=folder))
    commits = sorted(notes.list_notes(notes.read_tip()))
    began = time.perf_counter()
    found = [line for at in range(0, len(commits), AT_ONCE) for line in differing(notes, commits[at : at + AT_ONCE])]
    seconds = time.perf_counter() - began
    click.echo("\n".join(found))
    click.echo(f"{len(commits)} notes, {len(found)} of them not byte for byte, {seconds:.1f} s")
    if audited:
        newest = notes.git.text("rev-list", "--no-merges", f"--max-count={audited}", "HEAD").split()
        done = audit_notes(notes, newest)
        over = len({finding.commit for finding in done.findings})
        click.echo(f"{done.notes} notes of the newest {audited} commits: {over} attest lines that these did not add")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
