"""Lines as things with an author, and what can be told of them from contents alone.

The generator carries a line as an object from version to version, so who wrote it is known and never computed.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise
from typing import Literal

from remit.core.diff.contents import is_distinctive_line

from .shortest import sources


@dataclass(frozen=True)
class Author:
    """Who wrote a line. A `process` is a program that nobody's call started; `before` is older than every record."""

    kind: Literal["ai", "person", "before", "process"]
    session: str | None = None
    intent: str | None = None


BEFORE = Author("before")
PERSON = Author("person")
PROCESS = Author("process")


@dataclass(eq=False)
class Line:
    """One line of a file. `also` are authors that nobody can tell from `who` by looking at contents.

    A line is `open` where it came while a command ran whose text tells nothing of it: whoever else saved the file at
    that time would have left the same traces, so *unknown* is right. To call it a person's is as wrong as ever. So it
    is with what `rewritten` names.
    """

    text: bytes
    who: Author
    also: set[Author] = field(default_factory=set[Author])
    open: bool = False

    @property
    def authors(self) -> set[Author]:
        return {self.who, *self.also}

    @property
    def certain(self) -> bool:
        return self.authors == {self.who} and not self.open


@dataclass(frozen=True)
class Claim:
    """What a tool says of a line. A session or an intent that it does not tell is None."""

    origin: Literal["ai", "human", "unknown"] = "unknown"
    session: str | None = None
    intent: str | None = None
    grade: str | None = None


Verdict = Literal[
    "right", "false AI", "false human", "wrong agent", "missed", "unknown", "likely right", "likely wrong"
]
LIKELY = "likely"
"""The grade that promises nothing: what is called so is counted apart."""


def verdict(line: Line, claim: Claim) -> Verdict:
    """What a claim is worth. `missed` is an agent's line beyond doubt that is called unknown."""
    if claim.grade == LIKELY:
        sure = verdict(line, replace(claim, grade=None))
        return "likely right" if sure == "right" else "likely wrong"
    agents = {a for a in line.authors if a.kind == "ai"}
    if claim.origin == "unknown":
        return "missed" if line.certain and agents else "unknown"
    if claim.origin == "human":
        return "right" if line.authors - agents else "false human"
    if any(claim.session in (None, a.session) and claim.intent in (None, a.intent) for a in agents):
        return "right"
    return "wrong agent" if agents else "false AI"


def written(texts: Iterable[bytes], who: Author) -> list[Line]:
    """New lines of one author."""
    return [Line(text, who) for text in texts]


def texts(lines: Iterable[Line]) -> tuple[bytes, ...]:
    """What lines say."""
    return tuple(line.text for line in lines)


def common(a: Sequence[bytes], b: Sequence[bytes]) -> int:
    """How many lines both begin with."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def doubt(old: Sequence[Line], new: Sequence[Line], by: Author | None) -> None:
    """Note on the lines whatever else a diff of both contents could say of them. `by` wrote what is new, if known."""
    at = {id(line): i for i, line in enumerate(old)}
    for line, may_be in zip(new, sources(texts(old), texts(new)), strict=True):
        for i in may_be - {at.get(id(line))}:
            if i is not None:
                line.also |= old[i].authors
            elif by is not None:
                line.also.add(by)


def rewritten(old: Sequence[Line], new: Sequence[Line], committed: Iterable[Line]) -> Iterator[Line]:
    """The plain lines that stay of an agent's block, which no commit has, when somebody changes as much of it as stays.

    Who throws a proposal away and writes their own in its place leaves the same two contents, down to its `try:`, its
    `pass` and its last `}`. Lines with words of their own are no such lines, and stay beyond doubt.
    """
    before, after, safe = set(map(id, old)), {id(line): i for i, line in enumerate(new)}, set(map(id, committed))
    for who, run in groupby((line for line in old if id(line) not in safe), key=lambda line: line.who):
        block = list(run)
        kept = [line for line in block if id(line) in after]
        if who.kind != "ai" or not kept:
            continue
        first, last = after[id(kept[0])], after[id(kept[-1])]
        came = [line for line in new[max(0, first - 1) : last + 2] if id(line) not in before]
        if came and len(came) + len(block) - len(kept) >= len(kept):
            yield from (line for line in kept if not is_distinctive_line(line.text))


def doubt_along(versions: Sequence[Sequence[Line]]) -> None:
    """`doubt` for every step of a history."""
    for old, new in pairwise(versions):
        doubt(old, new, None)
