"""Which of the lines that changed while a file tool was under way are the tool's.

Between an agent's question and its tool's answer minutes may pass: a person is asked, and saves the same file; an
editor lays out what it finds there; the tool fails, or never answers. So a file's new lines are the call's where its
arguments make just that content of the one before; else those of them that stand in what they make of it, in any
layout. Where they tell no content, the tool's own answer does, or what the call's text holds. All else is of unknown
origin, and so is what a person changed in the agent's proposal before they let it pass.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from remit.core.call import Outcome, ToolCall
from remit.core.contents import Hunk, LineRange, git_blob
from remit.core.edits import Current, Unclear, WholeFile, encoded, proposed
from remit.core.facts import Target
from remit.core.spans import outside, spans_of
from remit.core.textdiff import lines_of, small_hunks
from remit.gate.effects import Difference, inside
from remit.gate.environment import Environment
from remit.gate.moved import open_before
from remit.gate.proved import open_lines, own_words_of, whole_of
from remit.gate.said import Said
from remit.gate.state import PendingCall
from remit.workspace.contents import ContentStore
from remit.workspace.observe import Change, Observation
from remit.workspace.place import Workspace

LAYOUT = b" \t\n\r\x0b\x0c,;()'\"\\"
"""What formatters put in and take out."""

UTF_16 = (b"\xff\xfe", b"\xfe\xff")
NOT_ASCII = bytes(range(0x80, 0x100))
"""What encodings differ in, of those that a line ends in one byte in."""


def contents_after(call: ToolCall, current: Current) -> dict[str, bytes | None]:
    """The contents by path as the call names it; none where the call does not tell."""
    if call.edit is None:
        return {}
    try:
        return dict(proposed(call.edit, call.paths[0] if call.paths else "", current))
    except Unclear:
        return {}


def announced(call: ToolCall, targets: Iterable[Target], before: Observation) -> dict[str, str]:
    """By path, the git name of what a file tool is going to leave there, as far as its arguments tell."""
    paths = {t.raw: str(t.path) for t in targets if t.path is not None}

    def current(raw: str) -> bytes | None:
        found = before.files.get(paths.get(raw, ""))
        return found.content if found else None

    after = contents_after(call, current)
    return {paths[raw]: git_blob(text) for raw, text in after.items() if text is not None and raw in paths}


class FileTool:
    """A file tool's call that came back, or never did. `hunks` tells how two contents differ."""

    def __init__(self, call: ToolCall, outcome: Outcome, pending: PendingCall, store: ContentStore) -> None:
        self.call = call
        self.outcome = outcome
        self.pending = pending
        self.store = store

    def left_open(
        self, done: Sequence[Change], known: Mapping[str, Difference], workspace: Workspace, around: Environment
    ) -> dict[str, tuple[LineRange, ...]]:
        """By path, the new lines of these changes that nothing proves to be the call's."""
        doubtful = [c for c in done if c.after is not None and not self.is_as_announced(c)]
        if not doubtful:
            return {}
        told = self.told(doubtful, workspace, around)
        found = [(c, self.open_of(c, known.get(c.path), told.get(c.path))) for c in doubtful]
        return {c.path: left for c, lines in found if lines and (left := self.not_recorded(c, lines, workspace))}

    def not_recorded(self, change: Change, lines: tuple[LineRange, ...], workspace: Workspace) -> tuple[LineRange, ...]:
        """Those of the lines that no record proves to be the session's: two of its calls may have run at once."""
        before = open_before(workspace, self.call.session.session_id, change)
        if before is None:
            return lines
        spans = [(one.start, one.end) for one in lines]
        return tuple(LineRange(*span) for span in outside(spans, outside(spans, before)))

    def is_as_announced(self, change: Change) -> bool:
        """Whether the file holds what the call was going to leave, by its words before anybody changed them."""
        name = change.after.version.git_blob if change.after else None
        return self.call.proposal is None and name == self.pending.announced.get(change.path)

    def told(self, done: Iterable[Change], workspace: Workspace, around: Environment) -> dict[str, bytes]:
        """By path, what the call would have left; nothing where it failed."""
        if not self.outcome.ok:
            return {}
        before = {c.path: c.before.content if c.before else None for c in done}
        paths = {raw: path for raw in self.call.paths for path in inside(workspace, self.call, [raw], around)}
        found = contents_after(self.call, lambda raw: before.get(paths.get(raw, "")))
        if self.call.proposal is not None:
            whole = isinstance(self.call.edit, WholeFile)
            found = dict.fromkeys(found, encoded(self.call.proposal)) if whole else {}
        return {paths[raw]: text for raw, text in found.items() if text is not None and raw in paths}

    def open_of(self, change: Change, known: Difference | None, told: bytes | None) -> tuple[LineRange, ...]:
        """The new lines of one file that are not proved."""
        after = change.after.content if change.after else None
        before = change.before.content if change.before else b""
        given_anew = self.outcome.changed_by_person and told == after
        if after is None or before is None or known is None or not self.outcome.ok or given_anew:
            return known.added if known is not None and after is not None else whole_of(change)
        if told is not None:
            if put_in(told, self.hunks(before, told)) == put_in(after, known.hunks):
                return ()  # of two places that its context names, a tool may have taken the other
            own = set(own_lines(before, told, after, self.hunks))
            return tuple(LineRange(*span) for span in spans_of(came(known.hunks) - own))
        by_person = self.outcome.changed_by_person or self.call.proposal is not None
        if known.told and not by_person:
            return ()
        words = own_words_of(self.call) if self.call.proposal is None else encoded(self.call.proposal)
        return open_lines(change, known, Said(words), None if by_person else "edited")

    def hunks(self, old: bytes, new: bytes) -> Sequence[Hunk]:
        """How two contents differ."""
        small = small_hunks(old, new)
        return self.store.hunks({"": (old, new)})[""] if small is None else small


