"""A blamed line, and the calls that may have written a line of unknown origin."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct, field

from remit.core.record import KEY
from remit.provenance.origins.blame_porcelain import GitLine
from remit.provenance.origins.intent_names import IntentNames


class Candidate(Struct, frozen=True):
    """A call that ran when a line came. `command` is the command line, or the tool's name; unknown fields are None."""

    session_id: str
    agent: str | None = None
    intent_id: str | None = None
    command: str | None = None


def body_of(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return Remit's part of a record."""
    return document["metadata"][KEY]


def read_candidates(document: dict[str, Any], names: IntentNames) -> tuple[Candidate, ...]:
    """Return the candidates named by a record: the record's own call, or the listed calls."""
    body: dict[str, Any] = body_of(document)
    if body.get("event") != "human_edit":
        call: dict[str, Any] = body.get("call", {})
        ran = call.get("command") or call.get("name")
        agent = document.get("tool", {}).get("name")
        return (Candidate(str(body.get("session_id") or ""), agent, names.find_name(body), ran),)
    return tuple(parse_candidates(body.get("candidates", [])))


def parse_candidates(entries: list[Any]) -> Iterator[Candidate]:
    for entry in entries:
        if isinstance(entry, str):
            yield Candidate(entry)
        else:
            yield Candidate(
                str(entry.get("session_id")), entry.get("agent"), entry.get("intent_id"), entry.get("command")
            )


class BlamedLine(Struct, frozen=True):
    """A line of a file with its origin. `line` counts from 1; `grade` is the strength of the evidence.

    `candidates` are the calls running when a line of unknown origin came. `declared` is the class declared by the
    agent, `class` the computed class. `intent_candidates` are the intents with an ambiguous label.
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
    intent_candidates: tuple[str, ...] = ()


def make_blamed_line(line: GitLine, fields: tuple[Any, ...]) -> BlamedLine:
    return BlamedLine(line.line, line.content.decode("utf-8", "replace"), line.version.commit, *fields)


def filter_by_grade(line: BlamedLine, grades: Collection[str]) -> BlamedLine:
    """Return the line, with unknown origin if its grade is not among `grades`."""
    if line.grade is None or line.grade in grades:
        return line
    return BlamedLine(line.line, line.content, line.commit)


def lacks_class(line: BlamedLine) -> bool:
    return line.origin == "ai" and line.mutation_class is None
