"""`remit verify`: whether the ledger is whole, and what agents changed was allowed."""

import re
import tomllib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec import Struct

from remit.cli.blame.blame import grade_option
from remit.cli.output import (
    FINDINGS,
    INTEGRITY,
    Failure,
    emit,
    json_option,
    open_gate,
    repo_option,
    reports_failures,
    require_governed,
)
from remit.cli.repository import open_content_store, open_repository_index
from remit.core.config import Config
from remit.core.display_text import sanitise_line
from remit.core.formats.commit_trailers import TrailerFinding, find_violations
from remit.core.secrets.bounded_regex import compile_team_pattern
from remit.gate.gate import Gate
from remit.gate.log_sharing.check_file import find_tracked_log_faults
from remit.gate.log_sharing.check_logs import check_ledger
from remit.gate.records.tree_heads import trusted_keys
from remit.gate.rules.copies import VERSIONS_FOLDER, copies_folder
from remit.provenance.blame.blame import Blamer
from remit.provenance.notes.added_lines import find_additions
from remit.provenance.notes.note_writer import resolve_commits
from remit.provenance.origins.evidence import GRADES, parse_grades
from remit.provenance.verify.base_policy import BasePolicy, read_base_policy
from remit.provenance.verify.change_rules import check_noted_line
from remit.provenance.verify.commit_messages import check_messages, check_notes
from remit.provenance.verify.commit_range import find_range
from remit.provenance.verify.range_evidence import MissingEvidence, RangeEvidence, describe_evidence, measure_evidence
from remit.provenance.verify.rules import INTEGRITY_RULES as BROKEN
from remit.provenance.verify.rules import SEVERITIES, RuleFinding
from remit.provenance.verify.verify import VerificationResult, verify_changes
from remit.workspace.git.command import Git, GitError
from remit.workspace.sharing.authorship_notes import NotesRef

SEVERITY_COLOURS = {"error": "red", "warning": "yellow", "note": "blue"}


class VerifyPolicy(Struct, frozen=True):
    """The configuration that judges, and what is wrong with it. `base` is there for a range."""

    config: Config
    config_error: str | None
    text: str | None
    base: BasePolicy | None = None


class VerifyResult(Struct, frozen=True):
    """What was checked. `commits` and `evidence` are there for a range."""

    checked: VerificationResult
    commits: list[str] | None = None
    evidence: RangeEvidence | None = None


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
@repo_option
@json_option
@reports_failures
def verify(
    wanted: str | None,
    fail_on: str,
    require_evidence: bool,
    min_evidence: float | None,
    grade: str | None,
    base: str | None,
    repo: Path,
    as_json: bool,
) -> None:
    """Check the ledger, and that what agents changed was under an intent, in its scope and as declared.

    RANGE is of commits, such as main..HEAD, and a single one is that commit alone: then only what they added, where it
    stands, and what they took away is judged, by the scope that was in force then and by the policy of the commit
    where RANGE starts; and how much of it has evidence is told: records of this machine, shared ones that a trusted
    key signed, or notes. Without RANGE, every recorded change is judged.
    Exit 5 where the ledger or a recorded content is not what it was, whatever --fail-on says.
    """
    if wanted is None and (require_evidence or min_evidence is not None or base is not None):
        raise Failure("USAGE", "evidence and a base belong to a range", fix="for example: remit verify main..HEAD")
    gate = open_gate(repo)
    if wanted is None:
        require_governed(gate)
    policy = policy_for(gate, wanted, base)
    ledger = ledger_findings(gate, policy.config) if gate.is_governed else []
    verified = check_changes(gate, wanted, policy, parse_grades(grade) if grade else frozenset(GRADES))
    wanted_share = 100.0 if require_evidence else min_evidence
    lacking = evidence_findings(verified.evidence, wanted_share)
    found = sorted(
        {*ledger, *verified.checked.findings, *check_commits(gate, verified.commits, policy), *lacking},
        key=lambda f: (-SEVERITIES.index(f.severity), f.path, f.line, f.rule, f.record or ""),
    )
    remarks = remarks_on(gate, verified.checked, policy)
    data: dict[str, Any] = {
        **msgspec.to_builtins(verified.checked),
        "commits": None if verified.commits is None else len(verified.commits),
        "findings": found,
        "remarks": remarks,
        "evidence": verified.evidence and {**msgspec.to_builtins(verified.evidence), "required": wanted_share},
        "base": policy.base and policy.base.commit,
    }
    emit(data, as_json, verify_text(found, verified, remarks))
    if any(f.rule in BROKEN and f.severity == "error" for f in found):
        raise SystemExit(INTEGRITY)
    if lacking or (
        fail_on != "never" and any(SEVERITIES.index(f.severity) >= SEVERITIES.index(fail_on) for f in found)
    ):
        raise SystemExit(FINDINGS)


