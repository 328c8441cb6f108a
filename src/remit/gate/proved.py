"""Which of the lines that changed while a call ran are the call's, as far as its own text proves it.

Whoever saves a file while `make` runs is seen by nobody; so of what changed in such a window only that is the agent's
which the text of its call names or holds. All else is of unknown origin, and the call a candidate. The rules:

- a file whose content the text says is replaced (`> f`, `cp a f`, `open("f", "w")`, `--output f`): all of it, unless
  the text holds lines of that content: then those;
- a file in which the text says that parts are replaced (`sed -i`): the lines whose new part stands in the text;
- in any file: lines that stand in the text one after the other, one of them at least being nobody else's to write;
- in a file that the text names as written: the lines, however plain, where the text holds all that are new.

A file that is merely mentioned, or lies in a folder that is, is not named: a person may save the very test that runs.
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.contents import Hunk, LineRange
from remit.core.own_words import is_strong
from remit.core.spans import joined, outside, spans_of
from remit.core.textdiff import common, lines_of, small_hunks
from remit.gate.effects import Difference, inside
from remit.gate.environment import Environment
from remit.gate.moved import is_own, moved_from
from remit.gate.state import PendingCall
from remit.workspace.observe import Change
from remit.workspace.place import Workspace
from remit.workspace.versions import Seen

if TYPE_CHECKING:
    from remit.policy.commands.outputs import How

MOST_TEXT = 1 << 18
"""Bytes of a call's own words that are looked through: twice what a system hands to a shell as one word."""

MOST_LINES = 50_000
"""Lines of them that are kept, in each of the four ways to read them."""

MOST_PLACES = 20
"""Places of one line in them: a `}` stands everywhere."""

FEW = 50
"""Lines that stand in several places one after the other; then one place of them is followed on."""

MOST_QUOTED = 400
"""Lines that are looked for as parts of others; and so many new parts of lines."""

SHORTEST = 3
"""Characters of the new part of a line."""

QUOTES = re.compile(rb"[\"'`]+")
ESCAPES = {rb"\n": b"\n", rb"\t": b"\t", rb"\"": b'"', rb"\'": b"'", rb"\\": b"\\"}
ESCAPE = re.compile(rb"\\[nt\"'\\]")
BEYOND = b"\n"
"""No line: what stands before the first and after the last."""

PART_OF_WORD = re.compile(rb"\w")


def unproved(
    call: ToolCall,
    pending: PendingCall | None,
    done: Sequence[Change],
    known: Mapping[str, Difference],
    workspace: Workspace,
    around: Environment,
) -> dict[str, tuple[LineRange, ...]]:
    """By path, the new lines of these changes that nothing proves to be the call's."""
    # For start-up speed: only a command that changed something asks for it.
    from remit.policy.commands.outputs import outputs

    said = Said(own_words_of(call))
    named: dict[str, How] = {
        path: output.how
        for output in (outputs(call.command) if call.command else ())
        for path in inside(workspace, call, [output.path], around)
    }
    if pending is None:
        named |= {path: "edited" for path in inside(workspace, call, call.paths, around)}
    left = {
        c.path: moved_lines(c, was, said, named.get(c.path), call, workspace)
        if named.get(c.path) != "whole" and (was := moved_from(c, done))
        else open_lines(c, known.get(c.path), said, named.get(c.path))
        for c in done
        if c.after is not None
    }
    return {path: lines for path, lines in left.items() if lines}


def moved_lines(
    change: Change, was: Seen, said: "Said", how: "How | None", call: ToolCall, workspace: Workspace
) -> tuple[LineRange, ...]:
    """The lines of a file that another one became, but for those that the call wrote itself."""
    after = change.after.content if change.after else None
    hunks = small_hunks(was.content, after) if was.content is not None and after is not None else None
    if hunks is None:
        return whole_of(change)
    left = open_lines(replace(change, before=was), Difference(hunks), said, how)
    if is_own(workspace, call.session.session_id, was.version.sha256):
        return left
    fresh = [(hunk.new, hunk.new + hunk.new_lines - 1) for hunk in hunks if hunk.new_lines]
    stay = outside([(lines.start, lines.end) for lines in whole_of(change)], fresh)
    return tuple(LineRange(*span) for span in joined([*stay, *((lines.start, lines.end) for lines in left)]))


