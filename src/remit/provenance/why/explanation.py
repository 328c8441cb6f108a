"""Structure of an explanation: the shapes that `remit why` returns."""

from typing import Literal

from msgspec import Struct

from remit.provenance.blame.blamed_line import Candidate
from remit.provenance.why.commit_details import CommitDetails


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
    """An edit with its surroundings in the ledger. `at` is ISO 8601, `reasoning` the agent's own reason.

    `by` is the author by the record; `unknown` for a call that only may have written the lines. `criteria` are the
    intent's at the time of the call, None if that intents file is gone; `criteria_now` are the current ones. `diff` is
    unified without header, None if the contents are gone; `focus` is the index of the line asked about.
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
    intent_name: str | None = None
    intent_status: str | None = None
    criteria: tuple[str, ...] | None = None
    criteria_now: tuple[str, ...] | None = None
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
