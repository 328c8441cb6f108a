"""Lines that a command wrote: which of the changed lines are the command's, as far as its own text proves it.

No observer sees who saves a file while `make` runs. Of the changes in such a window, only those are the agent's that
the text of its call names or holds; all others are of unknown origin, with the call as a candidate. The rules:

- a file that the text says is replaced (`> f`, `cp a f`, `open("f", "w")`, `--output f`): the whole file, unless the
  text holds lines of its content: then those lines;
- a file in which the text says that parts are replaced (`sed -i`): lines whose new part is in the text, and not inside
  another line of the file that the text holds;
- any file: lines that occur in the text as one consecutive run with at least one distinctive line;
- a file that the text names as written: also runs that are distinctive only together, and all new lines, however
  common, if the text holds all of them;
- a file to which a diff in the text adds lines: the same; in other files, the lines of such diffs prove nothing.

A file that is merely mentioned, or that lies in a mentioned folder, is not named: a person may save the very test that
runs. Lines of a moved file are unproved unless the same session wrote all of them before. Lines between the markers of
a conflict are nobody's new lines: whoever settles the conflict only keeps them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.diff.contents import LineRange
from remit.core.diff.distinctive_lines import is_distinctive_line
from remit.core.diff.edit_script import diff_small, split_lines
from remit.core.diff.line_spans import Span, make_spans, merge_spans, subtract_spans
from remit.gate.call_targets import paths_in_workspace
from remit.gate.environment import Environment
from remit.gate.evidence.command_text import (
    MAX_TEXT_BYTES,
    CommandText,
    contains_all,
    parse_added_lines,
    remove_added_lines,
)
from remit.gate.evidence.differences import Difference, whole_file
from remit.gate.ledger_index import open_index
from remit.gate.state.pending_calls import PendingCall
from remit.ledger.segments import LedgerError
from remit.workspace.files.read_files import ObservedFile
from remit.workspace.observe.observation import Change
from remit.workspace.place.workspace import Workspace

if TYPE_CHECKING:
    from remit.policy.commands.outputs import OutputKind

INDEX_ERRORS = (OSError, LedgerError)
"""Errors of the index, after which nothing is proved; the record must not be lost for them."""

MAX_STEPS = 100
"""Changes of one file that are searched for another author."""


def find_moved_source(change: Change, done: Iterable[Change]) -> ObservedFile | None:
    """Return the deleted file with most lines of the new file, or None."""
    if change.before is not None or change.after is None or not change.after.content:
        return None
    gone = [c.before for c in done if c.after is None and c.before and c.before.content]
    same = next((was for was in gone if was.version.sha256 == change.after.version.sha256), None)
    if same is not None or not gone:
        return same
    new = distinct_lines(change.after.content)
    likest = max(gone, key=lambda was: len(new & distinct_lines(was.content or b"")))
    return likest if 2 * len(new & distinct_lines(likest.content or b"")) > len(new) else None


def distinct_lines(content: bytes) -> set[bytes]:
    return {line.strip() for line in split_lines(content) if line.strip()}


def is_own_content(workspace: Workspace, session_id: str, sha256: str) -> bool:
    """Return True if records prove the session to be the only author of the content."""
    with suppress(*INDEX_ERRORS), open_index(workspace) as index:
        for _ in range(MAX_STEPS):
            last = next(iter(reversed(index.list_changes_to_content(sha256))), None)
            if last is None or last.session_id != session_id or last.is_found_by_comparison or last.unproved_lines:
                return False
            if last.before_blob is None:
                return True
            before = [c for c in index.list_changes(last.path) if c.after_blob == last.before_blob]
            sha256 = before[-1].after_sha or "" if before else ""
    return False


def recorded_unproved_lines(workspace: Workspace, session_id: str, change: Change) -> tuple[Span, ...] | None:
    """Return the unproved lines in the session's newest record of this very change; None if there is no record."""
    before = change.before.version.git_blob if change.before else None
    after = change.after.version.git_blob if change.after else None
    with suppress(*INDEX_ERRORS), open_index(workspace) as index:
        for known in reversed(index.list_changes(change.path)):
            if (known.session_id, known.before_blob, known.after_blob) == (session_id, before, after):
                return None if known.is_found_by_comparison else known.unproved_lines
    return None