def came(hunks: Iterable[Hunk]) -> set[int]:
    """The numbers of the lines that these hunks put in."""
    return {number for hunk in hunks for number in hunk.came}


def put_in(content: bytes, hunks: Iterable[Hunk]) -> Counter[bytes]:
    """The lines that these hunks put into a content."""
    lines = lines_of(content)
    return Counter(lines[number - 1] for number in came(hunks) if number <= len(lines))


def own_lines(
    before: bytes, told: bytes, after: bytes, hunks: Callable[[bytes, bytes], Sequence[Hunk]]
) -> Iterator[int]:
    """The lines of `after`, from 1, that the call put there: those that are new in `told`, what it would have left, and
    stand here still or in another layout.
    """
    wrote = came(hunks(before, told))
    told, after = in_one_encoding(told, after)
    old, new = lines_of(told), lines_of(after)
    at, shift = 1, 0
    for hunk in hunks(told, after):
        yield from (n + shift for n in range(at, hunk.gone.start) if n in wrote)
        yield from relaid(hunk.gone, hunk.came, wrote, old, new)
        at, shift = hunk.gone.stop, hunk.came.stop - hunk.gone.stop
    yield from (n + shift for n in range(at, len(old) + 1) if n in wrote)


def in_one_encoding(told: bytes, after: bytes) -> tuple[bytes, bytes]:
    """Both contents, so that their lines can be compared: a tool is told text, and keeps the encoding of a file."""
    if after.startswith(UTF_16):
        text = after.decode("utf-16", "replace").encode("utf-8", "replace")
        return told, text if text.count(b"\n") == after.count(b"\n") else after
    try:
        after.decode()
    except UnicodeDecodeError:
        return told.translate(None, NOT_ASCII), after.translate(None, NOT_ASCII)
    return told, after


def relaid(gone: range, came: range, wrote: set[int], old: Sequence[bytes], new: Sequence[bytes]) -> Iterator[int]:
    """Those of the lines that came which say what lines of the call's said that went: all together, or one by one."""
    was, now = [squeezed(old[n - 1]) for n in gone], [squeezed(new[n - 1]) for n in came]
    if any(was) and wrote.issuperset(gone) and b"".join(was) == b"".join(now):
        yield from came
    elif len(was) == len(now):
        yield from (b for a, b, text, other in zip(gone, came, was, now, strict=True) if a in wrote and text == other)


def squeezed(line: bytes) -> bytes:
    """The line without its layout."""
    return line.translate(None, LAYOUT)
