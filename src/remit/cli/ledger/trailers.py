"""`remit trailers`: statements about agents in commit messages, by the project's policy."""

from pathlib import Path

import click
import msgspec

from remit.cli.ledger.notes import open_note_writer
from remit.cli.output import FINDINGS, Failure, command_options, emit, open_gate
from remit.core.display_text import sanitise_line
from remit.core.formats.commit_trailers import (
    TrailerFinding,
    add_trailers,
    build_trailers,
    find_violations,
    remove_lines,
)
from remit.gate.gate import Gate
from remit.provenance.notes.note_writer import agents_of_staged_lines, resolve_commits
from remit.provenance.verify.commit_messages import read_commit_messages
from remit.workspace.git.command import Git

MAX_MESSAGE_BYTES = 4 << 20


@click.command()
@click.argument("target", required=False, metavar="[MESSAGE_FILE | RANGE]")
@click.option("--check", is_flag=True, help="Only look: exit 1 where a message says what the policy does not allow.")
@click.option("--strip", is_flag=True, help="Take out of MESSAGE_FILE what the policy does not allow.")
@command_options
def trailers(target: str | None, check: bool, strip: bool, repo: Path, as_json: bool) -> None:
    """Add to MESSAGE_FILE the trailers that say which agents wrote what is staged, or print them.

    `[trailers] style` in remit.toml says which; by default none. Call it from your own prepare-commit-msg hook. With
    --check, a file or a range of commits is held against the policy. Signed-off-by is never written, and an agent's
    is always a finding.
    """
    gate = open_gate(repo)
    if check:
        check_messages(gate, target or "HEAD", as_json)
    elif strip:
        strip_message(gate, require_message_file(target), as_json)
    else:
        write_trailers(gate, target, as_json)


def write_trailers(gate: Gate, target: str | None, as_json: bool) -> None:
    style = gate.rules.config.trailers.style
    if style == "none" or not gate.is_governed:
        emit({"trailers": []}, as_json, "")
        return
    with open_note_writer(gate) as writer:
        lines = build_trailers(agents_of_staged_lines(writer), style)
    if target is not None:
        path = require_message_file(target)
        before = read_message(path)
        after = add_trailers(before, lines, comment_prefix(gate))
        if after != before:
            path.write_text(after, "utf-8", "surrogateescape", newline="")
    emit({"trailers": lines}, as_json, "\n".join(lines) if target is None else "")


def check_messages(gate: Gate, target: str, as_json: bool) -> None:
    """Check messages against the policy."""
    messages = read_target_messages(gate, target)
    findings = [(name, finding) for name, text in messages for finding in find_policy_breaks(gate, text)]
    data = [{"message": name, **msgspec.to_builtins(finding)} for name, finding in findings]
    emit({"findings": data}, as_json, "\n".join(finding_line(name, finding) for name, finding in findings))
    if findings:
        raise SystemExit(FINDINGS)


def strip_message(gate: Gate, path: Path, as_json: bool) -> None:
    """Remove trailers that the policy does not allow."""
    text = read_message(path)
    findings = find_policy_breaks(gate, text)
    if findings:
        path.write_text(remove_lines(text, findings), "utf-8", "surrogateescape", newline="")
    emit({"stripped": findings}, as_json, "\n".join(finding_line(path.name, finding) for finding in findings))


def find_policy_breaks(gate: Gate, text: str) -> list[TrailerFinding]:
    return find_violations(text, gate.rules.config.trailers.style, comment_prefix(gate))


def read_target_messages(gate: Gate, target: str) -> list[tuple[str, str]]:
    """Return messages with a name: of a file, or of commits. Raises Failure, GitError."""
    if Path(target).is_file():
        return [(Path(target).name, read_message(Path(target)))]
    git = Git(gate.workspace.root)
    return [(commit[:12], message) for commit, message in read_commit_messages(git, resolve_commits(git, target))]


def require_message_file(target: str | None) -> Path:
    """Return the named file. Raises Failure."""
    path = Path(target or "")
    if not path.is_file():
        fix = "name the file that git gives to a prepare-commit-msg hook"
        raise Failure("NOT_FOUND", f"{target or ''!r} is no file", fix=fix, target=target or "")
    return path


def read_message(path: Path) -> str:
    """Return a commit message, byte for byte. Raises OSError, Failure."""
    if path.stat().st_size > MAX_MESSAGE_BYTES:
        raise Failure("INVALID", f"{str(path)!r} is larger than {MAX_MESSAGE_BYTES >> 20} MiB", target=str(path))
    return path.read_bytes().decode("utf-8", "surrogateescape")


def comment_prefix(gate: Gate) -> str:
    prefix = Git(gate.workspace.root).text("config", "--get", "core.commentChar", ok=(0, 1))
    return prefix if prefix and prefix != "auto" else "#"


def finding_line(name: str, finding: TrailerFinding) -> str:
    text = sanitise_line(finding.text, 120)
    return f"{sanitise_line(name, 80)}:{finding.line}: {finding.code}: {text!r}: {finding.message}"
