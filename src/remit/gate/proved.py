"""Which of the lines that changed while a call ran are the call's, as far as its own text proves it.

Whoever saves a file while `make` runs is seen by nobody; so of what changed in such a window only that is the agent's
which the text of its call names or holds. All else is of unknown origin, and the call a candidate. The rules:

- a file whose content the text says is replaced (`> f`, `cp a f`, `open("f", "w")`, `--output f`): all of it, unless
  the text holds lines of that content: then those;
- a file in which the text says that parts are replaced (`sed -i`): the lines whose new part stands in the text, and
  not in another line of the file that the text holds;
- in any file: lines that stand in the text one after the other, one of them at least being nobody else's to write;
- in a file that the text names as written: such lines, too, where they are nobody else's only together; and the lines,
  however plain, where the text holds all that are new;
- in a file to which a diff in the text adds lines: such lines, too; and the lines, however plain, where it adds all
  that are new; in no other file those that only diffs of files which did change add.

A file that is merely mentioned, or lies in a folder that is, is not named: a person may save the very test that runs.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.contents import LineRange
from remit.core.own_words import is_strong
from remit.core.spans import joined, outside, spans_of
from remit.core.textdiff import lines_of, small_hunks
from remit.gate.effects import Difference, inside
from remit.gate.environment import Environment
from remit.gate.moved import is_own, moved_from
from remit.gate.said import MOST_TEXT, Said
from remit.gate.state import PendingCall
from remit.gate.told_diffs import all_added, beside_diffs, told_diffs
from remit.workspace.observe import Change
from remit.workspace.place import Workspace
from remit.workspace.versions import Seen

if TYPE_CHECKING:
    from remit.policy.commands.outputs import How


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
    told = added_by(call, workspace, around)
    beside = said_beside(call, told, done) or said
    if pending is None:
        named |= {path: "edited" for path in inside(workspace, call, call.paths, around)}
    left = {
        c.path: moved_lines(c, was, said, named.get(c.path), call, workspace)
        if named.get(c.path) != "whole" and (was := moved_from(c, done))
        else open_lines(
            c, known.get(c.path), said if c.path in told else beside, named.get(c.path), told=c.path in told
        )
        for c in done
        if c.after is not None and not all_told(c, known.get(c.path), told.get(c.path))
    }
    return {path: lines for path, lines in left.items() if lines}


def said_beside(call: ToolCall, told: Mapping[str, Counter[bytes]], done: Sequence[Change]) -> Said | None:
    """What the call says of files that its diffs do not name; None where these may be other files than it seems."""
    if not told or not call.command or not told.keys() <= {change.path for change in done}:
        return None
    return Said(beside_diffs(call.command)[:MOST_TEXT].encode("utf-8", "replace"))


def added_by(call: ToolCall, workspace: Workspace, around: Environment) -> dict[str, Counter[bytes]]:
    """By path, what diffs in the call's text add."""
    diffs = told_diffs(call.command or "").items()
    return {path: added for raw, added in diffs for path in inside(workspace, call, [raw], around)}


def all_told(change: Change, known: Difference | None, told: Counter[bytes] | None) -> bool:
    """Whether a diff in the call's text adds every new line of a file."""
    after = change.after.content if change.after else None
    if told is None or known is None or after is None:
        return False
    new = lines_of(after)
    return all_added((new[n - 1] for n in fresh_in(known, new)), told)


def fresh_in(known: Difference, new: Sequence[bytes]) -> list[int]:
    """The numbers of the new lines, from 1."""
    return [n for hunk in known.hunks for n in hunk.came if 0 < n <= len(new)]


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
    fresh = [new[n - 1] for n in fresh_in(known, new)]
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


def open_lines(
    change: Change, known: Difference | None, said: "Said", how: "How | None", *, told: bool = False
) -> tuple[LineRange, ...]:
    """The new lines of one file that are not proved. `told`: a diff in the text adds lines to it."""
    if change.after is None or change.after.content is None or known is None:
        return () if how == "whole" else whole_of(change)
    new = lines_of(change.after.content)
    fresh = fresh_in(known, new)
    if how == "whole" and not any(is_strong(line) and said.has(line) for line in new):
        return ()
    surplus = said.surplus((new[n - 1] for n in fresh), new if how == "whole" else ())
    if how is not None and not surplus and all(said.has(new[n - 1]) for n in fresh):
        return ()
    old = lines_of(change.before.content) if change.before and change.before.content else []
    ours = set(said.holds(new, fresh, surplus | {line.strip() for line in old}, named=told or how is not None))
    if how == "edited":
        ours |= {n for n in said.replaces(old, new, known.hunks) if new[n - 1].strip() not in surplus}
    left = spans_of(set(fresh) - ours)
    if not any(new[n - 1].strip() for first, last in left for n in range(first, last + 1)):
        left = [(first, last) for first, last in left if ours.isdisjoint((first - 1, last + 1))]
    return tuple(LineRange(*span) for span in left)


def whole_of(change: Change) -> tuple[LineRange]:
    """All lines of the file."""
    return (LineRange(1, max(1, change.after.version.lines if change.after else 1)),)


def without(lines: Sequence[LineRange], left: Sequence[LineRange]) -> tuple[LineRange, ...]:
    """Those lines but for the ones that are left open."""
    found = outside([(one.start, one.end) for one in lines], [(one.start, one.end) for one in left])
    return tuple(LineRange(*span) for span in found)