def policy_for(gate: Gate, wanted: str | None, base: str | None) -> VerifyPolicy:
    """What judges: for a range the policy of its base, where git tracks one; else that of the work tree.

    Raises Failure where git knows no such range or base.
    """
    rules = gate.rules
    path = gate.workspace.config_path
    own = VerifyPolicy(rules.config, rules.config_error, path.read_text("utf-8") if path.is_file() else None)
    if wanted is None:
        return own
    try:
        found = read_base_policy(Git(gate.workspace.root), wanted, base)
    except GitError as error:
        raise unknown_range_failure(error, base or wanted) from error
    if found.config is None and found.config_error is None and "remit.toml" not in found.brings:
        return msgspec.structs.replace(own, base=found)
    return VerifyPolicy(found.config or Config(), found.config_error, found.config_text, found)


def ledger_findings(gate: Gate, config: Config) -> list[RuleFinding]:
    """What is wrong with the logs themselves."""
    found = check_ledger(gate.recorder, config)
    return [RuleFinding("RMT007", f.severity, f"{f.code}: {f.message}") for f in found.findings]


def check_changes(gate: Gate, wanted: str | None, policy: VerifyPolicy, grades: frozenset[str]) -> VerifyResult:
    """What is wrong with the changes, and for a range, of which commits it is and what evidence it has.

    Raises GitError, and Failure where git knows no such range.
    """
    workspace = gate.workspace
    versions = copies_folder(workspace) / VERSIONS_FOLDER

    def load_intents_version(digest: str) -> bytes | None:
        path = versions / digest
        return path.read_bytes() if digest.isalnum() and path.is_file() else None

    patterns, store, git = secret_patterns(gate, policy), open_content_store(workspace), Git(workspace.root)
    with open_repository_index(workspace, governed=gate.is_governed) as index:
        if wanted is None:
            return VerifyResult(verify_changes(index, store, load_intents_version, None, patterns))
        commits = list_commits(git, wanted)
        blamer = Blamer(workspace, index, store)
        added = list(find_additions(git, commits))
        within = find_range(git, blamer.attributor, commits, added)
        checked = verify_changes(index, store, load_intents_version, within, patterns, policy.base)
        config = policy.config
        keys = trusted_keys(gate.environment.home, config) if config.ledger.trusted_keys else ()
        evidence = measure_evidence(git, blamer, commits, added, keys, grades)
    judge = notes_policy(gate, policy.base)
    noted = [finding for line in evidence.noted for finding in check_noted_line(line, judge)]
    return VerifyResult(msgspec.structs.replace(checked, findings=(*checked.findings, *noted)), commits, evidence)


def notes_policy(gate: Gate, base: BasePolicy | None) -> BasePolicy:
    """What judges changes that notes tell of: the base's intents, or the work tree's where the base tracks none."""
    if base is not None and base.intents is not None:
        return base
    document = gate.rules.document
    return BasePolicy(intents={intent.id: intent for intent in document.intents} if document else None)


def secret_patterns(gate: Gate, policy: VerifyPolicy) -> list[re.Pattern[str]]:
    """The team's own patterns of secrets, those of the work tree as well: more of them never loosen a verdict."""
    patterns = (*policy.config.redact.patterns, *gate.rules.config.redact.patterns)
    return [compile_team_pattern(pattern) for pattern in dict.fromkeys(patterns)]


def list_commits(git: Git, wanted: str) -> list[str]:
    """The commits of the range. Raises Failure where git knows no such range."""
    try:
        return resolve_commits(git, wanted)
    except GitError as error:
        raise unknown_range_failure(error, wanted) from error


def unknown_range_failure(error: GitError, wanted: str) -> Failure:
    """That git knows no such range."""
    message = error.message.strip() or str(error)
    return Failure("GIT", message, target=wanted, fix="for example: remit verify main..HEAD")


def check_commits(gate: Gate, commits: Sequence[str] | None, policy: VerifyPolicy) -> list[RuleFinding]:
    """What notes, and the messages of a range, should not say. Raises GitError."""
    found = list(check_notes(NotesRef(gate.workspace), commits, secret_patterns(gate, policy)))
    if commits:
        found += check_messages(Git(gate.workspace.root), commits, lambda text: trailer_findings(policy, text))
    return found


