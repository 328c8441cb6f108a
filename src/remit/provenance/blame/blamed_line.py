"""One line of a file with what is known of it."""

from collections.abc import Collection
from typing import Any, Literal

from msgspec import Struct, field

from remit.provenance.blame.candidates import Candidate
from remit.provenance.origins.porcelain import GitLine


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


def blamed(line: GitLine, known: tuple[Any, ...]) -> BlamedLine:
    """One line with what is known of it."""
    return BlamedLine(line.line, line.content.decode("utf-8", "replace"), line.place.commit, *known)


def believed(line: BlamedLine, grades: Collection[str]) -> BlamedLine:
    """The line, of unknown origin where its evidence is none of these grades."""
    if line.grade is None or line.grade in grades:
        return line
    return BlamedLine(line.line, line.content, line.commit)


def is_unclassed(line: BlamedLine) -> bool:
    """Whether a line is an agent's, of a change whose record has no class."""
    return line.origin == "ai" and line.mutation_class is None
