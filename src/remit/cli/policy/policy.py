"""`remit policy`: evaluate the rules without side effects; write a wrong decision as a fixture, and replay fixtures."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

import click
import msgspec
from msgspec import convert
from msgspec.structs import replace

from remit.cli import output
from remit.cli.completion import INTENT, complete_sessions
from remit.cli.person_only import require_person
from remit.cli.records.query import find_record, find_session
from remit.core.acts import Act
from remit.core.call import Effect, SessionKey, ToolCall
from remit.core.decision import SessionFacts, Verdict
from remit.core.diff.contents import sha256
from remit.core.intent import IntentsDocument, IntentSet
from remit.core.python_runtime import prepare_type
from remit.core.record import KEY
from remit.core.untrusted_input import sanitise_line
from remit.gate.context import WorkspaceContext
from remit.gate.gather import gather_facts
from remit.gate.governing.rules import VERSIONS_FOLDER, copies_folder
from remit.gate.policy_query import AGENTS, PolicyQuery, judge_query
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
from remit.workspace.intents_file.parse import parse_intents
from remit.workspace.safe_files import read_regular_file

if TYPE_CHECKING:
    from remit.cli.view import Meaning, ViewPart

ABSENT_SHA256 = "0" * 64
MAX_FIXTURE_BYTES = 4 * 1024 * 1024  # a bound, because a pipe or device in the folder would never end
FIXTURES_FOLDER = "fixtures"  # the default folder of fixtures, below `.orchestration/`.
UNREPLAYABLE_CODES = ("CONSTRAINT_VIOLATION", "HOOK_BLOCKED", "INVALID_ARGUMENTS", "USER_REJECTED")
"""Codes that depend on unrecorded facts: contents, a hook's answer, arguments, a person's answer."""
VERDICT_MEANINGS: "dict[str, Meaning]" = {"allow": "allowed", "contain": "contained", "ask": "asked", "deny": "denied"}
MAX_FILES_SHOWN = 20  # listed files; `--json` has the full list


@click.group()
def policy() -> None:
    """Ask the rules, without doing anything."""


@policy.command("test")
@click.option("--command", metavar="CMD", help="A shell command.")
@click.option("--write", metavar="PATH", help="A file to write.")
@click.option(
    "--jsonl",
    is_flag=True,
    help='Many, one {"id", "command" or "write", "cwd"?, "agent"?} a line on standard input.',
)
@click.option(
    "--fixtures",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Replay what `remit policy report-wrong` wrote; exit 1 where one is not decided as expected.",
)
@click.option(
    "--session",
    metavar="ID",
    help="As this session, with its intent and what it has read.",
    shell_complete=complete_sessions,
)
@click.option("--intent", "intent_id", metavar="ID", help="As if this intent were active.", type=INTENT)
@click.option(
    "--agent",
    type=click.Choice(AGENTS),
    help="As this agent's call; without it the session's, else one whose commands can be contained.",
)
@output.view_command_options
def test(
    command: str | None,
    write: str | None,
    jsonl: bool,
    fixtures: Path | None,
    session: str | None,
    intent_id: str | None,
    agent: str | None,
    repo: Path,
    as_json: bool,
) -> None:
    """Tell what would be decided about a call; changes nothing.

    The gate itself is asked, as at a real call: on this machine, with the agent's own rules, and with the floor of
    `remit run` for `--agent remit`. First stands what *enforce* would do. In the JSON, `verdict` is that, and `effect`
    what would be done in the mode in force. `--jsonl` always prints JSON.
    """
    if sum((command is not None, write is not None, jsonl, fixtures is not None)) != 1:
        message = "give one of --command, --write, --jsonl and --fixtures"
        raise output.Failure("USAGE", message, fix="remit policy test --write src/app.py")
    if fixtures is not None:
        replay_folder(fixtures, as_json)
        return
    gate = output.governed_gate(repo)
    if intent_id is not None:
        gate.intents.get(intent_id)
    queries = read_queries() if jsonl else iter([PolicyQuery(command=command, write=write, agent=agent or "")])
    key = SessionKey(find_session(gate, session) if session else "")
    answers = (judge_query(gate, query, key, intent_id) for query in queries)
    if not jsonl:
        [answer] = answers
        output.emit_view(answer, as_json, lambda _: decision_view(answer, command or f"write {write}"))
    elif as_json:
        output.emit(list(answers), True, "")
    else:
        for answer in answers:
            output.say(output.encode_json(answer))


def decision_view(answer: dict[str, Any], action: str) -> "Iterator[ViewPart]":
    # rich is slow to import, and agents' calls never use a table
    from remit.cli.view import facts, join_texts, mark, styled_text

    verdict, effect, writes = answer["verdict"], answer["effect"], answer["writes"]
    yield join_texts(mark(VERDICT_MEANINGS[verdict], verdict, is_strong=True), styled_text(action), between="  ")
    files = ["the text does not tell"] if writes is None else writes[:MAX_FILES_SHOWN] or ["nothing"]
    more = len(writes or ()) - MAX_FILES_SHOWN
    rows = [("now", f"{effect}, in the mode in force")] if effect != verdict else []
    rows += [("outcome", answer["outcome"].replace("_", " "))]
    rows += [("writes" if not number else "", path) for number, path in enumerate(files)]
    rows += [(" ", f"and {more} more")] if more > 0 else []
    rows += [("because" if not number else "", reason) for number, reason in enumerate(answer["reasons"])]
    yield facts(rows, indent=2)


def read_queries() -> Iterator[PolicyQuery]:
    """Yield the queries on standard input. Raises Failure with the line number."""
    for number, line in enumerate(sys.stdin.buffer, 1):
        if not line.strip():
            continue
        try:
            query = msgspec.json.decode(line, type=prepare_type(PolicyQuery))
        except msgspec.DecodeError as error:
            raise output.Failure("USAGE", f"line {number} of standard input: {error}") from error
        if (query.command is None) == (query.write is None):
            raise output.Failure("USAGE", f"line {number} of standard input: expected either command or write")
        if query.agent not in ("", *AGENTS):
            raise output.Failure("USAGE", f"line {number} of standard input: no agent is called {query.agent!r}")
        yield query


# --- fixtures ----------------------------------------------------------------------------------------------


@policy.command("report-wrong")
@click.argument("record_id", metavar="[RECORD]", required=False)
@click.option("--last", is_flag=True, help="The newest decision: of the denials, where allow is expected.")
@click.option("--expected", type=click.Choice(get_args(Verdict)), required=True, help="What should have been decided.")
@click.option("--why", default="", metavar="TEXT", help="A word to whoever reads it.")
@click.option("--to", "folder", type=click.Path(path_type=Path, file_okay=False), help="Where to write it.")
@output.command_options
def report_wrong(
    record_id: str | None, last: bool, expected: Verdict, why: str, folder: Path | None, repo: Path, as_json: bool
) -> None:
    """Write a wrong decision to a file that can be replayed.

    RECORD is an id, or the part of an id shown by `remit log`. The file goes to `.orchestration/fixtures/`, unless --to
    names another folder. The file holds the call, the facts and the intents of the decision: no content of a file, no
    secret, no path outside the workspace. `remit policy test --fixtures DIR` replays the file.
    """
    if last == (record_id is not None):
        raise output.Failure(
            "USAGE", "give a RECORD or --last", fix="remit policy report-wrong --last --expected allow"
        )
    require_person(Act.REPORT_WRONG)
    gate = output.governed_gate(repo)
    if record_id is None:
        event = "denied" if expected == "allow" else "tool_use"
        with output.open_index(gate.workspace) as index:
            newest = index.find(event=event, limit=1)
        if not newest:
            raise output.Failure(
                "NOT_FOUND", f"there is no {event} record yet", fix="name a RECORD; `remit log` lists them"
            )
        record = newest[0]
    else:
        record = find_record(gate, record_id)
    body: dict[str, Any] = record["metadata"][KEY]
    if body.get("event") not in ("denied", "tool_use") or not isinstance(body.get("call"), dict):
        message = f"record {record['id']} is of {body.get('event')!r}: it holds no decision about a call"
        raise output.Failure("NOT_FOUND", message, fix="`remit log --event denied` lists refusals")
    draft = DecisionFixture(
        VERSION, expected, body.get("decision", {}).get("verdict", "deny"), {}, {}, why=why, record=str(record["id"])
    )
    made = make_record_fixture(gate, record, body, draft)
    verdict = replay_fixture(convert(made, prepare_type(DecisionFixture))).verdict
    document: dict[str, Any] = {**made, "reproduced": verdict == draft.was}
    content = msgspec.json.format(msgspec.json.encode(document, order="sorted"), indent=2) + b"\n"
    name = f"{expected}-{document['call'].get('tool', 'call').lower()}-{sha256(content)[:10]}.json"
    folder = folder or gate.workspace.folder / FIXTURES_FOLDER
    path = folder / "".join(c if c.isalnum() or c in "-._" else "_" for c in name)
    folder.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    if verdict == draft.was:
        replayed = f"replayed, it is decided as then: {verdict}"
    else:
        code = body.get("violation", {}).get("error_type")
        is_lost = code in UNREPLAYABLE_CODES
        reason = f"{code} depends on facts outside the record" if is_lost else "the situation has changed since"
        replayed = f"replayed, it is decided otherwise than then ({verdict}, not {draft.was}): {reason}"
    output.emit({"path": str(path), "was": draft.was, "verdict": verdict, **document}, as_json, f"{path}\n{replayed}")


def make_record_fixture(
    context: WorkspaceContext, record: dict[str, Any], body: dict[str, Any], draft: DecisionFixture
) -> Document:
    """Return the fixture of a record, without texts for people. Raises StateError, GitError, OSError."""
    # 1. The rules, with the intents file in force at the decision if its content was kept.
    rules, root, decision = context.rules, str(context.workspace.root), body.get("decision", {})
    digest = str(decision.get("intent_sha256", ""))
    kept = copies_folder(context.workspace) / VERSIONS_FOLDER / digest
    if digest.isalnum() and kept.is_file():
        past: IntentsDocument = parse_intents(kept.read_bytes())
        rules = replace(rules, document=past, intents=IntentSet(past.intents), written=past, errors=past.errors)
    # 2. The call, as far as the record describes it.
    made: dict[str, Any] = body["call"]
    command = made.get("command")
    call = ToolCall(
        agent=str(record.get("tool", {}).get("name", "")),
        session=SessionKey(str(body.get("session_id") or ""), str(body.get("agent_id") or "")),
        tool=str(made.get("name", "")),
        effect=cast("Effect", made.get("effect", "execute")),
        cwd=root,
        paths=() if command is not None else tuple(map(str, made.get("paths", []))),
        command=command,
        whole_workspace=command is not None,
    )
    # 3. The facts, with past states restored from the violation.
    gathered = gather_facts(context, call, rules)
    facts = gathered.facts
    facts = replace(facts, session=SessionFacts(body.get("intent_id"), facts.session.source))
    facts = replace(facts, mode=decision.get("mode", facts.mode))
    if "detour" not in decision.get("rules", []):
        facts = replace(facts, denied=())
    violation: dict[str, Any] = body.get("violation") or {}
    changes = {"STALE_FILE": {"seen_sha256": ABSENT_SHA256}, "FILE_LEASED": {"leased_by": "another session"}}
    if change := changes.get(str(violation.get("error_type"))):
        path = violation.get("path")
        facts = replace(facts, targets=tuple(replace(t, **change) if t.path == path else t for t in facts.targets))
    elif violation.get("error_type") == "CIRCUIT_OPEN":
        facts = replace(facts, session=replace(facts.session, denials=3, failures=5))
    # 4. The active intent and the owners of the files.
    owners = {owner for target in facts.targets if target.path for owner in facts.intents.find_owners(target.path)}
    intents = [
        replace(intent, description="", owner="", acceptance_criteria=(), references=(), blocked_reason=None)
        for intent in rules.intents.intents
        if intent.id in owners | {facts.session.intent_id}
    ]
    home, temporary = str(context.environment.home), str(context.environment.temporary)
    places = {root: FIXTURE_ROOT, home: "/home/someone", temporary: "/tmp"}  # noqa: S108
    return clean_document(make_fixture(gathered.call, facts, intents, draft), places)


def replay_folder(folder: Path, as_json: bool) -> None:
    """Decide every fixture of a folder again; exit 1 on a mismatch."""
    results: list[dict[str, Any]] = []
    lines: list[str] = []
    for path in sorted(folder.glob("*.json")):
        expected = verdict = None
        try:
            fixture = read_fixture(read_regular_file(path, MAX_FIXTURE_BYTES))
            decision = replay_fixture(fixture)
            expected, verdict = fixture.expected, decision.verdict
            reasons = [f"{f.code}: {f.message}" for f in decision.findings]
        except (FixtureError, OSError) as error:
            reasons = [str(error)]
        is_right = expected is not None and verdict == expected
        results.append(
            {"file": path.name, "expected": expected, "verdict": verdict, "ok": is_right, "reasons": reasons}
        )
        name, why = sanitise_line(path.name), sanitise_line("; ".join(reasons) or "no rule objects")
        decided = f"{verdict}, expected {expected} " if expected else ""
        lines.append(f"ok     {name}: {verdict}" if is_right else f"wrong  {name}: {decided}({why})")
    if not results:
        raise output.Failure(
            "NOT_FOUND", f"there is no fixture in {folder}", fix="`remit policy report-wrong` writes one"
        )
    right = sum(result["ok"] for result in results)
    lines.append(f"{right} of {len(results)} as expected")
    output.emit(results, as_json, lines, output.FINDINGS if right < len(results) else 0)
