"""`remit session`: what happened in a session.

A session as people see it in a terminal: prompts, words, calls, and below each call its approval and effects.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

import click
import msgspec
from rich.text import Text

from remit.cli.colour import DIFF_COLOURS
from remit.cli.completion import complete_sessions
from remit.cli.output import (
    Failure,
    emit,
    emit_view,
    governed_gate,
    json_option,
    repo_option,
    reports_failures,
    view_options,
)
from remit.cli.records.lookup import find_session
from remit.cli.records.record_table import EXTENT_NAMES, OPERATION_SIGNS, list_paths
from remit.cli.terminal.screen import Screen, parse_seconds
from remit.cli.terminal.view import GAP, Meaning, TextTable, ViewPart, heading, join_texts, mark, styled_text
from remit.core.display_text import sanitise_line
from remit.gate.gate import Gate
from remit.ledger.file_changes import SessionChange, join_session_changes
from remit.ledger.index.index import Index, open_index
from remit.provenance.why.causes import body_of
from remit.provenance.why.conversations import AgentSession
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


def session_view(
    steps: Sequence[StoryStep], screen: Screen, *, full: bool = False, about: str = ""
) -> Iterator[ViewPart]:
    """Return the steps of a session below what it is `about`; `full`: with every line of every text."""
    if not steps:
        yield "nothing is known of that session"
        return
    if about:
        began = parse_seconds(steps[0].at)
        yield heading(about, "" if began is None else f"began {screen.format_time(began)}")
    yield TextTable([row for step in steps for row in step_rows(step, screen, full)], is_folded=full)
    yield ""
    yield styled_text(totals_line(steps), "dim")


def totals_line(steps: Sequence[StoryStep]) -> str:
    """Return how many calls there were, and what came of them."""
    calls = [step for step in steps if step.kind == "call"]
    verdicts = Counter(VERDICT_MARKS.get(step.verdict, ("", "without a verdict"))[1] for step in calls)
    questions = [consent for step in steps for consent in step.consents]
    said = Counter(answer_word(consent) for consent in questions)
    asked = f"; {len(questions)} questions to a person: {format_counts(said)}" if questions else ""
    changed = {path for step in steps for path in step.changed}
    return f"{len(calls)} calls: {format_counts(verdicts) or 'none'}{asked}; {len(changed)} files changed"


def format_counts(found: Counter[str]) -> str:
    """Return counts in words, the most frequent first."""
    return ", ".join(f"{count} {name}" for name, count in found.most_common())


def step_rows(step: StoryStep, screen: Screen, full: bool) -> Iterator[Row]:
    """Return one step as rows: the call or the words, and below it the approval and the effects."""
    texts = [text for text in step.text.split("\n") if text.strip()] or [""]
    tool = f"{step.tool} " if step.tool else ""
    below = styled_text(f"[{step.agent_id[:12]}]", "dim") if step.agent_id else None
    is_whole = full or step.kind == "call"
    first = "\n".join(texts) if step.kind == "call" and not full else texts[0]
    text = join_texts(
        below, styled_text(f"{tool}{first}{'' if is_whole or len(texts) == 1 else ' …'}"), failure_note(step)
    )
    if step.kind in ("thought", "summary"):
        text.stylize("dim")
    yield format_clock(step.at, screen), verdict_mark(step), text
    if full:
        yield from ((styled_text(""), styled_text(""), styled_text(more)) for more in texts[1:])
    for consent in step.consents:
        yield from consent_rows(step, consent)
    yield from effect_rows(step)


def format_clock(at: str, screen: Screen) -> Text:
    """Return the time of day on a terminal, else the whole time."""
    seconds = parse_seconds(at)
    if seconds is None or not screen.has_relative_times:
        return styled_text(screen.format_time(at), "dim")
    return styled_text(datetime.fromtimestamp(seconds).astimezone().strftime("%H:%M:%S"), "dim")


def verdict_mark(step: StoryStep) -> Text:
    """Return what a step is; of a call, its verdict."""
    if step.kind != "call":
        return mark(*STEP_MARKS[step.kind])
    return mark(*VERDICT_MARKS.get(step.verdict, ("unknown", step.verdict or "no verdict")))


def failure_note(step: StoryStep) -> Text | None:
    """Return why a call was refused, or that it failed."""
    if step.verdict == "deny":
        return styled_text(f"→ {step.code}", "red")
    if step.failed or step.exit_code:
        return styled_text(f"→ failed{f' (exit {step.exit_code})' if step.exit_code else ''}", "red")
    return None


def consent_rows(step: StoryStep, consent: Consent) -> Iterator[Row]:
    """Return a question and its answer."""
    if step.kind == "call":
        risk = "" if consent.risk is None else f", risk {consent.risk}"
        yield effect_row(
            "asked", "asked", ": ".join(filter(None, (f"{consent.rule}{risk}", "; ".join(consent.reasons))))
        )
    meaning: Meaning = "allowed" if consent.answer == "allow" else "denied"
    if not consent.answer:
        yield effect_row("unknown", "open", "nobody has answered")
        return
    extent = EXTENT_NAMES.get(consent.extent, "") if consent.answer == "allow" else ""
    said = f"“{consent.words}”" if consent.words else ""
    yield effect_row(
        meaning, answer_word(consent), GAP.join(filter(None, (f"{consent.by or 'a person'}", extent, said)))
    )


def answer_word(consent: Consent) -> str:
    """Return an answer in one word."""
    return {"allow": "yes", "deny": "no"}.get(consent.answer, "open")


def effect_rows(step: StoryStep) -> Iterator[Row]:
    """Return what came of a call: files that it changed, that git brought in it, that were put back."""
    if step.grant and not step.consents:
        yield effect_row("allowed", "yes", f"by an earlier answer, grant {step.grant[-8:]}")
    if step.changed:
        pairs = zip(step.operations or ("modify",) * len(step.changed), step.changed, strict=False)
        yield effect_row(
            "changed", "changed", list_paths(f"{OPERATION_SIGNS.get(op, '~')}{path}" for op, path in pairs)
        )
    if step.brought:
        yield effect_row("git", "by git", list_paths(step.brought))
    if step.undone:
        yield effect_row("undone", "undone", list_paths(step.undone))


def effect_row(meaning: Meaning, verb: str, about: str) -> Row:
    """Return a row below a call."""
    return styled_text(""), mark(meaning, verb), styled_text(about)


@click.command()
@click.argument("session_id", metavar="[SESSION]", default="", shell_complete=complete_sessions)
@click.option("--full", is_flag=True, help="Whole texts.")
@click.option("--diff", is_flag=True, help="The change that the session made to each file, as a diff.")
@repo_option
@json_option
@view_options
@reports_failures
def session(session_id: str, full: bool, diff: bool, repo: Path, as_json: bool) -> None:
    """Tell what happened in a session: what was asked and said, each call with its verdict, what it changed.

    SESSION is its id or the beginning of it; without one it is the newest. What an agent was told and told others is
    read from its own transcript, without secrets.
    """
    gate = governed_gate(repo)
    workspace = gate.workspace
    wanted = find_session(gate, session_id) if session_id else newest_session(gate)
    if diff:
        emit_diff(gate, wanted, as_json)
        return
    with open_index(workspace.state, workspace.log_folder) as index:
        agent = session_agent(index, wanted)
        with conversations(gate, [AgentSession(agent, wanted)]) as kept:
            steps = tell_session_story(index, kept, wanted)
        started = index.find(event="session_start", session_id=wanted, limit=1)
    model = str(body_of(started[0]).get("model") or "") if started else ""
    about = GAP.join(filter(None, (wanted, agent, model)))
    if not steps:
        raise Failure("NOT_FOUND", f"no session {wanted!r}", fix="`remit log --event session_start` lists them")
    data = {
        "session_id": wanted,
        "steps": msgspec.to_builtins(steps),
        "remarks": [kept.problem] if kept.problem else [],
    }
    told = partial(session_view, steps, full=full, about=about)
    emit_view(data, as_json, lambda screen: [*told(screen), *filter(None, [kept.problem])])


def emit_diff(gate: Gate, session: str, as_json: bool) -> None:
    """Print the change that the session made to each file. Others' changes in between are not in it."""
    changes = changes_of_session(gate, session)
    data = [{**msgspec.to_builtins(change), "diff": change_diff(gate, change)} for change in changes]
    lines = [line for change, found in zip(changes, data, strict=True) for line in diff_lines(change, found["diff"])]
    emit({"session_id": session, "changes": data}, as_json, "\n".join(lines) or "the session changed no file")


