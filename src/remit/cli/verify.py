"""`remit verify`: whether the ledger is whole, and what agents changed was allowed."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from remit.cli.output import (
    FINDINGS,
    INTEGRITY,
    Failure,
    emit,
    governed_gate,
    json_option,
    repo_option,
    reports_failures,
)
from remit.core.text import shown
from remit.gate.gate import Gate
from remit.gate.governing import VERSIONS, copies_of
from remit.gate.witness import heads_report
from remit.ledger.index import Index
from remit.ledger.verify import verify_log
from remit.provenance import verify as rules
from remit.provenance.attribution import Attribution
from remit.provenance.note_audit import audit
from remit.provenance.notes import commits_in
from remit.provenance.verify import SEVERITIES, Checked, Finding
from remit.workspace.git import Git, GitError
from remit.workspace.notes import Notes

COLOURS = {"error": "red", "warning": "yellow", "note": "blue"}


@click.command()
@click.argument("wanted", metavar="[RANGE]", required=False)
@click.option(
    "--fail-on",
    type=click.Choice([*SEVERITIES, "never"]),
    default="error",
    show_default=True,
    help="Exit 1 where a finding weighs that much.",
)
@repo_option
@json_option
@reports_failures
def verify(wanted: str | None, fail_on: str, repo: Path, as_json: bool) -> None:
    """Check the ledger, and that what agents changed was under an intent, in its scope and as declared.

    RANGE is of commits, such as main..HEAD, and a single one is that commit alone: then only lines that they added are
    judged, where they stand. Without it, every recorded change is. The scope is the one that was in force then.
    Exit 5 where the ledger or a recorded content is not what it was, whatever --fail-on says.
    """
    gate = governed_gate(repo)
    ledger = tuple(of_ledger(gate))
    checked, commits = of_changes(gate, wanted)
    noted = of_notes(gate, commits)
    found = sorted((*ledger, *checked.findings, *noted), key=lambda f: (-SEVERITIES.index(f.severity), f.path, f.line))
    data = {**msgspec.to_builtins(checked), "commits": None if commits is None else len(commits), "findings": found}
    emit(data, as_json, in_words(found, checked))
    if any(f.rule in rules.INTEGRITY and f.severity == "error" for f in found):
        raise SystemExit(INTEGRITY)
    if fail_on != "never" and any(SEVERITIES.index(f.severity) >= SEVERITIES.index(fail_on) for f in found):
        raise SystemExit(FINDINGS)


def of_ledger(gate: Gate) -> list[Finding]:
    """What is wrong with the log itself."""
    broken = verify_log(gate.workspace.log_folder, gate.recorder.log.name)
    heads = heads_report(gate.recorder, gate.governing.config)
    return [Finding("RMT007", f.severity, f"{f.code}: {f.message}") for f in (*broken, *heads.findings)]


def of_changes(gate: Gate, wanted: str | None) -> tuple[Checked, list[str] | None]:
    """What is wrong with the changes, and the commits of the range, if there is one. Raises GitError."""
    workspace = gate.workspace
    versions = copies_of(workspace) / VERSIONS

    def kept(digest: str) -> bytes | None:
        path = versions / digest
        return path.read_bytes() if digest.isalnum() and path.is_file() else None

    with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
        index.catch_up()
        if wanted is None:
            return rules.verify_changes(index, gate.store, kept, None), None
        git = Git(workspace.root)
        commits = named(git, wanted)
        spots = rules.spots_in(git, Attribution(workspace, index, gate.store), commits)
        return rules.verify_changes(index, gate.store, kept, spots), commits


def named(git: Git, wanted: str) -> list[str]:
    """The commits of the range. Raises Failure where git knows no such range."""
    try:
        return commits_in(git, wanted)
    except GitError as error:
        message = error.message.strip() or str(error)
        raise Failure("GIT", message, target=wanted, fix="for example: remit verify main..HEAD") from error


def of_notes(gate: Gate, commits: Sequence[str] | None) -> list[Finding]:
    """What notes say that they cannot know. Raises GitError."""
    notes = Notes(gate.workspace)
    return list(map(rules.of_note, audit(notes, commits).findings)) if notes.there() else []


def in_words(found: Sequence[Finding], checked: Checked) -> str:
    """The findings for people, and what was looked at."""
    lines = [line_of(one) for one in found]
    counts = Counter(one.severity for one in found)
    told = ", ".join(f"{counts[s]} {s}{'s' * (counts[s] != 1)}" for s in reversed(SEVERITIES) if counts[s])
    lines.append(f"{told or 'no findings'} in {checked.changes} changes of {checked.files} files")
    if checked.lost:
        lines.append(f"{checked.lost} contents are not at hand, so that their hashes stand unchecked")
    if checked.unkept:
        lines.append(f"{checked.unkept} changes name no kept intents file: their own word on the scope was taken")
    return "\n".join(lines)


def line_of(one: Finding) -> str:
    """One finding: where, which rule, what."""
    place = shown(one.path, 120) + (f":{one.line}" if one.line else "") if one.path else "ledger"
    level = click.style(f"{one.severity:<7}", fg=COLOURS[one.severity])
    return f"{place}  {one.rule} {level} {rules.RULES[one.rule][1]}: {shown(one.message, 300)}"