def all_said(change: Change, known: Difference | None, words: str) -> bool:
    """Whether words hold every new line of a change, one of them nobody else's to write: then who said them wrote it,
    and nobody wrote there since.
    """
    if known is None or change.after is None or change.after.content is None:
        return False
    new = lines_of(change.after.content)
    fresh = [
        new[n - 1] for hunk in known.hunks for n in range(hunk.new, hunk.new + hunk.new_lines) if 0 < n <= len(new)
    ]
    said = Said(words[:MOST_TEXT].encode("utf-8", "replace"))
    return any(is_strong(line) for line in fresh) and not open_lines(change, known, said, None)


def own_words_of(call: ToolCall) -> bytes:
    """What the call itself says: its command, or all strings of its arguments."""
    words = [call.command] if call.command is not None else list(strings(call.arguments))
    return "\n".join(words)[:MOST_TEXT].encode("utf-8", "replace")


def strings(value: Any) -> Iterator[str]:
    """All strings in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in cast("dict[str, Any]", value).values():
            yield from strings(part)
    elif isinstance(value, list | tuple):
        for part in cast("list[Any]", value):
            yield from strings(part)


def open_lines(change: Change, known: Difference | None, said: "Said", how: "How | None") -> tuple[LineRange, ...]:
    """The new lines of one file that are not proved."""
    if change.after is None or change.after.content is None or known is None:
        return () if how == "whole" else whole_of(change)
    new = lines_of(change.after.content)
    fresh = [n for hunk in known.hunks for n in range(hunk.new, hunk.new + hunk.new_lines) if 0 < n <= len(new)]
    if how == "whole" and not any(is_strong(line) and said.has(line) for line in new):
        return ()
    if how is not None and all(said.has(new[n - 1]) for n in fresh):
        return ()
    old = lines_of(change.before.content) if change.before and change.before.content else []
    told = set(said.holds(new, fresh, {line.strip() for line in old}))
    if how == "edited":
        told |= {n for hunk in known.hunks for n in said.replaces(old, new, hunk)}
    left = set(fresh) - told
    return () if not any(new[n - 1].strip() for n in left) else tuple(LineRange(*span) for span in spans_of(left))


def whole_of(change: Change) -> tuple[LineRange]:
    """All lines of the file."""
    return (LineRange(1, max(1, change.after.version.lines if change.after else 1)),)


class Said:
    """The words of a call, as lines: as they stand there, with the escapes of a program's strings undone, between
    quotes, and as a patch adds them.
    """

    def __init__(self, text: bytes) -> None:
        plain = ESCAPE.sub(lambda found: ESCAPES[found[0]], text)
        self.text = plain
        self.lines: list[bytes] = []
        added = [line[1:] if line.startswith(b"+") else BEYOND for line in text.split(b"\n", MOST_LINES)]
        for lines in (*(one.split(b"\n", MOST_LINES) for one in dict.fromkeys((text, plain))), quoted(plain), added):
            self.lines += [BEYOND, *(line if line == BEYOND else line.strip() for line in lines[:MOST_LINES]), BEYOND]
        self.places: dict[bytes, list[int]] = {}
        for number, line in enumerate(self.lines):
            places = self.places.setdefault(line, [])
            if len(places) < MOST_PLACES:
                places.append(number)
        self.quoted: dict[bytes, bool] = {}
        self.replacing: dict[bytes, bool] = {}

    def has(self, line: bytes) -> bool:
        """Whether that line stands there."""
        return line.strip() in self.places

    def holds(self, new: Sequence[bytes], fresh: Iterable[int], old: Container[bytes]) -> Iterator[int]:
        """Those of the fresh lines of `new`, from 1, that stand there one after the other as they do here, where one of
        those that follow each other is nobody else's to write, and no line of `old`.
        """
        texts = [line.strip() for line in new]
        held = self.held(texts)
        for first, last in spans_of(n for n in fresh if held[n - 1]):
            runs = pairwise([first, *(n for n in range(first + 1, last + 1) if held[n - 1] != held[n - 2]), last + 1])
            for start, end in runs:
                if any(is_strong(text) and text not in old for text in texts[start - 1 : end - 1]):
                    yield from range(start, end)

    def held(self, texts: Sequence[bytes]) -> list[int]:
        """For each line the number of the run that it stands in there; 0 for none."""
        found = [0] * len(texts)
        at = number = 0
        while at < len(texts):
            start, end = self.run(texts, at) if texts[at] else (at, at)
            if start == end and self.quotes(texts[at]):
                end = at + 1
            number += 1
            found[start:end] = [number] * (end - start)
            at = max(at + 1, end)
        return found

    def run(self, texts: Sequence[bytes], at: int) -> tuple[int, int]:
        """From where to where `texts` stand there one after the other around `at`; empty lines before it included."""
        places, start, end = self.places.get(texts[at], []), at, at
        firsts = places
        while places:
            firsts, end = [p - (end - at) for p in places], end + 1
            following = places if end - at < FEW else places[:1]
            places = [p + 1 for p in following if end < len(texts) and self.lines[p + 1] == texts[end]]
        while start and not texts[start - 1] and any(not self.lines[p - (at - start) - 1] for p in firsts):
            start -= 1
        return start, end

    def quotes(self, line: bytes) -> bool:
        """Whether a strong line stands there as a part of another."""
        return is_strong(line) and self.tells(line, self.quoted)

    def tells(self, part: bytes, known: dict[bytes, bool]) -> bool:
        """Whether that stands there at all; not, where too much else was looked for, which is `known`."""
        if part not in known:
            if len(known) >= MOST_QUOTED:
                return False
            known[part] = part in self.text
        return known[part]

    def replaces(self, old: Sequence[bytes], new: Sequence[bytes], hunk: Hunk) -> Iterator[int]:
        """The lines of a hunk, from 1, that took another's place, and of which the new part stands there."""
        if hunk.old_lines != hunk.new_lines:
            return
        for offset in range(hunk.new_lines):
            was, now = old[hunk.old - 1 + offset], new[hunk.new - 1 + offset]
            if any(len(part) >= SHORTEST and self.tells(part, self.replacing) for part in new_parts(was, now)):
                yield hunk.new + offset


def quoted(text: bytes) -> list[bytes]:
    """The lines between quotes. Where a quote stands at a line's end, nobody wrote an empty line there."""
    found: list[bytes] = []
    for part in QUOTES.split(text, MOST_LINES):
        first, *rest = part.split(b"\n", MOST_LINES)
        found += [first if first.strip() else BEYOND, *rest]
        found[-1] = found[-1] if found[-1].strip() else BEYOND
    return found


def new_parts(was: bytes, now: bytes) -> tuple[bytes, bytes]:
    """What a line has that the one before it had not: just that, and to the ends of its words."""
    start = common(was, now)
    end = len(now) - min(common(was[::-1], now[::-1]), min(len(was), len(now)) - start)
    low, high = start, end
    while low and PART_OF_WORD.match(now[low - 1 : low]):
        low -= 1
    while high < len(now) and PART_OF_WORD.match(now[high : high + 1]):
        high += 1
    return now[start:end].strip(), now[low:high].strip()


def without(lines: Sequence[LineRange], left: Sequence[LineRange]) -> tuple[LineRange, ...]:
    """Those lines but for the ones that are left open."""
    found = outside([(one.start, one.end) for one in lines], [(one.start, one.end) for one in left])
    return tuple(LineRange(*span) for span in found)
