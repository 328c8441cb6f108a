"""`remit policy`: what would be decided, without doing it."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from remit.cli.completion import complete_intents, complete_sessions
from remit.cli.output import (
    Failure,
    emit,
    emit_view,
    encode_json,
    governed_gate,
    json_option,
    repo_option,
    reports_failures,
    view_options,
)
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
"""Files that are listed; `--json` lists all."""


class PolicyQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """One thing to judge: a command or a path to write."""

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
@repo_option
@json_option
@view_options
@reports_failures
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
        said = "give one of --command, --write, --jsonl and --fixtures"
        raise Failure("USAGE", said, fix="remit policy test --write src/app.py")
    if fixtures is not None:
        replay_folder(fixtures, as_json)
        return
    gate = governed_gate(repo)
    if intent_id is not None:
        gate.intents.get(intent_id)
    asked = read_queries() if jsonl else iter([PolicyQuery(command=command, write=write)])
    key = SessionKey(find_session(gate, session) if session else "")
    answers = (judge_query(gate, one, key, intent_id) for one in asked)
    if not jsonl:
        [found] = answers
        emit_view(found, as_json, lambda _: decision_view(found, command or f"write {write}"))
    elif as_json:
        emit(list(answers), True, "")
    else:
        for answer in answers:
            click.echo(encode_json(answer))


def decision_view(found: dict[str, Any], what: str) -> "Iterator[ViewPart]":
    """Return what would be decided: the verdict, what else is done in the mode in force, the files, the reasons."""
    from remit.cli.terminal.view import (  # agents run this room's commands, and read no table
        facts,
        join_texts,
        mark,
        styled_text,
    )

    verdict, effect = found["verdict"], found["effect"]
    yield join_texts(mark(VERDICT_MEANINGS[verdict], verdict, is_strong=True), styled_text(what), between="  ")
    writes = found["writes"]
    told = "the text does not tell" if writes is None else "\n".join(writes[:MAX_FILES_SHOWN]) or "nothing"
    more = len(writes or ()) - MAX_FILES_SHOWN
    rows = [("now", f"{effect}, in the mode in force")] if effect != verdict else []
    rows += [("outcome", found["outcome"].replace("_", " "))]
    rows += [("writes" if not n else "", path) for n, path in enumerate(told.split("\n"))]
    rows += [(" ", f"and {more} more")] if more > 0 else []
    rows += [("because" if not n else "", reason) for n, reason in enumerate(found["reasons"])]
    yield facts(rows, indent=2)


def read_queries() -> Iterator[PolicyQuery]:
    """What stands on standard input. Raises Failure naming the line."""
    for number, line in enumerate(sys.stdin.buffer, 1):
        if not line.strip():
            continue
        try:
            asked = msgspec.json.decode(line, type=PolicyQuery)
        except msgspec.DecodeError as error:
            raise Failure("USAGE", f"line {number} of standard input: {error}") from error
        if (asked.command is None) == (asked.write is None):
            raise Failure("USAGE", f"line {number} of standard input: expected either command or write")
        yield asked


def judge_query(gate: Gate, asked: PolicyQuery, session: SessionKey, intent_id: str | None) -> dict[str, Any]:
    """The answer about one call."""
    call, rules = make_call(gate, asked, session), gate.rules
    found = gather_facts(gate, call, rules)
    facts = replace(found.facts, grants=gate.questions.active_grants(rules.config.grants), containable=True)
    if intent_id is not None:
        facts = replace(facts, session=SessionFacts(intent_id, "selected"))
    decision = decide(found.call, facts)
    analysis = analyse(asked.command) if asked.command is not None else None
    reasons = [f"{f.code}: {f.message}" for f in decision.findings if f.rule != CONTAIN_RULE]
    unclear = [f.message for f in decision.findings if f.rule == CONTAIN_RULE] if decision.verdict == "contain" else []
    return {
        "id": asked.id,
        "effect": "ask" if can_agent_ask(hold_irreversible(decision)) else apply_mode(decision.verdict, facts.mode),
        "verdict": decision.verdict,
        "outcome": call_outcome(analysis, found.call),
        "writes": written_files(analysis, found.call, facts),
        "reasons": [*reasons, *(unclear or (analysis.reasons if analysis else ()))],
    }


def call_outcome(analysis: CommandAnalysis | None, call: ToolCall) -> str:
    """What the text tells, and holds where it runs."""
    if analysis is None:
        return "literal_writes"
    return "unknown" if analysis.outcome != "dangerous" and call.unproved is not None else analysis.outcome


def written_files(analysis: CommandAnalysis | None, call: ToolCall, facts: Facts) -> list[str] | None:
    """The files that are written, from the workspace's root; None where not all of them are known."""
    if analysis is not None and (analysis.writes is None or call.unproved is not None):
        return None
    named = (str(t.path or t.resolved) for t in (*facts.targets, *facts.perhaps))
    return sorted({f"{path.removesuffix('*')}" if path.endswith("/*") else path for path in named})


def make_call(gate: Gate, asked: PolicyQuery, session: SessionKey) -> ToolCall:
    """The call that an agent would make."""
    cwd = str(gate.workspace.root / (asked.cwd or ""))
    if asked.command is not None:
        return ToolCall("", session, "shell", "execute", cwd, command=asked.command, whole_workspace=True)
    return ToolCall("", session, "write", "write", cwd, paths=(asked.write or "",))