def find_unproved_lines(
    call: ToolCall,
    pending: PendingCall | None,
    done: Sequence[Change],
    known: Mapping[str, Difference],
    workspace: Workspace,
    environment: Environment,
) -> dict[str, tuple[LineRange, ...]]:
    """Return the unproved added lines by path."""
    # Imported here: only a command that changed something needs the module.
    from remit.policy.commands.outputs import find_outputs

    said = CommandText(text_of_call(call))
    named: dict[str, OutputKind] = {
        path: output.how
        for output in (find_outputs(call.command) if call.command else ())
        for path in paths_in_workspace(workspace, call, [output.path], environment)
    }
    told = lines_added_by_diffs(call, workspace, environment)
    beside = text_beside_diffs(call, told, done) or said
    if pending is None:
        named |= {path: "edited" for path in paths_in_workspace(workspace, call, call.paths, environment)}
    left = {
        c.path: unproved_moved_lines(c, was, said, named.get(c.path), call, workspace)
        if named.get(c.path) != "whole" and (was := find_moved_source(c, done))
        else find_unproved_in_file(
            c, known.get(c.path), said if c.path in told else beside, named.get(c.path), told=c.path in told
        )
        for c in done
        if c.after is not None and not has_all_in_diff(c, known.get(c.path), told.get(c.path))
    }
    return {path: lines for path, lines in left.items() if lines}


def text_beside_diffs(call: ToolCall, told: Mapping[str, Counter[bytes]], done: Sequence[Change]) -> CommandText | None:
    """Return the text of a call for files outside of its diffs; None if the diffs may mean further files."""
    if not told or not call.command or not told.keys() <= {change.path for change in done}:
        return None
    return CommandText(remove_added_lines(call.command)[:MAX_TEXT_BYTES].encode("utf-8", "replace"))


def lines_added_by_diffs(call: ToolCall, workspace: Workspace, environment: Environment) -> dict[str, Counter[bytes]]:
    diffs = parse_added_lines(call.command or "").items()
    return {path: added for raw, added in diffs for path in paths_in_workspace(workspace, call, [raw], environment)}


def has_all_in_diff(change: Change, known: Difference | None, told: Counter[bytes] | None) -> bool:
    """Return True if a diff in the call's text adds every new line of a file."""
    after = change.after.content if change.after else None
    if told is None or known is None or after is None:
        return False
    new = split_lines(after)
    return contains_all((new[n - 1] for n in new_line_numbers(known, new)), told)


def new_line_numbers(known: Difference, new: Sequence[bytes]) -> list[int]:
    """Return the 1-based numbers of the added lines."""
    return [n for hunk in known.hunks for n in hunk.new_range if 0 < n <= len(new)]


def unproved_moved_lines(
    change: Change,
    was: ObservedFile,
    said: "CommandText",
    how: "OutputKind | None",
    call: ToolCall,
    workspace: Workspace,
) -> tuple[LineRange, ...]:
    """Return the lines of a moved file, without the call's own lines."""
    after = change.after.content if change.after else None
    hunks = diff_small(was.content, after) if was.content is not None and after is not None else None
    if hunks is None:
        return whole_file(change)
    left = find_unproved_in_file(replace(change, before=was), Difference(hunks), said, how)
    if is_own_content(workspace, call.session.session_id, was.version.sha256):
        return left
    fresh = [(hunk.new, hunk.new + hunk.new_lines - 1) for hunk in hunks if hunk.new_lines]
    stay = subtract_spans([(lines.start, lines.end) for lines in whole_file(change)], fresh)
    return tuple(LineRange(*span) for span in merge_spans([*stay, *((lines.start, lines.end) for lines in left)]))


def is_change_in_text(change: Change, known: Difference | None, words: str) -> bool:
    """Return True if a text holds every added line of a change, and one of them is distinctive.

    The author of the text then made the change, and no one wrote to the file since.
    """
    if known is None or change.after is None or change.after.content is None:
        return False
    new = split_lines(change.after.content)
    fresh = [new[n - 1] for n in new_line_numbers(known, new)]
    said = CommandText(words[:MAX_TEXT_BYTES].encode("utf-8", "replace"))
    return any(is_distinctive_line(line) for line in fresh) and not find_unproved_in_file(change, known, said, None)


