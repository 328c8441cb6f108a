"""Lines changed by a call, and the call's own among them: a command's by its text, a file tool's by its arguments.

A command: no observer sees the writer of a file while `make` runs. Of the changes in the window, only those are the
agent's that the text of its call names or holds; the rest is of unknown origin, with the call as a candidate:

- a file replaced according to the text (`> f`, `cp a f`, `open("f", "w")`, `--output f`): the whole file; only
  the lines in the text, if the text holds any of the file;
- a file with parts replaced according to the text (`sed -i`): lines with the new part in the text, and not
  inside another line of the file that the text holds;
- any file: lines occurring in the text as a consecutive run with at least one distinctive line;
- a file named as written by the text: also runs distinctive only together, and the new lines, however
  common, if the text holds every new line;
- a file to which a diff in the text adds lines: the same; in other files, the lines of the diff prove no author.

A file merely mentioned, or in a mentioned folder, is not named: a person may save the very test that
runs. Lines of a moved file are unproved unless the same session wrote each of them before. Lines between the markers of
a conflict are no author's new lines: settling the conflict only keeps them.

A file tool: minutes may pass between its question and its result: a person is asked, and saves the same file; an
editor formats the file; the tool fails, or never answers. The added lines are the call's if its arguments make
exactly the new content from the former content; if not, the added lines found in the predicted content, in any layout,
are the call's. If the arguments predict no content, the tool's own answer tells, or the call's text. The remaining
lines are of unknown origin, like lines changed by a person in the agent's proposal before allowing the call.

The arguments may also tell the lines kept by the tool. The tool's answer, usually a diff, is less reliable: outside of
the edited part a diff may take a copied line for the original, and often confuses empty lines.
"""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from remit.core.call import Outcome, ToolCall
from remit.core.decision import Target
from remit.core.diff.contents import (
    Difference,
    Hunk,
    LineRange,
    Span,
    diff_at_lines,
    diff_by_origins,
    diff_small,
    encode_text,
    hash_git_blob,
    is_distinctive_line,
    make_spans,
    merge_spans,
    split_lines,
    strip_layout,
    subtract_spans,
)
from remit.core.diff.edits import WholeFile, apply_edit, predict_contents
from remit.core.diff.notebooks import CellEdit, UnclearEdit, lay_out_notebook
from remit.core.diff.trace import combine_origins, find_kept_lines
from remit.gate.effects.call_text import MAX_TEXT_BYTES, CommandText, split_diffs
from remit.gate.machine import Environment
from remit.gate.state.workspace_state import PendingCall
from remit.ledger.log_files import LedgerError
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.observe.observation import Change, Observation
from remit.workspace.place.resolve_paths import paths_in_workspace
from remit.workspace.place.workspace import Workspace
from remit.workspace.safe_files import ObservedFile

if TYPE_CHECKING:
    from remit.policy.commands.analysis import OutputKind


def find_differences(
    changes: Iterable[Change], positions: Mapping[str, tuple[LineRange, ...]], contents: ContentStore
) -> dict[str, Difference]:
    """Return the differences of changes with available contents, by path.

    `positions` are lines from the tool's own answer. Git is asked once, for the large files.
    """
    found: dict[str, Difference] = {}
    large: dict[str, tuple[bytes, bytes]] = {}
    for change in changes:
        if change.after is None or change.after.content is None or (change.before and change.before.content is None):
            continue
        old = change.before.content if change.before and change.before.content is not None else b""
        difference = find_difference(old, change.after.content, positions.get(change.path, ()))
        if difference is None:
            large[change.path] = (old, change.after.content)
        else:
            found[change.path] = difference
    return {**found, **{path: Difference(hunks) for path, hunks in contents.compute_hunks(large).items()}}


def find_difference(old: bytes, new: bytes, positions: tuple[LineRange, ...]) -> Difference | None:
    named = diff_at_lines(old, new, positions) if positions else None
    if named is not None:
        return Difference(named, from_tool=True)
    small = diff_small(old, new)
    return None if small is None else Difference(small)


def whole_file(change: Change) -> tuple[Span, ...]:
    return ((1, max(1, change.after.version.lines if change.after else 1)),)


INDEX_ERRORS = (OSError, LedgerError, sqlite3.Error)
"""Errors of the index, after which nothing is proved; the record must not be lost for them."""

MAX_STEPS = 100
"""Changes of one file that are searched for another author."""


