"""Why lines are there, as an answer: the shapes that `remit why` gives."""

from typing import Literal

from msgspec import Struct

from remit.provenance.blame.blamed_line import Candidate
from remit.provenance.why.commit_details import CommitDetails
from remit.provenance.why.conversations import Talk


class Passage(Struct, frozen=True):
    """Lines in a row with one origin. `record` names the edit in `causes`; None where none is known."""

    start: int
    end: int
    origin: str
    commit: str
    record: str | None = None
    text: str = ""
    """The first of the lines."""
    candidates: tuple[Candidate, ...] = ()
    """Calls that were under way when lines of unknown origin came: nothing proves that one of them wrote them."""
    agent: str | None = None
    intent_id: str | None = None
    grade: str | None = None


class Denial(Struct, frozen=True):
    """A call that was refused in the same session, on the same file, before the edit."""

    at: str
    code: str
    message: str


class Approval(Struct, frozen=True):
    """A person's yes that the edit rested on."""

    by: str
    words: str = ""
    grant: str | None = None


class VerificationRun(Struct, frozen=True):
    """A verification that Remit ran under the same intent after the edit."""

    at: str
    command: str
    exit_code: int | None = None


class Cause(Struct, frozen=True):
    """One edit, with what the ledger knows around it. `at` is ISO 8601, `reasoning` what the agent gave as its own.

    `by` is who the record names; `unknown` where it names a call that only may have been it. `criteria` are the
    intent's as they were when the call was judged, None where that version of the intents file is gone; `criteria_now`
    as they are today. `diff` is unified, without a header, None where the contents are gone; `focus` is the index of
    the line in it that the question is about.
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
    """An edit of the file after the newest of the causes. `same_lines`: it changed lines that a cause had put there."""

    record: str
    at: str
    intent_id: str | None = None
    session_id: str | None = None
    same_lines: bool = False


class Explanation(Struct, frozen=True):
    """Why the lines of a file are there.

    `left_out` counts causes beyond the newest 50; `remarks` are what could not be told, and why.
    """

    path: str
    passages: tuple[Passage, ...]
    causes: tuple[Cause, ...] = ()
    commits: tuple[CommitDetails, ...] = ()
    later: tuple[LaterEdit, ...] = ()
    left_out: int = 0
    remarks: tuple[str, ...] = ()