def text_of_call(call: ToolCall) -> bytes:
    words = [call.command] if call.command is not None else list(json_strings(call.arguments))
    return "\n".join(words)[:MAX_TEXT_BYTES].encode("utf-8", "replace")


def json_strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in cast("dict[str, Any]", value).values():
            yield from json_strings(part)
    elif isinstance(value, list | tuple):
        for part in cast("list[Any]", value):
            yield from json_strings(part)


def find_unproved_in_file(
    change: Change, known: Difference | None, said: "CommandText", how: "OutputKind | None", *, told: bool = False
) -> tuple[LineRange, ...]:
    """Return the unproved lines of one file; `told` if a diff in the text adds lines to the file."""
    if change.after is None or change.after.content is None or known is None:
        return () if how == "whole" else whole_file(change)
    new = split_lines(change.after.content)
    fresh = new_line_numbers(known, new)
    if how == "whole" and not any(is_distinctive_line(line) and said.has_line(line) for line in new):
        return ()
    surplus = said.find_surplus_lines((new[n - 1] for n in fresh), new if how == "whole" else ())
    if how is not None and not surplus and all(said.has_line(new[n - 1]) for n in fresh):
        return ()
    old = split_lines(change.before.content) if change.before and change.before.content else []
    ours = set(
        said.find_runs_in_text(new, fresh, surplus | {line.strip() for line in old}, named=told or how is not None)
    )
    if how == "edited":
        ours |= {n for n in said.find_replaced_lines(old, new, known.hunks) if new[n - 1].strip() not in surplus}
    left = make_spans(set(fresh) - ours)
    if not any(new[n - 1].strip() for first, last in left for n in range(first, last + 1)):
        left = [(first, last) for first, last in left if ours.isdisjoint((first - 1, last + 1))]
    return tuple(LineRange(*span) for span in left)


CONFLICT_START, CONFLICT_END = b"<<<<<<< ", b">>>>>>> "
CONFLICT_MARKERS = (CONFLICT_START, b"||||||| ", b"=======", CONFLICT_END)
"""Markers of a merge conflict. Source: git-merge(1), read 2026-11."""

UnprovedLines = dict[str, tuple[LineRange, ...]]
"""Unproved lines by path."""


def add_conflict_lines(left: UnprovedLines, done: Iterable[Change], known: Mapping[str, Difference]) -> UnprovedLines:
    found = {c.path: spans for c in done if (spans := make_spans(find_settled_lines(c, known.get(c.path))))}
    both = {path: [*((one.start, one.end) for one in left.get(path, ())), *spans] for path, spans in found.items()}
    return {**left, **{path: tuple(LineRange(*span) for span in merge_spans(spans)) for path, spans in both.items()}}


def find_settled_lines(change: Change, known: Difference | None) -> Iterator[int]:
    """Yield the 1-based numbers of added lines that were inside a conflict of the former content."""
    before, after = change.before.content if change.before else None, change.after.content if change.after else None
    if not before or after is None or known is None:
        return
    if not before.startswith(CONFLICT_START) and b"\n" + CONFLICT_START not in before:
        return
    old, new = split_lines(before), split_lines(after)
    held = set(conflict_lines(old))
    gone = Counter(old[n - 1].strip() for hunk in known.hunks for n in hunk.old_range if n in held and old[n - 1])
    for hunk in known.hunks:
        for number in hunk.new_range:
            if number <= len(new) and gone[text := new[number - 1].strip()] > 0:
                gone[text] -= 1
                yield number


def conflict_lines(lines: Iterable[bytes]) -> Iterator[int]:
    """Yield the 1-based numbers of lines between conflict markers, without the markers."""
    within = False
    for number, line in enumerate(lines, 1):
        if line.startswith(CONFLICT_MARKERS):
            within = not line.startswith(CONFLICT_END) if line.startswith((CONFLICT_START, CONFLICT_END)) else within
        elif within:
            yield number