def find_unproved_lines(
    call: ToolCall,
    pending: PendingCall | None,
    done: Sequence[Change],
    known: Mapping[str, Difference],
    workspace: Workspace,
    environment: Environment,
) -> dict[str, tuple[Span, ...]]:
    # Imported here: only a command that changed something needs the module.
    from remit.policy.commands.analysis import find_outputs

    # 1 What the text says: the files that it names as written, and the lines that its diffs add.
    text = CommandText(text_of_call(call))
    named: dict[str, OutputKind] = {
        path: output.how
        for output in (find_outputs(call.command) if call.command else ())
        for path in paths_in_workspace(workspace, call, [output.path], environment)
    }
    if pending is None:
        named |= {path: "edited" for path in paths_in_workspace(workspace, call, call.paths, environment)}
    diffs, rest = split_diffs(call.command or "")
    told = {
        path: lines for raw, lines in diffs.items() for path in paths_in_workspace(workspace, call, [raw], environment)
    }
    # The lines of a diff prove nothing in other files, unless the diffs may mean further files.
    beside = text
    if told and told.keys() <= {change.path for change in done}:
        beside = CommandText(rest[:MAX_TEXT_BYTES].encode("utf-8", "replace"))

    # 2 Each file.
    unproved: dict[str, tuple[Span, ...]] = {}
    for change in done:
        path, after, difference = change.path, change.after, known.get(change.path)
        if after is None:
            continue
        if path in told and difference is not None and after.content is not None:
            new = split_lines(after.content)
            if Counter(new[n - 1].strip() for n in new_line_numbers(difference, new)) <= told[path]:
                continue  # a diff in the text adds every new line
        moved = find_moved_source(change, done) if named.get(path) != "whole" else None
        if moved is not None:
            unproved[path] = unproved_moved_lines(change, moved, text, named.get(path), call, workspace)
        else:
            said = text if path in told else beside
            unproved[path] = find_unproved_in_file(change, difference, said, named.get(path), told=path in told)
            if named.get(path) == "whole" and not unproved[path] and difference is not None:
                unproved[path] = find_copied_lines(change, difference, text, workspace, call)
    return {path: lines for path, lines in unproved.items() if lines}


def find_copied_lines(
    change: Change, difference: Difference, said: CommandText, workspace: Workspace, call: ToolCall
) -> tuple[Span, ...]:
    new = split_lines(change.after.content) if change.after and change.after.content else []
    untold = [n for n in new_line_numbers(difference, new) if not said.has_line(new[n - 1])]
    if not any(is_distinctive_line(new[n - 1]) for n in untold):
        return ()
    # Imported here: the text of most commands tells what they write.
    from remit.gate.effects.named_files import read_named_files

    is_own = partial(is_own_content, workspace, call.session.session_id)
    contents = read_named_files(workspace, call, {change.path}, is_own)
    former = {line.strip() for content in contents for line in split_lines(content)}
    copied = [n for n in untold if new[n - 1].strip() in former]
    return make_spans(copied) if any(is_distinctive_line(new[n - 1]) for n in copied) else ()


def text_of_call(call: ToolCall) -> bytes:
    words = [call.command] if call.command is not None else list(json_strings(call.arguments))
    return "\n".join(words)[:MAX_TEXT_BYTES].encode("utf-8", "replace")


