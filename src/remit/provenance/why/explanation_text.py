"""An explanation in words, for people and models: what fits a terminal, or all of it."""

import textwrap
from collections.abc import Iterable, Iterator

from msgspec import Struct

from remit.core.display_text import sanitise_line
from remit.provenance.blame.blamed_line import Candidate
from remit.provenance.origins.evidence import LIKELY
from remit.provenance.why.commit_details import CommitDetails
from remit.provenance.why.conversations import Talk
from remit.provenance.why.explanation import Cause, Explanation, Passage

MAX_COLUMNS = 100
LABEL_COLUMNS = 11
"""Characters before the text of a part: two spaces, its name, and what fills up."""

AUTHOR_NAMES = {"person": "a person", "unknown": "nobody that Remit can name"}


class TextLength(Struct, frozen=True):
    """How much is told: causes, lines of a text, lines of a diff, things said."""

    causes: int
    text: int
    diff: int
    said: int


SHORT = TextLength(causes=3, text=3, diff=12, said=2)
FULL = TextLength(causes=50, text=10_000, diff=100_000, said=10_000)


def render_explanation(found: Explanation, *, full: bool = False) -> str:
    """The explanation, short or in full."""
    length = FULL if full else SHORT
    causes = {c.record: c for c in found.causes}
    commits = {c.sha: c for c in found.commits}
    lines = [render_passage(found.path, p, causes.get(p.record or ""), commits.get(p.commit)) for p in found.passages]
    for one in found.causes[: length.causes]:
        lines += ["", *render_cause(one, length)]
    lines += ["", *map(render_commit, found.commits)] if found.commits else []
    lines += [*render_rest(found, length), *(f"note: {sanitise_line(remark)}" for remark in found.remarks)]
    return "\n".join(lines) or f"{sanitise_line(found.path)} has no lines"


def render_rest(found: Explanation, length: TextLength) -> Iterator[str]:
    """What there is beyond what is told."""
    left_out = found.left_out + max(0, len(found.causes) - length.causes)
    if left_out:
        yield f"… and {left_out} older edits"
    if found.later:
        again = [edit for edit in found.later if edit.same_lines]
        yield f"The file was edited {count_times(len(found.later))} more since; newest {found.later[0].at[:19]}."
        if again:
            newest = (
                f"{again[0].record[-12:]} {again[0].at[:19]}, {sanitise_line(again[0].intent_id or 'no intent', 40)}"
            )
            yield f"Lines of this edit were changed {count_times(len(again))} more; newest {newest}."


def count_times(count: int) -> str:
    """So many times, in words."""
    return "once" if count == 1 else f"{count} times"


def render_passage(path: str, passage: Passage, known: Cause | None, commit: CommitDetails | None) -> str:
    """Where lines came from, on one line."""
    span = f"{passage.start}" if passage.start == passage.end else f"{passage.start}-{passage.end}"
    request = f" #{commit.pull_request}" if commit and commit.pull_request else ""
    place = "not committed" if not passage.commit.strip("0") else f"{passage.commit[:8]}{request}"
    edit = f", edit {passage.record[-12:]}" if passage.record else ""
    return f"{sanitise_line(path)}:{span}  {passage.origin}  {describe_author(known, passage)}  ({place}{edit})"


def describe_author(known: Cause | None, passage: Passage) -> str:
    """Who made the edit, and under which intent; of an open one, who was at work."""
    if passage.origin == "unknown" and passage.candidates:
        return describe_candidates(passage.candidates)
    if passage.grade == LIKELY and passage.agent:
        intent = sanitise_line(passage.intent_id or "no intent", 40)
        return (
            f"likely {sanitise_line(passage.agent, 40)}, {intent}: its command ran alone; nothing proves who wrote it"
        )
    if known is None and passage.agent:
        return f"{sanitise_line(passage.agent, 40)}, {sanitise_line(passage.intent_id or 'no intent', 40)}, by a {passage.grade}"  # noqa: E501
    if known is None:
        return "nobody that Remit saw"
    return AUTHOR_NAMES.get(known.by) or f"{known.agent or 'an agent'}, {known.intent_id or 'no intent'}"


def describe_candidates(candidates: Iterable[Candidate]) -> str:
    """What ran when the lines came."""
    ran = " and ".join(map(describe_candidate, candidates))
    return f"changed while {ran}; nothing proves who wrote it"


def describe_candidate(one: Candidate) -> str:
    """One of the calls, in words."""
    agent = sanitise_line(one.agent, 40) if one.agent else f"session {sanitise_line(one.session_id, 40)}"
    command = f" ran `{sanitise_line(one.command, 80)}`" if one.command else " was at work"
    return f"{agent}{command} under {sanitise_line(one.intent_id or 'no intent', 40)}"


