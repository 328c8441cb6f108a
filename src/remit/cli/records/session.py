"""`remit session`: the story of a session: prompts, texts, calls, approvals and effects."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.text import Text

from remit.cli.completion import complete_sessions
from remit.cli.output import Failure, emit, emit_view, governed_gate, open_index, view_command_options
from remit.cli.records.query import find_session
from remit.cli.screen import DIFF_COLOURS, Screen, parse_seconds
from remit.cli.view import GAP, Meaning, TextTable, ViewPart, heading, join_texts, mark, styled_text
from remit.core.formats.record_summary import EXTENT_NAMES, OPERATION_SIGNS, list_paths
from remit.core.untrusted_input import sanitise_line
from remit.gate.gate import Gate
from remit.gate.undo.recovery import list_session_changes
from remit.ledger.file_changes import SessionChange
from remit.provenance.blame.blamed_line import body_of
from remit.provenance.why.conversation_store import AgentSession
from remit.provenance.why.session_story import Consent, StepKind, StoryStep, tell_session_story
from remit.tools.conversations import conversations

STEP_MARKS: dict[StepKind, tuple[Meaning, str]] = {
    "asked": ("person", "prompt"),
    "said": ("agent", "said"),
    "thought": ("quiet", "thought"),
    "summary": ("quiet", "summary"),
    "intent": ("intent", "intent"),
    "approval": ("asked", "asked"),
}
VERDICT_MARKS: dict[str, tuple[Meaning, str]] = {
    "allow": ("allowed", "allowed"),
    "contain": ("contained", "contained"),
    "deny": ("denied", "denied"),
}
Row = tuple[Text, Text, Text]


@click.command()
@click.argument("session_id", metavar="[SESSION]", default="", shell_complete=complete_sessions)
@click.option("--full", is_flag=True, help="Whole texts.")
@click.option("--diff", is_flag=True, help="The change that the session made to each file, as a diff.")
@view_command_options
def session(session_id: str, full: bool, diff: bool, repo: Path, as_json: bool) -> None:
    """Tell what happened in a session: what was asked and said, each call with its verdict, what it changed.

    SESSION is its id or the beginning of it; without one it is the newest. What an agent was told and told others is
    read from its own transcript, without secrets.
    """
    gate = governed_gate(repo)
    if session_id:
        session_id = find_session(gate, session_id)
    elif recent := gate.state.list_recent_sessions(1):
        session_id = recent[0].session_id
    else:
        raise Failure("NOT_FOUND", "no session is known here", fix="start an agent, or name a session of the ledger")
    if diff:
        emit_diff(gate, session_id, as_json)
        return
    with open_index(gate.workspace) as index:
        newest = index.find(session_id=session_id, limit=1)
        agent = str(newest[0].get("tool", {}).get("name") or "") if newest else ""
        with conversations(gate, [AgentSession(agent, session_id)]) as transcripts:
            steps = tell_session_story(index, transcripts, session_id)
        started = index.find(event="session_start", session_id=session_id, limit=1)
    if not steps:
        raise Failure("NOT_FOUND", f"no session {session_id!r}", fix="`remit log --event session_start` lists them")
    model = str(body_of(started[0]).get("model") or "") if started else ""
    title = GAP.join(filter(None, (session_id, agent, model)))
    remarks = [transcripts.problem] if transcripts.problem else []
    data = {"session_id": session_id, "steps": steps, "remarks": remarks}
    emit_view(data, as_json, lambda screen: [*session_view(steps, screen, full=full, about=title), *remarks])


def emit_diff(gate: Gate, session: str, as_json: bool) -> None:
    data: list[dict[str, Any]] = []
    lines: list[str] = []
    for change in changes_of_session(gate, session):
        before, after = (b"" if blob is None else gate.contents.load(blob) for blob in (change.before, change.after))
        diff = None if before is None or after is None else gate.contents.unified_diff(before, after)
        data.append({**msgspec.to_builtins(change), "diff": diff})
        for sign, blob, side in (("---", change.before, "a"), ("+++", change.after, "b")):
            name = "/dev/null" if blob is None else f"{side}/{change.path}"
            lines.append(click.style(f"{sign} {sanitise_line(name, 500)}", bold=True))
        if diff is None:
            lines.append("the content was not kept")
        else:
            lines += [click.style(line, fg=DIFF_COLOURS.get(line[:1])) for line in diff.splitlines()]
    emit({"session_id": session, "changes": data}, as_json, lines or "the session changed no file")


def changes_of_session(gate: Gate, session: str) -> tuple[SessionChange, ...]:
    changes = list_session_changes(gate, session)
    if changes is None:
        raise Failure("NOT_FOUND", f"no record names a session {session!r}", fix="`remit status` lists sessions")
    return changes


def session_view(
    steps: Sequence[StoryStep], screen: Screen, *, full: bool = False, about: str = ""
) -> Iterator[ViewPart]:
    if not steps:
        yield "no step of the session is known"
        return
    if about:
        began = parse_seconds(steps[0].at)
        yield heading(about, "" if began is None else f"began {screen.format_time(began)}")
    yield TextTable([row for step in steps for row in step_rows(step, screen, full)], is_folded=full)
    yield ""
    calls = [step for step in steps if step.kind == "call"]
    verdicts = Counter(VERDICT_MARKS.get(step.verdict, ("", "without a verdict"))[1] for step in calls)
    answers = Counter(answer_word(consent) for step in steps for consent in step.consents)
    questions = f"; {answers.total()} questions to a person: {format_counts(answers)}" if answers else ""
    changed = {path for step in steps for path in step.changed}
    totals = f"{len(calls)} calls: {format_counts(verdicts) or 'none'}{questions}; {len(changed)} files changed"
    yield styled_text(totals, "dim")


def format_counts(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.most_common())


def step_rows(step: StoryStep, screen: Screen, full: bool) -> Iterator[Row]:
    is_call = step.kind == "call"
    texts = [text for text in step.text.split("\n") if text.strip()] or [""]
    tool = f"{step.tool} " if step.tool else ""
    sub_agent = styled_text(f"[{step.agent_id[:12]}]", "dim") if step.agent_id else None
    first = "\n".join(texts) if is_call and not full else texts[0]
    more = "" if full or is_call or len(texts) == 1 else " …"
    failure = ""
    if step.verdict == "deny":
        failure = f"→ {step.code}"
    elif step.failed or step.exit_code:
        failure = f"→ failed{f' (exit {step.exit_code})' if step.exit_code else ''}"
    text = join_texts(sub_agent, f"{tool}{first}{more}", styled_text(failure, "red"))
    if step.kind in ("thought", "summary"):
        text.stylize("dim")
    verdict = VERDICT_MARKS.get(step.verdict, ("unknown", step.verdict or "no verdict"))
    seconds = parse_seconds(step.at)
    at = screen.format_time(step.at)
    if seconds is not None and screen.has_relative_times:
        at = datetime.fromtimestamp(seconds).astimezone().strftime("%H:%M:%S")
    yield styled_text(at, "dim"), mark(*(verdict if is_call else STEP_MARKS[step.kind])), text
    if full:
        yield from ((styled_text(""), styled_text(""), styled_text(rest)) for rest in texts[1:])
    for consent in step.consents:
        if is_call:
            risk = "" if consent.risk is None else f", risk {consent.risk}"
            question = ": ".join(filter(None, (f"{consent.rule}{risk}", "; ".join(consent.reasons))))
            yield effect_row("asked", "asked", question)
        is_yes = consent.answer == "allow"
        extent = EXTENT_NAMES.get(consent.extent, "") if is_yes else ""
        quote = f"“{consent.words}”" if consent.words else ""
        answer = GAP.join(filter(None, (consent.by or "a person", extent, quote)))
        if consent.answer:
            yield effect_row("allowed" if is_yes else "denied", answer_word(consent), answer)
        else:
            yield effect_row("unknown", "open", "nobody has answered")
    if step.grant and not step.consents:
        yield effect_row("allowed", "yes", f"by an earlier answer, grant {step.grant[-8:]}")
    if step.changed:
        pairs = zip(step.operations or ("modify",) * len(step.changed), step.changed, strict=False)
        paths = list_paths(f"{OPERATION_SIGNS.get(operation, '~')}{path}" for operation, path in pairs)
        yield effect_row("changed", "changed", paths)
    if step.brought:
        yield effect_row("git", "by git", list_paths(step.brought))
    if step.undone:
        yield effect_row("undone", "undone", list_paths(step.undone))


def answer_word(consent: Consent) -> str:
    return {"allow": "yes", "deny": "no"}.get(consent.answer, "open")


def effect_row(meaning: Meaning, verb: str, about: str) -> Row:
    return styled_text(""), mark(meaning, verb), styled_text(about)
