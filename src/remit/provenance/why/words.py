"""An explanation in words, for people and models: what fits a terminal, or all of it."""

import textwrap
from collections.abc import Iterable, Iterator

from msgspec import Struct

from remit.core.text import shown
from remit.provenance.blame.candidates import Candidate
from remit.provenance.origins.evidence import LIKELY
from remit.provenance.why.commits import Commit
from remit.provenance.why.explanation import Cause, Explanation, Passage
from remit.provenance.why.talk import Talk

WIDTH = 100
LABEL = 11
"""Characters before the text of a part: two spaces, its name, and what fills up."""

ORIGINS = {"person": "a person", "unknown": "nobody that Remit can name"}


class Length(Struct, frozen=True):
    """How much is told: causes, lines of a text, lines of a diff, things said."""

    causes: int
    text: int
    diff: int
    said: int


SHORT = Length(causes=3, text=3, diff=12, said=2)
FULL = Length(causes=50, text=10_000, diff=100_000, said=10_000)


def in_words(found: Explanation, *, full: bool = False) -> str:
    """The explanation, short or in full."""
    length = FULL if full else SHORT
    causes = {c.record: c for c in found.causes}
    commits = {c.sha: c for c in found.commits}
    lines = [passage_line(found.path, p, causes.get(p.record or ""), commits.get(p.commit)) for p in found.passages]
    for one in found.causes[: length.causes]:
        lines += ["", *cause_lines(one, length)]
    lines += ["", *map(commit_line, found.commits)] if found.commits else []
    lines += [*rest(found, length), *(f"note: {shown(remark)}" for remark in found.remarks)]
    return "\n".join(lines) or f"{shown(found.path)} has no lines"


def rest(found: Explanation, length: Length) -> Iterator[str]:
    """What there is beyond what is told."""
    left_out = found.left_out + max(0, len(found.causes) - length.causes)
    if left_out:
        yield f"… and {left_out} older edits"
    if found.later:
        again = [edit for edit in found.later if edit.same_lines]
        yield f"The file was edited {times(len(found.later))} more since; newest {found.later[0].at[:19]}."
        if again:
            newest = f"{again[0].record[-12:]} {again[0].at[:19]}, {shown(again[0].intent_id or 'no intent', 40)}"
            yield f"Lines of this edit were changed {times(len(again))} more; newest {newest}."


def times(count: int) -> str:
    """So many times, in words."""
    return "once" if count == 1 else f"{count} times"


def passage_line(path: str, passage: Passage, known: Cause | None, commit: Commit | None) -> str:
    """Where lines came from, on one line."""
    span = f"{passage.start}" if passage.start == passage.end else f"{passage.start}-{passage.end}"
    request = f" #{commit.pull_request}" if commit and commit.pull_request else ""
    place = "not committed" if not passage.commit.strip("0") else f"{passage.commit[:8]}{request}"
    edit = f", edit {passage.record[-12:]}" if passage.record else ""
    return f"{shown(path)}:{span}  {passage.origin}  {who(known, passage)}  ({place}{edit})"


def who(known: Cause | None, passage: Passage) -> str:
    """Who made the edit, and under which intent; of an open one, who was at work."""
    if passage.origin == "unknown" and passage.candidates:
        return meanwhile(passage.candidates)
    if passage.grade == LIKELY and passage.agent:
        intent = shown(passage.intent_id or "no intent", 40)
        return f"likely {shown(passage.agent, 40)}, {intent}: its command ran alone; nothing proves who wrote it"
    if known is None and passage.agent:
        return f"{shown(passage.agent, 40)}, {shown(passage.intent_id or 'no intent', 40)}, by a {passage.grade}"
    if known is None:
        return "nobody that Remit saw"
    return ORIGINS.get(known.by) or f"{known.agent or 'an agent'}, {known.intent_id or 'no intent'}"


def meanwhile(candidates: Iterable[Candidate]) -> str:
    """What ran when the lines came."""
    ran = " and ".join(map(running, candidates))
    return f"changed while {ran}; nothing proves who wrote it"


def running(one: Candidate) -> str:
    """One of the calls, in words."""
    agent = shown(one.agent, 40) if one.agent else f"session {shown(one.session_id, 40)}"
    command = f" ran `{shown(one.command, 80)}`" if one.command else " was at work"
    return f"{agent}{command} under {shown(one.intent_id or 'no intent', 40)}"