def render_cause(one: Cause, length: TextLength) -> Iterator[str]:
    """One edit with what surrounds it."""
    yield f"edit {one.record[-12:]}  {one.at[:19]}  {sanitise_line(f'{one.tool} {one.command}'.strip(), 120)}".rstrip()
    yield from render_part("by", [render_author(one)], length)
    if one.by == "agent" or one.agent:
        yield from render_intent(one, length)
    if one.talk is not None:
        yield from render_talk(one.talk, length)
    if one.diff is not None:
        yield from render_diff(one.diff, one.focus, length)
    for denial in one.denials:
        yield from render_part("refused", [f"{denial.at[:19]} {denial.code}: {denial.message}"], length)
    for approval in one.approvals:
        yield from render_part(
            "allowed", [f"by {approval.by}{f': {approval.words}' if approval.words else ''}"], length
        )
    for check in one.checks:
        yield from render_part(
            "checked", [f"{check.command} → {'?' if check.exit_code is None else check.exit_code}"], length
        )


def render_author(one: Cause) -> str:
    """Who made the edit, with model and session."""
    if one.by == "unknown" and one.agent:
        return f"{AUTHOR_NAMES[one.by]}; {one.agent} was at work, session {one.session_id or '?'}"
    if one.by != "agent":
        return AUTHOR_NAMES[one.by]
    model = one.model or (one.talk.model if one.talk else None)
    child = f", sub-agent {one.agent_id}" if one.agent_id else ""
    return f"{one.agent or 'an agent'}{f' ({model})' if model else ''}, session {one.session_id or '?'}{child}"


def render_intent(one: Cause, length: TextLength) -> Iterator[str]:
    """The intent, with what it calls done: as it was, and as it is where that differs."""
    status = f" ({one.intent_status})" if one.intent_status else ""
    yield from render_part(
        "intent", [f"{one.intent_id} {one.intent_name or ''}{status}" if one.intent_id else "none"], length
    )
    then = one.criteria if one.criteria is not None else one.criteria_now
    yield from (line for text in then or () for line in render_part("", [f"- {text}"], length))
    if one.criteria is not None and one.criteria_now is not None and one.criteria != one.criteria_now:
        yield from render_part("now", ["; ".join(one.criteria_now) or "no criteria"], length)
    if one.reasoning:
        yield from render_part("because", [one.reasoning], length)


def render_talk(talk: Talk, length: TextLength) -> Iterator[str]:
    """The prompt, the task of a sub-agent, and what the model thought and said."""
    for label, text in (("asked", talk.prompt), ("task", talk.task)):
        if text.strip():
            yield from render_part(label, text.split("\n"), length)
    said = talk.said[-length.said :]
    for one in said:
        yield from render_part("thought" if one.role == "thinking" else "said", one.text.split("\n"), length)
    if talk.failed:
        yield from render_part("failed", talk.answer.split("\n"), length)


def render_diff(diff: str, focus: int, length: TextLength) -> Iterator[str]:
    """The edit, around the line that the question is about."""
    lines = diff.rstrip("\n").split("\n")
    start = 0 if len(lines) <= length.diff else max(0, min(focus - 2, len(lines) - length.diff))
    chosen = lines[start : start + length.diff]
    if not diff:
        yield from render_part("edit", ["no line differs"], length)
        return
    yield f"{render_label('edit')}{sanitise_line(chosen[0], MAX_COLUMNS + 20)}"
    yield from (f"{render_label('')}{sanitise_line(line, MAX_COLUMNS + 20)}" for line in chosen[1:])
    if len(chosen) < len(lines):
        yield f"{render_label('')}… {len(lines) - len(chosen)} more lines of this edit"


def render_commit(commit: CommitDetails) -> str:
    """A commit on one line."""
    number = f"#{commit.pull_request}" if commit.pull_request else ""
    request = f" ({number})" if number and number not in commit.subject else ""
    said = f"{sanitise_line(commit.author, 40)}: {sanitise_line(commit.subject, 80)}{request}"
    return f"commit {commit.sha[:8]}  {commit.at[:10]}  {said}"


def render_part(name: str, paragraphs: Iterable[str], length: TextLength) -> Iterator[str]:
    """A labelled text, wrapped; the rest of a long one is counted."""
    clean = (sanitise_line(paragraph, 4000) for paragraph in paragraphs if paragraph.strip())
    lines = [line for paragraph in clean for line in textwrap.wrap(paragraph, MAX_COLUMNS - LABEL_COLUMNS) or [""]]
    for number, line in enumerate(lines[: length.text]):
        more = number == length.text - 1 < len(lines) - 1
        yield f"{render_label('' if number else name)}{line}{' …' if more else ''}"


def render_label(name: str) -> str:
    """The name of a part, and the room before its text."""
    return f"  {name}".ljust(LABEL_COLUMNS)
