"""`remit policy`: evaluate the rules without side effects."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from remit.cli.completion import complete_intents, complete_sessions
from remit.cli.output import Failure, emit, emit_view, encode_json, governed_gate, view_command_options
from remit.cli.policy.fixtures import replay_folder, report_wrong
from remit.cli.records.lookup import find_session
from remit.core.call import SessionKey, ToolCall
from remit.core.facts import Facts, SessionFacts
from remit.gate.gate import Gate
from remit.gate.gather import gather_facts
from remit.policy.commands import CommandAnalysis, analyse
from remit.policy.decide import CONTAIN_RULE, apply_mode, can_agent_ask, decide, hold_irreversible

if TYPE_CHECKING:
    from remit.cli.terminal.view import Meaning, ViewPart


VERDICT_MEANINGS: "dict[str, Meaning]" = {"allow": "allowed", "contain": "contained", "ask": "asked", "deny": "denied"}

MAX_FILES_SHOWN = 20
"""Listed files; `--json` has the full list."""


class PolicyQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """One call to judge: a command, or a path to write."""

    id: str | int | None = None
    command: str | None = None
    write: str | None = None
    cwd: str | None = None


@click.group()
def policy() -> None:
    """Ask the rules, without doing anything."""


policy.add_command(report_wrong)


@policy.command("test")
@click.option("--command", metavar="CMD", help="A shell command.")
@click.option("--write", metavar="PATH", help="A file to write.")
@click.option("--jsonl", is_flag=True, help='Many, one {"id", "command" or "write", "cwd"?} a line on standard input.')
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
@click.option(
    "--intent", "intent_id", metavar="ID", help="As if this intent were active.", shell_complete=complete_intents
)
@view_command_options
def test(
    command: str | None,
    write: str | None,
    jsonl: bool,
    fixtures: Path | None,
    session: str | None,
    intent_id: str | None,
    repo: Path,
    as_json: bool,
) -> None:
    """Tell what would be decided about a call; changes nothing.

    First stands what *enforce* would do. In the JSON, `verdict` is that, and `effect` what would be done in the mode
    in force. `--jsonl` always prints JSON.
    """
    if sum((command is not None, write is not None, jsonl, fixtures is not None)) != 1:
        message = "give one of --command, --write, --jsonl and --fixtures"
        raise Failure("USAGE", message, fix="remit policy test --write src/app.py")
    if fixtures is not None:
        replay_folder(fixtures, as_json)
        return
    gate = governed_gate(repo)
    if intent_id is not None:
        gate.intents.get(intent_id)
    queries = read_queries() if jsonl else iter([PolicyQuery(command=command, write=write)])
    key = SessionKey(find_session(gate, session) if session else "")
    answers = (judge_query(gate, query, key, intent_id) for query in queries)
    if not jsonl:
        [answer] = answers
        emit_view(answer, as_json, lambda _: decision_view(answer, command or f"write {write}"))
    elif as_json:
        emit(list(answers), True, "")
    else:
        for answer in answers:
            click.echo(encode_json(answer))


def decision_view(answer: dict[str, Any], action: str) -> "Iterator[ViewPart]":
    """Return the verdict, the effect in the current mode, the files, and the reasons."""
    # rich is slow to import, and agents' calls never use a table
    from remit.cli.terminal.view import facts, join_texts, mark, styled_text

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
            query = msgspec.json.decode(line, type=PolicyQuery)
        except msgspec.DecodeError as error:
            raise Failure("USAGE", f"line {number} of standard input: {error}") from error
        if (query.command is None) == (query.write is None):
            raise Failure("USAGE", f"line {number} of standard input: expected either command or write")
        yield query


def judge_query(gate: Gate, query: PolicyQuery, session: SessionKey, intent_id: str | None) -> dict[str, Any]:
    """Return the decision on one call: `effect` in the current mode, `verdict` in enforce mode."""
    cwd = str(gate.workspace.root / (query.cwd or ""))
    if query.command is not None:
        call = ToolCall("", session, "shell", "execute", cwd, command=query.command, whole_workspace=True)
    else:
        call = ToolCall("", session, "write", "write", cwd, paths=(query.write or "",))
    rules = gate.rules
    gathered = gather_facts(gate, call, rules)
    facts = replace(gathered.facts, grants=gate.questions.active_grants(rules.config.grants), containable=True)
    if intent_id is not None:
        facts = replace(facts, session=SessionFacts(intent_id, "selected"))
    decision = decide(gathered.call, facts)
    analysis = analyse(query.command) if query.command is not None else None
    reasons = [f"{f.code}: {f.message}" for f in decision.findings if f.rule != CONTAIN_RULE]
    unclear = [f.message for f in decision.findings if f.rule == CONTAIN_RULE] if decision.verdict == "contain" else []
    return {
        "id": query.id,
        "effect": "ask" if can_agent_ask(hold_irreversible(decision)) else apply_mode(decision.verdict, facts.mode),
        "verdict": decision.verdict,
        "outcome": call_outcome(analysis, gathered.call),
        "writes": written_files(analysis, gathered.call, facts),
        "reasons": [*reasons, *(unclear or (analysis.reasons if analysis else ()))],
    }


def call_outcome(analysis: CommandAnalysis | None, call: ToolCall) -> str:
    """Return the outcome of the command's analysis, after facts of this workspace."""
    if analysis is None:
        return "literal_writes"
    is_unproved = call.unproved is not None and analysis.outcome != "dangerous"
    return "unknown" if is_unproved else analysis.outcome


def written_files(analysis: CommandAnalysis | None, call: ToolCall, facts: Facts) -> list[str] | None:
    """Return the written files relative to the workspace root; None if some are unknown."""
    if analysis is not None and (analysis.writes is None or call.unproved is not None):
        return None
    paths = (str(target.path or target.resolved) for target in (*facts.targets, *facts.perhaps))
    return sorted({path.removesuffix("*") if path.endswith("/*") else path for path in paths})
