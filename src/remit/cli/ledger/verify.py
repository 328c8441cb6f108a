"""`remit verify`: check that the ledger is intact, and that agents' changes followed the rules."""

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import Struct

from remit.cli import output
from remit.cli.blame.blame import grade_option
from remit.core.config import Config
from remit.core.formats.commit_trailers import TrailerFinding, find_violations
from remit.core.redaction import compile_team_pattern
from remit.core.untrusted_input import sanitise_line
from remit.gate.gate import Gate
from remit.gate.governing.rules import VERSIONS_FOLDER, copies_folder
from remit.gate.records.check_logs import check_ledger, describe_shared_logs, find_tracked_log_faults
from remit.gate.records.tree_heads import trusted_keys
from remit.provenance.blame.blame import Blamer
from remit.provenance.notes.added_lines import find_additions
from remit.provenance.notes.note_writer import resolve_commits
from remit.provenance.origins.evidence_grades import GRADES, parse_grades
from remit.provenance.verify.change_rules import BasePolicy, check_noted_line, read_base_policy
from remit.provenance.verify.changed_hunks import (
    ChangedHunk,
    ReviewedHunks,
    find_ends,
    find_uncommitted_range,
    list_changed_hunks,
)
from remit.provenance.verify.integrity_rules import check_messages, check_notes
from remit.provenance.verify.range_evidence import RangeEvidence, describe_evidence, find_range, measure_evidence
from remit.provenance.verify.rules import INTEGRITY_RULES, SEVERITIES, RuleFinding
from remit.provenance.verify.verify import VerificationResult, verify_changes
from remit.workspace.git.command import Git, GitError
from remit.workspace.sharing.shared_refs import NotesRef

SEVERITY_COLOURS = {"error": "red", "warning": "yellow", "note": "blue"}


class VerifyPolicy(Struct, frozen=True):
    """The configuration to judge by, and its error. `base` is set for a range."""

    config: Config
    config_error: str | None
    text: str | None
    base: BasePolicy | None = None


@click.command()
@click.argument("wanted", metavar="[RANGE]", required=False)
@click.option(
    "--fail-on",
    type=click.Choice([*SEVERITIES, "never"]),
    default="error",
    show_default=True,
    help="Exit 1 where a finding weighs that much.",
)
@click.option(
    "--require-evidence",
    is_flag=True,
    help="Exit 1 where a line or a change of RANGE has no evidence of who made it, whatever --fail-on says.",
)
@click.option(
    "--min-evidence",
    type=click.FloatRange(0, 100),
    metavar="PERCENT",
    help="The same, where fewer than so many per cent of the lines, or of the changes, have evidence.",
)
@grade_option
@click.option("--base", metavar="REVISION", help="Judge by the policy of that commit. [default: where RANGE starts]")
@click.option("--uncommitted", is_flag=True, help="Judge only what no commit has yet.")
@click.option("--hunks", is_flag=True, help="Also each hunk of RANGE, or of what no commit has, with its author.")
@output.command_options
def verify(
    wanted: str | None,
    fail_on: str,
    require_evidence: bool,
    min_evidence: float | None,
    grade: str | None,
    base: str | None,
    uncommitted: bool,
    hunks: bool,
    repo: Path,
    as_json: bool,
) -> None:
    """Check the ledger, and that agents changed files only under an intent, in its scope and as declared.

    RANGE names commits, such as main..HEAD; a single commit stands for itself. With RANGE, only lines that the commits
    added and that still stand, and lines that they removed, are judged: by the scope in force at the time, and by the
    policy of the commit where RANGE starts. The result also states how much of RANGE has evidence: records of this
    machine, shared records signed by a trusted key, or notes. Without RANGE, every recorded change is judged. Exit 5 if
    the ledger or a recorded content was altered, whatever --fail-on says.
    """
    if wanted is not None and uncommitted:
        raise output.Failure("USAGE", "a range is of commits", fix="leave RANGE or --uncommitted out")
    if hunks and wanted is None:
        uncommitted = True
    if wanted is None and (require_evidence or min_evidence is not None or base is not None):
        raise output.Failure(
            "USAGE", "evidence and a base belong to a range", fix="for example: remit verify main..HEAD"
        )
    gate = output.open_gate(repo)
    if wanted is None:
        output.require_governed(gate)
    policy = policy_for(gate, wanted, base)
    findings: set[RuleFinding] = set()
    if gate.is_governed:
        report = check_ledger(gate.recorder, policy.config)
        findings.update(
            RuleFinding("RMT007", item.severity, f"{item.code}: {item.message}") for item in report.findings
        )
    grades = parse_grades(grade) if grade else frozenset(GRADES)
    reviewed = read_hunks(gate, wanted, policy) if uncommitted or hunks else None
    if uncommitted and reviewed is not None:
        checked, commits, evidence = check_uncommitted(gate, reviewed.hunks, policy), None, None
    else:
        checked, commits, evidence = check_changes(gate, wanted, policy, grades)
    required = 100.0 if require_evidence else min_evidence
    missing: list[RuleFinding] = []
    for item in evidence.missing if evidence and required is not None and not evidence.suffices(required) else ():
        lines = f"{item.lines} line{'s' * (item.lines != 1)}" if item.lines else "what was removed"
        message = f"no record and no note tells who made {lines} of this change"
        missing.append(RuleFinding("RMT019", "error", message, item.path, item.line, item.commit))
    findings.update(checked.findings, missing)
    findings.update(check_notes(NotesRef(gate.workspace), commits, secret_patterns(gate, policy)))
    if commits:
        git = Git(gate.workspace.root)
        findings.update(check_messages(git, commits, lambda text: trailer_findings(policy, text)))
    ordered = sorted(
        findings, key=lambda f: (-SEVERITIES.index(f.severity), f.path, f.line, f.rule, f.record or "", f.message)
    )
    remarks = remarks_on(gate, checked, policy)
    data: dict[str, Any] = {
        **msgspec.to_builtins(checked),
        "commits": None if commits is None else len(commits),
        "findings": ordered,
        "remarks": remarks,
        "evidence": evidence and {**msgspec.to_builtins(evidence), "required": required},
        "base": policy.base and policy.base.commit,
        **(msgspec.to_builtins(reviewed) if reviewed and hunks else {}),
    }
    worst = max((SEVERITIES.index(finding.severity) for finding in ordered), default=-1)
    code = output.FINDINGS if missing or (fail_on != "never" and worst >= SEVERITIES.index(fail_on)) else 0
    if any(finding.rule in INTEGRITY_RULES and finding.severity == "error" for finding in ordered):
        code = output.INTEGRITY
    listed: list[str] = []
    if reviewed and hunks:
        listed = [describe_hunk(hunk) for hunk in reviewed.hunks]
        listed += [f"{sanitise_line(each.path, 120)}: {sanitise_line(each.what, 160)}" for each in reviewed.lineless]
    output.emit(data, as_json, [*listed, *verify_lines(ordered, checked, evidence), *remarks], code)