def cause_lines(one: Cause, length: Length) -> Iterator[str]:
    """One edit with what surrounds it."""
    yield f"edit {one.record[-12:]}  {one.at[:19]}  {shown(f'{one.tool} {one.command}'.strip(), 120)}".rstrip()
    yield from part("by", [author(one)], length)
    if one.by == "agent" or one.agent:
        yield from intent_lines(one, length)
    if one.talk is not None:
        yield from talk_lines(one.talk, length)
    if one.diff is not None:
        yield from diff_lines(one.diff, one.focus, length)
    for denial in one.denials:
        yield from part("refused", [f"{denial.at[:19]} {denial.code}: {denial.message}"], length)
    for approval in one.approvals:
        yield from part("allowed", [f"by {approval.by}{f': {approval.words}' if approval.words else ''}"], length)
    for check in one.checks:
        yield from part("checked", [f"{check.command} → {'?' if check.exit_code is None else check.exit_code}"], length)


def author(one: Cause) -> str:
    """Who made the edit, with model and session."""
    if one.by == "unknown" and one.agent:
        return f"{ORIGINS[one.by]}; {one.agent} was at work, session {one.session_id or '?'}"
    if one.by != "agent":
        return ORIGINS[one.by]
    model = one.model or (one.talk.model if one.talk else None)
    child = f", sub-agent {one.agent_id}" if one.agent_id else ""
    return f"{one.agent or 'an agent'}{f' ({model})' if model else ''}, session {one.session_id or '?'}{child}"


def intent_lines(one: Cause, length: Length) -> Iterator[str]:
    """The intent, with what it calls done: as it was, and as it is where that differs."""
    status = f" ({one.intent_status})" if one.intent_status else ""
    yield from part("intent", [f"{one.intent_id} {one.intent_name or ''}{status}" if one.intent_id else "none"], length)
    then = one.criteria if one.criteria is not None else one.criteria_now
    yield from (line for text in then or () for line in part("", [f"- {text}"], length))
    if one.criteria is not None and one.criteria_now is not None and one.criteria != one.criteria_now:
        yield from part("now", ["; ".join(one.criteria_now) or "no criteria"], length)
    if one.reasoning:
        yield from part("because", [one.reasoning], length)


def talk_lines(talk: Talk, length: Length) -> Iterator[str]:
    """The prompt, the task of a sub-agent, and what the model thought and said."""
    for label, text in (("asked", talk.prompt), ("task", talk.task)):
        if text.strip():
            yield from part(label, text.split("\n"), length)
    said = talk.said[-length.said :]
    for one in said:
        yield from part("thought" if one.role == "thinking" else "said", one.text.split("\n"), length)
    if talk.failed:
        yield from part("failed", talk.answer.split("\n"), length)


def diff_lines(diff: str, focus: int, length: Length) -> Iterator[str]:
    """The edit, around the line that the question is about."""
    lines = diff.rstrip("\n").split("\n")
    start = 0 if len(lines) <= length.diff else max(0, min(focus - 2, len(lines) - length.diff))
    chosen = lines[start : start + length.diff]
    if not diff:
        yield from part("edit", ["no line differs"], length)
        return
    yield f"{label('edit')}{shown(chosen[0], WIDTH + 20)}"
    yield from (f"{label('')}{shown(line, WIDTH + 20)}" for line in chosen[1:])
    if len(chosen) < len(lines):
        yield f"{label('')}… {len(lines) - len(chosen)} more lines of this edit"


def commit_line(commit: Commit) -> str:
    """A commit on one line."""
    number = f"#{commit.pull_request}" if commit.pull_request else ""
    request = f" ({number})" if number and number not in commit.subject else ""
    said = f"{shown(commit.author, 40)}: {shown(commit.subject, 80)}{request}"
    return f"commit {commit.sha[:8]}  {commit.at[:10]}  {said}"


def part(name: str, paragraphs: Iterable[str], length: Length) -> Iterator[str]:
    """A labelled text, wrapped; the rest of a long one is counted."""
    clean = (shown(paragraph, 4000) for paragraph in paragraphs if paragraph.strip())
    lines = [line for paragraph in clean for line in textwrap.wrap(paragraph, WIDTH - LABEL) or [""]]
    for number, line in enumerate(lines[: length.text]):
        more = number == length.text - 1 < len(lines) - 1
        yield f"{label('' if number else name)}{line}{' …' if more else ''}"


def label(name: str) -> str:
    """The name of a part, and the room before its text."""
    return f"  {name}".ljust(LABEL)
