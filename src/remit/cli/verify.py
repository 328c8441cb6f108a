"""`remit verify`: whether the ledger is whole, and what agents changed was allowed."""

import re
import tomllib
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
from remit.core.redaction import compile_pattern
from remit.core.text import shown
from remit.core.trailers import TrailerFinding, against_policy
from remit.gate.gate import Gate
from remit.gate.governing import VERSIONS, copies_of
from remit.gate.heads_found import heads_report
from remit.gate.tracked_check import tracked_findings
from remit.ledger.index import Index
from remit.ledger.verify import verify_log
from remit.provenance.notes.notes import commits_in
from remit.provenance.origins.attribution import Attribution
from remit.provenance.verify.commits import of_messages, of_notes
from remit.provenance.verify.range import range_of
from remit.provenance.verify.rules import INTEGRITY as BROKEN
from remit.provenance.verify.rules import RULES, SEVERITIES, Finding
from remit.provenance.verify.verify import Checked, verify_changes
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

    RANGE is of commits, such as main..HEAD, and a single one is that commit alone: then only what they added, where it
    stands, and what they took away is judged. Without it, every recorded change is. The scope is the one that was in
    force then.
    Exit 5 where the ledger or a recorded content is not what it was, whatever --fail-on says.
    """
    gate = governed_gate(repo)
    ledger = tuple(of_ledger(gate))
    checked, commits = of_changes(gate, wanted)
    said = of_commits(gate, commits)
    found = sorted((*ledger, *checked.findings, *said), key=lambda f: (-SEVERITIES.index(f.severity), f.path, f.line))
    remarks = remarks_on(gate, checked)
    data = {**msgspec.to_builtins(checked), "commits": None if commits is None else len(commits), "findings": found}
    emit({**data, "remarks": remarks}, as_json, in_words(found, checked, remarks))
    if any(f.rule in BROKEN and f.severity == "error" for f in found):
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
            return verify_changes(index, gate.store, kept, None, secrets(gate)), None
        git = Git(workspace.root)
        commits = named(git, wanted)
        within = range_of(git, Attribution(workspace, index, gate.store), commits)
        return verify_changes(index, gate.store, kept, within, secrets(gate)), commits


def secrets(gate: Gate) -> list[re.Pattern[str]]:
    """The team's own patterns of secrets."""
    return list(map(compile_pattern, gate.governing.config.redact.patterns))


def named(git: Git, wanted: str) -> list[str]:
    """The commits of the range. Raises Failure where git knows no such range."""
    try:
        return commits_in(git, wanted)
    except GitError as error:
        message = error.message.strip() or str(error)
        raise Failure("GIT", message, target=wanted, fix="for example: remit verify main..HEAD") from error


def of_commits(gate: Gate, commits: Sequence[str] | None) -> list[Finding]:
    """What notes, and the messages of a range, should not say. Raises GitError."""
    found = list(of_notes(Notes(gate.workspace), commits, secrets(gate)))
    if commits:
        found += of_messages(Git(gate.workspace.root), commits, lambda text: unwanted(gate, text))
    return found


def unwanted(gate: Gate, message: str) -> list[TrailerFinding]:
    """What the policy on trailers does not allow; where none is written down, no more than an agent's signature."""
    style = gate.governing.config.trailers.style
    if gate.governing.config_error:
        return []
    found = against_policy(message, style)
    stated = style != "none" or has_table(gate.workspace.config_path, "trailers")
    return found if stated else [one for one in found if one.code == "SIGNED_OFF_BY_AGENT"]


def has_table(path: Path, name: str) -> bool:
    """Whether a TOML file has that table. Raises OSError."""
    return path.is_file() and name in tomllib.loads(path.read_text("utf-8"))


def remarks_on(gate: Gate, checked: Checked) -> list[str]:
    """What could not be looked at, and what is wrong with logs that are tracked files."""
    broken = gate.governing.config_error
    found = {
        f"{checked.lost} contents are not at hand, so that their hashes stand unchecked": checked.lost,
        f"{checked.unkept} changes name no kept intents file: their own word on the scope was taken": checked.unkept,
        f"no secrets by the team's own patterns were looked for, and no policy on trailers: {broken}": broken,
    }
    return [*(said for said, so in found.items() if so), *(one.message for one in tracked_findings(gate))]


def in_words(found: Sequence[Finding], checked: Checked, remarks: Sequence[str]) -> str:
    """The findings for people, and what was looked at."""
    lines = [line_of(one) for one in found]
    counts = Counter(one.severity for one in found)
    told = ", ".join(f"{counts[s]} {s}{'s' * (counts[s] != 1)}" for s in reversed(SEVERITIES) if counts[s])
    return "\n".join(
        [*lines, f"{told or 'no findings'} in {checked.changes} changes of {checked.files} files", *remarks]
    )


def line_of(one: Finding) -> str:
    """One finding: where, which rule, what."""
    level = click.style(f"{one.severity:<7}", fg=COLOURS[one.severity])
    return f"{place_of(one)}  {one.rule} {level} {RULES[one.rule][1]}: {shown(one.message, 300)}"


def place_of(one: Finding) -> str:
    """The file and line, else the commit or the record as `remit show` takes it, else the ledger as a whole."""
    if one.path:
        return shown(one.path, 120) + (f":{one.line}" if one.line else "")
    if one.commit:
        return f"commit {one.commit[:12]}"
    return f"record {one.record[-12:]}" if one.record else "ledger"
