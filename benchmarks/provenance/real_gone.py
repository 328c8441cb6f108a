"""What a commit takes out, and who had written it: to write it again is to move it, to lay it out anew, or later to
bring it back.

Who did which cannot be told from contents, so either author of such a line is right.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from remit.core.diff.contents import is_distinctive_line
from remit.provenance.origins.evidence_grades import strip_whitespace

from .lines import Author, Line

MARKS = b",;()'\"\\"
"""Signs that a layout adds and takes away: a line that differs from another by them alone says the same."""


def said(line: bytes) -> bytes:
    """What a line says, whatever its layout."""
    return strip_whitespace(line).translate(None, MARKS)


def key(line: bytes) -> bytes:
    """What a line is known again by: a `)` and an empty line say nothing, and move with the lines beside them."""
    return said(line) or line.strip()


class Gone:
    """Lines that were taken out, in their order."""

    def __init__(self) -> None:
        self.text = b""
        self.starts: list[int] = []
        self.lines: list[Line] = []
        self.alike: dict[bytes, set[Author]] = {}

    def note(self, lines: Iterable[Line]) -> None:
        """These go, one after the other."""
        for line in lines:
            self.alike.setdefault(key(line.text), set()).update(line.authors)
            self.starts.append(len(self.text))
            self.lines.append(line)
            self.text += said(line.text)
        self.text += b"\n"

    def account_for(self, lines: Sequence[Line]) -> None:
        """Note on new lines whose they may be: those that say what one did that went, and a paragraph that is wrapped
        anew, to its last word.
        """
        for line in lines:
            line.also |= self.alike.get(key(line.text), set())
        self.account_for_runs(lines)

    def account_for_runs(self, lines: Sequence[Line]) -> None:
        """The same of lines that say together what stood together, with somebody's own words among them."""
        at = 0
        while at < len(lines):
            run = self.run(lines[at:])
            for line in lines[at : at + run]:
                line.also |= self.authors(lines[at : at + run])
            at += max(1, run)

    def run(self, lines: Sequence[Line]) -> int:
        """How many lines say together what stood together; none where nobody's words are among them."""
        words, count = b"", 0
        for line in lines:
            words += said(line.text)
            if words not in self.text:
                break
            count += 1
        return count if any(is_distinctive_line(line.text) for line in lines[:count]) else 0

    def authors(self, lines: Sequence[Line]) -> set[Author]:
        """Whose those words were."""
        words = b"".join(said(line.text) for line in lines)
        start = self.text.find(words)
        first = bisect_right(self.starts, start) - 1
        last = bisect_right(self.starts, start + len(words) - 1)
        return {author for line in self.lines[first:last] for author in line.authors}
