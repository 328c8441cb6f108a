"""Lines that a file tool wrote: which of the lines that changed while the tool was running are its own.

Minutes may pass between a tool's question and its result: a person is asked, and saves the same file; an editor formats
the file; the tool fails, or never answers. The added lines are the call's if its arguments make exactly this content
from the former one; else those of them that the predicted content holds, in any layout. If the arguments predict no
content, the tool's own answer tells, or the call's text. All other lines are of unknown origin, and so are those that a
person changed in the agent's proposal before allowing it.

The arguments may also tell which lines the tool kept. The tool's answer, usually a diff, is less reliable: outside of
the edited part a diff may take a copied line for the original, and often one empty line for another.
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
from remit.gate.call_targets import paths_in_workspace
from remit.gate.environment import Environment
from remit.gate.evidence.command_lines import find_unproved_in_file, recorded_unproved_lines, text_of_call
from remit.gate.evidence.command_text import CommandText
from remit.gate.evidence.differences import Difference, whole_file
from remit.gate.state.pending_calls import PendingCall
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.observe.observation import Change, Observation
from remit.workspace.place.workspace import Workspace

LAYOUT_BYTES = b" \t\n\r\x0b\x0c,;()'\"\\"
"""Characters that formatters add and remove."""

UTF_16 = (b"\xff\xfe", b"\xfe\xff")
NON_ASCII = bytes(range(0x80, 0x100))
"""Bytes in which single-byte encodings differ."""


def predict_contents(call: ToolCall, current: ContentReader) -> dict[str, bytes | None]:
    """Return the contents that a call makes, by path as the call spells it; none if the arguments do not tell."""
    if call.edit is None:
        return {}
    try:
        return dict(apply_edit(call.edit, call.paths[0] if call.paths else "", current))
    except UnclearEdit:
        return {}


def predict_blobs(call: ToolCall, targets: Iterable[Target], before: Observation) -> dict[str, str]:
    """Return the git names of the contents that a file tool is going to leave, by path."""
    paths = {t.raw: str(t.path) for t in targets if t.path is not None}

    def current(raw: str) -> bytes | None:
        found = before.files.get(paths.get(raw, ""))
        return found.content if found else None

    after = predict_contents(call, current)
    return {paths[raw]: hash_git_blob(text) for raw, text in after.items() if text is not None and raw in paths}


class FileToolLines:
    """The call of a file tool after its return, or never did."""

    def __init__(self, call: ToolCall, outcome: Outcome, pending: PendingCall, store: ContentStore) -> None:
        self.call = call
        self.outcome = outcome
        self.pending = pending
        self.store = store

    def find_unproved_lines(
        self, done: Sequence[Change], known: Mapping[str, Difference], workspace: Workspace, environment: Environment
    ) -> dict[str, tuple[LineRange, ...]]:
        """Return the unproved added lines by path."""
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
        """Return the lines that no record proves to be the session's: two of its calls may have run at once."""
        before = recorded_unproved_lines(workspace, self.call.session.session_id, change)
        if before is None:
            return lines
        spans = [(one.start, one.end) for one in lines]
        return tuple(LineRange(*span) for span in subtract_spans(spans, subtract_spans(spans, before)))

    def is_as_predicted(self, change: Change) -> bool:
        """Return True if the file holds the predicted content, and no person changed the proposal."""
        name = change.after.version.git_blob if change.after else None
        return self.call.proposal is None and name == self.pending.announced.get(change.path)

    def predicted_contents(
        self, done: Iterable[Change], workspace: Workspace, environment: Environment
    ) -> dict[str, bytes]:
        """Return the contents that the call would have left, by path; none if the call failed."""
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
        """Return the unproved lines of a file; `told` is the predicted content."""
        after = change.after.content if change.after else None
        before = change.before.content if change.before else b""
        given_anew = self.outcome.changed_by_person and told == after
        if after is None or before is None or known is None or not self.outcome.ok or given_anew:
            return known.added_ranges if known is not None and after is not None else whole_file(change)
        if told is not None:
            if count_added_lines(told, self.find_hunks(before, told)) == count_added_lines(after, known.hunks):
                return ()  # the context of an edit may fit two places, and the tool took the other one
            own = set(find_own_lines(before, told, after, self.find_hunks))
            return tuple(LineRange(*span) for span in make_spans(added_numbers(known.hunks) - own))
        by_person = self.outcome.changed_by_person or self.call.proposal is not None
        if known.from_tool and not by_person:
            return ()
        words = text_of_call(self.call) if self.call.proposal is None else encode_text(self.call.proposal)
        return find_unproved_in_file(change, known, CommandText(words), None if by_person else "edited")

    def find_hunks(self, old: bytes, new: bytes) -> Sequence[Hunk]:
        small = diff_small(old, new)
        return self.store.compute_hunks({"": (old, new)})[""] if small is None else small


def added_numbers(hunks: Iterable[Hunk]) -> set[int]:
    return {number for hunk in hunks for number in hunk.new_range}


def count_added_lines(content: bytes, hunks: Iterable[Hunk]) -> Counter[bytes]:
    lines = split_lines(content)
    return Counter(lines[number - 1] for number in added_numbers(hunks) if number <= len(lines))


def find_own_lines(
    before: bytes, told: bytes, after: bytes, hunks: Callable[[bytes, bytes], Sequence[Hunk]]
) -> Iterator[int]:
    """Yield the 1-based numbers of the call's lines in `after`.

    A line is the call's if new in `told`, the predicted content, and present in `after`, perhaps in a changed layout.
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
    """Return both contents in comparable bytes: a tool gets text, and keeps the encoding of the file."""
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
    """Yield new lines equal to replaced lines of the call except for layout: as a block, or line by line."""
    was, now = [strip_layout(old[n - 1]) for n in gone], [strip_layout(new[n - 1]) for n in came]
    if any(was) and wrote.issuperset(gone) and b"".join(was) == b"".join(now):
        yield from came
    elif len(was) == len(now):
        yield from (b for a, b, text, other in zip(gone, came, was, now, strict=True) if a in wrote and text == other)


def strip_layout(line: bytes) -> bytes:
    return line.translate(None, LAYOUT_BYTES)


def find_stated_differences(
    call: ToolCall,
    done: Iterable[Change],
    known: Mapping[str, Difference],
    workspace: Workspace,
    environment: Environment,
) -> Iterator[tuple[str, Difference]]:
    """Yield paths with differences from the call's arguments, if better than the `known` ones."""
    if call.edit is None or call.proposal is not None:
        return
    names = {path: raw for raw in call.paths for path in paths_in_workspace(workspace, call, [raw], environment)}
    for change in done:
        if change.path in names and (
            found := stated_difference(call, names[change.path], change, known.get(change.path))
        ):
            yield change.path, found


def stated_difference(call: ToolCall, raw: str, change: Change, known: Difference | None) -> Difference | None:
    """Return the difference of a file by the call's arguments.

    Returns None if the arguments do not tell, do not make this content, or if the tool's answer agrees and tells more.
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
    try:
        return call.edit is not None and apply_edit(call.edit, raw, {raw: before}.get).get(raw) == after
    except UnclearEdit:
        return False


def contradicted_lines(hunks: Iterable[Hunk], sure: LineOrigins) -> list[int]:
    """Return the 0-based lines kept by the arguments but added by the hunks."""
    return [number - 1 for hunk in hunks for number in hunk.new_range if number - 1 in sure]
