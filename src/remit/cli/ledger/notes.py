"""`remit notes`: attribution as git notes, which travel with the commits."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import click

from remit.cli.output import FINDINGS, UNAVAILABLE, Failure, command_options, emit, governed_gate, open_gate
from remit.cli.repository import open_index
from remit.core.display_text import sanitise_line
from remit.gate.gate import Gate
from remit.provenance.blame.blame import Blamer
from remit.provenance.notes.audit import audit_notes as audit_notes
from remit.provenance.notes.note_writer import NoteWriter, WrittenNotes, resolve_commits
from remit.workspace.git.command import Git
from remit.workspace.git.refs import NOTES_REF
from remit.workspace.sharing.authorship_notes import NotesBusy, NotesRef


@click.group()
def notes() -> None:
    """Attribution in git notes, in the Git AI authorship format: it travels with the commits, and others read it."""


@contextmanager
def open_note_writer(gate: Gate) -> Generator[NoteWriter]:
    workspace = gate.workspace
    with open_index(workspace) as index:
        yield NoteWriter(Blamer(workspace, index, gate.contents))


@notes.command("write")
@click.argument("commits", required=False, metavar="[RANGE]")
@command_options
def write(commits: str | None, repo: Path, as_json: bool) -> None:
    """Write the notes of the commits in RANGE (main..HEAD, or one commit), by default of all that agents worked on.

    What others wrote into a note stays. Nothing leaves the machine before `remit notes sync`.
    """
    gate = governed_gate(repo)
    require_sharing(gate)
    written = write_notes(gate, commits)
    emit(written, as_json, "\n".join(describe_written(written)))


def write_notes(gate: Gate, commits: str | None) -> WrittenNotes:
    """Write the missing notes. Raises GitError, Failure."""
    with open_note_writer(gate) as writer:
        try:
            return writer.write(writer.find_commits(commits))
        except NotesBusy as error:
            raise Failure.from_error(error, "UNAVAILABLE", exit_code=UNAVAILABLE) from error


def require_sharing(gate: Gate) -> None:
    """Raise Failure unless a person enabled sharing: notes are for other people."""
    if not gate.rules.config.share.notes:
        raise Failure(
            "NOT_SHARED",
            "this repository shares no notes",
            fix="set `notes = true` under [share] in .orchestration/remit.toml, or run `remit init --share-notes`",
        )


def describe_written(written: WrittenNotes) -> list[str]:
    lines = [f"{len(written.commits)} notes written under {NOTES_REF}"]
    lines += [f"left alone: the note of {commit[:12]} is no authorship note" for commit in written.unread]
    lines += [f"left out: the format cannot hold the path {sanitise_line(path)!r}" for path in written.unspeakable]
    if written.unsearched:
        lines.append(f"moved lines were not searched in {written.unsearched} more files: name fewer commits at a time")
    return lines


@notes.command("show")
@click.argument("commit", default="HEAD")
@command_options
def show(commit: str, repo: Path, as_json: bool) -> None:
    """Show the note of COMMIT as it is."""
    gate = open_gate(repo)
    git = Git(gate.workspace.root)
    names = git.text("rev-list", "--no-walk", "--end-of-options", commit, "--", ok=(0, 128)).split()
    if len(names) != 1:
        raise Failure("NOT_FOUND", f"{commit!r} is no commit here", fix="name one that `git log` shows", target=commit)
    text = NotesRef(gate.workspace).read_notes(names).get(names[0])
    if text is None:
        fix = "write it with `remit notes write`, or fetch it with `remit notes sync`"
        raise Failure("NOT_FOUND", f"commit {names[0][:12]} has no note under {NOTES_REF}", fix=fix, target=names[0])
    note = text.decode("utf-8", "replace")
    lines = [sanitise_line(line, 100_000) for line in note.split("\n")]
    emit({"commit": names[0], "note": note}, as_json, "\n".join(lines))


@notes.command("sync")
@click.argument("remote", default="origin")
@command_options
def sync(remote: str, repo: Path, as_json: bool) -> None:
    """Write what is missing, take in REMOTE's notes, and give it ours. Nothing is ever forced.

    Where `[share] notes` is not set, and where Remit does not govern, notes are only taken in.
    """
    gate = open_gate(repo)
    share = gate.is_governed and gate.rules.config.share.notes
    written = write_notes(gate, None) if share else WrittenNotes()
    try:
        exchanged = NotesRef(gate.workspace).sync_remote(remote, push=share)
    except NotesBusy as error:
        raise Failure.from_error(error, "UNAVAILABLE", exit_code=UNAVAILABLE) from error
    state = "nothing to push" if share else "nothing pushed: [share] notes is not set"
    lines = describe_written(written) if share else []
    lines.append(
        f"{exchanged.received} notes from {sanitise_line(remote)}; {'ours pushed' if exchanged.pushed else state}"
    )
    lines += [f"two notes of {commit[:12]} could not be made one: ours stands" for commit in exchanged.unread]
    emit({"written": written, "exchanged": exchanged}, as_json, "\n".join(lines))


@notes.command("audit")
@click.argument("commits", required=False, metavar="[RANGE]")
@command_options
def audit(commits: str | None, repo: Path, as_json: bool) -> None:
    """Check that notes attest only lines which their commits added; exit 1 where one attests more."""
    gate = open_gate(repo)
    names = resolve_commits(Git(gate.workspace.root), commits) if commits is not None else None
    report = audit_notes(NotesRef(gate.workspace), names)
    lines = [f"{finding.code}: {finding.message}" for finding in report.findings]
    lines += [f"{report.absent} notes are of commits that are not here"] if report.absent else []
    emit(report, as_json, "\n".join([*lines, f"{report.notes} notes, {len(report.findings)} findings"]))
    if report.findings:
        raise SystemExit(FINDINGS)
