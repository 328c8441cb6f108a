"""One line of a file with what is known of it.

Who may have made a change of which nothing proves who did: never more than a list of names.
"""

from collections.abc import Collection, Iterator
from typing import Any, Literal

from msgspec import Struct, field

from remit.core.record import KEY
from remit.provenance.origins.blame_porcelain import GitLine


class Candidate(Struct, frozen=True):
    """A call that was under way. `command` is what it ran, or the tool's name; what is not known is None."""

    session_id: str
    agent: str | None = None
    intent_id: str | None = None
    command: str | None = None


def read_candidates(document: dict[str, Any]) -> tuple[Candidate, ...]:
    """The candidates that a record names: its own call, where it is a call's, else those that it lists."""
    body: dict[str, Any] = document["metadata"][KEY]
    if body.get("event") != "human_edit":
        call: dict[str, Any] = body.get("call", {})
        ran = call.get("command") or call.get("name")
        agent = document.get("tool", {}).get("name")
        return (Candidate(str(body.get("session_id") or ""), agent, body.get("intent_id"), ran),)
    return tuple(parse_candidates(body.get("candidates", [])))


def parse_candidates(found: list[Any]) -> Iterator[Candidate]:
    """The candidates in a list, of which older records hold the sessions only."""
    for one in found:
        if isinstance(one, str):
            yield Candidate(one)
        else:
            yield Candidate(str(one.get("session_id")), one.get("agent"), one.get("intent_id"), one.get("command"))


class BlamedLine(Struct, frozen=True):
    """One line of the file: the shape of contracts §9. `line` is 1-based; `grade` is the strength of the evidence.

    `candidates` are the calls that ran when a line of unknown origin came: one of them may have written it, or none.
    `declared` is the class by the agent's own word, `class` what its contents show.
    """

    line: int
    content: str
    commit: str
    origin: Literal["ai", "human", "mixed", "unknown"] = "unknown"
    agent: str | None = None
    model: str | None = None
    session_id: str | None = None
    intent_id: str | None = None
    mutation_class: str | None = field(default=None, name="class")
    grade: str | None = None
    record: str | None = None
    candidates: tuple[Candidate, ...] = ()
    declared: str | None = None


def make_blamed_line(line: GitLine, known: tuple[Any, ...]) -> BlamedLine:
    """One line with what is known of it."""
    return BlamedLine(line.line, line.content.decode("utf-8", "replace"), line.version.commit, *known)


def filter_by_grade(line: BlamedLine, grades: Collection[str]) -> BlamedLine:
    """The line, of unknown origin where its evidence is none of these grades."""
    if line.grade is None or line.grade in grades:
        return line
    return BlamedLine(line.line, line.content, line.commit)


def lacks_class(line: BlamedLine) -> bool:
    """Whether a line is an agent's, of a change whose record has no class."""
    return line.origin == "ai" and line.mutation_class is None