def json_strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        parts = cast("dict[str, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value)
        for part in parts:
            yield from json_strings(part)


def new_line_numbers(known: Difference, new: Sequence[bytes]) -> list[int]:
    return [n for hunk in known.hunks for n in hunk.new_range if 0 < n <= len(new)]


def find_unproved_in_file(
    change: Change, known: Difference | None, said: CommandText, how: "OutputKind | None", *, told: bool = False
) -> tuple[Span, ...]:
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
    former = surplus | {line.strip() for line in old}
    ours = set(said.find_runs_in_text(new, fresh, former, named=told or how is not None))
    if how == "edited":
        ours |= {n for n in said.find_replaced_lines(old, new, known.hunks) if new[n - 1].strip() not in surplus}
    left = make_spans(set(fresh) - ours)
    if not any(new[n - 1].strip() for first, last in left for n in range(first, last + 1)):
        left = tuple((first, last) for first, last in left if ours.isdisjoint((first - 1, last + 1)))
    return left


def is_change_in_text(change: Change, known: Difference | None, words: str) -> bool:
    """Return True if a text holds every added line of a change, at least one of them distinctive.

    The author of the text made the change, and the file was not written since.
    """
    if known is None or change.after is None or change.after.content is None:
        return False
    new = split_lines(change.after.content)
    said = CommandText(words[:MAX_TEXT_BYTES].encode("utf-8", "replace"))
    has_distinctive = any(is_distinctive_line(new[n - 1]) for n in new_line_numbers(known, new))
    return has_distinctive and not find_unproved_in_file(change, known, said, None)


# Moved files


def find_moved_source(change: Change, done: Iterable[Change]) -> ObservedFile | None:
    """Return the deleted file with most lines of the new file, or None."""
    if change.before is not None or change.after is None or not change.after.content:
        return None
    gone = [c.before for c in done if c.after is None and c.before and c.before.content]
    same = next((was for was in gone if was.version.sha256 == change.after.version.sha256), None)
    if same is not None or not gone:
        return same
    new = distinct_lines(change.after.content)
    shared = [len(new & distinct_lines(was.content or b"")) for was in gone]
    return gone[shared.index(max(shared))] if 2 * max(shared) > len(new) else None


def distinct_lines(content: bytes) -> set[bytes]:
    return {line.strip() for line in split_lines(content) if line.strip()}


def unproved_moved_lines(
    change: Change,
    was: ObservedFile,
    said: CommandText,
    how: "OutputKind | None",
    call: ToolCall,
    workspace: Workspace,
) -> tuple[Span, ...]:
    after = change.after.content if change.after else None
    hunks = diff_small(was.content, after) if was.content is not None and after is not None else None
    if hunks is None:
        return whole_file(change)
    moved = Difference(hunks)
    left = find_unproved_in_file(replace(change, before=was), moved, said, how)
    if is_own_content(workspace, call.session.session_id, was.version.sha256):
        return left
    return merge_spans([*subtract_spans(whole_file(change), moved.added_spans), *left])


def is_own_content(workspace: Workspace, session_id: str, sha256: str) -> bool:
    """Return True if records prove the session to be the only author of the content."""
    from remit.ledger.index.index import open_index

    with suppress(*INDEX_ERRORS), open_index(workspace.state, workspace.log_folder) as index:
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
    """Return the unproved lines in the session's newest record of the same change; None without a record."""
    from remit.ledger.index.index import open_index

    before = change.before.version.git_blob if change.before else None
    after = change.after.version.git_blob if change.after else None
    with suppress(*INDEX_ERRORS), open_index(workspace.state, workspace.log_folder) as index:
        for known in reversed(index.list_changes(change.path)):
            if (known.session_id, known.before_blob, known.after_blob) == (session_id, before, after):
                return None if known.is_found_by_comparison else known.unproved_lines
    return None


# Conflicts

CONFLICT_START, CONFLICT_END = b"<<<<<<< ", b">>>>>>> "
CONFLICT_MARKERS = (CONFLICT_START, b"||||||| ", b"=======", CONFLICT_END)
"""Markers of a merge conflict. Source: git-merge(1), read 2026-11."""


def find_conflict_lines(done: Iterable[Change], known: Mapping[str, Difference]) -> dict[str, tuple[Span, ...]]:
    """Return, by path, the added lines that were between the markers of a conflict in the former content."""
    found: dict[str, tuple[Span, ...]] = {}
    for change in done:
        before, after = (side.content if side else None for side in (change.before, change.after))
        difference = known.get(change.path)
        if not before or CONFLICT_START not in before or after is None or difference is None:
            continue
        old, new = split_lines(before), split_lines(after)
        within, held = False, set[int]()
        for number, line in enumerate(old, 1):
            if line.startswith((CONFLICT_START, CONFLICT_END)):
                within = line.startswith(CONFLICT_START)
            elif within and not line.startswith(CONFLICT_MARKERS):
                held.add(number)
        gone = Counter(
            old[n - 1].strip() for hunk in difference.hunks for n in hunk.old_range if n in held and old[n - 1]
        )
        settled: list[int] = []
        for number in new_line_numbers(difference, new):
            text = new[number - 1].strip()
            if gone[text] > 0:
                gone[text] -= 1
                settled.append(number)
        if settled:
            found[change.path] = make_spans(settled)
    return found


UTF_16 = (b"\xff\xfe", b"\xfe\xff")
NON_ASCII = bytes(range(0x80, 0x100))
"""Bytes in which single-byte encodings differ."""


def predict_blobs(call: ToolCall, targets: Iterable[Target], before: Observation) -> dict[str, str]:
    """Return the git names of the contents that a file tool is going to leave, by path."""
    paths = {t.raw: str(t.path) for t in targets if t.path is not None}

    def current(raw: str) -> bytes | None:
        found = before.files.get(paths.get(raw, ""))
        return found.content if found else None

    after = predict_contents(call.edit, call.paths, current)
    return {paths[raw]: hash_git_blob(text) for raw, text in after.items() if text is not None and raw in paths}


def find_unproved_tool_lines(
    call: ToolCall,
    outcome: Outcome,
    pending: PendingCall,
    done: Sequence[Change],
    known: Mapping[str, Difference],
    paths: Mapping[str, str],
    contents: ContentStore,
    workspace: Workspace,
) -> dict[str, tuple[Span, ...]]:
    """Return the unproved added lines of a file tool, by path; `paths` are those of the call by their spelling."""
    # A file with the announced content is the call's own, unless a person changed the proposal.
    doubtful = [
        c
        for c in done
        if c.after is not None
        and (call.proposal is not None or c.after.version.git_blob != pending.announced.get(c.path))
    ]

    # The contents that the call would have left: none if it failed.
    predicted: dict[str, bytes | None] = {}
    if outcome.ok and doubtful:
        before = {c.path: c.before.content if c.before else None for c in doubtful}
        found = predict_contents(call.edit, call.paths, lambda raw: before.get(paths.get(raw, "")))
        if call.proposal is not None:
            found = dict.fromkeys(found, encode_text(call.proposal)) if isinstance(call.edit, WholeFile) else {}
        predicted = {paths[raw]: text for raw, text in found.items() if raw in paths}

    unproved: dict[str, tuple[Span, ...]] = {}
    for change in doubtful:
        spans = unproved_in_file(call, outcome, change, known.get(change.path), predicted.get(change.path), contents)
        if not spans:
            continue
        # Of two calls of a session that ran at once, the record of the other may prove lines.
        recorded = recorded_unproved_lines(workspace, call.session.session_id, change)
        left = spans if recorded is None else subtract_spans(spans, subtract_spans(spans, recorded))
        if left:
            unproved[change.path] = left
    return unproved


def unproved_in_file(
    call: ToolCall,
    outcome: Outcome,
    change: Change,
    known: Difference | None,
    told: bytes | None,
    contents: ContentStore,
) -> tuple[Span, ...]:
    def find_hunks(old: bytes, new: bytes) -> Sequence[Hunk]:
        small = diff_small(old, new)
        return contents.compute_hunks({"": (old, new)})[""] if small is None else small

    after = change.after.content if change.after else None
    before = change.before.content if change.before else b""
    given_anew = outcome.changed_by_person and told == after
    if after is None or before is None or known is None or not outcome.ok or given_anew:
        return known.added_spans if known is not None and after is not None else whole_file(change)
    if told is not None:
        told = lay_out_notebook(told, after) if isinstance(call.edit, CellEdit) else told
        if count_added_lines(told, find_hunks(before, told)) == count_added_lines(after, known.hunks):
            return ()  # the context of an edit may fit two places, and the tool took the other one
        return make_spans(added_numbers(known.hunks) - set(find_own_lines(before, told, after, find_hunks)))
    by_person = outcome.changed_by_person or call.proposal is not None
    if known.from_tool and not by_person:
        return ()
    words = text_of_call(call) if call.proposal is None else encode_text(call.proposal)
    return find_unproved_in_file(change, known, CommandText(words), None if by_person else "edited")


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
        gone, came = hunk.old_range, hunk.new_range
        yield from (n + shift for n in range(at, gone.start) if n in wrote)
        # Replaced lines of the call that are equal except for layout: as a block, or line by line.
        was = [strip_layout(old[n - 1]) for n in gone]
        now = [strip_layout(new[n - 1]) for n in came]
        if any(was) and wrote.issuperset(gone) and b"".join(was) == b"".join(now):
            yield from came
        elif len(was) == len(now):
            yield from (
                b for a, b, text, other in zip(gone, came, was, now, strict=True) if a in wrote and text == other
            )
        at, shift = gone.stop, came.stop - gone.stop
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


def find_stated_difference(call: ToolCall, raw: str, change: Change, known: Difference | None) -> Difference | None:
    """Return the difference of a file by the call's arguments; `raw` is the path as the call spells it.

    Returns None if the arguments do not tell, do not make this content, or if the tool's answer agrees and tells more.
    """
    before, after = (side.content if side else None for side in (change.before, change.after))
    if call.edit is None or call.proposal is not None or before is None or after is None:
        return None
    if isinstance(call.edit, WholeFile | CellEdit):
        return None
    sure = find_kept_lines(call.edit, raw, before, guess=False)
    try:
        made = apply_edit(call.edit, raw, {raw: before}.get).get(raw)
    except UnclearEdit:
        return None
    if sure is None or made != after:
        return None
    stay = find_kept_lines(call.edit, raw, before) or sure
    if known is not None and known.from_tool:
        # Lines that the arguments keep, and the tool's answer adds.
        new = split_lines(after)
        wrong = [number - 1 for hunk in known.hunks for number in hunk.new_range if number - 1 in sure]
        if not wrong:
            return None
        if not any(new[n].strip() for n in wrong):
            stay = combine_origins(sure, known.hunks, len(new))
    hunks = diff_by_origins(before, after, stay)
    return None if hunks is None else Difference(hunks, from_tool=True)
