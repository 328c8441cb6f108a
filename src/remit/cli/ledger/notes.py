"""`remit notes`: attribution as git notes, which travel with the commits."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec

from remit.cli.output import (
    FINDINGS,
    Failure,
    emit,
    governed_gate,
    json_option,
    open_gate,
    repo_option,
    reports_failures,
)
from remit.core.display_text import sanitise_line
from remit.gate.gate import Gate
from remit.ledger.index.index import open_index
from remit.provenance.blame.blame import Blamer
from remit.provenance.notes.audit import audit_notes as audit_notes
from remit.provenance.notes.note_writer import NoteWriter, WrittenNotes, resolve_commits
from remit.workspace.git.command import Git
from remit.workspace.git.refs import NOTES_REF
from remit.workspace.sharing.authorship_notes import NotesBusy, NotesRef, SyncResult


@click.group()
def notes() -> None:
    """Attribution in git notes, in the Git AI authorship format: it travels with the commits, and others read it."""


@contextmanager
def open_note_writer(gate: Gate) -> Generator[NoteWriter]:
    """The writer of a governed repository's notes."""
    workspace = gate.workspace
    with open_index(workspace.state, workspace.log_folder) as index:
        yield NoteWriter(Blamer(workspace, index, gate.contents))


@notes.command("write")
@click.argument("commits", required=False, metavar="[RANGE]")
@repo_option
@json_option
@reports_failures
def write(commits: str | None, repo: Path, as_json: bool) -> None:
    """Write the notes of the commits in RANGE (main..HEAD, or one commit), by default of all that agents worked on.

    What others wrote into a note stays. Nothing leaves the machine before `remit notes sync`.
    """
    gate = governed_gate(repo)
    require_sharing(gate)
    done = write_notes(gate, commits)
    emit(msgspec.to_builtins(done), as_json, "\n".join(describe_written(done)))


def write_notes(gate: Gate, commits: str | None) -> WrittenNotes:
    """Write the notes. Raises GitError, Failure."""
    with open_note_writer(gate) as making:
        try:
            return making.write(making.find_commits(commits))
        except NotesBusy as error:
            raise busy_failure(error) from error


def require_sharing(gate: Gate) -> None:
    """Notes are for others: they are made only where a person said so. Raises Failure."""
    if not gate.rules.config.share.notes:
        raise Failure(
            "NOT_SHARED",
            "this repository shares no notes",
            fix="set `notes = true` under [share] in .orchestration/remit.toml, or run `remit init --share-notes`",
        )


def busy_failure(error: NotesBusy) -> Failure:
    """The failure that others kept writing."""
    message, _, hint = str(error).partition("\nhint: ")
    return Failure("UNAVAILABLE", message, fix=hint, exit_code=4)


def describe_written(done: WrittenNotes) -> list[str]:
    """What was written, for people."""
    lines = [f"{len(done.commits)} notes written under {NOTES_REF}"]
    lines += [f"left alone: the note of {commit[:12]} is no authorship note" for commit in done.unread]
    lines += [f"left out: the format cannot hold the path {sanitise_line(path)!r}" for path in done.unspeakable]
    if done.unsearched:
        lines.append(f"in {done.unsearched} more files moved lines were not looked for: name fewer commits at a time")
    return lines


@notes.command("show")
@click.argument("commit", default="HEAD")
@repo_option
@json_option
@reports_failures
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
    said = text.decode("utf-8", "replace")
    emit(
        {"commit": names[0], "note": said},
        as_json,
        "\n".join(sanitise_line(line, 100_000) for line in said.split("\n")),
    )


@notes.command("sync")
@click.argument("remote", default="origin")
@repo_option
@json_option
@reports_failures
def sync(remote: str, repo: Path, as_json: bool) -> None:
    """Write what is missing, take in REMOTE's notes, and give it ours. Nothing is ever forced.

    Where `[share] notes` is not set, and where Remit does not govern, notes are only taken in.
    """
    gate = open_gate(repo)
    share = gate.is_governed and gate.rules.config.share.notes
    done = write_notes(gate, None) if share else WrittenNotes()
    try:
        exchanged = NotesRef(gate.workspace).sync_remote(remote, push=share)
    except NotesBusy as error:
        raise busy_failure(error) from error
    data = {"written": msgspec.to_builtins(done), "exchanged": msgspec.to_builtins(exchanged)}
    emit(
        data,
        as_json,
        "\n".join([*(describe_written(done) if share else ()), *describe_exchange(exchanged, remote, share)]),
    )


def describe_exchange(done: SyncResult, remote: str, share: bool) -> list[str]:
    """What was exchanged, for people."""
    end = "ours pushed" if done.pushed else "nothing to push" if share else "nothing pushed: [share] notes is not set"
    lines = [f"{done.received} notes from {sanitise_line(remote)}; {end}"]
    lines += [f"two notes of {commit[:12]} could not be made one: ours stands" for commit in done.unread]
    return lines


@notes.command("audit")
@click.argument("commits", required=False, metavar="[RANGE]")
@repo_option
@json_option
@reports_failures
def audit(commits: str | None, repo: Path, as_json: bool) -> None:
    """Check that notes attest only lines which their commits added; exit 1 where one attests more."""
    gate = open_gate(repo)
    wanted = resolve_commits(Git(gate.workspace.root), commits) if commits is not None else None
    found = audit_notes(NotesRef(gate.workspace), wanted)
    lines = [f"{finding.code}: {finding.message}" for finding in found.findings]
    lines += [f"{found.absent} notes are of commits that are not here"] if found.absent else []
    emit(
        msgspec.to_builtins(found), as_json, "\n".join([*lines, f"{found.notes} notes, {len(found.findings)} findings"])
    )
    if found.findings:
        raise SystemExit(FINDINGS)
