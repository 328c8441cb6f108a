"""`remit trailers`: what a commit message says of agents, by the project's policy."""

from pathlib import Path

import click
import msgspec

from remit.cli.ledger.notes import open_note_writer
from remit.cli.output import FINDINGS, Failure, emit, json_option, open_gate, repo_option, reports_failures
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
        check_messages(gate, target or "HEAD", as_json)
    elif strip:
        strip_message(gate, require_message_file(target), as_json)
    else:
        write_trailers(gate, target, as_json)


def write_trailers(gate: Gate, target: str | None, as_json: bool) -> None:
    """Add the trailers, or print them."""
    style = gate.rules.config.trailers.style
    if style == "none" or not gate.is_governed:
        emit({"trailers": []}, as_json, "")
        return
    with open_note_writer(gate) as making:
        lines = build_trailers(agents_of_staged_lines(making), style)
    if target is not None:
        path = require_message_file(target)
        before = read_message(path)
        after = add_trailers(before, lines, comment_prefix(gate))
        if after != before:
            path.write_text(after, "utf-8", "surrogateescape", newline="")
    emit({"trailers": lines}, as_json, "\n".join(lines) if target is None else "")


def check_messages(gate: Gate, target: str, as_json: bool) -> None:
    """Hold messages against the policy."""
    found = [
        (where, finding)
        for where, text in read_target_messages(gate, target)
        for finding in find_policy_breaks(gate, text)
    ]
    data = [{"message": where, **msgspec.to_builtins(finding)} for where, finding in found]
    emit({"findings": data}, as_json, "\n".join(finding_line(where, finding) for where, finding in found))
    if found:
        raise SystemExit(FINDINGS)


def strip_message(gate: Gate, path: Path, as_json: bool) -> None:
    """Take out what the policy does not allow."""
    text = read_message(path)
    found = find_policy_breaks(gate, text)
    if found:
        path.write_text(remove_lines(text, found), "utf-8", "surrogateescape", newline="")
    emit(
        {"stripped": msgspec.to_builtins(found)},
        as_json,
        "\n".join(finding_line(path.name, finding) for finding in found),
    )


def find_policy_breaks(gate: Gate, text: str) -> list[TrailerFinding]:
    """What a message should not say."""
    return find_violations(text, gate.rules.config.trailers.style, comment_prefix(gate))


def read_target_messages(gate: Gate, target: str) -> list[tuple[str, str]]:
    """The messages asked about, and what to call them: a file's, or those of commits. Raises Failure, GitError."""
    if Path(target).is_file():
        return [(Path(target).name, read_message(Path(target)))]
    git = Git(gate.workspace.root)
    return [(commit[:12], message) for commit, message in read_commit_messages(git, resolve_commits(git, target))]


def require_message_file(target: str | None) -> Path:
    """The file that is named. Raises Failure."""
    path = Path(target or "")
    if not path.is_file():
        fix = "name the file that git gives to a prepare-commit-msg hook"
        raise Failure("NOT_FOUND", f"{target or ''!r} is no file", fix=fix, target=target or "")
    return path


def read_message(path: Path) -> str:
    """A commit message, byte for byte. Raises OSError, Failure."""
    if path.stat().st_size > MAX_MESSAGE_BYTES:
        raise Failure("INVALID", f"{str(path)!r} is larger than {MAX_MESSAGE_BYTES >> 20} MiB", target=str(path))
    return path.read_bytes().decode("utf-8", "surrogateescape")


def comment_prefix(gate: Gate) -> str:
    """What begins a comment in a message here."""
    found = Git(gate.workspace.root).text("config", "--get", "core.commentChar", ok=(0, 1))
    return found if found and found != "auto" else "#"


def finding_line(where: str, finding: TrailerFinding) -> str:
    """A finding for people."""
    return f"{sanitise_line(where, 80)}:{finding.line}: {finding.code}: {sanitise_line(finding.text, 120)!r}: {finding.message}"  # noqa: E501
