"""Attribution that travels with commits: `remit notes`, as git notes, and `remit trailers`, in their messages."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec

from remit.cli.output import FINDINGS, UNAVAILABLE, Failure, command_options, emit, governed_gate, open_gate, open_index
from remit.core.formats import commit_trailers
from remit.core.untrusted_input import sanitise_line
from remit.gate.gate import Gate
from remit.provenance.blame.blame import Blamer
from remit.provenance.notes.derived_notes import derive_notes
from remit.provenance.notes.note_writer import NoteWriter, WrittenNotes, agents_of_staged_lines, resolve_commits
from remit.provenance.verify.integrity_rules import read_commit_messages
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.repository import NOTES_REF
from remit.workspace.sharing.shared_refs import NotesBusy, NotesRef

MAX_MESSAGE_BYTES = 4 << 20


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
    if not gate.rules.config.share.notes:  # notes are for other people
        fix = "set `notes = true` under [share] in .orchestration/remit.toml, or run `remit init --share-notes`"
        raise Failure("NOT_SHARED", "this repository shares no notes", fix=fix)
    written = write_notes(gate, commits)
    emit(written, as_json, describe_written(written))


def write_notes(gate: Gate, commits: str | None) -> WrittenNotes:
    with open_note_writer(gate) as writer:
        try:
            return writer.write(writer.find_commits(commits))
        except NotesBusy as error:
            raise Failure.from_error(error, "UNAVAILABLE", exit_code=UNAVAILABLE) from error


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
    emit({"commit": names[0], "note": note}, as_json, [sanitise_line(line, 100_000) for line in note.split("\n")])


@notes.command("sync")
@click.argument("remote", default="origin")
@command_options
def sync(remote: str, repo: Path, as_json: bool) -> None:
    """Write missing notes, take in REMOTE's notes, and push ours to REMOTE. A push is never forced.

    Commits that repeat noted commits (a squash or rebase merge on a forge, a cherry-pick) get notes derived from the
    notes of the originals; if noted commits are missing here, the forge's refs of pull requests are fetched.

    Without `[share] notes`, and in repositories not governed by Remit, notes are only taken in.
    """
    gate = open_gate(repo)
    share = gate.is_governed and gate.rules.config.share.notes
    written = write_notes(gate, None) if share else WrittenNotes()
    notes_ref = NotesRef(gate.workspace)
    derived: tuple[str, ...] = ()
    not_derived = None
    try:
        exchanged = notes_ref.sync_remote(remote, push=share)
        try:
            derived = derive_notes(gate.workspace, remote)
        except GitError as error:  # what was exchanged stands
            not_derived = str(error)
        if derived and share:
            exchanged = msgspec.structs.replace(notes_ref.sync_remote(remote, push=True), received=exchanged.received)
    except NotesBusy as error:
        raise Failure.from_error(error, "UNAVAILABLE", exit_code=UNAVAILABLE) from error
    state = "nothing to push" if share else "nothing pushed: [share] notes is not set"
    state = "ours pushed" if exchanged.pushed else state
    lines = describe_written(written) if share else []
    lines.append(f"{exchanged.received} notes from {sanitise_line(remote)}; {state}")
    lines += [f"two notes of {commit[:12]} could not be made one: ours stands" for commit in exchanged.unread]
    if derived:
        lines.append(f"{len(derived)} notes derived from those of the commits that were squashed, rebased or picked")
    if not_derived:
        lines.append(f"no notes were derived for squashed commits: {sanitise_line(not_derived)}")
    about = {"written": written, "exchanged": exchanged, "derived": derived, "not_derived": not_derived}
    emit(about, as_json, lines)


@click.command()
@click.argument("target", required=False, metavar="[MESSAGE_FILE | RANGE]")
@click.option("--check", is_flag=True, help="Only look: exit 1 where a message says what the policy does not allow.")
@click.option("--strip", is_flag=True, help="Take out of MESSAGE_FILE what the policy does not allow.")
@command_options
def trailers(target: str | None, check: bool, strip: bool, repo: Path, as_json: bool) -> None:
    """Add trailers to MESSAGE_FILE that name the agents who wrote the staged lines, or print the trailers.

    `[trailers] style` in remit.toml sets the form; the default is none. Call the command from your own
    prepare-commit-msg hook. With --check, a file or a range of commits is checked against the policy. Signed-off-by is
    never written, and an agent's Signed-off-by is always a finding.
    """
    gate = open_gate(repo)
    if check:
        check_messages(gate, target or "HEAD", as_json)
        return
    if strip:
        path = require_message_file(target)
        text = read_message(path)
        findings = find_policy_breaks(gate, text)
        if findings:
            path.write_text(commit_trailers.remove_lines(text, findings), "utf-8", "surrogateescape", newline="")
        emit({"stripped": findings}, as_json, [finding_line(path.name, finding) for finding in findings])
        return
    style = gate.rules.config.trailers.style
    if style == "none" or not gate.is_governed:
        emit({"trailers": []}, as_json, "")
        return
    with open_note_writer(gate) as writer:
        lines = commit_trailers.build_trailers(agents_of_staged_lines(writer), style)
    if target is not None:
        path = require_message_file(target)
        before = read_message(path)
        after = commit_trailers.add_trailers(before, lines, comment_prefix(gate))
        if after != before:
            path.write_text(after, "utf-8", "surrogateescape", newline="")
    emit({"trailers": lines}, as_json, lines if target is None else "")


def check_messages(gate: Gate, target: str, as_json: bool) -> None:
    """Check messages against the policy: of a file, or of commits. Raises Failure, GitError."""
    if Path(target).is_file():
        messages = [(Path(target).name, read_message(Path(target)))]
    else:
        git = Git(gate.workspace.root)
        messages = [(name[:12], text) for name, text in read_commit_messages(git, resolve_commits(git, target))]
    findings = [(name, finding) for name, text in messages for finding in find_policy_breaks(gate, text)]
    data = [{"message": name, **msgspec.to_builtins(finding)} for name, finding in findings]
    lines = [finding_line(name, finding) for name, finding in findings]
    emit({"findings": data}, as_json, lines, FINDINGS if findings else 0)


def find_policy_breaks(gate: Gate, text: str) -> list[commit_trailers.TrailerFinding]:
    return commit_trailers.find_violations(text, gate.rules.config.trailers.style, comment_prefix(gate))


def require_message_file(target: str | None) -> Path:
    path = Path(target or "")
    if not path.is_file():
        fix = "name the file that git gives to a prepare-commit-msg hook"
        raise Failure("NOT_FOUND", f"{target or ''!r} is no file", fix=fix, target=target or "")
    return path


def read_message(path: Path) -> str:
    if path.stat().st_size > MAX_MESSAGE_BYTES:
        raise Failure("INVALID", f"{str(path)!r} is larger than {MAX_MESSAGE_BYTES >> 20} MiB", target=str(path))
    return path.read_bytes().decode("utf-8", "surrogateescape")


def comment_prefix(gate: Gate) -> str:
    prefix = Git(gate.workspace.root).text("config", "--get", "core.commentChar", ok=(0, 1))
    return prefix if prefix and prefix != "auto" else "#"


def finding_line(name: str, finding: commit_trailers.TrailerFinding) -> str:
    text = sanitise_line(finding.text, 120)
    return f"{sanitise_line(name, 80)}:{finding.line}: {finding.code}: {text!r}: {finding.message}"
