"""`remit policy report-wrong`: write a wrong decision as a fixture, and replay fixtures."""

from pathlib import Path
from typing import Any, cast, get_args

import click
import msgspec
from msgspec import Struct, convert
from msgspec.structs import replace

from remit.cli.output import FINDINGS, Failure, command_options, emit, governed_gate
from remit.cli.person_only import require_person
from remit.cli.records.lookup import find_record
from remit.cli.repository import open_index
from remit.core.call import Effect, SessionKey, ToolCall
from remit.core.decision import Verdict
from remit.core.diff.contents import sha256
from remit.core.display_text import sanitise_line
from remit.core.facts import Facts, SessionFacts
from remit.core.intent import Intent, IntentsDocument
from remit.core.intents.intent_set import IntentSet
from remit.core.record import KEY
from remit.gate.context import WorkspaceContext
from remit.gate.gate import Gate
from remit.gate.gather import gather_facts
from remit.gate.rules.governing_copies import VERSIONS_FOLDER, copies_folder
from remit.gate.rules.load import Rules
from remit.policy.fixtures import (
    FIXTURE_ROOT,
    VERSION,
    DecisionFixture,
    Document,
    FixtureError,
    clean_document,
    make_fixture,
    read_fixture,
    replay_fixture,
)
from remit.workspace.files.read_files import read_regular_file
from remit.workspace.intents_file.parse import parse_intents

ABSENT_SHA256 = "0" * 64


MAX_FIXTURE_BYTES = 4 * 1024 * 1024
"""A bound, because a pipe or device in the folder would never end."""

FIXTURES_FOLDER = "fixtures"
"""The default folder of fixtures, below `.orchestration/`."""

UNREPLAYABLE_CODES = ("CONSTRAINT_VIOLATION", "HOOK_BLOCKED", "INVALID_ARGUMENTS", "USER_REJECTED")
"""Codes that depend on unrecorded facts: contents, a hook's answer, arguments, a person's answer."""


class FixtureReport(Struct, frozen=True):
    """The fixture, and the verdict that its facts give now."""

    document: Document
    verdict: Verdict
    was: Verdict


def make_record_fixture(
    context: WorkspaceContext, record: dict[str, Any], expected: Verdict, why: str
) -> FixtureReport:
    """Return the fixture of a `denied` or `tool_use` record.

    Raises StateError, GitError, OSError; LookupError for records of other events.
    """
    body: dict[str, Any] = record["metadata"][KEY]
    if body.get("event") not in ("denied", "tool_use") or not isinstance(body.get("call"), dict):
        raise LookupError(f"record {record['id']} is of {body.get('event')!r}: it holds no decision about a call")
    rules = load_past_rules(context, body)
    call = rebuild_call(record, body, str(context.workspace.root))
    decision = body.get("decision", {})
    gathered = gather_facts(context, call, rules)
    facts = replace(rebuild_facts(gathered.facts, body), mode=decision.get("mode", gathered.facts.mode))
    was = cast("Verdict", decision.get("verdict", "deny"))
    draft = DecisionFixture(VERSION, expected, was, {}, {}, why=why, record=str(record["id"]))
    home = str(context.environment.home)
    places = {
        str(context.workspace.root): FIXTURE_ROOT,
        home: "/home/someone",
        str(context.environment.temporary): "/tmp",  # noqa: S108
    }
    document = clean_document(make_fixture(gathered.call, facts, select_relevant_intents(rules, facts), draft), places)
    verdict = replay_fixture(convert(document, DecisionFixture)).verdict
    return FixtureReport({**document, "reproduced": verdict == was}, verdict, was)


def load_past_rules(context: WorkspaceContext, body: dict[str, Any]) -> Rules:
    """Return the rules, with the intents file in force at the decision if its content was kept."""
    rules = context.rules
    digest = str(body.get("decision", {}).get("intent_sha256", ""))
    path = copies_folder(context.workspace) / VERSIONS_FOLDER / digest
    if not digest.isalnum() or not path.is_file():
        return rules
    document: IntentsDocument = parse_intents(path.read_bytes())
    return replace(rules, document=document, intents=IntentSet(document.intents), invalid=bool(document.errors))


def rebuild_call(record: dict[str, Any], body: dict[str, Any], root: str) -> ToolCall:
    """Return the call, as far as the record describes it."""
    call: dict[str, Any] = body["call"]
    command = call.get("command")
    return ToolCall(
        agent=str(record.get("tool", {}).get("name", "")),
        session=SessionKey(str(body.get("session_id") or ""), str(body.get("agent_id") or "")),
        tool=str(call.get("name", "")),
        effect=cast("Effect", call.get("effect", "execute")),
        cwd=root,
        paths=() if command is not None else tuple(map(str, call.get("paths", []))),
        command=command,
        whole_workspace=command is not None,
    )