def evidence_findings(evidence: RangeEvidence | None, percent: float | None) -> list[RuleFinding]:
    """The changes without evidence, where less of the range has evidence than is required."""
    if evidence is None or percent is None or evidence.suffices(percent):
        return []
    return [missing_evidence_finding(missing) for missing in evidence.missing]


def missing_evidence_finding(missing: MissingEvidence) -> RuleFinding:
    """The finding that nothing shows who made a change."""
    lines = f"{missing.lines} line{'s' * (missing.lines != 1)}" if missing.lines else "what was removed"
    message = f"no record and no note tells who made {lines} of this change"
    return RuleFinding("RMT019", "error", message, missing.path, missing.line, missing.commit)


def trailer_findings(policy: VerifyPolicy, message: str) -> list[TrailerFinding]:
    """What the policy on trailers does not allow; where none is written down, no more than an agent's signature."""
    style = policy.config.trailers.style
    if policy.config_error:
        return []
    found = find_violations(message, style)
    stated = style != "none" or (policy.text is not None and "trailers" in tomllib.loads(policy.text))
    return found if stated else [one for one in found if one.code == "SIGNED_OFF_BY_AGENT"]


def remarks_on(gate: Gate, checked: VerificationResult, policy: VerifyPolicy) -> list[str]:
    """What could not be looked at, and what is wrong with logs that are tracked files."""
    broken, base = policy.config_error, policy.base
    brings = ", ".join(base.brings) if base else ""
    found = {
        f"{checked.lost} contents are not at hand, so that their hashes stand unchecked": checked.lost,
        f"{checked.unkept} changes name no kept intents file: their own word on the scope was taken": checked.unkept,
        f"no secrets by the team's own patterns were looked for, and no policy on trailers: {broken}": broken,
        f"the range itself brings {brings}: its base has none to judge by": brings,
        "Remit does not govern this clone: notes and shared logs alone were read": not gate.is_governed,
    }
    return [*(said for said, so in found.items() if so), *(one.message for one in find_tracked_log_faults(gate))]


def verify_text(found: Sequence[RuleFinding], verified: VerifyResult, remarks: Sequence[str]) -> str:
    """The findings for people, and what was looked at."""
    counts = Counter(one.severity for one in found)
    total = ", ".join(f"{counts[s]} {s}{'s' * (counts[s] != 1)}" for s in reversed(SEVERITIES) if counts[s])
    evidence, checked = verified.evidence, verified.checked
    changes, files = (evidence.changes.total, evidence.files.total) if evidence else (checked.changes, checked.files)
    summary = [f"{total or 'no findings'} in {changes} changes of {files} files"]
    return "\n".join([*finding_rows(found), *summary, *([describe_evidence(evidence)] if evidence else []), *remarks])


def finding_rows(found: Sequence[RuleFinding]) -> list[str]:
    """One row for findings that say the same of the same file: the first of them, and how many there are."""
    alike: dict[tuple[str, str, str, str], list[RuleFinding]] = {}
    for one in found:
        place = one.path or one.commit or (one.record if one.rule not in BROKEN else None) or ""
        alike.setdefault((one.rule, one.severity, place, one.message), []).append(one)
    return [finding_row(same[0], len(same)) for same in alike.values()]


def finding_row(one: RuleFinding, count: int) -> str:
    """One finding as `path:line: CODE message`, with the record that `remit show` takes."""
    weight = "" if one.severity == "error" else f"[{one.severity}] "
    more = [f"record {one.record[-12:]}"] if one.record and one.path else []
    more += [f"{count} times"] if count > 1 else []
    after = f" ({', '.join(more)})" if more else ""
    code = click.style(one.rule, fg=SEVERITY_COLOURS[one.severity], bold=one.severity == "error" or None)
    return f"{finding_place(one)}: {code} {weight}{sanitise_line(one.message, 300)}{after}"


def finding_place(one: RuleFinding) -> str:
    """The file and line, else the commit or the record as `remit show` takes it, else the ledger as a whole."""
    if one.path:
        return sanitise_line(one.path, 120) + (f":{one.line}" if one.line else "")
    if one.commit:
        return f"commit {one.commit[:12]}"
    return f"record {one.record[-12:]}" if one.record else "ledger"
