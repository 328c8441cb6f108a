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
from remit.core.text import shown
from remit.gate.gate import Gate
from remit.ledger.index import Index
from remit.provenance.blame.blame import Blamer
from remit.provenance.notes.audit import audit as audit_notes
from remit.provenance.notes.notes import NoteWriter, Written, commits_in
from remit.workspace.git import Git
from remit.workspace.notes import Notes, NotesBusy, Synced
from remit.workspace.refs import AUTHORSHIP


@click.group()
def notes() -> None:
    """Attribution in git notes, in the Git AI authorship format: it travels with the commits, and others read it."""


@contextmanager
def writer(gate: Gate) -> Generator[NoteWriter]:
    """The writer of a governed repository's notes."""
    workspace = gate.workspace
    with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
        index.catch_up()
        yield NoteWriter(Blamer(workspace, index, gate.store))


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
    must_share(gate)
    done = written(gate, commits)
    emit(msgspec.to_builtins(done), as_json, "\n".join(said_written(done)))


def written(gate: Gate, commits: str | None) -> Written:
    """Write the notes. Raises GitError, Failure."""
    with writer(gate) as making:
        try:
            return making.write(making.lacking(commits))
        except NotesBusy as error:
            raise busy(error) from error


def must_share(gate: Gate) -> None:
    """Notes are for others: they are made only where a person said so. Raises Failure."""
    if not gate.governing.config.share.notes:
        raise Failure(
            "NOT_SHARED",
            "this repository shares no notes",
            fix="set `notes = true` under [share] in .orchestration/remit.toml, or run `remit init --share-notes`",
        )


def busy(error: NotesBusy) -> Failure:
    """The failure that others kept writing."""
    message, _, hint = str(error).partition("\nhint: ")
    return Failure("UNAVAILABLE", message, fix=hint, exit_code=4)


def said_written(done: Written) -> list[str]:
    """What was written, for people."""
    lines = [f"{len(done.commits)} notes written under {AUTHORSHIP}"]
    lines += [f"left alone: the note of {commit[:12]} is no authorship note" for commit in done.unread]
    lines += [f"left out: the format cannot hold the path {shown(path)!r}" for path in done.unspeakable]
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
    text = Notes(gate.workspace).read(names).get(names[0])
    if text is None:
        fix = "write it with `remit notes write`, or fetch it with `remit notes sync`"
        raise Failure("NOT_FOUND", f"commit {names[0][:12]} has no note under {AUTHORSHIP}", fix=fix, target=names[0])
    said = text.decode("utf-8", "replace")
    emit({"commit": names[0], "note": said}, as_json, "\n".join(shown(line, 100_000) for line in said.split("\n")))


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
    share = gate.governed and gate.governing.config.share.notes
    done = written(gate, None) if share else Written()
    try:
        exchanged = Notes(gate.workspace).sync(remote, push=share)
    except NotesBusy as error:
        raise busy(error) from error
    data = {"written": msgspec.to_builtins(done), "exchanged": msgspec.to_builtins(exchanged)}
    emit(data, as_json, "\n".join([*(said_written(done) if share else ()), *said_exchanged(exchanged, remote, share)]))


def said_exchanged(done: Synced, remote: str, share: bool) -> list[str]:
    """What was exchanged, for people."""
    end = "ours pushed" if done.pushed else "nothing to push" if share else "nothing pushed: [share] notes is not set"
    lines = [f"{done.received} notes from {shown(remote)}; {end}"]
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
    wanted = commits_in(Git(gate.workspace.root), commits) if commits is not None else None
    found = audit_notes(Notes(gate.workspace), wanted)
    lines = [f"{finding.code}: {finding.message}" for finding in found.findings]
    lines += [f"{found.absent} notes are of commits that are not here"] if found.absent else []
    emit(
        msgspec.to_builtins(found), as_json, "\n".join([*lines, f"{found.notes} notes, {len(found.findings)} findings"])
    )
    if found.findings:
        raise SystemExit(FINDINGS)
