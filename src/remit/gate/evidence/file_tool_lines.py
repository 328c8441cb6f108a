"""Which of the lines that changed while a file tool was under way are the tool's.

Between an agent's question and its tool's answer minutes may pass: a person is asked, and saves the same file; an
editor lays out what it finds there; the tool fails, or never answers. So a file's new lines are the call's where its
arguments make just that content of the one before; else those of them that stand in what they make of it, in any
layout. Where they tell no content, the tool's own answer does, or what the call's text holds. All else is of unknown
origin, and so is what a person changed in the agent's proposal before they let it pass.

How a file tool's call changed its files, where its own arguments tell which lines it left alone.

The answer of a tool may tell so, too. It is a diff as a rule: where it says that lines came outside of what the
arguments touch, it took a copy for the original; and of empty lines often one for another.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from remit.core.call import Outcome, ToolCall
from remit.core.diff.contents import Hunk, LineRange, hash_git_blob
from remit.core.diff.edit_script import diff_by_origins, diff_small, split_lines
from remit.core.diff.edits import (
    ContentReader,
    LineOrigins,
    UnclearEdit,
    WholeFile,
    apply_edit,
    combine_origins,
    encode_text,
    find_kept_lines,
)
from remit.core.diff.line_spans import make_spans, subtract_spans
from remit.core.facts import Target
from remit.gate.environment import Environment
from remit.gate.evidence.command_lines import find_unproved_in_file, recorded_unproved_lines, text_of_call, whole_file
from remit.gate.evidence.command_text import CommandText
from remit.gate.records.record_parts import Difference, paths_in_workspace
from remit.gate.state.workspace_state import PendingCall
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.observe.observation import Change, Observation
from remit.workspace.place.workspace import Workspace

LAYOUT_BYTES = b" \t\n\r\x0b\x0c,;()'\"\\"
"""What formatters put in and take out."""

UTF_16 = (b"\xff\xfe", b"\xfe\xff")
NON_ASCII = bytes(range(0x80, 0x100))
"""What encodings differ in, of those that a line ends in one byte in."""


def predict_contents(call: ToolCall, current: ContentReader) -> dict[str, bytes | None]:
    """The contents by path as the call names it; none where the call does not tell."""
    if call.edit is None:
        return {}
    try:
        return dict(apply_edit(call.edit, call.paths[0] if call.paths else "", current))
    except UnclearEdit:
        return {}


def predict_blobs(call: ToolCall, targets: Iterable[Target], before: Observation) -> dict[str, str]:
    """By path, the git name of what a file tool is going to leave there, as far as its arguments tell."""
    paths = {t.raw: str(t.path) for t in targets if t.path is not None}

    def current(raw: str) -> bytes | None:
        found = before.files.get(paths.get(raw, ""))
        return found.content if found else None

    after = predict_contents(call, current)
    return {paths[raw]: hash_git_blob(text) for raw, text in after.items() if text is not None and raw in paths}


class FileToolLines:
    """A file tool's call that came back, or never did. `hunks` tells how two contents differ."""

    def __init__(self, call: ToolCall, outcome: Outcome, pending: PendingCall, store: ContentStore) -> None:
        self.call = call
        self.outcome = outcome
        self.pending = pending
        self.store = store

    def find_unproved_lines(
        self, done: Sequence[Change], known: Mapping[str, Difference], workspace: Workspace, environment: Environment
    ) -> dict[str, tuple[LineRange, ...]]:
        """By path, the new lines of these changes that nothing proves to be the call's."""
        doubtful = [c for c in done if c.after is not None and not self.is_as_predicted(c)]
        if not doubtful:
            return {}
        told = self.predicted_contents(doubtful, workspace, environment)
        found = [(c, self.unproved_in_file(c, known.get(c.path), told.get(c.path))) for c in doubtful]
        return {
            c.path: left for c, lines in found if lines and (left := self.exclude_recorded_lines(c, lines, workspace))
        }

    def exclude_recorded_lines(
        self, change: Change, lines: tuple[LineRange, ...], workspace: Workspace
    ) -> tuple[LineRange, ...]:
        """Those of the lines that no record proves to be the session's: two of its calls may have run at once."""
        before = recorded_unproved_lines(workspace, self.call.session.session_id, change)
        if before is None:
            return lines
        spans = [(one.start, one.end) for one in lines]
        return tuple(LineRange(*span) for span in subtract_spans(spans, subtract_spans(spans, before)))

    def is_as_predicted(self, change: Change) -> bool:
        """Whether the file holds what the call was going to leave, by its words before anybody changed them."""
        name = change.after.version.git_blob if change.after else None
        return self.call.proposal is None and name == self.pending.announced.get(change.path)

    def predicted_contents(
        self, done: Iterable[Change], workspace: Workspace, environment: Environment
    ) -> dict[str, bytes]:
        """By path, what the call would have left; nothing where it failed."""
        if not self.outcome.ok:
            return {}
        before = {c.path: c.before.content if c.before else None for c in done}
        paths = {
            raw: path
            for raw in self.call.paths
            for path in paths_in_workspace(workspace, self.call, [raw], environment)
        }
        found = predict_contents(self.call, lambda raw: before.get(paths.get(raw, "")))
        if self.call.proposal is not None:
            whole = isinstance(self.call.edit, WholeFile)
            found = dict.fromkeys(found, encode_text(self.call.proposal)) if whole else {}
        return {paths[raw]: text for raw, text in found.items() if text is not None and raw in paths}

    def unproved_in_file(self, change: Change, known: Difference | None, told: bytes | None) -> tuple[LineRange, ...]:
        """The new lines of one file that are not proved."""
        after = change.after.content if change.after else None
        before = change.before.content if change.before else b""
        given_anew = self.outcome.changed_by_person and told == after
        if after is None or before is None or known is None or not self.outcome.ok or given_anew:
            return known.added_ranges if known is not None and after is not None else whole_file(change)
        if told is not None:
            if count_added_lines(told, self.find_hunks(before, told)) == count_added_lines(after, known.hunks):
                return ()  # of two places that its context names, a tool may have taken the other
            own = set(find_own_lines(before, told, after, self.find_hunks))
            return tuple(LineRange(*span) for span in make_spans(added_numbers(known.hunks) - own))
        by_person = self.outcome.changed_by_person or self.call.proposal is not None
        if known.from_tool and not by_person:
            return ()
        words = text_of_call(self.call) if self.call.proposal is None else encode_text(self.call.proposal)
        return find_unproved_in_file(change, known, CommandText(words), None if by_person else "edited")

    def find_hunks(self, old: bytes, new: bytes) -> Sequence[Hunk]:
        """How two contents differ."""
        small = diff_small(old, new)
        return self.store.compute_hunks({"": (old, new)})[""] if small is None else small


