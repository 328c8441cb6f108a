"""Explanation of lines: the shapes that `remit why` returns, and its text for people and models, short or complete."""

import textwrap
from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct

from remit.core.untrusted_input import sanitise_line
from remit.provenance.blame.blamed_line import Candidate
from remit.provenance.origins.evidence_grades import LIKELY


class CommitDetails(Struct, frozen=True):
    """A commit in short. `pull_request` is from the message, or from the merge of the commit."""

    sha: str
    subject: str
    author: str
    at: str
    pull_request: int | None = None


class Passage(Struct, frozen=True):
    """Consecutive lines with one origin. `record` names the edit in `causes`; None if unknown."""

    start: int
    end: int
    origin: str
    commit: str
    record: str | None = None
    text: str = ""
    """The first line."""
    candidates: tuple[Candidate, ...] = ()
    """Calls that ran when lines of unknown origin came; none is proved."""
    agent: str | None = None
    intent_id: str | None = None
    grade: str | None = None


class Denial(Struct, frozen=True):
    """A call denied in the same session, on the same file, before the edit."""

    at: str
    code: str
    message: str


class Approval(Struct, frozen=True):
    """A person's approval of the edit."""

    by: str
    words: str = ""
    grant: str | None = None


class VerificationRun(Struct, frozen=True):
    """A verification run under the same intent after the edit."""

    at: str
    command: str
    exit_code: int | None = None


class Utterance(Struct, frozen=True):
    """A text (`assistant`) or thought (`thinking`) of the model."""

    role: str
    text: str
    at: str = ""


class Talk(Struct, frozen=True):
    """The conversation around one call.

    `prompt` is the person's last text. For a sub-agent `task` is the parent's text, and `prompt` the person's last text
    to the parent. `said` is oldest first; `answer` is the tool's result. `message_index` counts the kept transcript
    entries before the call.
    """

    prompt: str = ""
    prompt_at: str = ""
    task: str = ""
    said: tuple[Utterance, ...] = ()
    answer: str = ""
    failed: bool = False
    model: str | None = None
    message_index: int | None = None


class Cause(Struct, frozen=True):
    """An edit with context from the ledger. `at` is ISO 8601, `reasoning` the agent's own reason.

    `by` is the author by the record; `unknown` for a call only possibly the author. `criteria` and `scope` are the
    intent's at the time of the call, None if the intents file of the time is gone; `criteria_now` are the current
    criteria. `intent_then` is the id at the time of the call, if the intent was renumbered since. `diff` is unified
    without header, None if the contents are gone; `focus` is the index of the line in question.
    """

    record: str
    at: str
    by: Literal["agent", "person", "unknown"] = "agent"
    tool: str = ""
    command: str = ""
    agent: str | None = None
    model: str | None = None
    session_id: str | None = None
    agent_id: str | None = None
    intent_id: str | None = None
    intent_then: str | None = None
    intent_name: str | None = None
    intent_status: str | None = None
    criteria: tuple[str, ...] | None = None
    criteria_now: tuple[str, ...] | None = None
    scope: tuple[str, ...] | None = None
    mutation_class: str | None = None
    in_scope: bool | None = None
    reasoning: str = ""
    talk: Talk | None = None
    diff: str | None = None
    focus: int = 0
    denials: tuple[Denial, ...] = ()
    approvals: tuple[Approval, ...] = ()
    checks: tuple[VerificationRun, ...] = ()


class LaterEdit(Struct, frozen=True):
    """An edit of the file after the newest cause. `same_lines`: it changed lines of a cause."""

    record: str
    at: str
    intent_id: str | None = None
    session_id: str | None = None
    same_lines: bool = False


class Explanation(Struct, frozen=True):
    """Explanation of lines of a file.

    `left_out` counts causes beyond the newest 50; `remarks` are failures and their reasons.
    """

    path: str
    passages: tuple[Passage, ...]
    causes: tuple[Cause, ...] = ()
    commits: tuple[CommitDetails, ...] = ()
    later: tuple[LaterEdit, ...] = ()
    left_out: int = 0
    remarks: tuple[str, ...] = ()


MAX_COLUMNS = 100
LABEL_COLUMNS = 11  # width of a part's name with two spaces before and padding behind
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
    lines += [""] if explanation.commits else []
    for commit in explanation.commits:
        number = f"#{commit.pull_request}" if commit.pull_request else ""
        request = f" ({number})" if number and number not in commit.subject else ""
        subject = f"{sanitise_line(commit.author, 40)}: {sanitise_line(commit.subject, 80)}{request}"
        lines.append(f"commit {commit.sha[:8]}  {commit.at[:10]}  {subject}")
    if left_out := explanation.left_out + max(0, len(explanation.causes) - length.causes):
        lines.append(f"… and {left_out} older edits")
    same = [edit for edit in explanation.later if edit.same_lines]
    if later := explanation.later:
        times = "once" if len(later) == 1 else f"{len(later)} times"
        lines.append(f"The file was edited {times} more since; newest {later[0].at[:19]}.")
    if same:
        times = "once" if len(same) == 1 else f"{len(same)} times"
        newest = f"{same[0].record[-12:]} {same[0].at[:19]}, {sanitise_line(same[0].intent_id or 'no intent', 40)}"
        lines.append(f"Lines of this edit were changed {times} more; newest {newest}.")
    lines += [f"note: {sanitise_line(remark)}" for remark in explanation.remarks]
    return "\n".join(lines) or f"{sanitise_line(explanation.path)} has no lines"