def policy_for(gate: Gate, wanted: str | None, base: str | None) -> VerifyPolicy:
    """Return the policy of a range's base if git tracks one, else the policy of the work tree. Raises Failure."""
    rules = gate.rules
    path = gate.workspace.config_path
    own = VerifyPolicy(rules.config, rules.config_error, path.read_text("utf-8") if path.is_file() else None)
    if wanted is None:
        return own
    try:
        base_policy = read_base_policy(Git(gate.workspace.root), wanted, base)
    except GitError as error:
        raise unknown_range_failure(error, base or wanted) from error
    if base_policy.config is None and base_policy.config_error is None and "remit.toml" not in base_policy.brings:
        return msgspec.structs.replace(own, base=base_policy)
    config = base_policy.config or Config()
    return VerifyPolicy(config, base_policy.config_error, base_policy.config_text, base_policy)


def check_changes(
    gate: Gate, wanted: str | None, policy: VerifyPolicy, grades: frozenset[str]
) -> tuple[VerificationResult, list[str] | None, RangeEvidence | None]:
    """Check the changes; for a range also return its commits and evidence. Raises GitError, Failure."""
    workspace = gate.workspace
    load_intents_version = intents_version_loader(gate)
    patterns, store, git = secret_patterns(gate, policy), output.open_content_store(workspace), Git(workspace.root)
    with output.open_index_or_empty(workspace, governed=gate.is_governed) as index:
        if wanted is None:
            return verify_changes(index, store, load_intents_version, None, patterns), None, None
        try:
            commits = resolve_commits(git, wanted)
        except GitError as error:
            raise unknown_range_failure(error, wanted) from error
        blamer = Blamer(workspace, index, store)
        added = list(find_additions(git, commits))
        within = find_range(git, blamer.attributor, commits, added)
        checked = verify_changes(index, store, load_intents_version, within, patterns, policy.base)
        config = policy.config
        keys = trusted_keys(gate.environment.home, config) if config.ledger.trusted_keys else ()
        evidence = measure_evidence(git, blamer, commits, added, keys, grades)
    # Changes described by notes are judged by the base's intents, or the work tree's.
    document, judge = gate.rules.document, policy.base
    if judge is None or judge.intents is None:
        judge = BasePolicy(intents={intent.id: intent for intent in document.intents} if document else None)
    noted = [finding for line in evidence.noted for finding in check_noted_line(line, judge)]
    return msgspec.structs.replace(checked, findings=(*checked.findings, *noted)), commits, evidence


def intents_version_loader(gate: Gate) -> Callable[[str], bytes | None]:
    versions = copies_folder(gate.workspace) / VERSIONS_FOLDER

    def load_intents_version(digest: str) -> bytes | None:
        path = versions / digest
        return path.read_bytes() if digest.isalnum() and path.is_file() else None

    return load_intents_version