def changes_of_session(gate: Gate, session: str) -> tuple[SessionChange, ...]:
    """Return what the session changed, from its records. Raises Failure where none names it."""
    with open_index(gate.workspace.state, gate.workspace.log_folder) as index:
        if not index.find(session_id=session, limit=1):
            raise Failure("NOT_FOUND", f"no record names a session {session!r}", fix="`remit status` lists sessions")
        return join_session_changes(index.iterate_records(session_id=session, event="mutation"))


def change_diff(gate: Gate, change: SessionChange) -> str | None:
    """Return the unified diff of one change, without its header; None where a content was not kept."""
    before, after = (b"" if blob is None else gate.contents.load(blob) for blob in (change.before, change.after))
    return None if before is None or after is None else gate.contents.unified_diff(before, after)


def diff_lines(change: SessionChange, diff: str | None) -> Iterator[str]:
    """Yield one change as git shows it, coloured for a terminal."""
    old = "/dev/null" if change.before is None else f"a/{change.path}"
    new = "/dev/null" if change.after is None else f"b/{change.path}"
    yield click.style(f"--- {sanitise_line(old, 500)}", bold=True)
    yield click.style(f"+++ {sanitise_line(new, 500)}", bold=True)
    if diff is None:
        yield "the content was not kept"
        return
    for line in diff.splitlines():
        yield click.style(line, fg=DIFF_COLOURS.get(line[:1]))


def newest_session(gate: Gate) -> str:
    """Return the session that was heard of last. Raises Failure where there is none."""
    found = gate.state.list_recent_sessions(1)
    if not found:
        raise Failure("NOT_FOUND", "no session is known here", fix="start an agent, or name a session of the ledger")
    return found[0].session_id


def session_agent(index: Index, session_id: str) -> str:
    """The agent of a session, by its newest record."""
    found = index.find(session_id=session_id, limit=1)
    return str(found[0].get("tool", {}).get("name") or "") if found else ""