def render_passage(path: str, passage: Passage, cause: Cause | None, commit: CommitDetails | None) -> str:
    span = f"{passage.start}" if passage.start == passage.end else f"{passage.start}-{passage.end}"
    request = f" #{commit.pull_request}" if commit and commit.pull_request else ""
    place = "not committed" if not passage.commit.strip("0") else f"{passage.commit[:8]}{request}"
    edit = f", edit {passage.record[-12:]}" if passage.record else ""
    return f"{sanitise_line(path)}:{span}  {passage.origin}  {describe_author(cause, passage)}  ({place}{edit})"


def describe_author(cause: Cause | None, passage: Passage) -> str:
    if passage.origin == "unknown" and passage.candidates:
        return f"changed while {' and '.join(map(describe_candidate, passage.candidates))}; nothing proves who wrote it"
    agent, intent = sanitise_line(passage.agent or "", 40), sanitise_line(passage.intent_id or "no intent", 40)
    if passage.grade == LIKELY and passage.agent:
        return f"likely {agent}, {intent}: its command ran alone; nothing proves who wrote it"
    if cause is None:
        return f"{agent}, {intent}, by a {passage.grade}" if passage.agent else "nobody that Remit saw"
    return AUTHOR_NAMES.get(cause.by) or f"{cause.agent or 'an agent'}, {cause.intent_id or 'no intent'}"


def describe_candidate(candidate: Candidate) -> str:
    name = candidate.agent or candidate.session_id
    agent = ("" if candidate.agent else "session ") + sanitise_line(name, 40)
    command = f" ran `{sanitise_line(candidate.command, 80)}`" if candidate.command else " was at work"
    return f"{agent}{command} under {sanitise_line(candidate.intent_id or 'no intent', 40)}"


def render_cause(cause: Cause, length: TextLength) -> Iterator[str]:
    call = sanitise_line(f"{cause.tool} {cause.command}".strip(), 120)
    yield f"edit {cause.record[-12:]}  {cause.at[:19]}  {call}".rstrip()
    yield from render_part("by", [render_author(cause)], length)
    if cause.by == "agent" or cause.agent:
        yield from render_intent(cause, length)
    if (talk := cause.talk) is not None:
        said = [("thought" if each.role == "thinking" else "said", each.text) for each in talk.said[-length.said :]]
        failed = [("failed", talk.answer)] if talk.failed else []
        for label, text in (("asked", talk.prompt), ("task", talk.task), *said, *failed):
            yield from render_part(label, text.split("\n"), length)
    if cause.diff is not None:
        yield from render_diff(cause.diff, cause.focus, length)
    for denial in cause.denials:
        yield from render_part("refused", [f"{denial.at[:19]} {denial.code}: {denial.message}"], length)
    for approval in cause.approvals:
        yield from render_part("allowed", [f"by {approval.by}" + (approval.words and f": {approval.words}")], length)
    for check in cause.checks:
        code = "?" if check.exit_code is None else check.exit_code
        yield from render_part("checked", [f"{check.command} → {code}"], length)


def render_author(cause: Cause) -> str:
    if cause.by == "unknown" and cause.agent:
        return f"{AUTHOR_NAMES[cause.by]}; {cause.agent} was at work, session {cause.session_id or '?'}"
    if cause.by != "agent":
        return AUTHOR_NAMES[cause.by]
    model = cause.model or (cause.talk.model if cause.talk else None)
    child = f", sub-agent {cause.agent_id}" if cause.agent_id else ""
    return f"{cause.agent or 'an agent'}{f' ({model})' if model else ''}, session {cause.session_id or '?'}{child}"


def render_intent(cause: Cause, length: TextLength) -> Iterator[str]:
    status = f" ({cause.intent_status})" if cause.intent_status else ""
    then = f", then {cause.intent_then}" if cause.intent_then else ""
    yield from render_part(
        "intent", [f"{cause.intent_id} {cause.intent_name or ''}{status}{then}" if cause.intent_id else "none"], length
    )
    then = cause.criteria if cause.criteria is not None else cause.criteria_now
    yield from (line for text in then or () for line in render_part("", [f"- {text}"], length))
    if cause.criteria is not None and cause.criteria_now is not None and cause.criteria != cause.criteria_now:
        yield from render_part("now", ["; ".join(cause.criteria_now) or "no criteria"], length)
    if cause.scope:
        yield from render_part("scope", [", ".join(cause.scope)], length)
    if cause.reasoning:
        yield from render_part("because", [cause.reasoning], length)


def render_diff(diff: str, focus: int, length: TextLength) -> Iterator[str]:
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


def render_part(name: str, paragraphs: Iterable[str], length: TextLength) -> Iterator[str]:
    """Yield a labelled, wrapped text; longer texts end in `…`."""
    clean = (sanitise_line(paragraph, 4000) for paragraph in paragraphs if paragraph.strip())
    lines = [line for paragraph in clean for line in textwrap.wrap(paragraph, MAX_COLUMNS - LABEL_COLUMNS) or [""]]
    for number, line in enumerate(lines[: length.text]):
        is_cut = number == length.text - 1 < len(lines) - 1
        yield f"{render_label('' if number else name)}{line}{' …' if is_cut else ''}"


def render_label(name: str) -> str:
    return f"  {name}".ljust(LABEL_COLUMNS)