def read_hunks(gate: Gate, wanted: str | None, policy: VerifyPolicy) -> ReviewedHunks:
    """Return the hunks of a range, or of what no commit has. Raises Failure, GitError."""
    workspace = gate.workspace
    with output.open_index_or_empty(workspace, governed=gate.is_governed) as index:
        blamer = Blamer(workspace, index, output.open_content_store(workspace))
        try:
            ends = find_ends(blamer.git, wanted)
        except GitError as error:
            raise unknown_range_failure(error, wanted or "HEAD") from error
        return list_changed_hunks(blamer, ends, secret_patterns(gate, policy))


def check_uncommitted(gate: Gate, hunks: Sequence[ChangedHunk], policy: VerifyPolicy) -> VerificationResult:
    store = output.open_content_store(gate.workspace)
    within = find_uncommitted_range(hunks)
    with output.open_index_or_empty(gate.workspace, governed=gate.is_governed) as index:
        return verify_changes(index, store, intents_version_loader(gate), within, secret_patterns(gate, policy))


def describe_hunk(hunk: ChangedHunk) -> str:
    author = hunk.author
    who = " ".join(filter(None, (author.origin, author.agent, author.intent_id)))
    place = f"{sanitise_line(hunk.path, 120)}:{hunk.hunk.new_range.start}"
    return f"{place}: hunk {hunk.id} +{hunk.hunk.new_lines} -{hunk.hunk.old_lines} {sanitise_line(who, 120)}"


def secret_patterns(gate: Gate, policy: VerifyPolicy) -> list[re.Pattern[str]]:
    """Return the team's secret patterns of base and work tree: more patterns never loosen a verdict."""
    patterns = (*policy.config.redact.patterns, *gate.rules.config.redact.patterns)
    return [compile_team_pattern(pattern) for pattern in dict.fromkeys(patterns)]


def unknown_range_failure(error: GitError, wanted: str) -> output.Failure:
    message = error.message.strip() or str(error)
    return output.Failure("GIT", message, target=wanted, fix="for example: remit verify main..HEAD")


def trailer_findings(policy: VerifyPolicy, message: str) -> list[TrailerFinding]:
    style = policy.config.trailers.style
    if policy.config_error:
        return []
    findings = find_violations(message, style)
    is_written = style != "none" or (policy.text is not None and "trailers" in tomllib.loads(policy.text))
    return findings if is_written else [finding for finding in findings if finding.code == "SIGNED_OFF_BY_AGENT"]


def remarks_on(gate: Gate, checked: VerificationResult, policy: VerifyPolicy) -> list[str]:
    brings = ", ".join(policy.base.brings) if policy.base else ""
    remarks: list[str] = []
    if checked.lost:
        remarks.append(f"{checked.lost} contents are not at hand, so that their hashes stand unchecked")
    if checked.unkept:
        remarks.append(f"{checked.unkept} changes name no kept intents file: their own word on the scope was taken")
    if policy.config_error:
        unread = "no secrets by the team's own patterns were looked for, and no policy on trailers"
        remarks.append(f"{unread}: {policy.config_error}")
    if brings:
        remarks.append(f"the range itself brings {brings}: its base has none to judge by")
    if not gate.is_governed:
        remarks.append("Remit does not govern this clone: notes and shared logs alone were read")
    if gate.is_governed:
        remarks += describe_shared_logs(gate.recorder, policy.config)
    return [*remarks, *(fault.message for fault in find_tracked_log_faults(gate.recorder))]


def verify_lines(
    findings: Sequence[RuleFinding], checked: VerificationResult, evidence: RangeEvidence | None
) -> list[str]:
    groups: dict[tuple[str, str, str, str], list[RuleFinding]] = {}
    for finding in findings:
        record = None if finding.rule in INTEGRITY_RULES else finding.record
        place = finding.path or finding.commit or record or ""
        groups.setdefault((finding.rule, finding.severity, place, finding.message), []).append(finding)
    lines: list[str] = []
    for finding, *equal in groups.values():
        severity = "" if finding.severity == "error" else f"[{finding.severity}] "
        notes = [f"record {finding.record[-12:]}"] if finding.record and finding.path else []
        notes += [f"{len(equal) + 1} times"] if equal else []
        suffix = f" ({', '.join(notes)})" if notes else ""
        code = click.style(finding.rule, fg=SEVERITY_COLOURS[finding.severity], bold=not severity or None)
        lines.append(f"{finding_place(finding)}: {code} {severity}{sanitise_line(finding.message, 300)}{suffix}")
    counts = Counter(finding.severity for finding in findings)
    total = ", ".join(f"{counts[s]} {s}{'s' * (counts[s] != 1)}" for s in reversed(SEVERITIES) if counts[s])
    changes, files = (evidence.changes.total, evidence.files.total) if evidence else (checked.changes, checked.files)
    lines.append(f"{total or 'no findings'} in {changes} changes of {files} files")
    return [*lines, *([describe_evidence(evidence)] if evidence else [])]


def finding_place(finding: RuleFinding) -> str:
    if finding.path:
        return sanitise_line(finding.path, 120) + (f":{finding.line}" if finding.line else "")
    if finding.commit:
        return f"commit {finding.commit[:12]}"
    return f"record {finding.record[-12:]}" if finding.record else "ledger"
