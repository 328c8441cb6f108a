"""Text of an explanation for people and models, short or complete."""

import textwrap
from collections.abc import Iterable, Iterator

from msgspec import Struct

from remit.core.display_text import sanitise_line
from remit.provenance.blame.blamed_line import Candidate
from remit.provenance.origins.evidence import LIKELY
from remit.provenance.why.commit_details import CommitDetails
from remit.provenance.why.explanation import Cause, Explanation, Passage, Talk

MAX_COLUMNS = 100
LABEL_COLUMNS = 11
"""Width of a part's name with two spaces before and padding behind."""

AUTHOR_NAMES = {"person": "a person", "unknown": "nobody that Remit can name"}


class TextLength(Struct, frozen=True):
    """Limits of a text: causes, lines per text, diff lines, messages."""

    causes: int
    text: int
    diff: int
    said: int


SHORT = TextLength(causes=3, text=3, diff=12, said=2)
FULL = TextLength(causes=50, text=10_000, diff=100_000, said=10_000)


def render_explanation(explanation: Explanation, *, full: bool = False) -> str:
    """Render the explanation, short or complete."""
    length = FULL if full else SHORT
    causes = {c.record: c for c in explanation.causes}
    commits = {c.sha: c for c in explanation.commits}
    lines = [
        render_passage(explanation.path, p, causes.get(p.record or ""), commits.get(p.commit))
        for p in explanation.passages
    ]
    for cause in explanation.causes[: length.causes]:
        lines += ["", *render_cause(cause, length)]
    lines += ["", *map(render_commit, explanation.commits)] if explanation.commits else []
    lines += [*render_rest(explanation, length), *(f"note: {sanitise_line(remark)}" for remark in explanation.remarks)]
    return "\n".join(lines) or f"{sanitise_line(explanation.path)} has no lines"


def render_rest(explanation: Explanation, length: TextLength) -> Iterator[str]:
    """Yield the counts of omitted edits and of later edits."""
    left_out = explanation.left_out + max(0, len(explanation.causes) - length.causes)
    if left_out:
        yield f"… and {left_out} older edits"
    if not explanation.later:
        return
    later = explanation.later
    yield f"The file was edited {count_times(len(later))} more since; newest {later[0].at[:19]}."
    if same_lines := [edit for edit in later if edit.same_lines]:
        edit = same_lines[0]
        newest = f"{edit.record[-12:]} {edit.at[:19]}, {sanitise_line(edit.intent_id or 'no intent', 40)}"
        yield f"Lines of this edit were changed {count_times(len(same_lines))} more; newest {newest}."


def count_times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def render_passage(path: str, passage: Passage, cause: Cause | None, commit: CommitDetails | None) -> str:
    span = f"{passage.start}" if passage.start == passage.end else f"{passage.start}-{passage.end}"
    request = f" #{commit.pull_request}" if commit and commit.pull_request else ""
    place = "not committed" if not passage.commit.strip("0") else f"{passage.commit[:8]}{request}"
    edit = f", edit {passage.record[-12:]}" if passage.record else ""
    return f"{sanitise_line(path)}:{span}  {passage.origin}  {describe_author(cause, passage)}  ({place}{edit})"


def describe_author(cause: Cause | None, passage: Passage) -> str:
    """Return author and intent of the edit; for unknown origin the candidates."""
    if passage.origin == "unknown" and passage.candidates:
        return describe_candidates(passage.candidates)
    if passage.grade == LIKELY and passage.agent:
        intent = sanitise_line(passage.intent_id or "no intent", 40)
        return (
            f"likely {sanitise_line(passage.agent, 40)}, {intent}: its command ran alone; nothing proves who wrote it"
        )
    if cause is None and passage.agent:
        intent = sanitise_line(passage.intent_id or "no intent", 40)
        return f"{sanitise_line(passage.agent, 40)}, {intent}, by a {passage.grade}"
    if cause is None:
        return "nobody that Remit saw"
    return AUTHOR_NAMES.get(cause.by) or f"{cause.agent or 'an agent'}, {cause.intent_id or 'no intent'}"


def describe_candidates(candidates: Iterable[Candidate]) -> str:
    calls = " and ".join(map(describe_candidate, candidates))
    return f"changed while {calls}; nothing proves who wrote it"