def added_numbers(hunks: Iterable[Hunk]) -> set[int]:
    """The numbers of the lines that these hunks put in."""
    return {number for hunk in hunks for number in hunk.new_range}


def count_added_lines(content: bytes, hunks: Iterable[Hunk]) -> Counter[bytes]:
    """The lines that these hunks put into a content."""
    lines = split_lines(content)
    return Counter(lines[number - 1] for number in added_numbers(hunks) if number <= len(lines))


def find_own_lines(
    before: bytes, told: bytes, after: bytes, hunks: Callable[[bytes, bytes], Sequence[Hunk]]
) -> Iterator[int]:
    """The lines of `after`, from 1, that the call put there: those that are new in `told`, what it would have left, and
    stand here still or in another layout.
    """
    wrote = added_numbers(hunks(before, told))
    told, after = match_encodings(told, after)
    old, new = split_lines(told), split_lines(after)
    at, shift = 1, 0
    for hunk in hunks(told, after):
        yield from (n + shift for n in range(at, hunk.old_range.start) if n in wrote)
        yield from find_reformatted_lines(hunk.old_range, hunk.new_range, wrote, old, new)
        at, shift = hunk.old_range.stop, hunk.new_range.stop - hunk.old_range.stop
    yield from (n + shift for n in range(at, len(old) + 1) if n in wrote)


def match_encodings(told: bytes, after: bytes) -> tuple[bytes, bytes]:
    """Both contents, so that their lines can be compared: a tool is told text, and keeps the encoding of a file."""
    if after.startswith(UTF_16):
        text = after.decode("utf-16", "replace").encode("utf-8", "replace")
        return told, text if text.count(b"\n") == after.count(b"\n") else after
    try:
        after.decode()
    except UnicodeDecodeError:
        return told.translate(None, NON_ASCII), after.translate(None, NON_ASCII)
    return told, after


def find_reformatted_lines(
    gone: range, came: range, wrote: set[int], old: Sequence[bytes], new: Sequence[bytes]
) -> Iterator[int]:
    """Those of the lines that came which say what lines of the call's said that went: all together, or one by one."""
    was, now = [strip_layout(old[n - 1]) for n in gone], [strip_layout(new[n - 1]) for n in came]
    if any(was) and wrote.issuperset(gone) and b"".join(was) == b"".join(now):
        yield from came
    elif len(was) == len(now):
        yield from (b for a, b, text, other in zip(gone, came, was, now, strict=True) if a in wrote and text == other)


def strip_layout(line: bytes) -> bytes:
    """The line without its layout."""
    return line.translate(None, LAYOUT_BYTES)


def find_stated_differences(
    call: ToolCall,
    done: Iterable[Change],
    known: Mapping[str, Difference],
    workspace: Workspace,
    environment: Environment,
) -> Iterator[tuple[str, Difference]]:
    """The paths of the changes of which the call's arguments tell more than is `known`, and how those files differ."""
    if call.edit is None or call.proposal is not None:
        return
    names = {path: raw for raw in call.paths for path in paths_in_workspace(workspace, call, [raw], environment)}
    for change in done:
        if change.path in names and (
            found := stated_difference(call, names[change.path], change, known.get(change.path))
        ):
            yield change.path, found


def stated_difference(call: ToolCall, raw: str, change: Change, known: Difference | None) -> Difference | None:
    """How a file differs by the arguments; None where they do not tell, where the file is not what they make of it, or
    where the tool's answer agrees and tells more.
    """
    before, after = (side.content if side else None for side in (change.before, change.after))
    if call.edit is None or before is None or after is None:
        return None
    sure = find_kept_lines(call.edit, raw, before, guess=False)
    if sure is None or not makes_content(call, raw, before, after):
        return None
    stay = find_kept_lines(call.edit, raw, before) or sure
    if known is not None and known.from_tool:
        new, wrong = split_lines(after), contradicted_lines(known.hunks, sure)
        if not wrong:
            return None
        copied = any(new[n].strip() for n in wrong)
        stay = stay if copied else combine_origins(sure, known.hunks, len(new))
    hunks = diff_by_origins(before, after, stay)
    return None if hunks is None else Difference(hunks, from_tool=True)


def makes_content(call: ToolCall, raw: str, before: bytes, after: bytes) -> bool:
    """Whether the arguments make just that content of the one before."""
    try:
        return call.edit is not None and apply_edit(call.edit, raw, {raw: before}.get).get(raw) == after
    except UnclearEdit:
        return False


def contradicted_lines(hunks: Iterable[Hunk], sure: LineOrigins) -> list[int]:
    """The lines that came, by the hunks, and that were there, by the arguments; from 0."""
    return [number - 1 for hunk in hunks for number in hunk.new_range if number - 1 in sure]
