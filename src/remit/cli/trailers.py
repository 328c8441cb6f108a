"""`remit trailers`: what a commit message says of agents, by the project's policy."""

from pathlib import Path

import click
import msgspec

from remit.cli.notes import writer
from remit.cli.output import FINDINGS, Failure, emit, json_option, open_gate, repo_option, reports_failures
from remit.core.text import shown
from remit.core.trailers import TrailerFinding, against_policy, trailers_of, with_trailers, without
from remit.gate.gate import Gate
from remit.provenance.notes.notes import commits_in
from remit.provenance.notes.staging import helped
from remit.provenance.verify.commits import messages_of
from remit.workspace.git import Git

MESSAGE_BYTES = 4 << 20


@click.command()
@click.argument("target", required=False, metavar="[MESSAGE_FILE | RANGE]")
@click.option("--check", is_flag=True, help="Only look: exit 1 where a message says what the policy does not allow.")
@click.option("--strip", is_flag=True, help="Take out of MESSAGE_FILE what the policy does not allow.")
@repo_option
@json_option
@reports_failures
def trailers(target: str | None, check: bool, strip: bool, repo: Path, as_json: bool) -> None:
    """Add to MESSAGE_FILE the trailers that say which agents wrote what is staged, or print them.

    `[trailers] style` in remit.toml says which; by default none. Call it from your own prepare-commit-msg hook. With
    --check, a file or a range of commits is held against the policy. Signed-off-by is never written, and an agent's
    is always a finding.
    """
    gate = open_gate(repo)
    if check:
        checked(gate, target or "HEAD", as_json)
    elif strip:
        stripped(gate, message_file(target), as_json)
    else:
        added(gate, target, as_json)


def added(gate: Gate, target: str | None, as_json: bool) -> None:
    """Add the trailers, or print them."""
    style = gate.governing.config.trailers.style
    if style == "none" or not gate.governed:
        emit({"trailers": []}, as_json, "")
        return
    with writer(gate) as making:
        lines = trailers_of(helped(making), style)
    if target is not None:
        path = message_file(target)
        before = message_of(path)
        after = with_trailers(before, lines, comment_sign(gate))
        if after != before:
            path.write_text(after, "utf-8", "surrogateescape", newline="")
    emit({"trailers": lines}, as_json, "\n".join(lines) if target is None else "")


def checked(gate: Gate, target: str, as_json: bool) -> None:
    """Hold messages against the policy."""
    found = [(where, finding) for where, text in messages(gate, target) for finding in findings_in(gate, text)]
    data = [{"message": where, **msgspec.to_builtins(finding)} for where, finding in found]
    emit({"findings": data}, as_json, "\n".join(said(where, finding) for where, finding in found))
    if found:
        raise SystemExit(FINDINGS)


def stripped(gate: Gate, path: Path, as_json: bool) -> None:
    """Take out what the policy does not allow."""
    text = message_of(path)
    found = findings_in(gate, text)
    if found:
        path.write_text(without(text, found), "utf-8", "surrogateescape", newline="")
    emit({"stripped": msgspec.to_builtins(found)}, as_json, "\n".join(said(path.name, finding) for finding in found))


def findings_in(gate: Gate, text: str) -> list[TrailerFinding]:
    """What a message should not say."""
    return against_policy(text, gate.governing.config.trailers.style, comment_sign(gate))


def messages(gate: Gate, target: str) -> list[tuple[str, str]]:
    """The messages asked about, and what to call them: a file's, or those of commits. Raises Failure, GitError."""
    if Path(target).is_file():
        return [(Path(target).name, message_of(Path(target)))]
    git = Git(gate.workspace.root)
    return [(commit[:12], message) for commit, message in messages_of(git, commits_in(git, target))]


def message_file(target: str | None) -> Path:
    """The file that is named. Raises Failure."""
    path = Path(target or "")
    if not path.is_file():
        fix = "name the file that git gives to a prepare-commit-msg hook"
        raise Failure("NOT_FOUND", f"{target or ''!r} is no file", fix=fix, target=target or "")
    return path


def message_of(path: Path) -> str:
    """A commit message, byte for byte. Raises OSError, Failure."""
    if path.stat().st_size > MESSAGE_BYTES:
        raise Failure("INVALID", f"{str(path)!r} is larger than {MESSAGE_BYTES >> 20} MiB", target=str(path))
    return path.read_bytes().decode("utf-8", "surrogateescape")


def comment_sign(gate: Gate) -> str:
    """What begins a comment in a message here."""
    found = Git(gate.workspace.root).text("config", "--get", "core.commentChar", ok=(0, 1))
    return found if found and found != "auto" else "#"


def said(where: str, finding: TrailerFinding) -> str:
    """A finding for people."""
    return f"{shown(where, 80)}:{finding.line}: {finding.code}: {shown(finding.text, 120)!r}: {finding.message}"
