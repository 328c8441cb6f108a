"""`remit policy report-wrong`, and the replay of what it wrote."""

from pathlib import Path
from typing import Any, get_args

import click
import msgspec

from remit.cli.ids import find_record
from remit.cli.output import FINDINGS, Failure, emit, governed_gate, json_option, repo_option, reports_failures
from remit.cli.people import only_people
from remit.core.contents import sha256
from remit.core.decision import Verdict
from remit.core.text import shown
from remit.gate.gate import Gate
from remit.gate.reporting import reported
from remit.ledger.index import Index
from remit.policy.fixtures import BadFixture, read_fixture, replayed
from remit.workspace.whole_files import read_regular

FIXTURE_MOST = 4 * 1024 * 1024
"""Bytes of a fixture. A pipe or a device in the folder would never end."""

FOLDER = "fixtures"
"""Below `.orchestration/`, where fixtures lie unless another folder is named."""

UNREPLAYABLE = ("CONSTRAINT_VIOLATION", "HOOK_BLOCKED", "INVALID_ARGUMENTS", "USER_REJECTED")
"""Reasons that lie in what no record holds: contents, a hook's word, arguments, a person's answer."""


@click.command("report-wrong")
@click.argument("record_id", metavar="[RECORD]", required=False)
@click.option("--last", is_flag=True, help="The newest decision: of the denials, where allow is expected.")
@click.option("--expected", type=click.Choice(get_args(Verdict)), required=True, help="What should have been decided.")
@click.option("--why", default="", metavar="TEXT", help="A word to whoever reads it.")
@click.option("--to", "folder", type=click.Path(path_type=Path, file_okay=False), help="Where to write it.")
@repo_option
@json_option
@reports_failures
def report_wrong(
    record_id: str | None, last: bool, expected: Verdict, why: str, folder: Path | None, repo: Path, as_json: bool
) -> None:
    """Write down a decision that was wrong, as a file that can be replayed.

    RECORD is its id, or the part of it that `remit log` shows. The file goes to `.orchestration/fixtures/`, unless --to
    says otherwise. It holds the call, the facts that it met and the intents that it is about: no content of a file, no
    secret, no path outside the workspace. `remit policy test --fixtures DIR` replays it.
    """
    if last == (record_id is not None):
        raise Failure("USAGE", "give a RECORD or --last", fix="remit policy report-wrong --last --expected allow")
    only_people("reporting a decision")
    gate = governed_gate(repo)
    record = newest(gate, expected) if record_id is None else find_record(gate, record_id)
    try:
        found = reported(gate, record, expected, why)
    except LookupError as error:
        raise Failure("NOT_FOUND", str(error), fix="`remit log --event denied` lists refusals") from error
    path = written(folder or gate.workspace.folder / FOLDER, found.document)
    data = {"path": str(path), "was": found.was, "verdict": found.verdict, **found.document}
    emit(data, as_json, f"{path}\n{told(found.was, found.verdict, record)}")


def newest(gate: Gate, expected: Verdict) -> dict[str, Any]:
    """The newest decision that may be meant. Raises Failure."""
    event = "denied" if expected == "allow" else "tool_use"
    with Index.open(gate.workspace.state / "index.db", gate.workspace.log_folder) as index:
        found = index.find(event=event, limit=1)
    if not found:
        raise Failure("NOT_FOUND", f"there is no {event} record yet", fix="name a RECORD; `remit log` lists them")
    return found[0]


def written(folder: Path, document: dict[str, Any]) -> Path:
    """Write the fixture under the name that its content gives it. Raises OSError."""
    content = msgspec.json.format(msgspec.json.encode(document, order="sorted"), indent=2) + b"\n"
    path = folder / f"{document['expected']}-{document['call'].get('tool', 'call').lower()}-{sha256(content)[:10]}.json"
    path = path.with_name("".join(c if c.isalnum() or c in "-._" else "_" for c in path.name))
    folder.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def told(was: Verdict, verdict: Verdict, record: dict[str, Any]) -> str:
    """What the file is good for."""
    if was == verdict:
        return f"replayed, it is decided as then: {was}"
    reason = record["metadata"]["dev.remit"].get("violation", {}).get("error_type")
    lost = f"{reason} lies in what records do not hold" if reason in UNREPLAYABLE else "the situation has changed since"
    return f"replayed, it is decided otherwise than then ({verdict}, not {was}): {lost}"


def replay(folder: Path, as_json: bool) -> None:
    """Decide every fixture of a folder anew; exit 1 where one is not decided as expected."""
    found = [judged(path) for path in sorted(folder.glob("*.json"))]
    if not found:
        raise Failure("NOT_FOUND", f"there is no fixture in {folder}", fix="`remit policy report-wrong` writes one")
    wrong = sum(not one["ok"] for one in found)
    lines = [line_of(one) for one in found]
    emit(found, as_json, "\n".join([*lines, f"{len(found) - wrong} of {len(found)} as expected"]))
    if wrong:
        raise SystemExit(FINDINGS)


def judged(path: Path) -> dict[str, Any]:
    """One fixture, decided anew."""
    try:
        fixture = read_fixture(read_regular(path, FIXTURE_MOST))
        decision = replayed(fixture)
    except (BadFixture, OSError) as error:
        return {"file": path.name, "expected": None, "verdict": None, "ok": False, "reasons": [str(error)]}
    return {
        "file": path.name,
        "expected": fixture.expected,
        "verdict": decision.verdict,
        "ok": decision.verdict == fixture.expected,
        "reasons": [f"{f.code}: {f.message}" for f in decision.findings],
    }


def line_of(one: dict[str, Any]) -> str:
    """One fixture for people."""
    if one["ok"]:
        return f"ok     {shown(one['file'])}: {one['verdict']}"
    reasons = "; ".join(one["reasons"]) or "no rule objects"
    decided = f"{one['verdict']}, expected {one['expected']} " if one["expected"] else ""
    return f"wrong  {shown(one['file'])}: {decided}({shown(reasons)})"