def rebuild_facts(facts: Facts, body: dict[str, Any]) -> Facts:
    """Return the facts, with past states restored from the violation."""
    facts = replace(facts, session=SessionFacts(body.get("intent_id"), facts.session.source))
    if "detour" not in body.get("decision", {}).get("rules", []):
        facts = replace(facts, denied=())
    match body.get("violation", {}).get("error_type"):
        case "STALE_FILE":
            path = body["violation"].get("path")
            stale = (replace(t, seen_sha256=ABSENT_SHA256) if t.path == path else t for t in facts.targets)
            return replace(facts, targets=tuple(stale))
        case "FILE_LEASED":
            path = body["violation"].get("path")
            leased = (replace(t, leased_by="another session") if t.path == path else t for t in facts.targets)
            return replace(facts, targets=tuple(leased))
        case "CIRCUIT_OPEN":
            return replace(facts, session=replace(facts.session, denials=3, failures=5))
        case _:
            return facts


def select_relevant_intents(rules: Rules, facts: Facts) -> list[Intent]:
    """Return the active intent and the owners of the files, without texts for people."""
    owners = {owner for target in facts.targets if target.path for owner in facts.intents.find_owners(target.path)}
    wanted = owners | {facts.session.intent_id}
    intents = rules.document.intents if rules.document else ()
    return [
        replace(intent, description="", owner="", acceptance_criteria=(), references=(), blocked_reason=None)
        for intent in intents
        if intent.id in wanted
    ]


@click.command("report-wrong")
@click.argument("record_id", metavar="[RECORD]", required=False)
@click.option("--last", is_flag=True, help="The newest decision: of the denials, where allow is expected.")
@click.option("--expected", type=click.Choice(get_args(Verdict)), required=True, help="What should have been decided.")
@click.option("--why", default="", metavar="TEXT", help="A word to whoever reads it.")
@click.option("--to", "folder", type=click.Path(path_type=Path, file_okay=False), help="Where to write it.")
@command_options
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
    require_person("reporting a decision")
    gate = governed_gate(repo)
    record = newest_decision(gate, expected) if record_id is None else find_record(gate, record_id)
    try:
        report = make_record_fixture(gate, record, expected, why)
    except LookupError as error:
        raise Failure("NOT_FOUND", str(error), fix="`remit log --event denied` lists refusals") from error
    path = write_fixture(folder or gate.workspace.folder / FIXTURES_FOLDER, report.document)
    data = {"path": str(path), "was": report.was, "verdict": report.verdict, **report.document}
    emit(data, as_json, f"{path}\n{describe_replay(report.was, report.verdict, record)}")


def newest_decision(gate: Gate, expected: Verdict) -> dict[str, Any]:
    """Return the newest record of the expected kind of decision. Raises Failure."""
    event = "denied" if expected == "allow" else "tool_use"
    with open_index(gate.workspace) as index:
        newest = index.find(event=event, limit=1)
    if not newest:
        raise Failure("NOT_FOUND", f"there is no {event} record yet", fix="name a RECORD; `remit log` lists them")
    return newest[0]


def write_fixture(folder: Path, document: dict[str, Any]) -> Path:
    """Write the fixture under a name derived from its content. Raises OSError."""
    content = msgspec.json.format(msgspec.json.encode(document, order="sorted"), indent=2) + b"\n"
    path = folder / f"{document['expected']}-{document['call'].get('tool', 'call').lower()}-{sha256(content)[:10]}.json"
    path = path.with_name("".join(c if c.isalnum() or c in "-._" else "_" for c in path.name))
    folder.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def describe_replay(was: Verdict, verdict: Verdict, record: dict[str, Any]) -> str:
    """Return a line on whether the replay reproduces the recorded decision."""
    if was == verdict:
        return f"replayed, it is decided as then: {was}"
    code = record["metadata"][KEY].get("violation", {}).get("error_type")
    is_lost = code in UNREPLAYABLE_CODES
    reason = f"{code} depends on facts outside the record" if is_lost else "the situation has changed since"
    return f"replayed, it is decided otherwise than then ({verdict}, not {was}): {reason}"


def replay_folder(folder: Path, as_json: bool) -> None:
    """Decide every fixture of a folder again; exit 1 on a mismatch."""
    results = [judge_fixture(path) for path in sorted(folder.glob("*.json"))]
    if not results:
        raise Failure("NOT_FOUND", f"there is no fixture in {folder}", fix="`remit policy report-wrong` writes one")
    wrong = sum(not result["ok"] for result in results)
    summary = f"{len(results) - wrong} of {len(results)} as expected"
    emit(results, as_json, "\n".join([*map(fixture_line, results), summary]))
    if wrong:
        raise SystemExit(FINDINGS)


def judge_fixture(path: Path) -> dict[str, Any]:
    try:
        fixture = read_fixture(read_regular_file(path, MAX_FIXTURE_BYTES))
        decision = replay_fixture(fixture)
    except (FixtureError, OSError) as error:
        return {"file": path.name, "expected": None, "verdict": None, "ok": False, "reasons": [str(error)]}
    return {
        "file": path.name,
        "expected": fixture.expected,
        "verdict": decision.verdict,
        "ok": decision.verdict == fixture.expected,
        "reasons": [f"{f.code}: {f.message}" for f in decision.findings],
    }


def fixture_line(result: dict[str, Any]) -> str:
    name = sanitise_line(result["file"])
    if result["ok"]:
        return f"ok     {name}: {result['verdict']}"
    reasons = "; ".join(result["reasons"]) or "no rule objects"
    decided = f"{result['verdict']}, expected {result['expected']} " if result["expected"] else ""
    return f"wrong  {name}: {decided}({sanitise_line(reasons)})"