def describe_candidate(candidate: Candidate) -> str:
    agent = (
        sanitise_line(candidate.agent, 40) if candidate.agent else f"session {sanitise_line(candidate.session_id, 40)}"
    )
    command = f" ran `{sanitise_line(candidate.command, 80)}`" if candidate.command else " was at work"
    return f"{agent}{command} under {sanitise_line(candidate.intent_id or 'no intent', 40)}"


def render_cause(cause: Cause, length: TextLength) -> Iterator[str]:
    call = sanitise_line(f"{cause.tool} {cause.command}".strip(), 120)
    yield f"edit {cause.record[-12:]}  {cause.at[:19]}  {call}".rstrip()
    yield from render_part("by", [render_author(cause)], length)
    if cause.by == "agent" or cause.agent:
        yield from render_intent(cause, length)
    if cause.talk is not None:
        yield from render_talk(cause.talk, length)
    if cause.diff is not None:
        yield from render_diff(cause.diff, cause.focus, length)
    for denial in cause.denials:
        yield from render_part("refused", [f"{denial.at[:19]} {denial.code}: {denial.message}"], length)
    for approval in cause.approvals:
        yield from render_part(
            "allowed", [f"by {approval.by}{f': {approval.words}' if approval.words else ''}"], length
        )
    for check in cause.checks:
        yield from render_part(
            "checked", [f"{check.command} → {'?' if check.exit_code is None else check.exit_code}"], length
        )


def render_author(cause: Cause) -> str:
    if cause.by == "unknown" and cause.agent:
        return f"{AUTHOR_NAMES[cause.by]}; {cause.agent} was at work, session {cause.session_id or '?'}"
    if cause.by != "agent":
        return AUTHOR_NAMES[cause.by]
    model = cause.model or (cause.talk.model if cause.talk else None)
    child = f", sub-agent {cause.agent_id}" if cause.agent_id else ""
    return f"{cause.agent or 'an agent'}{f' ({model})' if model else ''}, session {cause.session_id or '?'}{child}"


def render_intent(cause: Cause, length: TextLength) -> Iterator[str]:
    """Yield the intent with its criteria, then and now."""
    status = f" ({cause.intent_status})" if cause.intent_status else ""
    yield from render_part(
        "intent", [f"{cause.intent_id} {cause.intent_name or ''}{status}" if cause.intent_id else "none"], length
    )
    then = cause.criteria if cause.criteria is not None else cause.criteria_now
    yield from (line for text in then or () for line in render_part("", [f"- {text}"], length))
    if cause.criteria is not None and cause.criteria_now is not None and cause.criteria != cause.criteria_now:
        yield from render_part("now", ["; ".join(cause.criteria_now) or "no criteria"], length)
    if cause.reasoning:
        yield from render_part("because", [cause.reasoning], length)


def render_talk(talk: Talk, length: TextLength) -> Iterator[str]:
    for label, text in (("asked", talk.prompt), ("task", talk.task)):
        if text.strip():
            yield from render_part(label, text.split("\n"), length)
    utterances = talk.said[-length.said :]
    for utterance in utterances:
        yield from render_part(
            "thought" if utterance.role == "thinking" else "said", utterance.text.split("\n"), length
        )
    if talk.failed:
        yield from render_part("failed", talk.answer.split("\n"), length)


def render_diff(diff: str, focus: int, length: TextLength) -> Iterator[str]:
    """Yield the diff around the line asked about."""
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
    number = f"#{commit.pull_request}" if commit.pull_request else ""
    request = f" ({number})" if number and number not in commit.subject else ""
    subject = f"{sanitise_line(commit.author, 40)}: {sanitise_line(commit.subject, 80)}{request}"
    return f"commit {commit.sha[:8]}  {commit.at[:10]}  {subject}"


def render_part(name: str, paragraphs: Iterable[str], length: TextLength) -> Iterator[str]:
    """Yield a labelled, wrapped text; longer texts end in `…`."""
    clean = (sanitise_line(paragraph, 4000) for paragraph in paragraphs if paragraph.strip())
    lines = [line for paragraph in clean for line in textwrap.wrap(paragraph, MAX_COLUMNS - LABEL_COLUMNS) or [""]]
    for number, line in enumerate(lines[: length.text]):
        is_cut = number == length.text - 1 < len(lines) - 1
        yield f"{render_label('' if number else name)}{line}{' …' if is_cut else ''}"


def render_label(name: str) -> str:
    return f"  {name}".ljust(LABEL_COLUMNS)
